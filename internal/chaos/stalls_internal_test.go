package chaos

import (
	"testing"
	"time"
)

// Only what was stalled between the two instants counts.
func TestStalls(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	s := stalls{spans: [][2]time.Time{{at(100), at(200)}, {at(500), at(900)}}}
	for _, tc := range []struct{ from, to, want int }{{0, 50, 0}, {0, 1000, 500}, {150, 600, 150}, {200, 500, 0}, {600, 700, 100}} {
		if got := s.within(at(tc.from), at(tc.to)); got != time.Duration(tc.want)*time.Millisecond {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}
