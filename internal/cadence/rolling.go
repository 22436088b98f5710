package cadence

import "time"

// The lengths of rolling windows (product decision 13). A month is always 30 days: with months of different lengths a limit could forbid today
// a message that it allowed yesterday.
const (
	rollingDay   = 24 * time.Hour
	rollingWeek  = 7 * rollingDay
	rollingMonth = 30 * rollingDay
)

// rollingLength holds the length of a rolling window for each length of the calendar's windows.
var rollingLength = [...]time.Duration{day: rollingDay, week: rollingWeek, month: rollingMonth}

// busy tests the windows of fixed length that contain t. A window is open at one end, so that no window contains two messages that are
// exactly a day apart.
//
// It reports whether every window of that length has at most limit messages with one more at t; otherwise it returns the next instant
// for which that may be true. Slots are reserved ahead, so they are before and after t. Each run of limit messages that fits into a
// window forbids the instants that would add one more to it.
func (v *view) busy(t time.Time, limit int, length time.Duration, typ string) (free time.Time, ok bool) {
	free, ok = t, true
	counts := func(slot Slot) bool { return slot.N > 0 && (typ == "" || slot.Type == typ) }
	// A run begins with the first message of a slot, and ends with the slot of the limit-th message. Later runs end later.
	first := v.from(t.Add(-length + instant))
	next, n := first, 0 // n messages in [first, next)
	var last time.Time  // the latest of these messages
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
		// Otherwise no window contains the whole run.
		if last.Sub(begin.At) < length {
			if end := begin.At.Add(length); end.After(free) {
				free, ok = end, false
			}
		}
		n -= begin.N
	}
	return free, ok
}
