// Package memory is the channel that accepts everything and sends nothing: for tests, demos and first steps (C42).
//
// It keeps nothing. The id it answers with comes from the idempotency key, so that the same step of the same
// delivery has the same id in every try, as with a provider that honours the key.
package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/carillonhq/carillon/internal/channel"
)

// Provider returns the provider.
func Provider() channel.Provider {
	return channel.Provider{
		Name: "memory",
		Doc:  "Accepts every message and sends nothing.",
		Open: func(map[string]string) (channel.Channel, error) { return Channel{}, nil },
	}
}

// Channel accepts every message.
type Channel struct{}

// Send accepts the message unless ctx has ended.
func (Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	if err := context.Cause(ctx); err != nil {
		return channel.Receipt{}, channel.Temporary(err)
	}
	sum := sha256.Sum256([]byte(out.IdempotencyKey))
	return channel.Receipt{ProviderID: "mem-" + hex.EncodeToString(sum[:6])}, nil
}
