package cadence

import (
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// question holds everything that a search depends on, except the slots, the zone and the instant.
type question struct {
	cooldown                      time.Duration
	day, week, month, slot, ofTyp int
	typ                           string // empty unless the type has a limit of its own
	limited, rolling              bool
	resumeAt                      civil.TimeOfDay
	quiet, window                 civil.Span
	at                            civil.TimeOfDay
	zone                          *time.Location
	total                         totalQuestion
}

// totalQuestion is the part of a question that a total adds.
type totalQuestion struct {
	day, week, month int
	rolling, sent    bool
	types            string
}

// trail is the result of a search: there is no free instant in [from, to). This stays true while slots are only added, because a new
// slot frees no instant: another slot within the cooldown of t stays there, and a full slot or window stays full. So a later search that
// reaches an instant in between may continue at to.
//
// With ResumeAt, or with a message's own time of day, a search skips instants that are free: those of a day between midnight and that
// time, the day's morning, if a window that was full ended at that midnight. A morning is closed for a search from x if such a window
// ends after x. The search then finds the first instant from x on that is neither forbidden nor in a closed morning, provided that it
// visits every day. It does so if no cooldown is as long as a day and no window is a rolling one. The set of these skipped instants
// also only grows with the slots, and
//   - it contains [from, to) for a search from any x <= from, and from an x in between unless x is itself in a morning, which is closed
//     for a search from from but perhaps not for one from x;
//   - after to it is the same for a search from x as for a search from to, unless to is in a morning.
//
// usable checks the first, worth the second.
type trail struct {
	from, to time.Time
	last     reason.Reason // the limit that forbids the last instant before to
}

const (
	// worthSteps is the number of windows from which on a search keeps its trail. Most people have few messages, and there is one
	// decision about them.
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

// waitsForDays reports whether a wait for a window may end later than the window. rolls reports whether any window is a rolling one.
func (s *search) waitsForDays() bool {
	calendar := s.limited && !s.policy.Rolling || s.over != nil && !s.policy.Total.Rolling
	return calendar && (s.policy.ResumeAt != 0 || s.At != 0)
}

func (s *search) rolls() bool {
	return s.limited && s.policy.Rolling || s.over != nil && s.policy.Total.Rolling
}

// morning reports whether t is between midnight and the time at which waits for a new day end.
func (s *search) morning(t time.Time) bool {
	if !s.waitsForDays() {
		return false
	}
	midnight, _ := civil.DayBounds(t, s.loc)
	return t.Before(s.resume(midnight))
}

// trail returns a trail that contains t.
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

// worth reports whether a search may continue at to, the end of a trail.
func (s *search) worth(to time.Time) bool {
	return !s.waitsForDays() || !s.rolls() && s.policy.Cooldown < shortDay && !s.morning(to)
}

// counted reports whether any limit that counts messages applies to the message.
func (s *search) counted() bool { return s.limited || s.over != nil }
