package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// places are the instants at which other messages of a contact count: left for messages that left or may have left, waits for those that wait in a
// slot that has not passed, over for those that wait in one that has.
type places struct{ left, waits, over []time.Time }

// explain returns a limit that may keep a message from leaving at an instant, by the provider's log and the waiting messages. It shares no code with
// Decide, and is less strict: windows of fixed length may lie on either side of the instant.
func (p places) explain(policy cadence.Policy, at time.Time, loc *time.Location) string {
	// Even if only sent messages count, a message with a slot of the last minute may have been in flight at that instant, and been requeued by a
	// breaker before its request: no attempt shows it.
	binding := slices.Concat(p.left, p.waits)
	counted := slices.Concat(binding, p.over)
	if policy.Count == cadence.CountSent {
		counted = binding
	}
	count := func(of []time.Time, in func(time.Time) bool) (n int) {
		for _, t := range of {
			if in(t) {
				n++
			}
		}
		return n
	}
	window := func(limit int, length time.Duration, name string) bool {
		return limit > 0 && limit <= count(counted, func(t time.Time) bool {
			if policy.Rolling {
				return t.Sub(at).Abs() < length
			}
			week := func(t time.Time) string { y, w := t.In(loc).ISOWeek(); return fmt.Sprint(y, w) }
			if name == "" {
				return week(t) == week(at)
			}
			return t.In(loc).Format(name) == at.In(loc).Format(name)
		})
	}
	clock, from, to := at.In(loc).Format("15:04"), policy.Quiet.From.String(), policy.Quiet.To.String()
	switch {
	case count(binding, func(t time.Time) bool { return !t.Equal(at) && t.Sub(at).Abs() < policy.Cooldown }) > 0:
		return "cooldown"
	case policy.MaxPerSlot > 0 && count(binding, at.Equal) >= policy.MaxPerSlot:
		return "slot"
	case window(policy.TypeLimits["alert"], 24*time.Hour, time.DateOnly), window(policy.MaxPerDay, 24*time.Hour, time.DateOnly),
		window(policy.Total.MaxPerDay, 24*time.Hour, time.DateOnly): // all its messages go by one kind of channel
		return "day"
	case window(policy.MaxPerWeek, 7*24*time.Hour, ""), window(policy.Total.MaxPerWeek, 7*24*time.Hour, ""):
		return "week"
	case window(policy.MaxPerMonth, 30*24*time.Hour, "2006-01"), window(policy.Total.MaxPerMonth, 30*24*time.Hour, "2006-01"):
		return "month"
	case !policy.Quiet.IsZero() && (clock >= from || clock < to):
		return "quiet"
	}
	return ""
}

