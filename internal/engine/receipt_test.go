package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// alarms tell people something by text message, else by WhatsApp, else by mail, and remind them an hour later.
const alarms = `
workflow: alarm
type: notice
triggers: {id: now, event: alarm}
audience: {to: event.recipient}
channel: sms
fallback: ["whatsapp", "email"]
limits: {critical: true}
timing: {reminders: [1h]}
retry: {backoff: [10m]}
message:
  sms: {text: "alarm {{ event.n }}"}
  whatsapp: {text: "alarm {{ event.n }}"}
  email: {subject: alarm, text: "alarm {{ event.n }}"}
---
channel: sms
provider: memory
on_unknown: %s
---
channel: whatsapp
provider: memory
rate: %s
---
channel: email
provider: memory
`

// ann gives somebody a telephone with WhatsApp, and a mailbox.
func (w world) ann() {
	w.Helper()
	item := contact.Parse(json.RawMessage(`{"addresses": {"sms": "+254700000001", "whatsapp": "+254700000001", "email": "ann@example.org"}}`), "ann")
	if results, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil); err != nil || results[0].Error != nil {
		w.Fatal(results, err)
	}
}

// receipt hands in what is reported of a step of a delivery.
func (w world) receipt(of delivery.ID, step int, status feedback.Status) receipt.Taken {
	w.Helper()
	taken, err := w.Receipts().Take(w.Context(), w.Workspace, []receipt.Report{{Status: status, Delivery: of, Step: step, Channel: "sms:default"}}, w.Clock.Now(), nil)
	if err != nil {
		w.Fatal(err)
	}
	return taken[0]
}

// alarm makes a delivery to a person.
func (w world) alarm(n string) delivery.ID {
	w.Helper()
	w.Post(fmt.Sprintf(`{"kind": "alarm", "id": %q, "recipient": {"customer_ref": "ann"}, "payload": {"n": %[1]q}}`, n))
	w.tick()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1})
	if err != nil || len(rows) != 1 {
		w.Fatal(rows, err)
	}
	return rows[0].ID
}

func (w world) outcomes(of delivery.ID) (list []string) {
	for _, a := range w.Attempts(of) {
		list = append(list, fmt.Sprintf("%d %s %s", a.Step, a.Outcome, a.Reason))
	}
	return list
}

func lostReply() error { return channel.Lost(errors.New("no answer")) }

// Who reports on a message has it: a delivery whose outcome is unknown is sent then, whatever the channel does about unknown outcomes, and nothing is sent twice.
//
// Shows: P3, P4.
func TestAReportSettlesAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, status := range feedback.Statuses() {
		for _, onUnknown := range []string{"hold", "resend"} {
			t.Run(onUnknown+"/"+string(status), func(t *testing.T) {
				t.Parallel()
				storetest.Each(t, func(t *testing.T, s *store.Store) {
					w := newWorld(t, s, fmt.Sprintf(alarms, onUnknown, "10/s"))
					w.ann()
					w.Provider.Next(lostReply())
					id := w.alarm("1")
					before := w.Delivery(id)
					if before.UnknownSince.IsZero() || (before.Status == delivery.Unknown) != (onUnknown == "hold") {
						t.Fatalf("%+v", before)
					}
					w.Provider.Sent()
					w.Clock.Set(at("10:02"))
					if taken := w.receipt(id, 2, status); taken.Settled {
						t.Error("a report on a reminder that has not left settles the first message")
					}
					if taken := w.receipt(id, 1, status); !taken.Known || !taken.Settled {
						t.Errorf("%+v", taken)
					}
					if taken := w.receipt(id, 1, status); taken.Settled {
						t.Error("the second report settles it again")
					}
					w.live("10:03")
					row := w.Delivery(id)
					if row.Status != delivery.Sent || row.Step != 1 || !row.UnknownSince.IsZero() || row.Slot != before.Slot || !row.LastSentAt.Equal(at("10:02")) {
						t.Errorf("%+v", row)
					}
					w.mustBe("attempts", w.outcomes(id), []string{"1 unknown reply_lost", "1 delivered reported"})
					if sent := w.Provider.Sent(); len(sent) > 0 || w.Provider.Repeats > 0 {
						t.Errorf("it was sent again: %v, %d", sent, w.Provider.Repeats)
					}
					w.live("12:00")
					sent := w.Provider.Sent()
					stops := status == feedback.Bounced
					if len(sent) == 0 != stops || !stops && sent[0].Step != 2 {
						t.Errorf("reminders: %+v", sent)
					}
				})
			})
		}
	}
}

