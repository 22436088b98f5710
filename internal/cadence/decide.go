package cadence

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// instant is the resolution at which slots are stored: one this much later is a slot of its own.
const instant = time.Microsecond

// Slot is one message, or several of one type, at the instant to which they were admitted.
type Slot struct {
	At   time.Time // in whole microseconds
	Type string
	N    int  // messages, at least 1
	Sent bool // it left, may have left or is in flight; only Policy.Count "sent" uses this
	// Passed: the message still waits, but its slot has passed. It will not interrupt the person at that instant, so it starts no cooldown;
	// the caps of its window count it until it takes another slot.
	Passed bool
	// Elsewhere: the message is on another kind of channel, so only Policy.Total counts it.
	Elsewhere bool
}

// idle reports whether a slot binds no cooldown.
func (s Slot) idle() bool { return s.N == 0 || s.Passed }

// Verdict is the answer of the gate.
type Verdict struct {
	At     time.Time     // the earliest instant that breaks no limit; zero for reason.DeferredTooLong
	Reason reason.Reason // the first limit that is reached where At is later than asked for (A36); or reason.DeferredTooLong
	Last   reason.Reason // the limit whose end At is: the message waits for that one in the end
}

// Message is what asks for a slot.
type Message struct {
	Type   string
	Window civil.Span // in which its workflow sends; zero = always
	// At is its own time of day, in Zone, or in the person's zone where that is nil: a wait for a new day, week or month of the
	// calendar ends then. 00:00 is none.
	At   civil.TimeOfDay
	Zone *time.Location
}

// Decide returns when one more message may go to a person: at now, or at the earliest later instant that breaks no
// limit (A38). An instant after until is not looked for: the verdict is then reason.DeferredTooLong.
//
// history holds the person's slots on this channel since Floor, without the message in question, and is not changed.
// It may come in any order; ascending is the fastest. Calendar windows, quiet hours and the send window are those of
// loc. A message whose type the policy does not count meets only the latter two. Many decisions about one person are
// faster upon a History.
func Decide(policy Policy, history []Slot, loc *time.Location, now, until time.Time, m Message) Verdict {
	if policy.Empty() && m.Window.IsZero() {
		return admit(Verdict{At: now}, until)
	}
	if !policy.Total.Empty() || slices.ContainsFunc(history, func(s Slot) bool { return s.Elsewhere }) {
		return NewHistory(history).Decide(policy, loc, now, until, m)
	}
	v := view{loc: loc}
	if !policy.free() && policy.Counts(m.Type) {
		v.fill(history, policy.Types, policy.Count == CountSent)
	}
	return decide(policy, &v, nil, now, until, m)
}

// decide searches among the slots of the kind of channel, and those that the total counts; nil where the message meets no total.
func decide(policy Policy, slots, over *view, now, until time.Time, m Message) Verdict {
	if policy.Empty() && m.Window.IsZero() {
		return admit(Verdict{At: now}, until)
	}
	s := search{view: slots, over: over, policy: &policy, Message: m}
	s.limited = !policy.free() && policy.Counts(m.Type)
	v, began, steps := Verdict{At: now}, now, 0
	for ; !v.At.After(until); steps++ {
		free, first, last := s.block(v.At)
		if first == "" {
			break
		}
		if v.Reason == "" {
			v.Reason = first
		}
		if known, ok := s.trail(v.At); ok && free.Before(known.to) && s.usable(known, now) {
			free, last, steps = known.to, known.last, worthSteps
			if known.from.Before(began) {
				began = known.from
			}
		}
		v.At, v.Last = free, last
	}
	if steps >= worthSteps && s.worth(v.At) {
		s.remember(trail{from: began, to: v.At, last: v.Last})
	}
	return admit(v, until)
}

func admit(v Verdict, until time.Time) Verdict {
	if v.At.After(until) {
		return Verdict{Reason: reason.DeferredTooLong}
	}
	return v
}

// Floor returns the oldest instant that can matter to a decision at now or later: slots before it need not be read.
// It is now itself when nothing is limited.
func Floor(policy Policy, loc *time.Location, now time.Time) time.Time {
	floor := now.Add(-policy.Cooldown)
	window := func(limited, rolling bool, length int) {
		if !limited {
			return
		}
		start := now.Add(-rollingLength[length])
		if !rolling {
			start, _ = calendarBounds[length](now, loc)
		}
		if start.Before(floor) {
			floor = start
		}
	}
	window(policy.MaxPerDay > 0 || len(policy.TypeLimits) > 0, policy.Rolling, day)
	window(policy.MaxPerWeek > 0, policy.Rolling, week)
	window(policy.MaxPerMonth > 0, policy.Rolling, month)
	window(policy.Total.MaxPerDay > 0, policy.Total.Rolling, day)
	window(policy.Total.MaxPerWeek > 0, policy.Total.Rolling, week)
	window(policy.Total.MaxPerMonth > 0, policy.Total.Rolling, month)
	return floor
}

// search is one decision under way.
type search struct {
	Message
	*view
	over    *view // of all kinds of channels; nil: the message meets no total
	policy  *Policy
	limited bool // there are limits of the kind of channel, and the message meets them
}

