package api

import (
	"testing"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
)

// An instance of one person's own course says whose it is.
func TestPersonOfAnInstance(t *testing.T) {
	t.Parallel()
	x := ids{ws: 1, public: key.NewPublicIDs([]byte("secret"))}
	for k, want := range map[string]string{
		"reminder:w:stay:1:t:2026-05-14:0:e2:c:addr%3Ax": "addr:x", "reminder:w:stay:1:t:2026-05-14:0:e2": "",
	} {
		if got := x.wireInstance(instance.Row{ID: 7, Key: k, Round: 1, Message: 1}); got.Person != want || got.RoundMessage != 2 {
			t.Errorf("%s: %q, message %d", k, got.Person, got.RoundMessage)
		}
	}
}
