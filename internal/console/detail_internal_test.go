package console

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
)

// An occasion that is due by zones waits for its end, not for a try; its rows of zones and those that have failed are tried again.
func TestWhatComesNext(t *testing.T) {
	t.Parallel()
	opened := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	for want, rows := range map[string][]instance.Row{
		"over everywhere": {{OpenedAt: opened}},
		"next try":        {{}, {Head: 3}, {OpenedAt: opened, RetryCount: 1}},
	} {
		for _, in := range rows {
			if got := whatComesNext(in); got != want {
				t.Errorf("%+v: %q, want %q", in, got, want)
			}
		}
	}
}
