package plan

import "time"

// Firing is when a context fired last, as gate 1 knows it.
type Firing struct {
	FiredAt  time.Time // nominal; none: never, or it was reset
	VoidAt   time.Time // from when on its cooldown does not count, since nobody was told; none: it counts
	InFlight bool      // what it fired has not all its messages yet
}

// FreeAt is when the context may fire again: at the end of its cooldown, or sooner when nobody was told. None: now.
func (s Firing) FreeAt(cooldown time.Duration) time.Time {
	if s.FiredAt.IsZero() {
		return time.Time{}
	}
	free := s.FiredAt.Add(cooldown)
	if !s.VoidAt.IsZero() && s.VoidAt.Before(free) {
		return s.VoidAt
	}
	return free
}
