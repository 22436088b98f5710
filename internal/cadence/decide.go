package cadence

import (
	"slices"
	"sort"
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
	Sent bool // known to have left; only Policy.Count "sent" asks
}

// Verdict is the answer of the gate.
type Verdict struct {
	At     time.Time     // the earliest instant that breaks no limit; zero for reason.DeferredTooLong
	Reason reason.Reason // why At is later than asked for, "" when it is not; or reason.DeferredTooLong
}

// Message is what asks for a slot.
type Message struct {
	Type   string
	Window civil.Span // in which its workflow sends; zero = always
}

// Decide returns when one more message may go to a person: at now, or at the earliest later instant that breaks no
// limit (A38). An instant after until is not looked for: the verdict is then reason.DeferredTooLong.
//
// history holds the person's slots on this channel since Floor, without the message in question, and is not changed.
// It may come in any order; ascending is the fastest. Calendar windows, quiet hours and the send window are those of
// loc. A message whose type the policy does not count meets only the latter two.
func Decide(policy Policy, history []Slot, loc *time.Location, now, until time.Time, m Message) Verdict {
	if policy.Empty() && m.Window.IsZero() {
		return admit(Verdict{At: now}, until)
	}
	s := search{policy: policy, loc: loc, Message: m}
	if !policy.Unlimited() && policy.Counts(m.Type) {
		s.slots, s.total = relevant(policy, history)
		s.limited = true
	}
	v := Verdict{At: now}
	for !v.At.After(until) {
		free, why := s.block(v.At)
		if why == "" {
			return v
		}
		if v.Reason == "" {
			v.Reason = why
		}
		v.At = free
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
	window := func(limited bool, length time.Duration, bounds func(time.Time, *time.Location) (start, end time.Time)) {
		if !limited {
			return
		}
		start := now.Add(-length)
		if !policy.Rolling {
			start, _ = bounds(now, loc)
		}
		if start.Before(floor) {
			floor = start
		}
	}
	window(policy.MaxPerDay > 0 || len(policy.TypeLimits) > 0, rollingDay, civil.DayBounds)
	window(policy.MaxPerWeek > 0, rollingWeek, civil.WeekBounds)
	window(policy.MaxPerMonth > 0, rollingMonth, civil.MonthBounds)
	return floor
}

// relevant returns the slots that count under the policy, in ascending order, and the number of their messages.
func relevant(policy Policy, history []Slot) (slots []Slot, total int) {
	slots = history
	if len(policy.Types) > 0 || policy.Count == CountSent {
		slots = make([]Slot, 0, len(history))
		for _, s := range history {
			if policy.Counts(s.Type) && (policy.Count != CountSent || s.Sent) {
				slots = append(slots, s)
			}
		}
	}
	ascending := true
	for i, s := range slots {
		total += s.N
		ascending = ascending && (i == 0 || !s.At.Before(slots[i-1].At))
	}
	if !ascending {
		slots = slices.SortedFunc(slices.Values(slots), func(a, b Slot) int { return a.At.Compare(b.At) })
	}
	return slots, total
}

// search is one decision under way.
type search struct {
	Message
	policy  Policy
	limited bool   // there are caps, and the message meets them
	slots   []Slot // ascending
	total   int    // messages in slots; a limit above it needs no window
	loc     *time.Location
}

// block names the first limit that forbids t, and returns the latest of the instants at which each of the limits that
// forbid it would let the message pass. Every instant before that one is forbidden too, so that nothing is skipped.
func (s *search) block(t time.Time) (free time.Time, why reason.Reason) {
	hit := func(at time.Time, r reason.Reason) {
		if why == "" {
			why = r
		}
		if at.After(free) {
			free = at
		}
	}
	if s.limited {
		if at, ok := s.cooldown(t); !ok {
			hit(at, reason.CadenceCooldown)
		}
		if s.policy.Rolling {
			s.rolling(t, hit)
		} else {
			s.calendar(t, hit)
		}
	}
	if s.policy.Quiet.Contains(t, s.loc) {
		hit(s.policy.Quiet.After(t, s.loc), reason.QuietHours)
	}
	if closed := s.Window.Rest(); closed.Contains(t, s.loc) {
		hit(closed.After(t, s.loc), reason.SendWindow)
	}
	return free, why
}

// calendar looks at the days, the week and the month of t.
func (s *search) calendar(t time.Time, hit func(time.Time, reason.Reason)) {
	p := &s.policy
	typeLimit := p.TypeLimits[s.Type]
	if s.mayExceed(p.MaxPerDay) || s.mayExceed(typeLimit) {
		start, end := civil.DayBounds(t, s.loc)
		all, ofType := s.count(start, end)
		if exceeds(ofType, typeLimit) {
			hit(s.resume(end), reason.CadenceTypeDaily)
		}
		if exceeds(all, p.MaxPerDay) {
			hit(s.resume(end), reason.CadenceDaily)
		}
	}
	if s.mayExceed(p.MaxPerWeek) {
		start, end := civil.WeekBounds(t, s.loc)
		if all, _ := s.count(start, end); exceeds(all, p.MaxPerWeek) {
			hit(s.resume(end), reason.CadenceWeekly)
		}
	}
	if s.mayExceed(p.MaxPerMonth) {
		start, end := civil.MonthBounds(t, s.loc)
		if all, _ := s.count(start, end); exceeds(all, p.MaxPerMonth) {
			hit(s.resume(end), reason.CadenceMonthly)
		}
	}
}

// exceeds reports whether one more message than count is over a limit; 0 is no limit.
func exceeds(count, limit int) bool { return limit > 0 && count >= limit }

// mayExceed reports whether the history holds enough messages to reach a limit at all.
func (s *search) mayExceed(limit int) bool { return exceeds(s.total, limit) }

// cooldown reports whether t lies far enough from the other slots and, if it is one of them, whether it has room.
// Otherwise it returns the next instant of which that may be true.
func (s *search) cooldown(t time.Time) (free time.Time, ok bool) {
	free, ok = t, true
	here := s.from(t)
	if here > 0 {
		if end := s.slots[here-1].At.Add(s.policy.Cooldown); end.After(free) {
			free, ok = end, false
		}
	}
	next, shared := here, 0
	for ; next < len(s.slots) && s.slots[next].At.Equal(t); next++ {
		shared += s.slots[next].N
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

// count returns the messages in [start, end), all of them and those of the asked type.
func (s *search) count(start, end time.Time) (all, ofType int) {
	for _, slot := range s.slots[s.from(start):] {
		if !slot.At.Before(end) {
			break
		}
		all += slot.N
		if slot.Type == s.Type {
			ofType += slot.N
		}
	}
	return all, ofType
}

// from returns the index of the first slot at t or later.
func (s *search) from(t time.Time) int {
	return sort.Search(len(s.slots), func(i int) bool { return !s.slots[i].At.Before(t) })
}

// resume returns when a wait for a window that ends at end is over: then, or at the policy's time of that day.
func (s *search) resume(end time.Time) time.Time {
	if s.policy.ResumeAt == 0 {
		return end
	}
	d, _ := civil.DateOf(end, s.loc)
	at, _ := civil.Resolve(d, s.policy.ResumeAt, s.loc, civil.Rule{})
	return at
}
