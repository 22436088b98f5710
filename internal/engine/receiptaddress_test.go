package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// reports hands in reports, and returns what each has changed.
func (w world) reports(list ...receipt.Report) []receipt.Taken {
	w.Helper()
	taken, err := w.Receipts().Take(w.Context(), w.Workspace, list, w.Clock.Now(), nil)
	if err != nil {
		w.Fatal(err)
	}
	return taken
}

// through tells somebody an alarm, and returns the channels by which it leaves.
func (w world) through(who string) (channels []string) {
	w.Helper()
	w.Clock.Set(w.Clock.Now().Add(time.Minute))
	w.Provider.Sent()
	w.Post(fmt.Sprintf(`{"kind": "alarm", "id": %q, "recipient": {"customer_ref": %q}, "payload": {"n": "1"}}`, w.Clock.Now(), who))
	w.calm()
	for _, m := range w.Provider.Sent() {
		channels = append(channels, m.Channel)
	}
	return channels
}

// follows has people subscribe to a topic.
func (w world) follows(people ...string) {
	w.Helper()
	if _, err := w.Topics().Find(w.Context(), w.Workspace, json.RawMessage(`{"topic": "tax"}`), w.Clock.Now(), nil); err != nil {
		w.Fatal(err)
	}
	for _, who := range people {
		w.subscribe(who, "tax", "immediate")
	}
}

func (w world) is(what string, got, want any) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// A provider may write a number otherwise than its contact has it. A bounce stops the number all the same, and a complaint ends the subscriptions of who has it.
//
// Shows: P5.
func TestAReportInAnotherSpelling(t *testing.T) {
	t.Parallel()
	spellings := []string{"254700000001", "+254700000001", "00254700000001"}
	for _, has := range spellings {
		for _, reported := range append(spellings, "+254 (700) 000-001") {
			t.Run(has+" reported as "+reported, func(t *testing.T) {
				t.Parallel()
				storetest.Each(t, func(t *testing.T, s *store.Store) {
					w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
					for _, who := range []string{"ann", "bob", "cid"} {
						w.phone(who, strings.Replace(has, "0000001", map[string]string{"ann": "0000001", "bob": "0000002", "cid": "0000003"}[who], 1))
					}
					as := func(n string) string { return strings.TrimSuffix(reported, "1") + n }
					w.follows("ann", "bob", "cid")
					w.is("before", w.through("ann"), []string{"sms:default"})
					w.is("a bounce of a delivery", w.reports(receipt.Report{Status: feedback.Bounced, Address: as("1"), Delivery: w.newest().ID, Step: 1, Channel: "sms:default"}),
						[]receipt.Taken{{Known: true, Stopped: true}})
					w.is("after it", w.through("ann"), []string{"email:default"})
					w.is("a bounce of no delivery, and a second one", w.reports(
						receipt.Report{Status: feedback.Bounced, Address: as("2"), Channel: "sms:default"}, receipt.Report{Status: feedback.Bounced, Address: has[:len(has)-1] + "2", Channel: "sms:default"},
					), []receipt.Taken{{Known: true, Stopped: true}, {Known: true}})
					w.is("after it", w.through("bob"), []string{"email:default"})
					w.is("a bounce of nobody", w.reports(receipt.Report{Status: feedback.Bounced, Address: as("9"), Channel: "sms:default"}), []receipt.Taken{{}})

					w.is("complaints", w.reports(
						receipt.Report{Status: feedback.Complained, Address: as("1"), Delivery: w.newest().ID, Channel: "sms:default"},
						receipt.Report{Status: feedback.Complained, Address: as("2")},
						receipt.Report{Status: feedback.Complained, Address: as("2")},
					), []receipt.Taken{{Known: true, Ended: 1}, {Known: true, Ended: 1}, {Known: true}})
					w.is("a bounce on all kinds", w.reports(receipt.Report{Status: feedback.Bounced, Address: as("3")}), []receipt.Taken{{Known: true, Stopped: true, Ended: 1}})
					w.is("after it", w.through("cid"), []string{"email:default"})
					if changed, err := w.Receipts().Allow(t.Context(), w.Workspace, as("1"), "test", w.Clock.Now(), nil); err != nil || !changed {
						t.Errorf("%v, %v", changed, err)
					}
					w.is("allowed", w.through("ann"), []string{"sms:default"})
				})
			})
		}
	}
}

