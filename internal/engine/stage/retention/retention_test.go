package retention_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
)

const day = 24 * time.Hour

// Each kind has a time of its own; what a digest or a cooldown looks back to stays for longer.
func TestCutoffs(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	before := func(days int) time.Time { return now.AddDate(0, 0, -days) }
	reach := retention.Reach{Cooldown: 50 * day, Window: 33 * day}
	for _, c := range []struct {
		name string
		keep retention.Keep
		live time.Time
		want store.Cutoffs
	}{
		{"nothing is deleted", retention.Keep{}, time.Time{}, store.Cutoffs{}},
		{"each for itself", retention.Keep{
			Occasions: 100 * day, Digests: 90 * day, Messages: 7 * day, Subscriptions: 80 * day, Addresses: 28 * day, Topics: 6 * day,
		}, time.Time{}, store.Cutoffs{
			Occasions: before(100), Quiet: before(100), Digests: before(90), Messages: before(7), Subscriptions: before(80), Addresses: before(28), Moved: before(33), Topics: before(6),
		}},
		{"a cooldown is longer", retention.Keep{Occasions: 10 * day}, time.Time{}, store.Cutoffs{Occasions: before(10), Quiet: before(50)}},
		{"digests look back further", retention.Keep{Digests: 10 * day}, time.Time{}, store.Cutoffs{Digests: before(33)}},
		{"a run is not over", retention.Keep{Digests: 40 * day}, before(20), store.Cutoffs{Digests: before(53)}},
		{"the next run is to come", retention.Keep{Digests: 40 * day}, before(-3), store.Cutoffs{Digests: before(40)}},
	} {
		if got := c.keep.Cutoffs(now, reach, c.live); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
