package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/reason"
)

// Shows: C42.
func TestSend(t *testing.T) {
	t.Parallel()
	ch, err := memory.Provider().Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func(key string) string {
		t.Helper()
		receipt, err := ch.Send(t.Context(), channel.Outgoing{IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
		return receipt.ProviderID
	}
	first := send("a")
	if !strings.HasPrefix(first, "mem-") || len(first) != len("mem-")+12 {
		t.Errorf("got id %q", first)
	}
	if again := send("a"); again != first {
		t.Errorf("the same key was answered with %q and %q", first, again)
	}
	if other := send("b"); other == first {
		t.Errorf("two keys have one id %q", first)
	}
}

func TestSendAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ch, err := memory.Provider().Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ch.Send(ctx, channel.Outgoing{IdempotencyKey: "a"})
	var refused *channel.SendError
	if !errors.As(err, &refused) || refused.Reason != reason.TemporaryError || refused.Unknown {
		t.Errorf("got %v", err)
	}
}
