package console

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
)

// A run says how many there are in all only where that was counted.
func TestShareOfARun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 5, 0, 0, 0, time.UTC)
	for want, run := range map[string]store.Run{
		"begins":               {Status: store.RunRunning},
		"1,500 so far":         {Status: store.RunRunning, Done: 1500},
		"500 of 1,500":         {Status: store.RunRunning, Done: 500, Total: 1500},
		"7 of 7":               {Status: store.RunDone, Done: 7, FinishedAt: at},
		"nothing to do":        {Status: store.RunDone, FinishedAt: at},
		"9 so far, 2 repaired": {Status: store.RunRunning, RunSeed: store.RunSeed{Kind: store.RunReconcile}, Done: 9, Repaired: 2},
	} {
		if got := (visit{ids: key.NewPublicIDs([]byte("0123456789abcdef0123456789abcdef"))}).runLine(run).share(); got != want {
			t.Errorf("%+v: got %q, want %q", run, got, want)
		}
	}
}
