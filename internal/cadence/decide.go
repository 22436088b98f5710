package cadence

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// instant is the resolution of slots. An instant that is later by this is another slot.
const instant = time.Microsecond

// Slot is one message, or several of one type, at the instant to which they were admitted.
type Slot struct {
	At   time.Time // in whole microseconds
	Type string
	N    int  // messages, at least 1
	Sent bool // the message left, may have left or is in flight; only used if Policy.Count is "sent"
	// Passed: the message still waits, but its slot has passed. It will not interrupt the person at that instant, so it starts no cooldown;
	// the caps of its window count it until it takes another slot.
	Passed bool
	// Elsewhere: the message is on another kind of channel, so only Policy.Total counts it.
	Elsewhere bool
}

// idle reports whether a slot starts no cooldown.
func (s Slot) idle() bool { return s.N == 0 || s.Passed }

// Verdict is the result of a decision.
type Verdict struct {
	At     time.Time     // the earliest instant that breaks no limit; zero for reason.DeferredTooLong
	Reason reason.Reason // the first limit that is reached, if At is later than now (A36); or reason.DeferredTooLong
	Last   reason.Reason // the limit that ends at At, which is the last one that the message waits for
}

// Message is a message that needs a slot.
type Message struct {
	Type   string
	Window civil.Span // the send window of its workflow; zero: any time
	// At is the message's own time of day, in Zone, or in the person's zone if Zone is nil. A wait for a new day, week or month of
	// the calendar ends at that time. 00:00 means that the message has none.
	At   civil.TimeOfDay
	Zone *time.Location
}

// Decide returns when one more message may be sent to a person: now, or at the earliest later instant that breaks no limit (A38). If
// that instant is after until, the verdict is reason.DeferredTooLong.
//
// history holds the person's slots on this channel since Floor, without the slot of this message. It may be in any order, ascending
// being the fastest, and is not changed. Calendar windows, quiet hours and the send window are in the zone loc. If the policy does not
// count the type of the message, only quiet hours and the send window apply. Many decisions about one person are faster with a
// History.
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

// decide decides by the slots of the kind of channel and by the slots over that the total counts; nil: no total applies to the
// message.
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

// Floor returns the oldest instant whose slots can change a decision at now or later. Slots before it need not be read. If nothing is
// limited, it returns now.
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
	over    *view // of all kinds of channels; nil: no total applies to the message
	policy  *Policy
	limited bool // there are limits of the kind of channel, and they apply to the message
}

// block returns the first limit that forbids t. Each limit that forbids t allows the message at some later instant; block also returns
// the latest of these instants, with its limit. Every instant before that one is forbidden too, so that nothing is skipped.
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

// caps tests the caps of the day, the week and the month of t, for the kind of channel and for all kinds.
func (s *search) caps(t time.Time, hit func(time.Time, reason.Reason)) {
	p := s.policy
	full := func(v *view, rolling bool, length, limit int, typ string, why reason.Reason) {
		if !exceeds(v.total, limit) { // all messages of the history together do not reach the limit
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

// cooldown reports whether t is at least a cooldown away from the other slots and, if t is one of them, whether that slot has room.
// Otherwise it returns the next instant that may fulfil this.
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
		// t is less than a cooldown before a later slot: the message joins that slot.
		if later := s.slots[next].At; later.Sub(t) < s.policy.Cooldown && later.After(free) {
			free, ok = later, false
		}
	}
	return free, ok
}

// resume returns when a wait for a window that ends at end is over: at end, or later that day at the policy's or the message's time
// of day, whichever is later.
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
		if _, next := civil.DayBounds(end, s.loc); !own.Before(next) { // a day of 23 hours may lack that time
			own = s.ofDay(end, s.At)
		}
	}
	if own.After(at) {
		return own
	}
	return at
}

// ofDay returns the instant of a time of day, on the day that begins at an instant.
func (s *search) ofDay(begins time.Time, clock civil.TimeOfDay) time.Time {
	d, _ := civil.DateOf(begins, s.loc)
	at, _ := civil.Resolve(d, clock, s.loc, civil.Rule{})
	return at
}

// firstAt returns the first instant at or after from at which the clocks of a zone show a time of day.
func firstAt(from time.Time, clock civil.TimeOfDay, zone *time.Location) time.Time {
	d, _ := civil.DateOf(from, zone)
	at, _ := civil.Resolve(d, clock, zone, civil.Rule{})
	if at.Before(from) {
		at, _ = civil.Resolve(d.Add(civil.Duration{Days: 1}), clock, zone, civil.Rule{})
	}
	return at
}
