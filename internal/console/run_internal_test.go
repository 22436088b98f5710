package console

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/key"
)

// A run says how many there are in all only where that was counted.
func TestShareOfARun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 5, 0, 0, 0, time.UTC)
	for want, run := range map[string]job.Row{
		"begins":               {Status: job.Running},
		"1,500 so far":         {Status: job.Running, Done: 1500},
		"500 of 1,500":         {Status: job.Running, Done: 500, Total: 1500},
		"7 of 7":               {Status: job.Done, Done: 7, FinishedAt: at},
		"nothing to do":        {Status: job.Done, FinishedAt: at},
		"9 so far, 2 repaired": {Status: job.Running, Seed: job.Seed{Kind: job.Reconcile}, Done: 9, Changed: 2},
	} {
		if got := (visit{ids: key.NewPublicIDs([]byte("0123456789abcdef0123456789abcdef"))}).runLine(run).share(); got != want {
			t.Errorf("%+v: got %q, want %q", run, got, want)
		}
	}
}
