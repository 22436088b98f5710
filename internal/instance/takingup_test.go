package instance_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
)

// An occasion takes up its audience from its first page to its last one, in any of its zones, unless it is cancelled.
func TestTakingUp(t *testing.T) {
	t.Parallel()
	row := func(status instance.Status, cursor int64) instance.Row {
		return instance.Row{Status: status, ExpandCursor: cursor}
	}
	cancelled := row(instance.Completed, 0)
	cancelled.CancelledAt = time.Unix(1, 0)
	for name, test := range map[string]struct {
		rows       []instance.Row
		deliveries int
		want       bool
	}{
		"not due yet":                   {[]instance.Row{row(instance.Pending, 0)}, 0, false},
		"a page that found nobody":      {[]instance.Row{row(instance.Pending, 7)}, 0, true},
		"a page with people":            {[]instance.Row{row(instance.Pending, 0)}, 500, true},
		"done":                          {[]instance.Row{row(instance.Completed, 7)}, 700, false},
		"a zone whose hour is to come":  {[]instance.Row{row(instance.Completed, 0), row(instance.Completed, 0), row(instance.Pending, 0)}, 3, true},
		"cancelled before the last one": {[]instance.Row{row(instance.Cancelled, 0), row(instance.Pending, 0)}, 3, false},
		"cancelled when all are there":  {[]instance.Row{cancelled, row(instance.Pending, 0)}, 3, false},
	} {
		if got := instance.TakingUp(test.rows, test.deliveries); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