// Two people who have one number, each in a spelling of their own, are both meant.
func TestAReportOfANumberOfTwo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
		w.phone("ann", "+254700000001")
		w.phone("bob", "00254700000001")
		w.follows("ann", "bob")
		w.is("a complaint", w.reports(receipt.Report{Status: feedback.Complained, Address: "254700000001"}), []receipt.Taken{{Known: true, Ended: 2}})
		w.is("a bounce", w.reports(receipt.Report{Status: feedback.Bounced, Address: "254700000001", Channel: "sms:default"}), []receipt.Taken{{Known: true, Stopped: true}})
		w.is("to ann", w.through("ann"), []string{"email:default"})
		w.is("to bob", w.through("bob"), []string{"email:default"})
	})
}

// A report of a delivery counts for the address to which it was sent, whatever address it names. The named one counts if somebody has it.
func TestAReportNamesAnotherAddress(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
		w.phone("ann", "+254700000001")
		w.phone("bob", "+254700000002")
		w.follows("ann", "bob")
		w.through("ann")
		id := w.newest().ID
		w.is("a bounce", w.reports(receipt.Report{Status: feedback.Bounced, Address: "+254700000003", Delivery: id}), []receipt.Taken{{Known: true, Stopped: true}})
		w.is("to ann", w.through("ann"), []string{"email:default"})
		w.phone("cid", "+254700000003")
		w.is("to who has the number later", w.through("cid"), []string{"sms:default"})
		w.is("to bob", w.through("bob"), []string{"sms:default"})
		w.is("a bounce of bob", w.reports(receipt.Report{Status: feedback.Bounced, Address: "+254700000002", Delivery: id}), []receipt.Taken{{Known: true, Stopped: true}})
		w.is("to bob after it", w.through("bob"), []string{"email:default"})
		w.is("a complaint", w.reports(receipt.Report{Status: feedback.Complained, Address: "+254700000002", Delivery: id}), []receipt.Taken{{Known: true, Ended: 2}})
	})
}

// Somebody has another number since a message: a bounce of that message does not stop the new one, to which the reminder went.
func TestAReportNamesAnAddressBefore(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
		w.phone("ann", "+254700000001")
		w.through("ann")
		id := w.newest().ID
		w.phone("ann", "+254700000002")
		w.live("12:00")
		w.is("the reminder went", w.Delivery(id).Address, "+254700000002")
		w.is("a bounce of the first message", w.reports(receipt.Report{Status: feedback.Bounced, Address: "+254700000001", Delivery: id, Step: 1}), []receipt.Taken{{Known: true}})
		w.is("to ann", w.through("ann"), []string{"sms:default"})
		w.is("a bounce of the reminder", w.reports(receipt.Report{Status: feedback.Bounced, Address: "+254799999999", Delivery: id, Step: 2}), []receipt.Taken{{Known: true, Stopped: true}})
		w.is("to ann after it", w.through("ann"), []string{"email:default"})
	})
}

// twoOfAKind has two channels of one kind.
var twoOfAKind = fmt.Sprintf(alarms, "hold", "10/s") + "---\nchannel: sms:other\nprovider: memory\n---\nchannel: email:other\nprovider: memory\n"

// A callback of a channel counts for the deliveries by that channel alone; another delivery is one that does not exist.
//
// Shows: P4.
func TestAReportByAnotherChannel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, twoOfAKind)
		w.ann()
		w.follows("ann")
		w.Provider.Next(lostReply())
		id := w.alarm("1")
		receipts := func() int {
			t.Helper()
			list, err := s.Receipts(t.Context(), w.Workspace.ID, id)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		for _, by := range []string{"email:default", "email:other", "sms:other"} {
			for _, status := range feedback.Statuses() {
				for _, address := range []string{"", "+254799999999"} {
					w.is(fmt.Sprint(status, " by ", by, " of ", address), w.reports(receipt.Report{Status: status, Delivery: id, Step: 1, Channel: by, Address: address}), []receipt.Taken{{}})
				}
			}
		}
		if row := w.Delivery(id); row.Status != delivery.Unknown || receipts() != 0 {
			t.Errorf("%s, %d receipts", row.Status, receipts())
		}
		w.is("of an address of somebody", w.reports(receipt.Report{Status: feedback.Bounced, Delivery: id, Step: 1, Channel: "email:other", Address: "ANN@example.org"}),
			[]receipt.Taken{{Known: true, Stopped: true, Ended: 1}})
		w.is("by its own", w.reports(receipt.Report{Status: feedback.Delivered, Delivery: id, Step: 1, Channel: "sms:default"}), []receipt.Taken{{Known: true, Settled: true}})
		if receipts() != 1 {
			t.Errorf("%d receipts", receipts())
		}

		w.Clock.Set(w.Clock.Now().Add(time.Minute))
		w.Provider.Next(lostReply())
		id = w.alarm("2")
		w.is("by a mail", w.reports(receipt.Report{Status: feedback.Deferred, Delivery: id, Step: 2, Channel: "email"}), []receipt.Taken{{Known: true}})
		w.is("with a key", w.reports(receipt.Report{Status: feedback.Accepted, Delivery: id, Step: 1}), []receipt.Taken{{Known: true, Settled: true}})
	})
}

