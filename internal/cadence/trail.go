package cadence

import (
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// question is all that a search depends on beside the slots, the zone and the instant.
type question struct {
	cooldown                      time.Duration
	day, week, month, slot, ofTyp int
	typ                           string // where there is a limit of its own
	limited, rolling              bool
	resumeAt                      civil.TimeOfDay
	quiet, window                 civil.Span
	at                            civil.TimeOfDay
	zone                          *time.Location
	total                         totalQuestion
}

// totalQuestion is the part of it that a total adds.
type totalQuestion struct {
	day, week, month int
	rolling, sent    bool
	types            string
}

// trail is what a search has found out: there is no free instant in [from, to). That stays true while slots are only
// added, since no limit that forbids an instant lets it go for one slot more: a slot ≠ t nearer than the cooldown stays
// one, a slot or a window that is full stays full. So a later search that comes to an instant in between may go on at to.
//
// With ResumeAt, or a message's own time of day, a search passes over instants that are free: those between midnight and that time of a day, if it has come
// across a window that was full and ended at that midnight. Let a morning be closed to who asks at x when such a window
// ends after x. Then the search finds the first instant from x on that is neither forbidden nor in a closed morning,
// provided that it comes across every day, which it does when no cooldown is as long as one and no window rolls. This set grows with the slots
// as well, and
//   - it holds [from, to) for every x <= from, and for an x in between unless x is itself in a morning, which is closed to
//     from but perhaps not to x;
//   - after to it is the same for x as for who asks at to, unless to is in a morning.
//
// usable checks the first, worth the second.
type trail struct {
	from, to time.Time
	last     reason.Reason // by which the last instant before to is forbidden
}

const (
	// worthSteps is how many windows a search passes before its trail is kept: most people have few messages, and are asked
	// about once.
	worthSteps = 4
	// shortDay is shorter than every day of every zone.
	shortDay = 20 * time.Hour
)

func (s *search) question() question {
	p := s.policy
	q := question{
		limited:  s.limited,
		cooldown: p.Cooldown, day: p.MaxPerDay, week: p.MaxPerWeek, month: p.MaxPerMonth, slot: p.MaxPerSlot, rolling: p.Rolling,
		quiet: p.Quiet, window: s.Window, ofTyp: p.TypeLimits[s.Type],
	}
	if q.ofTyp > 0 {
		q.typ = s.Type
	}
	if s.waitsForDays() {
		q.resumeAt, q.at, q.zone = p.ResumeAt, s.At, s.Zone
	}
	if t := p.Total; s.over != nil {
		q.total = totalQuestion{t.MaxPerDay, t.MaxPerWeek, t.MaxPerMonth, t.Rolling, t.Count == CountSent, strings.Join(t.Types, " ")}
	}
	return q
}

// waitsForDays reports whether a wait for a window may end later than that, and rolls whether any of its windows is no calendar's.
func (s *search) waitsForDays() bool {
	calendar := s.limited && !s.policy.Rolling || s.over != nil && !s.policy.Total.Rolling
	return calendar && (s.policy.ResumeAt != 0 || s.At != 0)
}

func (s *search) rolls() bool {
	return s.limited && s.policy.Rolling || s.over != nil && s.policy.Total.Rolling
}

// morning reports whether t lies between midnight and the time at which waits for a new day end.
func (s *search) morning(t time.Time) bool {
	if !s.waitsForDays() {
		return false
	}
	midnight, _ := civil.DayBounds(t, s.loc)
	return t.Before(s.resume(midnight))
}

// trail returns what is known of instants from t on.
func (s *search) trail(t time.Time) (tr trail, ok bool) {
	if len(s.trails) == 0 || !s.counted() || s.apart {
		return tr, false
	}
	tr, ok = s.trails[s.question()]
	return tr, ok && !t.Before(tr.from) && t.Before(tr.to)
}

func (s *search) remember(tr trail) {
	if !s.counted() || s.apart {
		return
	}
	if s.trails == nil {
		s.trails = map[question]trail{}
	}
	s.trails[s.question()] = tr
}

// usable reports whether a search that began at now may follow a trail.
func (s *search) usable(tr trail, now time.Time) bool {
	return !now.After(tr.from) || !s.morning(now)
}

// worth reports whether a trail to an instant may be followed.
func (s *search) worth(to time.Time) bool {
	return !s.waitsForDays() || !s.rolls() && s.policy.Cooldown < shortDay && !s.morning(to)
}

// counted reports whether the message meets any limit that counts messages.
func (s *search) counted() bool { return s.limited || s.over != nil }
