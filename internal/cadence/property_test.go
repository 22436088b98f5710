package cadence_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// broken returns a limit that a history breaks. It uses only the admitted slots and formatted dates, and shares no code with Decide.
func broken(p cadence.Policy, history []cadence.Slot, loc *time.Location) string {
	total, all := p.Total, make([]cadence.Slot, len(history))
	for i, s := range history {
		s.Elsewhere = false
		all[i] = s
	}
	caps := cadence.Policy{
		MaxPerDay: total.MaxPerDay, MaxPerWeek: total.MaxPerWeek, MaxPerMonth: total.MaxPerMonth, Types: total.Types, Rolling: total.Rolling,
	}
	if over := brokenOn(caps, all, loc); over != "" {
		return over + " over all channels"
	}
	return brokenOn(p, slices.DeleteFunc(slices.Clone(history), func(s cadence.Slot) bool { return s.Elsewhere }), loc)
}

// brokenOn is broken for the limits of one kind of channel.
func brokenOn(p cadence.Policy, history []cadence.Slot, loc *time.Location) string {
	counted := map[string]int{}
	count := func(n, limit int, window, format string, at time.Time) string {
		if limit <= 0 {
			return ""
		}
		key := window + at.In(loc).Format(format)
		if counted[key] += n; counted[key] > limit {
			return fmt.Sprintf("%s: %d of %d", key, counted[key], limit)
		}
		return ""
	}
	const instant = "2006-01-02 15:04:05.000000 -0700"
	for i, s := range history {
		local := s.At.In(loc)
		if clock := local.Format("15:04"); !p.Quiet.IsZero() && quiet(p.Quiet.String(), clock) {
			return fmt.Sprintf("%v in the quiet hours %v", local, p.Quiet)
		}
		if !p.Counts(s.Type) {
			continue
		}
		for _, other := range history[:i] {
			if apart := s.At.Sub(other.At).Abs(); p.Counts(other.Type) && apart > 0 && apart < p.Cooldown {
				return fmt.Sprintf("cooldown: %v and %v are %v apart", other.At, s.At, apart)
			}
		}
		if over := count(s.N, p.MaxPerSlot, "slot ", instant, local); over != "" {
			return over
		}
		if p.Rolling {
			continue
		}
		monday := local.AddDate(0, 0, -(int(local.Weekday())+6)%7)
		for _, over := range []string{
			count(s.N, p.MaxPerDay, "day ", time.DateOnly, local),
			count(s.N, p.TypeLimits[s.Type], "day of "+s.Type+" ", time.DateOnly, local),
			count(s.N, p.MaxPerWeek, "week ", time.DateOnly, monday),
			count(s.N, p.MaxPerMonth, "month ", "2006-01", local),
		} {
			if over != "" {
				return over
			}
		}
	}
	if !p.Rolling {
		return ""
	}
	for typ, limit := range p.TypeLimits {
		if over := crowded(p, history, typ, limit, 24*time.Hour); over != "" {
			return over
		}
	}
	return crowded(p, history, "", p.MaxPerDay, 24*time.Hour) + crowded(p, history, "", p.MaxPerWeek, 7*24*time.Hour) +
		crowded(p, history, "", p.MaxPerMonth, 30*24*time.Hour)
}

// quiet reports whether a formatted time of day is in a written span.
func quiet(span, clock string) bool {
	from, to := span[:5], span[6:]
	if from < to {
		return from <= clock && clock < to
	}
	return clock >= from || clock < to
}

// crowded reports whether a window that begins with some message has more than limit messages.
func crowded(p cadence.Policy, history []cadence.Slot, typ string, limit int, length time.Duration) string {
	for _, first := range history {
		if limit == 0 || typ != "" && first.Type != typ || !p.Counts(first.Type) {
			continue
		}
		n := 0
		for _, s := range history {
			if p.Counts(s.Type) && (typ == "" || s.Type == typ) && !s.At.Before(first.At) && s.At.Sub(first.At) < length {
				n += s.N
			}
		}
		if n > limit {
			return fmt.Sprintf("%d of %d %s in %v from %v on", n, limit, typ, length, first.At)
		}
	}
	return ""
}

// zones returns zones with difficult clock changes in the weeks around the starts below, and two without. None of them shows the minutes
// before a midnight twice, because there formatted dates and the first instant of a day disagree.
func zones(tb testing.TB) map[string]*time.Location {
	all := map[string]*time.Location{}
	for _, name := range zoneList {
		all[name] = zone(tb, name)
	}
	return all
}