// Once a channel has another name, its provider calls back by that one.
func TestAReportByARenamedChannel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, twoOfAKind)
		w.ann()
		w.Provider.Next(lostReply())
		id := w.alarm("1")
		renamed := strings.NewReplacer("channel: sms\nfallback", "channel: sms:new\nfallback", "channel: sms\nprovider", "channel: sms:new\nprovider").Replace(twoOfAKind)
		edit := engine.Edit{Files: []definition.File{{Name: "test.yaml", Text: []byte(renamed)}}, Prune: true}
		if applied, err := w.EditDefinitions(t.Context(), w.Workspace, edit, engine.Applier{Name: "test"}, nil); err != nil || definition.HasErrors(applied.Problems) {
			t.Fatal(applied.Problems, err)
		}
		w.is("by another kind", w.reports(receipt.Report{Status: feedback.Delivered, Delivery: id, Step: 1, Channel: "email:other"}), []receipt.Taken{{}})
		w.is("by its new name", w.reports(receipt.Report{Status: feedback.Delivered, Delivery: id, Step: 1, Channel: "sms:new"}), []receipt.Taken{{Known: true, Settled: true}})
	})
}

// A message of a contact that was merged into another one is settled, its address is stopped, and a complaint ends the subscriptions of the other one.
func TestAReportOfAMergedContact(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
		w.phone("ann", "+254700000001")
		w.phone("bob", "+254700000002")
		w.follows("ann")
		w.is("before", w.through("ann"), []string{"sms:default"})
		w.Provider.Next(lostReply())
		w.Post(`{"kind": "alarm", "id": "one", "recipient": {"customer_ref": "bob"}, "payload": {"n": "1"}}`)
		w.calm()
		id := w.newest().ID
		w.mustBe("before", w.outcomes(id), []string{"1 unknown reply_lost"})
		w.merge("bob", "ann") // who keeps her own number
		w.is("it arrives", w.reports(receipt.Report{Status: feedback.Delivered, Delivery: id, Step: 1, Channel: "sms:default"}), []receipt.Taken{{Known: true, Settled: true}})
		w.is("to the other one", w.through("ann"), []string{"sms:default"})
		w.is("where it was sent", w.Delivery(id).Address, "+254700000002")
		w.is("it bounces", w.reports(receipt.Report{Status: feedback.Bounced, Delivery: id, Step: 1, Channel: "sms:default", Address: "00254700000002"}), []receipt.Taken{{Known: true, Stopped: true}})
		w.is("to the other one after it", w.through("ann"), []string{"sms:default"})
		w.is("a complaint", w.reports(receipt.Report{Status: feedback.Complained, Delivery: id, Step: 1, Channel: "sms:default"}), []receipt.Taken{{Known: true, Ended: 1}})
		w.phone("cid", "254700000002")
		w.is("to who has the number now", w.through("cid"), []string{"email:default"})
	})
}

// A message to each of two people who turn out to be one stays with the merged contact. A complaint about it ends the subscriptions of the other one.
func TestAComplaintOfAMergedContact(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s")+`---
workflow: everybody
type: notice
triggers: {id: all, event: all}
audience: {everyone: true}
channel: sms
limits: {critical: true}
message: {sms: {text: all}}
`)
		w.phone("ann", "+254700000001")
		w.phone("bob", "+254700000002")
		w.follows("ann")
		w.Post(`{"kind": "all", "id": "1"}`)
		w.calm()
		w.merge("bob", "ann")
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Workflow: "everybody"}, store.Page{Limit: 3})
		if err != nil || len(rows) != 2 || rows[0].Contact == rows[1].Contact {
			t.Fatal(rows, err)
		}
		for _, row := range rows {
			if row.Address == "+254700000002" {
				w.is("a complaint", w.reports(receipt.Report{Status: feedback.Complained, Delivery: row.ID, Step: 1, Channel: "sms:default"}), []receipt.Taken{{Known: true, Ended: 1}})
			}
		}
	})
}