// A report that comes while its request is in flight, or after its worker has died, counts when its outcome is written.
func TestAReportThatComesFirst(t *testing.T) {
	t.Parallel()
	dying := errors.New("the process dies")
	for name, tt := range map[string]struct {
		point string
		dies  error
		next  error
		want  []string
	}{
		"the answer is lost":             {sender.BeforeResult, nil, lostReply(), []string{"1 unknown reply_lost", "1 delivered reported"}},
		"the answer comes":               {sender.BeforeResult, nil, nil, []string{"1 delivered delivered"}},
		"the worker dies":                {sender.BeforeResult, dying, nil, []string{"1 unknown worker_lost", "1 delivered reported"}},
		"the worker dies after a report": {sender.AfterIntent, dying, nil, []string{"1 unknown worker_lost", "1 delivered reported"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				var w world
				once := false
				w.Bundle = enginetest.Setup(t, s, fmt.Sprintf(alarms, "hold", "10/s"), func(c *engine.Config) {
					c.Failpoint = func(point string) error {
						if point != tt.point || once {
							return nil
						}
						once = true
						rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1})
						if err != nil || len(rows) != 1 {
							t.Fatal(rows, err)
						}
						if taken := w.receipt(rows[0].ID, 1, feedback.Delivered); !taken.Known {
							t.Errorf("%+v", taken)
						}
						return tt.dies
					}
				})
				w.Clock.Set(at("10:00"))
				w.ann()
				w.Provider.Next(tt.next)
				w.Post(`{"kind": "alarm", "id": "1", "recipient": {"customer_ref": "ann"}, "payload": {"n": "1"}}`)
				for w.Clock.Now().Before(at("10:50")) {
					if _, err := w.Tick(t.Context()); err != nil && !errors.Is(err, dying) {
						t.Fatal(err)
					}
					w.Clock.Set(w.Clock.Now().Add(time.Minute))
				}
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
				if err != nil || len(rows) != 1 || rows[0].Status != delivery.Sent || rows[0].Step != 1 || !once {
					t.Fatal(rows, err)
				}
				w.mustBe("attempts", w.outcomes(rows[0].ID), tt.want)
				receipts, err := s.Receipts(t.Context(), w.Workspace.ID, rows[0].ID)
				if err != nil || len(receipts) != 1 || receipts[0].Attempt != 1 || receipts[0].Status != "delivered" {
					t.Errorf("%+v, %v", receipts, err)
				}
				if w.Provider.Repeats > 0 {
					t.Error("it was sent again")
				}
			})
		})
	}
}

// A receipt stands on the attempt that it is about: that of the provider's id, else the last one of its step, else the last one.
func TestReceiptsStandOnTheirAttempts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
		w.ann()
		w.Provider.Next(channel.Temporary(errors.New("busy")))
		id := w.alarm("1")
		w.live("12:00")
		attempts := w.Attempts(id)
		if len(attempts) != 3 {
			t.Fatal(w.outcomes(id))
		}
		var reports []receipt.Report
		for n, r := range []receipt.Report{{Message: attempts[1].ProviderID}, {Message: attempts[2].ProviderID}, {Step: 1}, {Step: 2}, {}, {Message: "another", Step: 1}} {
			r.Status, r.Delivery, r.Detail = feedback.Delivered, id, fmt.Sprint(n)
			reports = append(reports, r)
		}
		if _, err := w.Receipts().Take(t.Context(), w.Workspace, reports, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		receipts, err := s.Receipts(t.Context(), w.Workspace.ID, id)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, r := range receipts {
			got = append(got, r.Attempt)
		}
		if diff := cmp.Diff([]int{2, 3, 2, 3, 3, 2}, got); diff != "" {
			t.Errorf("attempts (-want +got)\n%s", diff)
		}
	})
}

