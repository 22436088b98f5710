package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// quiet is an alert with a cooldown of a day to contacts with quiet hours until noon.
func quiet(trigger string) string {
	return strings.Replace(simple("[change]", trigger, ""), "{max_per_month: 10000}", `{quiet_hours: "10:30-12:00"}`, 1)
}

func (w world) morale(name string, morale int) {
	w.Helper()
	w.put(name, fmt.Sprintf(`{"name": "T", "morale": %d, "owner_id": "alice"}`, morale))
}

func (w world) suppress(name string, on bool) {
	w.Helper()
	if _, err := w.Contacts().Stop(w.Context(), w.Workspace, contact.Suppression{Contact: name, Suppress: on, Reason: "asked", Actor: "test"}, w.Clock.Now(), nil); err != nil {
		w.Fatal(err)
	}
}

// newest returns the latest delivery.
func (w world) newest() delivery.Row {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1})
	if err != nil || len(rows) == 0 {
		w.Fatalf("%v, %v", rows, err)
	}
	return rows[0]
}

// A cooldown counts from an alert of which somebody was notified. Whatever ends an undelivered alert refunds its cooldown, and an alert that still
// holds is sent.
//
// Shows: A19, A20, A22, A23.
func TestTheCooldownOfAnUndeliveredAlertIsRefunded(t *testing.T) {
	t.Parallel()
	permanent := channel.Permanent(errors.New("no such mailbox"))
	for _, tt := range []struct {
		name, trigger string
		people        string
		run           func(w world)
		want          []string
	}{
		{"over before it left, and met again", "    cooldown: {length: 1d}\n    limits: {revalidate: true}\n", "alice", func(w world) {
			w.live("10:40")
			w.morale("team/1", 40)
			w.live("11:00")
			w.morale("team/1", 90)
			w.live("11:20")
			w.morale("team/1", 30)
			w.live("12:30")
			w.morale("team/1", 20)
			w.live("13:00")
		}, []string{
			"10:40 created t:1", "11:00 skipped t:1 alice condition_cleared", "11:00 returned t:1 nobody_notified",
			"11:20 created t:1", "12:00 sent t:1 alice delivered", "12:30 throttled t:1 throttled",
		}},
		{"an issue of its own, with a cooldown of its own", "    cooldown: {length: 1d, issues: {A: 4h}}\n    limits: {revalidate: true}\n    issues: {A: record.a == true, B: record.b == true}\n", "alice", func(w world) {
			w.live("10:40")
			w.put("team/1", `{"name": "T", "morale": 1, "owner_id": "alice", "a": true, "b": true}`)
			w.live("10:50")
			w.put("team/1", `{"a": false}`)
			w.live("11:00")
			w.put("team/1", `{"a": true, "b": false}`)
			w.live("11:20")
			w.put("team/1", `{"a": false, "b": true}`) // it was dropped at eleven, so nobody was notified of it alone
			w.live("13:00")
		}, []string{
			"10:40 created t:1:A,B", "10:50 created t:1:B", "11:00 skipped t:1:B alice condition_cleared", "11:00 created t:1:A", "11:00 returned t:1:B nobody_notified",
			"11:20 skipped t:1:A alice condition_cleared", "11:20 created t:1:B", "11:20 returned t:1:A nobody_notified",
			"12:00 sent t:1:A,B alice delivered", "12:00 sent t:1:B alice delivered",
		}},
		{"a cooldown that ends with its condition", "    cooldown: {length: 1d, reset_on_clear: true}\n    limits: {revalidate: true}\n", "alice", func(w world) {
			w.live("10:40")
			w.morale("team/1", 40)
			w.live("11:00")
			w.morale("team/1", 90)
			w.live("11:20")
			w.morale("team/1", 30)
			w.live("13:00")
		}, []string{"10:40 created t:1", "11:00 skipped t:1 alice condition_cleared", "11:20 created t:1", "12:00 sent t:1 alice delivered"}},
		{"its only reader stops, and comes back", "    cooldown: {length: 1d}\n", "alice", func(w world) {
			w.live("10:40")
			w.morale("team/1", 40)
			w.live("11:00")
			w.suppress("alice", true)
			w.live("11:07")
			w.suppress("alice", false)
			w.live("13:00")
		}, []string{
			"10:40 created t:1", "11:00 cancelled t:1 alice suppressed", "11:00 returned t:1 nobody_notified",
			"11:00 skipped t:1 no_recipient", "11:05 skipped t:1 no_recipient", "11:10 created t:1", "12:00 sent t:1 alice delivered",
		}},
		{"one of two readers stops", "    cooldown: {length: 1d}\n", "alice bob", func(w world) {
			w.live("10:40")
			w.put("team/1", `{"name": "T", "morale": 40, "owner_id": ["alice", "bob"]}`)
			w.live("11:00")
			w.suppress("alice", true)
			w.live("13:00")
		}, []string{"10:40 created t:1", "11:00 cancelled t:1 alice suppressed", "12:00 sent t:1 bob delivered"}},
		{"it cannot be written, until the record is corrected", "    cooldown: {length: 1d}\n", "alice", func(w world) {
			w.put("team/1", `{"morale": 40, "owner_id": "alice"}`)
			w.live("10:10")
			w.put("team/1", `{"morale": 30}`)
			w.live("12:10") // it failed at ten and, quiet hours over, at noon
			w.put("team/1", `{"name": "T"}`)
			w.live("14:00")
		}, []string{
			"10:00 created t:1", "10:00 failed t:1 alice cannot_render", "10:00 returned t:1 nobody_notified", "10:10 throttled t:1 throttled",
			"11:00 created t:1", "12:00 failed t:1 alice cannot_render", "12:00 returned t:1 nobody_notified", "12:10 throttled t:1 throttled",
			"13:00 created t:1", "13:00 sent t:1 alice delivered",
		}},
		{"its channel refuses it for good", "    cooldown: {length: 1d}\n", "alice", func(w world) {
			w.Provider.Next(permanent, permanent)
			w.morale("team/1", 40)
			w.live("14:00")
		}, []string{
			"10:00 created t:1", "10:00 failed t:1 alice permanent_error", "10:00 returned t:1 nobody_notified",
			"11:00 created t:1", "12:00 failed t:1 alice permanent_error", "12:00 returned t:1 nobody_notified",
			"13:00 created t:1", "13:00 sent t:1 alice delivered",
		}},
		{"a cooldown that is shorter stays", "    cooldown: {length: 20m}\n", "alice", func(w world) {
			w.Provider.Next(permanent)
			w.morale("team/1", 40)
			w.live("10:25")
		}, []string{
			"10:00 created t:1", "10:00 failed t:1 alice permanent_error", "10:00 returned t:1 nobody_notified", "10:20 created t:1", "10:20 sent t:1 alice delivered",
		}},
		{"it is tried again by hand meanwhile, and arrives", "    cooldown: {length: 1d}\n", "alice", func(w world) {
			w.Provider.Next(permanent)
			w.morale("team/1", 40)
			w.live("10:10")
			if _, err := w.operator().RetryDelivery(w.Context(), w.Workspace.ID, w.newest().ID, "test", w.Clock.Now()); err != nil {
				w.Fatal(err)
			}
			w.live("14:00")
		}, []string{
			"10:00 created t:1", "10:00 failed t:1 alice permanent_error", "10:00 returned t:1 nobody_notified", "10:10 created t:1 resent_by_operator", "10:10 sent t:1 alice delivered", "11:00 throttled t:1 throttled",
		}},
		{"a person ends it", "    cooldown: {length: 1d}\n", "alice", func(w world) {
			w.live("10:40")
			w.morale("team/1", 40)
			w.live("11:00")
			if _, err := w.operator().CancelDelivery(w.Context(), w.Workspace.ID, w.newest().ID, "test", w.Clock.Now()); err != nil {
				w.Fatal(err)
			}
			w.morale("team/1", 30)
			w.live("14:00")
		}, []string{"10:40 created t:1", "11:00 cancelled t:1 alice cancelled_by_operator", "11:00 throttled t:1 throttled"}},
		{"it may have arrived", "    cooldown: {length: 1d}\n    timing: {expire_after: 2h}\n", "alice", func(w world) {
			w.Provider.Next(&channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")}, permanent)
			w.morale("team/1", 40)
			w.live("14:00")
		}, []string{"10:00 created t:1", "10:05 failed t:1 alice earlier_unknown", "12:05 expired t:1 alice never_settled"}},
		{"others wait for the same cooldown", "    cooldown: {length: 1d, per: []}\n    limits: {revalidate: true}\n", "alice", func(w world) {
			w.live("10:40")
			w.morale("team/1", 40)
			w.live("10:50")
			w.morale("team/2", 40)
			w.live("11:00")
			w.morale("team/1", 90)
			w.live("13:00")
		}, []string{
			"10:40 created t", "10:50 throttled t throttled", "11:00 skipped t alice condition_cleared", "11:00 returned t nobody_notified",
			"11:00 created t", "12:00 sent t alice delivered",
		}},
		{"another record was alerted in the same cooldown", "    cooldown: {length: 1d, per: []}\n    limits: {revalidate: true}\n", "alice bob", func(w world) {
			w.live("10:40")
			w.put("team/1", `{"name": "T", "morale": 40, "owner_id": "alice"}`)
			w.put("team/2", `{"name": "T", "morale": 40, "owner_id": "bob"}`)
			w.live("11:00")
			w.morale("team/2", 90)
			w.live("11:30")
			w.morale("team/3", 40)
			w.live("13:00")
		}, []string{"10:40 created t", "10:40 created t", "11:00 skipped t bob condition_cleared", "11:30 throttled t throttled", "12:00 sent t alice delivered"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				defs := quiet(tt.trigger)
				if strings.Contains(tt.trigger, "issues: {A:") && strings.Contains(tt.trigger, "record.a") {
					defs = strings.Replace(defs, "    when: record.morale < 50\n", "", 1)
				}
				w := newWorld(t, s, defs, strings.Fields(tt.people)...)
				tt.run(w)
				w.mustBe("", w.reported(), tt.want)
			})
		})
	}
}