// Through refusals, outages, lost replies and stops of the process, by the provider's log, no limit is exceeded, and nothing waits or fails longer
// than the log and the slots of other messages explain.
//
// Shows: A31, A32, A33, A34, A39.
func TestNothingWaitsForWhatNobodySent(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	judged, explained, refused, outages, stops, failed := 0, 0, 0, 0, 0, 0
	enough := storetest.MoreLives(20) // of weeks
	tried := func() bool {
		return judged > 0 && explained > 0 && refused > 0 && outages > 0 && stops > 0 && failed > 0
	}
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		if enough() && tried() { // a few lives more where chance withheld one
			return
		}
		g := &gauntlet{seen: map[string]bool{}}
		var die string
		var back time.Time // until then the provider is away
		rest := rapid.SampledFrom([]string{"", "", "limits: {at_send: fail}\n"}).Draw(t, "at send")
		g.world = world{enginetest.Setup(outer, storetest.Memory(outer), limited("{}", "retry: {backoff: [5m, 20m, 1h, 4h]}\n"+rest), func(c *engine.Config) {
			for i := range c.Providers {
				c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return g, nil }
			}
			c.Failpoint = func(point string) error {
				if point == die {
					die = ""
					return errDied
				}
				return nil
			}
		})}
		g.away = func() bool { return g.Clock.Now().Before(back) }
		g.Clock.Set(ten)
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/St_Johns"}).Draw(t, "zone")
		loc, err := civil.LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		policy := drawPolicy(t)
		policy.Count = rapid.SampledFrom([]cadence.Count{"", "", cadence.CountSent}).Draw(t, "count")
		own := (cadence.Rules{Policy: policy}).JSON()
		if own == "" {
			own = "null"
		}
		g.person("ann", fmt.Sprintf(`"timezone": %q, "cadence": %s`, zone, own))
		ids := engine.PublicIDs(g.Workspace)
		rows := func() []delivery.Row {
			rows, err := g.Store.Deliveries(g.Context(), g.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		unknownOutcome := func(row delivery.Row) bool {
			return slices.ContainsFunc(g.Attempts(row.ID), func(a delivery.Attempt) bool { return a.Outcome == delivery.AttemptUnknown })
		}
		look := func(of delivery.ID, now time.Time) (p places) {
			for _, row := range rows() {
				wire := slices.ContainsFunc(g.Attempts(row.ID), func(a delivery.Attempt) bool { return a.IntentAt.Equal(now) })
				wire = wire || row.Slot.Equal(now) // or it was in flight, and its channel rests
				left := !row.LastSentAt.IsZero() || row.OutcomeUnknown() || !row.IntentAt.IsZero() || unknownOutcome(row) || wire
				switch {
				case row.ID != of && wire && row.Slot.IsZero(): // its last try has failed since
					p.left = append(p.left, now)
				case row.ID == of, row.Slot.IsZero():
				case left:
					p.left = append(p.left, row.Slot)
				case now.Sub(row.Slot) <= policy.Grace():
					p.waits = append(p.waits, row.Slot)
				default:
					p.over = append(p.over, row.Slot)
				}
			}
			return p
		}
		judge := func() {
			for _, e := range g.Journal() {
				limit := slices.Contains([]reason.Reason{
					reason.CadenceCooldown, reason.CadenceDaily, reason.CadenceWeekly, reason.CadenceMonthly, reason.CadenceTypeDaily, reason.QuietHours,
				}, e.Reason)
				if !limit || e.What != journal.Deferred && e.What != journal.Failed {
					continue
				}
				until := e.Until
				if e.What == journal.Failed {
					failed++
					until = e.At.Add(time.Microsecond)
				}
				p := look(e.Delivery, e.At)
				explained++
				const points = 7
				for k := range points {
					at := e.At.Add(until.Sub(e.At) / points * time.Duration(k))
					if p.explain(policy, at, loc) == "" {
						t.Fatalf("%+v in %s: %s %s at %s until %s, and might have left at %s: %+v", policy, zone, e.Key, e.What, e.At, e.Until, at, p)
					}
				}
			}
		}
		live := func(until time.Time) { g.liveTo(t, until, judge) }
		n := 0
		for range rapid.IntRange(2, 8).Draw(t, "moments") {
			pass := time.Duration(rapid.SampledFrom([]int{0, 1, 4, 20, 45, 130, 900}).Draw(t, "wait")) * time.Minute
			if rapid.IntRange(0, 3).Draw(t, "stopped") == 0 {
				stops++
				g.Clock.Set(g.Clock.Now().Add(pass))
			} else {
				live(g.Clock.Now().Add(pass))
			}
			kind := "news"
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0:
				die = rapid.SampledFrom([]string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult}).Draw(t, "dies")
			case 1, 2, 3:
				for range rapid.IntRange(1, 4).Draw(t, "refused") {
					refused++
					g.orders = append(g.orders, channel.Temporary(errors.New("not now")))
				}
			case 4:
				g.orders = append(g.orders, &channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
			case 5:
				outages++
				back = g.Clock.Now().Add(time.Duration(rapid.SampledFrom([]int{1, 10, 60, 200}).Draw(t, "away")) * time.Minute)
			case 6:
				kind = "siren"
			}
			for range rapid.IntRange(1, 3).Draw(t, "messages") {
				g.Post(fmt.Sprintf(`{"kind": %q, "id": "%d", "recipient": {"address": "ann", "customer_ref": "ann"}}`, kind, n))
				n++
				judge()
			}
		}
		live(g.Clock.Now().Add(45 * 24 * time.Hour))
		byID := map[string]delivery.Row{}
		for _, row := range rows() {
			byID[ids.Encode(key.KindDelivery, int64(row.Workspace), int64(row.ID))] = row
			if !row.Status.Final() && row.Status != delivery.Sent {
				t.Fatalf("left behind: %+v", row)
			}
		}
		for i := range g.log {
			if m, row := &g.log[i], byID[g.log[i].delivery]; !row.Slot.After(m.at) && (m.at.Sub(row.Slot) <= policy.Grace() || unknownOutcome(row)) {
				m.at = row.Slot
			}
		}
		for i, m := range g.log {
			if m.critical {
				continue
			}
			judged++
			if limit := over(policy, g.log[:i], m, loc); limit != "" {
				t.Fatalf("%+v in %s: message %d breaks %s: %v", policy, zone, i, limit, g.log)
			}
		}
	})
	if !tried() {
		t.Errorf("%d judged, %d explained, %d refused, %d outages, %d stops, %d failed: not everything was tried", judged, explained, refused, outages, stops, failed)
	}
}