// block names the first limit that forbids t, and returns the latest of the instants at which each of the limits that
// forbid it would let the message pass, with the limit that gives it. Every instant before that one is forbidden too, so
// that nothing is skipped.
func (s *search) block(t time.Time) (free time.Time, first, last reason.Reason) {
	hit := func(at time.Time, r reason.Reason) {
		if first == "" {
			first = r
		}
		if at.After(free) {
			free, last = at, r
		}
	}
	if s.limited {
		if at, ok := s.cooldown(t); !ok {
			hit(at, reason.CadenceCooldown)
		}
	}
	s.caps(t, hit)
	if s.policy.Quiet.Contains(t, s.loc) {
		hit(s.policy.Quiet.After(t, s.loc), reason.QuietHours)
	}
	if closed := s.Window.Rest(); closed.Contains(t, s.loc) {
		hit(closed.After(t, s.loc), reason.SendWindow)
	}
	return free, first, last
}

// caps looks at the days, the week and the month of t: what they hold of the kind of channel, and what of all kinds.
func (s *search) caps(t time.Time, hit func(time.Time, reason.Reason)) {
	p := s.policy
	full := func(v *view, rolling bool, length, limit int, typ string, why reason.Reason) {
		if !exceeds(v.total, limit) { // of all that is known
			return
		}
		if rolling {
			if free, ok := v.busy(t, limit, rollingLength[length], typ); !ok {
				hit(free, why)
			}
			return
		}
		if w := v.window(length, t); w.all >= limit && (typ == "" || w.of(v, typ) >= limit) {
			hit(s.resume(w.end), why)
		}
	}
	if s.limited {
		full(s.view, p.Rolling, day, p.TypeLimits[s.Type], s.Type, reason.CadenceTypeDaily)
		full(s.view, p.Rolling, day, p.MaxPerDay, "", reason.CadenceDaily)
	}
	if s.over != nil {
		full(s.over, p.Total.Rolling, day, p.Total.MaxPerDay, "", reason.CadenceDaily)
	}
	if s.limited {
		full(s.view, p.Rolling, week, p.MaxPerWeek, "", reason.CadenceWeekly)
	}
	if s.over != nil {
		full(s.over, p.Total.Rolling, week, p.Total.MaxPerWeek, "", reason.CadenceWeekly)
	}
	if s.limited {
		full(s.view, p.Rolling, month, p.MaxPerMonth, "", reason.CadenceMonthly)
	}
	if s.over != nil {
		full(s.over, p.Total.Rolling, month, p.Total.MaxPerMonth, "", reason.CadenceMonthly)
	}
}

// exceeds reports whether one more message than count is over a limit; 0 is no limit.
func exceeds(count, limit int) bool { return limit > 0 && count >= limit }

// cooldown reports whether t lies far enough from the other slots and, if it is one of them, whether it has room.
// Otherwise it returns the next instant of which that may be true.
func (s *search) cooldown(t time.Time) (free time.Time, ok bool) {
	free, ok = t, true
	here := s.from(t)
	near := t.Add(-s.policy.Cooldown)
	before := here - 1
	for before >= 0 && s.slots[before].idle() && s.slots[before].At.After(near) {
		before--
	}
	if before >= 0 && s.slots[before].idle() {
		before = -1
	}
	if before >= 0 {
		if end := s.slots[before].At.Add(s.policy.Cooldown); end.After(free) {
			free, ok = end, false
		}
	}
	next, shared := here, 0
	for ; next < len(s.slots) && (s.slots[next].idle() || s.slots[next].At.Equal(t)); next++ {
		if !s.slots[next].idle() {
			shared += s.slots[next].N
		}
	}
	if exceeds(shared, s.policy.MaxPerSlot) {
		if end := t.Add(max(s.policy.Cooldown, instant)); end.After(free) {
			free, ok = end, false
		}
	}
	if next < len(s.slots) {
		// Too near before a later slot: join that one.
		if later := s.slots[next].At; later.Sub(t) < s.policy.Cooldown && later.After(free) {
			free, ok = later, false
		}
	}
	return free, ok
}

// resume returns when a wait for a window that ends at end is over: then, or at the later of the policy's time of that day and
// the message's own.
func (s *search) resume(end time.Time) time.Time {
	at := end
	if s.policy.ResumeAt != 0 {
		at = s.ofDay(end, s.policy.ResumeAt)
	}
	if s.At == 0 {
		return at
	}
	own := s.ofDay(end, s.At)
	if s.Zone != nil {
		own = firstAt(end, s.At, s.Zone)
		if _, next := civil.DayBounds(end, s.loc); !own.Before(next) { // a day of 23 hours may not have it
			own = s.ofDay(end, s.At)
		}
	}
	if own.After(at) {
		return own
	}
	return at
}

// ofDay is a time of the day that begins at an instant.
func (s *search) ofDay(begins time.Time, clock civil.TimeOfDay) time.Time {
	d, _ := civil.DateOf(begins, s.loc)
	at, _ := civil.Resolve(d, clock, s.loc, civil.Rule{})
	return at
}

// firstAt is the first instant from another one on at which the clocks of a zone show a time of day.
func firstAt(from time.Time, clock civil.TimeOfDay, zone *time.Location) time.Time {
	d, _ := civil.DateOf(from, zone)
	at, _ := civil.Resolve(d, clock, zone, civil.Rule{})
	if at.Before(from) {
		at, _ = civil.Resolve(d.Add(civil.Duration{Days: 1}), clock, zone, civil.Rule{})
	}
	return at
}