// operator performs the actions of a person at the console.
func (w world) operator() *operator.Operator { return w.Engine.Operator() }

// reported returns what happened to alerts, each with its context.
func (w world) reported() []string {
	w.Helper()
	var list []string
	for _, e := range w.Journal() {
		switch e.What {
		case journal.Created, journal.Returned, journal.Throttled:
		case journal.Sent, journal.Failed, journal.Cancelled, journal.Expired, journal.Unknown, journal.Skipped:
		default:
			continue
		}
		if e.Again && e.What == journal.Throttled {
			continue
		}
		of := e.Context
		if of == "" {
			of = contextOf(e.Key)
		}
		line := e.At.Format("15:04") + " " + string(e.What)
		for _, part := range []string{of, e.Contact, string(e.Reason)} {
			if part != "" {
				line += " " + part
			}
		}
		list = append(list, line)
	}
	return list
}

// contextOf returns the context in the key of a delivery.
func contextOf(key string) string {
	_, after, _ := strings.Cut(key, ":context:")
	if i := strings.LastIndex(after, ":2026"); i >= 0 {
		after = after[:i]
	}
	return after
}

// Whatever happens to alerts, one that still holds is throttled only after somebody was notified, or while they may still be; and nobody is notified
// again within the cooldown.
func TestOnlyAlertsCountAsThrottled(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	outer := t
	enough := storetest.Lives(12) // of hours
	rapid.Check(t, func(t *rapid.T) {
		if enough() {
			return
		}
		cooldown := rapid.SampledFrom([]time.Duration{20 * time.Minute, 90 * time.Minute, 24 * time.Hour}).Draw(t, "cooldown")
		w := newWorld(outer, storetest.Memory(outer), quiet(fmt.Sprintf("    cooldown: {length: %s}\n    limits: {revalidate: true}\n", cooldown)), "alice", "bob")
		var log []journal.Entry
		for m := 1; m < 240; m += rapid.IntRange(1, 30).Draw(t, "minutes") {
			w.live(ten.Add(time.Duration(m) * time.Minute).Format("15:04"))
			who := rapid.SampledFrom([]string{`"alice"`, `"bob"`, `["alice", "bob"]`}).Draw(t, "who")
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); what {
			case 0, 1:
				w.suppress(strings.Trim(strings.Split(who, ",")[0], `["]`), what == 0)
			case 2:
				w.Provider.Next(channel.Permanent(errors.New("no such mailbox")))
			case 3:
				w.Provider.Next(&channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
			default:
				w.put(fmt.Sprint("team/", what%3), fmt.Sprintf(`{"name": "T", "morale": %d, "owner_id": %s}`, rapid.SampledFrom([]int{20, 40, 90}).Draw(t, "morale"), who))
			}
			log = append(log, w.Journal()...)
		}
		w.live("15:00")
		reported := map[string]*heard{} // by context
		of := map[instance.ID]string{}
		all := ""
		for _, e := range append(log, w.Journal()...) {
			all += fmt.Sprintln(e.At.Format("15:04:05"), e.What, e.Context, e.Contact, e.Reason, e.Instance, e.Until.Format("15:04"))
			context := e.Context
			if e.What == journal.Created {
				of[e.Instance] = context
				if f := reported[context]; f != nil && (f.sent || len(f.open) > 0) && e.At.Sub(f.at) < cooldown {
					t.Fatalf("%s: %s fires again %s after its alert", e.At, context, e.At.Sub(f.at))
				}
				reported[context] = &heard{at: e.At, by: e.Instance, open: map[delivery.ID]bool{}}
				continue
			}
			if context == "" {
				context = of[e.Instance]
			}
			f := reported[context]
			if f == nil || e.Delivery != 0 && e.Instance != f.by { // of an earlier one
				continue
			}
			switch e.What {
			case journal.Planned, journal.Deferred:
				f.open[e.Delivery] = true
			case journal.Sent:
				f.sent = true
			case journal.Unknown, journal.Retried:
				f.sent = f.sent || e.Reason == reason.ReplyLost
			case journal.Skipped, journal.Cancelled, journal.Failed:
				delete(f.open, e.Delivery)
				if e.What == journal.Failed {
					f.failed = e.At
				}
			case journal.Throttled:
				if len(f.open) == 0 && !f.sent && (f.failed.IsZero() || !e.At.Before(f.failed.Add(time.Hour))) {
					t.Fatalf("%s: %s is throttled, and nobody was notified of what fired at %s\n%s", e.At, context, f.at, all)
				}
			default:
			}
		}
	})
}

// heard is one alert of a context.
type heard struct {
	at     time.Time
	by     instance.ID
	sent   bool // or may have been
	open   map[delivery.ID]bool
	failed time.Time // the last of its messages that failed
}
