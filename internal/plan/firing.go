package plan

import "time"

// Firing is the last firing of a context, as gate 1 knows it.
type Firing struct {
	FiredAt  time.Time // nominal instant; none: it never fired, or was reset
	VoidAt   time.Time // when its cooldown was refunded because nobody was notified; none: it counts
	InFlight bool      // its alert is still being sent
}

// FreeAt returns when the context may fire again: at the end of its cooldown, or earlier when nobody was notified. None: now.
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