var zoneList = []string{"UTC", "Asia/Kolkata", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana"}

var (
	zoneNames = rapid.SampledFrom(zoneList)
	types     = rapid.SampledFrom([]string{"alert", "report", "survey"})
	starts    = rapid.SampledFrom([]time.Time{
		time.Date(2011, 12, 28, 20, 0, 0, 0, time.UTC), // Apia leaves out 30 December
		time.Date(2018, 11, 2, 20, 0, 0, 0, time.UTC),  // São Paulo leaves out a midnight
		time.Date(2026, 3, 27, 9, 0, 0, 0, time.UTC),   // Berlin loses an hour
		time.Date(2026, 10, 23, 9, 0, 0, 0, time.UTC),  // Berlin wins one
		time.Date(2026, 4, 3, 9, 0, 0, 0, time.UTC),    // Lord Howe wins half an hour
		time.Date(2026, 10, 2, 9, 0, 0, 0, time.UTC),   // and loses it
		time.Date(2026, 3, 6, 20, 0, 0, 0, time.UTC),   // Havana leaves out a midnight
		time.Date(2026, 10, 28, 9, 0, 0, 0, time.UTC),  // and has one twice
	})
	policies = rapid.Custom(func(t *rapid.T) cadence.Policy {
		return cadence.Policy{
			Cooldown:    time.Duration(rapid.IntRange(0, 300).Draw(t, "cooldown")) * time.Minute,
			MaxPerDay:   rapid.IntRange(0, 4).Draw(t, "day"),
			MaxPerWeek:  rapid.IntRange(0, 8).Draw(t, "week"),
			MaxPerMonth: rapid.IntRange(0, 12).Draw(t, "month"),
			MaxPerSlot:  rapid.IntRange(0, 2).Draw(t, "slot"),
			TypeLimits:  map[string]int{"alert": rapid.IntRange(0, 2).Draw(t, "alerts"), "report": rapid.IntRange(0, 2).Draw(t, "reports")},
			Types:       rapid.SampledFrom([][]string{nil, nil, {"alert", "report"}}).Draw(t, "types"),
			Rolling:     rapid.Bool().Draw(t, "rolling"),
			Quiet:       spans.Draw(t, "quiet"),
			Total:       totals.Draw(t, "total"),
		}
	})
	// Every second total is empty.
	totals = rapid.Custom(func(t *rapid.T) cadence.Total {
		if rapid.Bool().Draw(t, "no total") {
			return cadence.Total{}
		}
		return cadence.Total{
			MaxPerDay:   rapid.IntRange(0, 4).Draw(t, "total day"),
			MaxPerWeek:  rapid.IntRange(0, 8).Draw(t, "total week"),
			MaxPerMonth: rapid.IntRange(0, 12).Draw(t, "total month"),
			Types:       rapid.SampledFrom([][]string{nil, nil, {"alert"}, {"alert", "survey"}}).Draw(t, "total types"),
			Rolling:     rapid.Bool().Draw(t, "total rolling"),
		}
	})
	// Spans of the day that leave at least an hour free. Every second one is empty.
	spans = rapid.Custom(func(t *rapid.T) civil.Span {
		from := rapid.IntRange(0, 23).Draw(t, "from")
		to := (from + rapid.IntRange(1, 23).Draw(t, "hours")) % 24
		if rapid.Bool().Draw(t, "none") {
			return civil.Span{}
		}
		return civil.Span{From: civil.TimeOfDay(3600 * from), To: civil.TimeOfDay(3600 * to)}
	})
)

// A history of slots that Decide returned breaks no limit, and no slot is before the instant of its decision.
//
// Shows: A30, A31, A32, A33, A34, A38.
func TestHistoryKeepsTheLimits(t *testing.T) {
	t.Parallel()
	locations := zones(t)
	var admitted, deferred int
	rapid.Check(t, func(t *rapid.T) {
		policy, loc := policies.Draw(t, "policy"), locations[zoneNames.Draw(t, "zone")]
		start := starts.Draw(t, "start")
		other := policies.Draw(t, "policy of the other kind of channel")
		other.Total = policy.Total
		var history []cadence.Slot
		for range rapid.IntRange(1, 30).Draw(t, "messages") {
			// Not in the order of time: workers decide at instants that are close together, in any order.
			now := start.Add(time.Duration(rapid.IntRange(0, 5*24*60).Draw(t, "minute")) * time.Minute)
			until := now.Add(90 * 24 * time.Hour)
			slot := cadence.Slot{Type: types.Draw(t, "type"), N: 1, Elsewhere: rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0}
			m := cadence.Message{Type: slot.Type, At: ownTimes.Draw(t, "own at")}
			v := cadence.Decide(policy, history, loc, now, until, m)
			if slot.Elsewhere {
				v = cadence.Decide(other, fromElsewhere(history), loc, now, until, m)
			}
			if v.Reason == reason.DeferredTooLong {
				continue
			}
			if v.At.Before(now) || v.At.After(until) || (v.Reason == "") != v.At.Equal(now) {
				t.Fatalf("asked at %v until %v: %+v", now, until, v)
			}
			admitted++
			if v.Reason != "" {
				deferred++
			}
			slot.At = v.At
			history = append(history, slot)
		}
		if over := broken(policy, history, loc); over != "" {
			t.Fatalf("%+v in %v breaks %s: %v", policy, loc, over, history)
		}
		if over := broken(other, fromElsewhere(history), loc); over != "" {
			t.Fatalf("elsewhere %+v in %v breaks %s: %v", other, loc, over, history)
		}
	})
	if deferred == 0 || deferred == admitted {
		t.Errorf("%d of %d deferred: the limits were not tried", deferred, admitted)
	}
}

// ownTimes draws a message's own time of day; most messages have none.
var ownTimes = rapid.Custom(func(t *rapid.T) civil.TimeOfDay {
	return civil.TimeOfDay(3600 * rapid.SampledFrom([]int{0, 0, 0, 9, 22}).Draw(t, "hour"))
})

// fromElsewhere returns a history from the view of the other kind of channel.
func fromElsewhere(history []cadence.Slot) []cadence.Slot {
	seen := slices.Clone(history)
	for i := range seen {
		seen[i].Elsewhere = !seen[i].Elsewhere
	}
	return seen
}

// Decide returns the earliest minute at which broken finds no broken limit.
func TestEarliest(t *testing.T) {
	t.Parallel()
	locations := zones(t)
	rapid.Check(t, func(t *rapid.T) {
		policy, loc := policies.Draw(t, "policy"), locations[zoneNames.Draw(t, "zone")]
		policy.MaxPerMonth = 0 // keeps the walk short
		if policy.MaxPerSlot > 0 {
			policy.Cooldown = max(policy.Cooldown, time.Minute) // a full slot moves by the cooldown, else by a microsecond
		}
		now := starts.Draw(t, "start")
		until := now.Add(4 * 24 * time.Hour)
		var history []cadence.Slot
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			at := now.Add(time.Duration(rapid.IntRange(-24*60, 48*60).Draw(t, "minute")) * time.Minute)
			typ := types.Draw(t, "type")
			if rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0 {
				s := cadence.Slot{At: at, Type: typ, N: 1, Elsewhere: true}
				if broken(policy, append(history[:len(history):len(history)], s), loc) == "" {
					history = append(history, s)
				}
			} else if v := cadence.Decide(policy, history, loc, at, until, cadence.Message{Type: typ}); v.Reason != reason.DeferredTooLong {
				history = append(history, cadence.Slot{At: v.At, Type: typ, N: 1})
			}
		}
		m := cadence.Message{Type: types.Draw(t, "asked type"), Window: spans.Draw(t, "window")}
		typ := m.Type
		got := cadence.Decide(policy, history, loc, now, until, m)
		for at := now; !at.After(until); at = at.Add(time.Minute) {
			if !m.Window.IsZero() && !quiet(m.Window.String(), at.In(loc).Format("15:04")) {
				continue
			}
			if broken(policy, append(history[:len(history):len(history)], cadence.Slot{At: at, Type: typ, N: 1}), loc) != "" {
				continue
			}
			if !got.At.Equal(at) {
				t.Fatalf("%+v in %v, %v: got %+v, want %v", policy, loc, history, got, at)
			}
			return
		}
		if got.Reason != reason.DeferredTooLong {
			t.Fatalf("%+v in %v, %v: got %+v, want none", policy, loc, history, got)
		}
	})
}

