package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
)

// stalls are the spans in which this machine ran nothing of a storm, for more than a beat: other work had its processors. What is judged by the time
// that it took is granted them.
type stalls struct {
	mu    sync.Mutex
	spans [][2]time.Time
}

// watch looks at the clock at each beat until ctx ends.
func (s *stalls) watch(ctx context.Context, c *clock.System) {
	for last := c.Now(); ; {
		if err := c.Sleep(ctx, last.Add(beat)); err != nil {
			return
		}
		now := c.Now()
		if now.Sub(last) > 2*beat {
			s.mu.Lock()
			s.spans = append(s.spans, [2]time.Time{last.Add(beat), now})
			s.mu.Unlock()
		}
		last = now
	}
}

// within is how much of a span was stalled.
func (s *stalls) within(from, to time.Time) (sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.spans {
		begin, end := span[0], span[1]
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}
