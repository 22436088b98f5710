package cadence

import "time"

// The lengths of rolling windows (decision 13). A month is 30 days: a limit that meant a longer or shorter one now and
// then would forbid today what it allowed yesterday.
const (
	rollingDay   = 24 * time.Hour
	rollingWeek  = 7 * rollingDay
	rollingMonth = 30 * rollingDay
)

// rollingLength are they by the lengths of the calendar's windows.
var rollingLength = [...]time.Duration{day: rollingDay, week: rollingWeek, month: rollingMonth}

// busy looks at the windows of fixed length that hold t. Each is open at one end, so that a message exactly a day after another
// is in no day with it.
//
// It reports whether one more message at t leaves at most limit in every window of that length, and otherwise the
// next instant at which that may be true. Slots lie before t and, as they are reserved ahead, after it: each run of
// limit messages that fits into a window forbids the instants that would make one more of it.
func (v *view) busy(t time.Time, limit int, length time.Duration, typ string) (free time.Time, ok bool) {
	free, ok = t, true
	counts := func(slot Slot) bool { return slot.N > 0 && (typ == "" || slot.Type == typ) }
	// A run begins with the first message of a slot, and ends with the slot that holds the limit-th: later and later ones.
	first := v.from(t.Add(-length + instant))
	next, n := first, 0 // n messages in [first, next)
	var last time.Time  // the latest of them
	for ; first < len(v.slots); first++ {
		begin := v.slots[first]
		if !counts(begin) {
			continue
		}
		for ; n < limit && next < len(v.slots); next++ {
			if counts(v.slots[next]) {
				n, last = n+v.slots[next].N, v.slots[next].At
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