// Slots before Floor do not change a decision.
func TestFloorIsEnough(t *testing.T) {
	t.Parallel()
	locations := zones(t)
	rapid.Check(t, func(t *rapid.T) {
		policy, loc := policies.Draw(t, "policy"), locations[zoneNames.Draw(t, "zone")]
		now := starts.Draw(t, "start")
		floor := cadence.Floor(policy, loc, now)
		var all, since []cadence.Slot
		for range rapid.IntRange(0, 30).Draw(t, "messages") {
			at := now.Add(time.Duration(rapid.IntRange(-40*24*60, 0).Draw(t, "minute")) * time.Minute)
			s := cadence.Slot{At: at, Type: types.Draw(t, "type"), N: 1, Elsewhere: rapid.IntRange(0, 2).Draw(t, "elsewhere") == 0}
			all = append(all, s)
			if !at.Before(floor) {
				since = append(since, s)
			}
		}
		until := now.Add(90 * 24 * time.Hour)
		want, got := cadence.Decide(policy, all, loc, now, until, cadence.Message{Type: "alert"}), cadence.Decide(policy, since, loc, now, until, cadence.Message{Type: "alert"})
		if got != want {
			t.Fatalf("since %v: got %+v, want %+v", floor, got, want)
		}
	})
}

// The days of broken are those of the calendar. This would fail for a zone that repeats the end of a day.
func TestJudgeAgreesOnDays(t *testing.T) {
	t.Parallel()
	for name, loc := range zones(t) {
		for _, start := range []string{"2011-12-28T20:00:00Z", "2018-11-02T20:00:00Z", "2026-03-27T09:00:00Z", "2026-10-23T09:00:00Z", "2026-03-06T20:00:00Z"} {
			at := instant(t, start)
			for range 12 {
				_, end := civil.DayBounds(at, loc)
				if before, after := end.Add(-1).In(loc).YearDay(), end.In(loc).YearDay(); before == after {
					t.Errorf("%s: %v is no boundary", name, end.In(loc))
				}
				at = end
			}
		}
	}
}