// A message that failed has arrived after all: its status stays, and its fallback is cancelled if that has not left.
//
// Shows: R19.
func TestALateReceiptCancelsAFallback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "1/h"))
		w.ann()
		refused := func() error { return channel.Permanent(errors.New("no")) }
		// The rate of the channel whatsapp has the first one leave, and the others wait.
		w.Provider.Next(refused())
		w.alarm("1")
		w.live("10:01")
		w.mustBe("the first", w.statuses(), []string{"sms failed permanent_error", "whatsapp sent delivered"})
		if taken := w.receipt(w.primary(), 1, feedback.Delivered); taken.Cancelled != 0 {
			t.Errorf("what has left is cancelled: %+v", taken)
		}
		for n, row := range []struct {
			status feedback.Status
			want   []string
		}{
			{feedback.Accepted, []string{"sms failed permanent_error", "whatsapp scheduled rate_limited"}},
			{feedback.Deferred, []string{"sms failed permanent_error", "whatsapp scheduled rate_limited"}},
			{feedback.Delivered, []string{"sms failed permanent_error", "whatsapp cancelled primary_delivered"}},
			{feedback.Read, []string{"sms failed permanent_error", "whatsapp cancelled primary_delivered"}},
		} {
			w.Clock.Set(w.Clock.Now().Add(time.Minute))
			w.Provider.Next(refused())
			w.alarm(fmt.Sprint("late ", n))
			w.tick()
			taken := w.receipt(w.primary(), 1, row.status)
			w.mustBe(string(row.status), w.statuses()[:2], row.want)
			if want := map[bool]int{true: 1}[n >= 2]; taken.Cancelled != want || taken.Settled {
				t.Errorf("%s: %+v", row.status, taken)
			}
			if again := w.receipt(w.primary(), 1, row.status); again.Cancelled != 0 {
				t.Errorf("%s again: %+v", row.status, again)
			}
		}
		receipts, err := s.Receipts(t.Context(), w.Workspace.ID, w.primary())
		if err != nil || len(receipts) != 1 || receipts[0].Status != "read" || receipts[0].Attempt != 1 {
			t.Errorf("%+v, %v", receipts, err)
		}
	})
}

// statuses lists the deliveries, those of the latest occasion first.
func (w world) statuses() (list []string) {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for n := 0; n+1 < len(rows); n += 2 {
		for _, r := range []delivery.Row{rows[n+1], rows[n]} {
			list = append(list, fmt.Sprint(r.Channel[:len(r.Channel)-len(":default")], " ", r.Status, " ", r.Reason))
		}
	}
	return list
}

// primary returns the delivery that the latest one stands in for.
func (w world) primary() delivery.ID {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1})
	if err != nil || len(rows) != 1 || rows[0].FallbackOf == 0 {
		w.Fatal(rows, err)
	}
	return rows[0].FallbackOf
}

// An address that takes no WhatsApp messages takes text messages, and the mails to its owner go on. A bounce whose cause may pass stops nothing.
func TestABounceStopsItsKindOfChannel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
		w.ann()
		report := func(r receipt.Report) receipt.Taken {
			t.Helper()
			taken, err := w.Receipts().Take(t.Context(), w.Workspace, []receipt.Report{r}, w.Clock.Now(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return taken[0]
		}
		through := func() string {
			t.Helper()
			w.Clock.Set(w.Clock.Now().Add(time.Minute))
			w.alarm(w.Clock.Now().String())
			for w.tick() {
			}
			sent := w.Provider.Sent()
			if len(sent) != 1 {
				t.Fatalf("%+v", sent)
			}
			return sent[0].Channel
		}
		if taken := report(receipt.Report{Status: feedback.Bounced, Address: "+254700000001", Channel: "whatsapp:default"}); !taken.Stopped || taken.Ended != 0 {
			t.Errorf("%+v", taken)
		}
		if _, err := w.Topics().Find(t.Context(), w.Workspace, json.RawMessage(`{"topic": "tax"}`), w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.subscribe("ann", "tax", "immediate")
		if got := through(); got != "sms:default" {
			t.Errorf("after a bounce on WhatsApp: %s", got)
		}
		if taken := report(receipt.Report{Status: feedback.Bounced, Soft: true, Address: "+254700000001", Channel: "sms:default"}); taken.Stopped {
			t.Errorf("soft: %+v", taken)
		}
		if got := through(); got != "sms:default" {
			t.Errorf("after a soft bounce: %s", got)
		}
		if taken := report(receipt.Report{Status: feedback.Bounced, Address: "+254700000001", Channel: "sms:default"}); taken.Ended != 0 {
			t.Errorf("a bounce of a text message has ended what comes by mail: %+v", taken)
		}
		if got := through(); got != "email:default" {
			t.Errorf("after a bounce on both: %s", got)
		}
		if changed, err := w.Receipts().Allow(t.Context(), w.Workspace, "+254700000001", "test", w.Clock.Now(), nil); err != nil || !changed {
			t.Errorf("%v, %v", changed, err)
		}
		if got := through(); got != "sms:default" {
			t.Errorf("allowed: %s", got)
		}
		if taken := report(receipt.Report{Status: feedback.Bounced, Address: "ann@example.org", Channel: "email"}); taken.Ended != 1 || !taken.Stopped {
			t.Errorf("by mail: %+v", taken)
		}
	})
}

