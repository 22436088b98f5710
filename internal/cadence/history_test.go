package cadence_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

// A History that is used for many decisions, while slots are added and removed, decides as a new one does.
//
// Shows: A31, A32, A33, A34, A36, A38.
func TestHistoryAgrees(t *testing.T) {
	t.Parallel()
	locations := zones(t)
	var far int
	rapid.Check(t, func(t *rapid.T) {
		loc, start := locations[zoneNames.Draw(t, "zone")], starts.Draw(t, "start")
		// Not a slice of the generator: that writes into it, and tests beside this one draw from it.
		list := []cadence.Policy{policies.Draw(t, "policy")}
		if rapid.Bool().Draw(t, "two") {
			list = append(list, policies.Draw(t, "second policy"))
		}
		for i := range list {
			p := &list[i]
			p.ResumeAt = civil.TimeOfDay(3600 * rapid.SampledFrom([]int{0, 0, 0, 2, 8, 23}).Draw(t, "resume"))
			p.Cooldown *= rapid.SampledFrom([]time.Duration{0, 1, 1, 1, 10}).Draw(t, "times") // up to two days
			if rapid.IntRange(0, 4).Draw(t, "sent only") == 0 {
				p.Count = cadence.CountSent
			}
			if rapid.IntRange(0, 2).Draw(t, "resumed") == 0 { // full days in a row, and what ends in the mornings between them
				*p = cadence.Policy{
					MaxPerDay: rapid.IntRange(1, 2).Draw(t, "a day"), ResumeAt: civil.TimeOfDay(3600 * rapid.IntRange(6, 20).Draw(t, "resumes")),
					Cooldown: time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour, TypeLimits: map[string]int{"alert": 1},
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "total of what was sent") == 0 {
				p.Total.Count = cadence.CountSent
			}
			if p.MaxPerSlot > 0 && p.Cooldown == 0 {
				p.Cooldown = time.Minute // a full slot moves by the cooldown, else by a microsecond
			}
		}
		if rapid.IntRange(0, 2).Draw(t, "the same but for the total") == 0 {
			other := list[0]
			other.Total = totals.Draw(t, "another total")
			list = append(list, other)
		}
		kolkata, apia := locations["Asia/Kolkata"], locations["Pacific/Apia"]
		own := []cadence.Message{{}, {}, {At: ownTimes.Draw(t, "own")}, {At: 9 * 3600, Zone: kolkata}, {At: 22 * 3600, Zone: apia}}
		windows := []civil.Span{{}, {}, spans.Draw(t, "window")}
		var slots []cadence.Slot
		h := cadence.NewHistory(nil)
		now := start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			slot := cadence.Slot{Type: types.Draw(t, "type"), N: 1}
			if rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0 {
				now = start.Add(time.Duration(rapid.IntRange(0, 4*24*60).Draw(t, "minute")) * time.Minute)
			}
			policy, m := rapid.SampledFrom(list).Draw(t, "policy"), rapid.SampledFrom(own).Draw(t, "its own time")
			m.Type, m.Window = slot.Type, rapid.SampledFrom(windows).Draw(t, "its window")
			until := now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "days")) * 24 * time.Hour)
			ask := func(slots []cadence.Slot) cadence.Verdict {
				got, want := h.Decide(policy, loc, now, until, m), oracle(policy, slots, loc, now, until, m)
				if (got.Last == "") != (want.Reason == "" || want.At.IsZero()) {
					t.Fatalf("%+v names no last limit", got)
				}
				if got.Last = ""; got != want {
					t.Fatalf("%+v, %+v in %v at %v upon %v: %+v, want %+v", policy, m, loc, now, slots, got, want)
				}
				return want
			}
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				if len(slots) > 0 {
					i := rapid.IntRange(0, len(slots)-1).Draw(t, "given up")
					h.Remove(slots[i])
					slots = without(slots, slots[i])
				}
			case 1:
				if len(slots) > 0 {
					i := rapid.IntRange(0, len(slots)-1).Draw(t, "as good as free")
					h.Without(slots[i:i+1], func() { ask(without(slots, slots[i])) })
				}
			default:
				v := ask(slots)
				if v.At.IsZero() {
					continue
				}
				if v.At.Sub(now) > 5*24*time.Hour {
					far++
				}
				slot.At, slot.Sent = v.At, v.At.Before(start.Add(24*time.Hour))
				slot.Passed = !slot.Sent && slot.At.Unix()/60%4 == 0 // the same for all slots of an instant
				slot.Elsewhere = rapid.IntRange(0, 3).Draw(t, "on another kind") == 0
				h.Add(slot)
				slots = append(slots, slot)
			}
		}
	})
	if far < 100 {
		t.Errorf("only %d messages were put off for long: trails were not tried", far)
	}
}

// without returns a copy without one slot of that instant and type. A slot that waits is removed before one that was sent.
func without(slots []cadence.Slot, one cadence.Slot) []cadence.Slot {
	i := slices.IndexFunc(slots, func(s cadence.Slot) bool {
		return s.At.Equal(one.At) && s.Type == one.Type && s.Elsewhere == one.Elsewhere && !s.Sent
	})
	if i < 0 {
		i = slices.Index(slots, one)
	}
	return slices.Delete(slices.Clone(slots), i, i+1)
}

// After the first decision with a history, a decision about a person with thousands of waiting messages costs about as much as one about
// a person without any.
func BenchmarkHistory(b *testing.B) {
	loc, now := zone(b, "Europe/Paris"), instant(b, "2026-05-14T10:00:00Z")
	until := now.AddDate(90, 0, 0)
	for _, c := range []struct {
		name   string
		policy cadence.Policy
	}{
		{"calendar", cadence.Policy{Cooldown: time.Hour, MaxPerDay: 5, MaxPerWeek: 25, MaxPerMonth: 100, TypeLimits: map[string]int{"alert": 5}}},
		{"resumed", cadence.Policy{Cooldown: time.Hour, MaxPerDay: 5, ResumeAt: 8 * 3600}},
		{"rolling", cadence.Policy{Cooldown: time.Minute, MaxPerDay: 50, MaxPerWeek: 250, Rolling: true}},
		{"apart", cadence.Policy{Cooldown: time.Hour, MaxPerSlot: 1, Quiet: civil.Span{From: 20 * 3600, To: 7 * 3600}}},
	} {
		for _, waiting := range []int{0, 1000, 7000, 50_000} {
			b.Run(fmt.Sprintf("%s, %d waiting", c.name, waiting), func(b *testing.B) {
				begin := cadence.NewHistory(nil)
				var slots []cadence.Slot
				for range waiting {
					s := cadence.Slot{At: begin.Decide(c.policy, loc, now, until, cadence.Message{Type: "alert"}).At, Type: "alert", N: 1}
					begin.Add(s)
					slots = append(slots, s)
				}
				b.ReportAllocs()
				for b.Loop() { // a batch of a thousand
					h := cadence.NewHistory(slots)
					for range 1000 {
						v := h.Decide(c.policy, loc, now, until, cadence.Message{Type: "alert"})
						h.Blocks(c.policy, loc, now, cadence.Message{Type: "alert"})
						h.Add(cadence.Slot{At: v.At, Type: "alert", N: 1})
					}
				}
			})
		}
	}
}
