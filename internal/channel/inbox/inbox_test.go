package inbox_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/inbox"
)

// Shows: C42.
func TestProvider(t *testing.T) {
	t.Parallel()
	provider := inbox.Provider()
	if !provider.KeepContent {
		t.Error("an inbox whose messages are not kept cannot be read")
	}
	ch, err := provider.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := ch.Send(t.Context(), channel.Outgoing{IdempotencyKey: "a"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := ch.Send(t.Context(), channel.Outgoing{IdempotencyKey: "a"})
	if err != nil || again != first {
		t.Errorf("the same key was answered with %v and %v, error %v", first, again, err)
	}
}
