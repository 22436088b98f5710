package condition

import "time"

const day = 24 * time.Hour

// TickAt returns the tick of an interval at or before t: the multiples of the interval since midnight UTC. The last
// span of a day is shorter where the interval does not divide it.
func TickAt(t time.Time, every time.Duration) time.Time {
	midnight := t.UTC().Truncate(day) // days of UTC are 24 hours since year 1
	return midnight.Add(t.Sub(midnight).Truncate(every))
}

// TickAfter returns the tick after t.
func TickAfter(t time.Time, every time.Duration) time.Time {
	next := TickAt(t, every).Add(every)
	if midnight := t.UTC().Truncate(day).Add(day); next.After(midnight) {
		return midnight
	}
	return next
}

// tickFrom returns the tick at or after t.
func tickFrom(t time.Time, every time.Duration) time.Time {
	if at := TickAt(t, every); at.Equal(t) {
		return at
	}
	return TickAfter(t, every)
}

// DueTick returns the latest tick at or before now if the record was last evaluated before it and was due for evaluation by then, and
// else the zero time. A record that became due after a tick waits for the next one. Missed ticks are not made up: only the latest
// counts (A4).
func DueTick(every time.Duration, now, evaluatedAt, evaluateAt time.Time) time.Time {
	if every <= 0 {
		return time.Time{}
	}
	tick := TickAt(now, every)
	if !tick.After(evaluatedAt) || evaluateAt.After(tick) {
		return time.Time{}
	}
	return tick
}
