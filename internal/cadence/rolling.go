package cadence

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// The lengths of rolling windows (decision 13). A month is 30 days: a limit that meant a longer or shorter one now and
// then would forbid today what it allowed yesterday.
const (
	rollingDay   = 24 * time.Hour
	rollingWeek  = 7 * rollingDay
	rollingMonth = 30 * rollingDay
)

// rolling looks at the windows of fixed length that hold t. Each is open at one end, so that a message exactly a day
// after another is in no day with it.
func (s *search) rolling(t time.Time, hit func(time.Time, reason.Reason)) {
	p := &s.policy
	look := func(limit int, length time.Duration, typ string, why reason.Reason) {
		if !s.mayExceed(limit) {
			return
		}
		if free, ok := s.window(t, limit, length, typ); !ok {
			hit(free, why)
		}
	}
	look(p.TypeLimits[s.Type], rollingDay, s.Type, reason.CadenceTypeDaily)
	look(p.MaxPerDay, rollingDay, "", reason.CadenceDaily)
	look(p.MaxPerWeek, rollingWeek, "", reason.CadenceWeekly)
	look(p.MaxPerMonth, rollingMonth, "", reason.CadenceMonthly)
}

// window reports whether one more message at t leaves at most limit in every window of that length, and otherwise the
// next instant at which that may be true. Slots lie before t and, as they are reserved ahead, after it: each run of
// limit messages that fits into a window forbids the instants that would make one more of it.
func (s *search) window(t time.Time, limit int, length time.Duration, typ string) (free time.Time, ok bool) {
	free, ok = t, true
	var run []time.Time // of messages in (t - length, t + length)
	for _, slot := range s.slots[s.from(t.Add(-length+instant)):] {
		if !slot.At.Before(t.Add(length)) {
			break
		}
		if typ != "" && slot.Type != typ {
			continue
		}
		for range slot.N {
			run = append(run, slot.At)
		}
	}
	for i := 0; i+limit <= len(run); i++ {
		first, last := run[i], run[i+limit-1]
		if last.Sub(first) >= length { // they are in no window together, whatever t is
			continue
		}
		if end := first.Add(length); end.After(free) {
			free, ok = end, false
		}
	}
	return free, ok
}
