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
	p := s.policy
	look := func(limit int, length time.Duration, typ string, why reason.Reason) {
		if !s.mayExceed(limit) {
			return
		}
		if free, ok := s.busy(t, limit, length, typ); !ok {
			hit(free, why)
		}
	}
	look(p.TypeLimits[s.Type], rollingDay, s.Type, reason.CadenceTypeDaily)
	look(p.MaxPerDay, rollingDay, "", reason.CadenceDaily)
	look(p.MaxPerWeek, rollingWeek, "", reason.CadenceWeekly)
	look(p.MaxPerMonth, rollingMonth, "", reason.CadenceMonthly)
}

// busy reports whether one more message at t leaves at most limit in every window of that length, and otherwise the
// next instant at which that may be true. Slots lie before t and, as they are reserved ahead, after it: each run of
// limit messages that fits into a window forbids the instants that would make one more of it.
func (s *search) busy(t time.Time, limit int, length time.Duration, typ string) (free time.Time, ok bool) {
	free, ok = t, true
	counts := func(slot Slot) bool { return slot.N > 0 && (typ == "" || slot.Type == typ) }
	// A run begins with the first message of a slot, and ends with the slot that holds the limit-th: later and later ones.
	first := s.from(t.Add(-length + instant))
	next, n := first, 0 // n messages in [first, next)
	var last time.Time  // the latest of them
	for ; first < len(s.slots); first++ {
		begin := s.slots[first]
		if !counts(begin) {
			continue
		}
		for ; n < limit && next < len(s.slots); next++ {
			if counts(s.slots[next]) {
				n, last = n+s.slots[next].N, s.slots[next].At
			}
		}
		if n < limit {
			break
		}
		if !last.Before(t.Add(length)) {
			break
		}
		// Otherwise they are in no window together, whatever t is.
		if last.Sub(begin.At) < length {
			if end := begin.At.Add(length); end.After(free) {
				free, ok = end, false
			}
		}
		n -= begin.N
	}
	return free, ok
}
