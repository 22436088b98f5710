// Package inbox is the channel whose messages are read in Carillon itself, in the console or through the API.
//
// Nothing leaves the process: the engine stores what was rendered together with the result of the attempt, in one
// transaction, because the provider asks for it (KeepContent). The message is in the inbox exactly when the
// delivery is sent.
package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/carillonhq/carillon/internal/channel"
)

// Provider returns the provider.
func Provider() channel.Provider {
	return channel.Provider{
		Name:        "inbox",
		Doc:         "Keeps the message to be read in the console and through the API.",
		KeepContent: true,
		Open:        func(map[string]string) (channel.Channel, error) { return Channel{}, nil },
	}
}

// Channel accepts every message; the engine stores it.
type Channel struct{}

// Send accepts the message unless ctx has ended.
func (Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	if err := context.Cause(ctx); err != nil {
		return channel.Receipt{}, channel.Temporary(err)
	}
	sum := sha256.Sum256([]byte(out.IdempotencyKey))
	return channel.Receipt{ProviderID: "inbox-" + hex.EncodeToString(sum[:6])}, nil
}