// A stop counts when a message is due, and not when it is planned: who has replied START by then gets it as it was meant.
func TestAStopThatIsOverWhenAMessageIsDue(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(fmt.Sprintf(alarms, "hold", "10/s"), "event: alarm}", "event: alarm, timing: {offset: 1h}}", 1))
		w.ann()
		w.replies("sms:default", "+254700000001", "stop")
		w.alarm("1")
		w.Clock.Set(at("10:30"))
		w.replies("sms:default", "+254700000001", "start ")
		w.live("11:00")
		if sent := w.Provider.Sent(); len(sent) != 1 || sent[0].Channel != "sms:default" {
			t.Errorf("%+v", sent)
		}
	})
}

// An address that takes no messages, or wants none on a kind of channel, gets none made to it that is due: the fallback is made at once, by an event, for everybody and by
// a record. Who replies is answered all the same.
//
// Shows: P5.
func TestStopsCountWhenMessagesAreMade(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s")+`---
workflow: everybody
type: notice
triggers: {id: all, event: all}
audience: {everyone: true}
channel: sms
fallback: [whatsapp, email]
limits: {critical: true}
message: {sms: {text: all}, whatsapp: {text: all}, email: {subject: all, text: all}}
---
workflow: low
type: alert
triggers: {id: low, record: kiosk, when: record.battery_level < 20}
audience: {to: '"ann"'}
channel: sms
fallback: [whatsapp, email]
limits: {critical: true}
message: {sms: {text: low}, whatsapp: {text: low}, email: {subject: low, text: low}}
---
workflow: help
type: notice
triggers: {id: help, event: reply.received}
audience: {to: event.recipient}
channel: sms
limits: {critical: true}
message: {sms: {text: "help"}}
`)
		w.ann()
		w.replies("sms:default", "+254700000001", "stop")
		w.calm()
		w.mustBe("the answer to it", w.spoken(), []string{"help"})
		if _, err := w.Receipts().Take(t.Context(), w.Workspace, []receipt.Report{{Status: feedback.Bounced, Address: "+254700000001", Channel: "whatsapp:default"}}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		for name, do := range map[string]func(){
			"an event": func() {
				w.Post(`{"kind": "alarm", "id": "1", "recipient": {"customer_ref": "ann"}, "payload": {"n": "1"}}`)
			},
			"everybody": func() { w.Post(`{"kind": "all", "id": "1"}`) },
			"a record":  func() { w.put("kiosk/1", `{"battery_level": 10}`) },
		} {
			do()
			w.calm()
			rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 2})
			if err != nil || len(rows) != 2 {
				t.Fatal(rows, err)
			}
			stopped, fallback := rows[1], rows[0]
			if stopped.Channel != "sms:default" || stopped.Status != delivery.Skipped || stopped.Reason != reason.OptedOut || stopped.Version != 0 { // no claim has seen it
				t.Errorf("%s: %s %s %s, version %d", name, stopped.Channel, stopped.Status, stopped.Reason, stopped.Version)
			}
			if fallback.Channel != "email:default" || fallback.FallbackOf != stopped.ID || fallback.Status != delivery.Sent {
				t.Errorf("%s: the fallback is %s %s", name, fallback.Channel, fallback.Status)
			}
		}
	})
}
