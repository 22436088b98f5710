package cadence_test

import (
	"slices"
	"sort"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// oracle is a simple way to decide, with which History is compared: it goes from window to window, counts each again, and keeps nothing.
// It returns no last limit.
func oracle(policy cadence.Policy, history []cadence.Slot, loc *time.Location, now, until time.Time, m cadence.Message) cadence.Verdict {
	s := plain{policy: policy, loc: loc, Message: m}
	here := slices.DeleteFunc(slices.Clone(history), func(s cadence.Slot) bool { return s.Elsewhere })
	kind := policy
	if kind.Total = (cadence.Total{}); !kind.Unlimited() && policy.Counts(m.Type) {
		s.slots, s.limited = relevant(policy, here), true
	}
	if t := policy.Total; t.Counts(m.Type) {
		caps := cadence.Policy{
			MaxPerDay: t.MaxPerDay, MaxPerWeek: t.MaxPerWeek, MaxPerMonth: t.MaxPerMonth, Types: t.Types, Count: t.Count, Rolling: t.Rolling,
			ResumeAt: policy.ResumeAt,
		}
		s.over = &plain{policy: caps, loc: loc, Message: m, limited: true, slots: relevant(caps, history)}
	}
	v := cadence.Verdict{At: now}
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
	return cadence.Verdict{Reason: reason.DeferredTooLong}
}

// relevant returns the slots that count under the policy, in ascending order.
func relevant(policy cadence.Policy, history []cadence.Slot) (slots []cadence.Slot) {
	for _, s := range history {
		if policy.Counts(s.Type) && (policy.Count != cadence.CountSent || s.Sent) {
			slots = append(slots, s)
		}
	}
	slices.SortStableFunc(slots, func(a, b cadence.Slot) int { return a.At.Compare(b.At) })
	return slots
}

// plain is one such decision under way.
type plain struct {
	cadence.Message
	policy  cadence.Policy
	limited bool           // there are caps, and they apply to the message
	slots   []cadence.Slot // ascending
	loc     *time.Location
	over    *plain // the caps over all kinds of channels
}

// block returns the first limit that forbids t. Each limit that forbids t allows the message at some later instant; block also returns
// the latest of these instants. Every instant before that one is forbidden too, so that nothing is skipped.
func (s *plain) block(t time.Time) (free time.Time, why reason.Reason) {
	order := []reason.Reason{
		reason.CadenceCooldown, reason.CadenceTypeDaily, reason.CadenceDaily, reason.CadenceWeekly, reason.CadenceMonthly, reason.QuietHours,
		reason.SendWindow,
	}
	hit := func(at time.Time, r reason.Reason) {
		if why == "" || slices.Index(order, r) < slices.Index(order, why) {
			why = r
		}
		if at.After(free) {
			free = at
		}
	}
	if s.over != nil && s.over.policy.Rolling {
		s.over.rolling(t, hit)
	} else if s.over != nil {
		s.over.calendar(t, hit)
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

// calendar tests the caps of the day, the week and the month of t.
func (s *plain) calendar(t time.Time, hit func(time.Time, reason.Reason)) {
	p := &s.policy
	typeLimit := p.TypeLimits[s.Type]
	{
		start, end := civil.DayBounds(t, s.loc)
		all, ofType := s.count(start, end)
		if exceeds(ofType, typeLimit) {
			hit(s.resume(end), reason.CadenceTypeDaily)
		}
		if exceeds(all, p.MaxPerDay) {
			hit(s.resume(end), reason.CadenceDaily)
		}
	}
	{
		start, end := civil.WeekBounds(t, s.loc)
		if all, _ := s.count(start, end); exceeds(all, p.MaxPerWeek) {
			hit(s.resume(end), reason.CadenceWeekly)
		}
	}
	{
		start, end := civil.MonthBounds(t, s.loc)
		if all, _ := s.count(start, end); exceeds(all, p.MaxPerMonth) {
			hit(s.resume(end), reason.CadenceMonthly)
		}
	}
}

// exceeds reports whether one more message than count is over a limit; 0 is no limit.
func exceeds(count, limit int) bool { return limit > 0 && count >= limit }

// cooldown reports whether t is at least a cooldown away from the other slots and, if t is one of them, whether that slot has room.
// Otherwise it returns the next instant that may fulfil this.
func (s *plain) cooldown(t time.Time) (free time.Time, ok bool) {
	free, ok = t, true
	binding := slices.DeleteFunc(slices.Clone(s.slots), func(s cadence.Slot) bool { return s.Passed })
	here := sort.Search(len(binding), func(i int) bool { return !binding[i].At.Before(t) })
	if here > 0 {
		if end := binding[here-1].At.Add(s.policy.Cooldown); end.After(free) {
			free, ok = end, false
		}
	}
	next, shared := here, 0
	for ; next < len(binding) && binding[next].At.Equal(t); next++ {
		shared += binding[next].N
	}
	if exceeds(shared, s.policy.MaxPerSlot) {
		if end := t.Add(max(s.policy.Cooldown, time.Microsecond)); end.After(free) {
			free, ok = end, false
		}
	}
	if next < len(binding) {
		// t is less than a cooldown before a later slot: the message joins that slot.
		if later := binding[next].At; later.Sub(t) < s.policy.Cooldown && later.After(free) {
			free, ok = later, false
		}
	}
	return free, ok
}

// count returns the numbers of all messages in [start, end) and of those of the message's type.
func (s *plain) count(start, end time.Time) (all, ofType int) {
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
func (s *plain) from(t time.Time) int {
	return sort.Search(len(s.slots), func(i int) bool { return !s.slots[i].At.Before(t) })
}

// resume returns when a wait for a window that ends at end is over: at end, or later that day at the policy's or the message's time
// of day, whichever is later.
func (s *plain) resume(end time.Time) time.Time {
	d, _ := civil.DateOf(end, s.loc)
	at := end
	if s.policy.ResumeAt > 0 {
		at, _ = civil.Resolve(d, s.policy.ResumeAt, s.loc, civil.Rule{})
	}
	if s.At == 0 {
		return at
	}
	own, _ := civil.Resolve(d, s.At, s.loc, civil.Rule{})
	if s.Zone != nil { // the first instant of that day at which its clocks show that time
		_, next := civil.DayBounds(end, s.loc)
		there, _ := civil.DateOf(end, s.Zone)
		for days := range 2 {
			if first, _ := civil.Resolve(there.AddDays(days), s.At, s.Zone, civil.Rule{}); !first.Before(end) && first.Before(next) {
				own = first
				break
			}
		}
	}
	if own.After(at) {
		at = own
	}
	return at
}

// rolling tests the windows of fixed length that contain t. A window is open at one end, so that no window contains two messages that
// are exactly a day apart.
func (s *plain) rolling(t time.Time, hit func(time.Time, reason.Reason)) {
	p := &s.policy
	look := func(limit int, length time.Duration, typ string, why reason.Reason) {
		if limit == 0 {
			return
		}
		if free, ok := s.window(t, limit, length, typ); !ok {
			hit(free, why)
		}
	}
	look(p.TypeLimits[s.Type], 24*time.Hour, s.Type, reason.CadenceTypeDaily)
	look(p.MaxPerDay, 24*time.Hour, "", reason.CadenceDaily)
	look(p.MaxPerWeek, 7*24*time.Hour, "", reason.CadenceWeekly)
	look(p.MaxPerMonth, 30*24*time.Hour, "", reason.CadenceMonthly)
}

// window reports whether every window of that length has at most limit messages with one more at t; otherwise it returns the next
// instant for which that may be true. Slots are reserved ahead, so they are before and after t. Each run of limit messages that fits
// into a window forbids the instants that would add one more to it.
func (s *plain) window(t time.Time, limit int, length time.Duration, typ string) (free time.Time, ok bool) {
	free, ok = t, true
	var run []time.Time // of messages in (t - length, t + length)
	for _, slot := range s.slots[s.from(t.Add(-length+time.Microsecond)):] {
		if !slot.At.Before(t.Add(length)) {
			break
		}
		if typ != "" && slot.Type != typ {
			continue
		}
		for range slot.N {
			run = append(run, slot.At)
		}
	}
	for i := 0; i+limit <= len(run); i++ {
		first, last := run[i], run[i+limit-1]
		if last.Sub(first) >= length { // no window contains both
			continue
		}
		if end := first.Add(length); end.After(free) {
			free, ok = end, false
		}
	}
	return free, ok
}
