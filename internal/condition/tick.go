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

// DueTick returns the tick that is owed at now to a record that was looked at at lookedAt and has to be since lookAt; none
// when there is no such tick. What became due after a tick waits for the next one. Ticks that were missed are not made
// up: the latest counts (A4).
func DueTick(every time.Duration, now, lookedAt, lookAt time.Time) time.Time {
	if every <= 0 {
		return time.Time{}
	}
	tick := TickAt(now, every)
	if !tick.After(lookedAt) || lookAt.After(tick) {
		return time.Time{}
	}
	return tick
}
