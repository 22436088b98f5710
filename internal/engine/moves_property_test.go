package engine_test

import (
	"context"
	"encoding/json"
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
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// mover is a gauntlet in which something may happen while a message is in flight.
type mover struct {
	*gauntlet
	during func()
}

func (m *mover) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	if f := m.during; f != nil {
		m.during = nil
		f()
	}
	return m.gauntlet.Send(ctx, out)
}

// A contact moves to other zones, on days on which the clocks change or a date is left out, and claims the address to which earlier messages were
// sent; also while a message is in flight, a provider is away or the process is down. From then on, by the provider's log and the clocks of their
// zone, no limit is exceeded, nothing waits longer than the log and the slots of other messages explain, and nothing is lost.
//
// Shows: A31, A32, A33, A34, A39, R5, R20.
func TestLimitsHoldForContactsWhoMoveAndAreMerged(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	judged, explained, moves, merges, wire := 0, 0, 0, 0, 0
	enough := storetest.MoreLives(8) // of weeks
	tried := func() bool { return judged > 0 && explained > 0 && moves > 0 && merges > 0 && wire > 0 }
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		if enough() && tried() { // a few lives more where chance withheld one
			return
		}
		g := &gauntlet{seen: map[string]bool{}}
		mv := &mover{gauntlet: g}
		var die string
		var back time.Time
		policy := drawPolicy(t)
		policy.Count = rapid.SampledFrom([]cadence.Count{"", "", cadence.CountSent}).Draw(t, "count")
		policy.ResumeAt = civil.TimeOfDay(3600 * rapid.SampledFrom([]int{0, 0, 8}).Draw(t, "resume"))
		own := (cadence.Rules{Policy: policy}).JSON()
		if own == "" {
			own = "{max_per_day: 0}"
		}
		zones := []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Santiago", "Pacific/Honolulu", "Pacific/Kiritimati"}
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		loc := time.UTC
		load := func() {
			var err error
			if loc, err = civil.LoadZone(zone); err != nil {
				t.Fatal(err)
			}
		}
		load()
		home := loc
		defs := "workspace: default\ntimezone: " + zone + "\ncadence: " + own + "\n---\n" + limited("{}", "retry: {backoff: [5m, 20m, 1h, 4h]}\n") + byEmail
		g.world = world{enginetest.Setup(outer, storetest.Memory(outer), defs, func(c *engine.Config) {
			for i := range c.Providers {
				c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return mv, nil }
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
		start := rapid.SampledFrom([]time.Time{
			ten, time.Date(2026, 3, 27, 9, 0, 0, 0, time.UTC), time.Date(2026, 10, 23, 9, 0, 0, 0, time.UTC), time.Date(2026, 10, 2, 9, 0, 0, 0, time.UTC),
			time.Date(2026, 4, 3, 9, 0, 0, 0, time.UTC), time.Date(2011, 12, 28, 20, 0, 0, 0, time.UTC), time.Date(2026, 9, 4, 12, 0, 0, 0, time.UTC),
		}).Draw(t, "start")
		g.Clock.Set(start)
		merged := false
		write := func() {
			inbox := "ann2"
			if merged {
				inbox = "ann"
			}
			personWith(g.world, "ann", fmt.Sprintf(`{"timezone": %q, "addresses": {"email": "ann@example.org", "inbox": %q}}`, zone, inbox))
		}
		write()
		ids := engine.PublicIDs(g.Workspace)
		rows := func() []delivery.Row {
			rows, err := g.Store.Deliveries(g.Context(), g.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 200})
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		unknownOutcome := func(row delivery.Row) bool {
			return slices.ContainsFunc(g.Attempts(row.ID), func(a delivery.Attempt) bool { return a.Outcome == delivery.AttemptUnknown })
		}
		ann, _, err := g.Store.ContactByExtID(g.Context(), g.Workspace.ID, "ann")
		if err != nil {
			t.Fatal(err)
		}
		look := func(of delivery.ID, now time.Time) (same, all places, anns bool) {
			list := rows()
			i := slices.IndexFunc(list, func(r delivery.Row) bool { return r.ID == of })
			if i < 0 {
				t.Fatal("no row")
			}
			me := list[i]
			for _, row := range list {
				if row.Contact != me.Contact {
					continue
				}
				wire := slices.ContainsFunc(g.Attempts(row.ID), func(a delivery.Attempt) bool { return a.IntentAt.Equal(now) })
				wire = wire || row.Slot.Equal(now)
				left := !row.LastSentAt.IsZero() || row.OutcomeUnknown() || !row.IntentAt.IsZero() || unknownOutcome(row) || wire
				add := func(p *places) {
					switch {
					case row.ID != of && wire && row.Slot.IsZero():
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
				add(&all)
				if row.Channel == me.Channel {
					add(&same)
				}
			}
			return same, all, me.Contact == ann.ID
		}
		explain := func(same, all places, anns bool, at time.Time) string {
			loc := loc
			if !anns {
				loc = home
			}
			p := policy
			p.Total = cadence.Total{}
			if why := same.explain(p, at, loc); why != "" {
				return why
			}
			tot := cadence.Policy{Total: policy.Total, Count: policy.Count, Rolling: policy.Rolling}
			if why := all.explain(tot, at, loc); why != "" {
				return why + " in total"
			}
			if policy.ResumeAt != 0 { // it may wait for the morning
				return "resume"
			}
			return ""
		}
		dirty := false // the journal has entries of before and after
		type sent struct {
			loc *time.Location
			at  time.Time
		}
		var logs []sent
		judge := func() {
			for len(logs) < len(g.log) {
				logs = append(logs, sent{loc: loc})
			}
			for _, e := range g.Journal() {
				limit := slices.Contains([]reason.Reason{
					reason.CadenceCooldown, reason.CadenceDaily, reason.CadenceWeekly, reason.CadenceMonthly, reason.CadenceTypeDaily, reason.QuietHours,
				}, e.Reason)
				if dirty || !limit || e.What != journal.Deferred && e.What != journal.Failed {
					continue
				}
				until := e.Until
				if e.What == journal.Failed {
					until = e.At.Add(time.Microsecond)
				}
				same, all, anns := look(e.Delivery, e.At)
				explained++
				const points = 7
				for k := range points {
					at := e.At.Add(until.Sub(e.At) / points * time.Duration(k))
					if explain(same, all, anns, at) == "" {
						t.Fatalf("%+v in %s: %s %s (%s) at %s until %s, and might have left at %s: %+v all %+v", policy, zone, e.Key, e.What, e.Reason, e.At, e.Until, at, same, all)
					}
				}
			}
		}
		live := func(until time.Time) {
			g.liveTo(t, until, func() {
				judge()
				dirty = false
			})
		}
		var movedAt []time.Time
		move := func() {
			moves++
			dirty = true
			zone = rapid.SampledFrom(zones).Draw(t, "next zone")
			load()
			movedAt = append(movedAt, g.Clock.Now())
			write()
		}
		var mergedAt time.Time
		merge := func() {
			if merged {
				return
			}
			merges++
			dirty = true
			merged, mergedAt = true, g.Clock.Now()
			write()
		}
		n := 0
		for range rapid.IntRange(2, 9).Draw(t, "moments") {
			pass := time.Duration(rapid.SampledFrom([]int{0, 1, 4, 20, 45, 130, 900}).Draw(t, "wait")) * time.Minute
			if rapid.IntRange(0, 3).Draw(t, "stopped") == 0 {
				g.Clock.Set(g.Clock.Now().Add(pass))
			} else {
				live(g.Clock.Now().Add(pass))
			}
			kind := "news"
			switch rapid.IntRange(0, 10).Draw(t, "event") {
			case 0:
				die = rapid.SampledFrom([]string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult}).Draw(t, "dies")
			case 1, 2:
				for range rapid.IntRange(1, 4).Draw(t, "refused") {
					g.orders = append(g.orders, channel.Temporary(errors.New("not now")))
				}
			case 3:
				g.orders = append(g.orders, &channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
			case 4:
				back = g.Clock.Now().Add(time.Duration(rapid.SampledFrom([]int{1, 10, 60, 200}).Draw(t, "away")) * time.Minute)
			case 5:
				kind = "siren"
			case 6:
				kind = "letter"
			case 7:
				move()
			case 8:
				merge()
			case 9:
				wire++
				if rapid.Bool().Draw(t, "moves") {
					mv.during = move
				} else {
					mv.during = merge
				}
			}
			for range rapid.IntRange(1, 3).Draw(t, "messages") {
				to := `"customer_ref": "ann"`
				if kind != "letter" && rapid.Bool().Draw(t, "by address") {
					to = `"address": "ann"`
				}
				g.Post(fmt.Sprintf(`{"kind": %q, "id": "%d", "recipient": {%s}}`, kind, n, to))
				n++
				judge()
			}
		}
		if rapid.Bool().Draw(t, "merge in the end") {
			merge()
		}
		live(g.Clock.Now().Add(45 * 24 * time.Hour))
		byID := map[string]delivery.Row{}
		list := rows()
		if len(list) != n {
			t.Fatalf("%d rows of %d", len(list), n)
		}
		for _, row := range list {
			byID[ids.Encode(key.KindDelivery, int64(row.Workspace), int64(row.ID))] = row
			if !row.Status.Final() && row.Status != delivery.Sent {
				t.Fatalf("left behind: %+v", row)
			}
		}
		for i := range g.log {
			logs[i].at = g.log[i].at
			if m, row := &g.log[i], byID[g.log[i].delivery]; !row.Slot.After(m.at) && (m.at.Sub(row.Slot) <= policy.Grace() || unknownOutcome(row)) {
				m.at = row.Slot
			}
		}
		for i, m := range g.log {
			crossed := slices.ContainsFunc(movedAt, func(at time.Time) bool { return !logs[i].at.Before(at) && !m.at.After(at) })
			if m.critical || crossed || !merged || !m.at.After(mergedAt) {
				continue
			}
			judged++
			if limit := over(policy, g.log[:i], m, logs[i].loc); limit != "" {
				t.Fatalf("%+v in %s: message %d breaks %s (merged %s moved %v): %v", policy, logs[i].loc, i, limit, mergedAt, movedAt, g.log)
			}
		}
	})
	if !tried() {
		t.Errorf("%d judged, %d explained, %d moves, %d merges, %d in flight: not everything was tried", judged, explained, moves, merges, wire)
	}
}

// personWith writes a contact with addresses of the test's own.
func personWith(w world, name, body string) {
	w.Helper()
	item := contact.Parse(json.RawMessage(body), name)
	results, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		w.Fatalf("%s: %v, %v", name, err, results)
	}
}
