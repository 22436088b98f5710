package contact_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// twoADay are definitions for contacts who get two messages a day.
const twoADay = "workspace: default\ncadence: {max_per_day: 2}\n---" + definitions + `---
workflow: news
type: custom
triggers: [{id: t, event: news}]
audience: [{to: event.recipient}]
channel: sms
message:
  sms: {text: Hello}
---
workflow: both
type: custom
triggers: [{id: t, event: both}]
audience: [{address: event.who, kind: sms}]
retry: {backoff: [5m]}
channel: sms
message:
  sms: {text: Hello}
`

// limited runs f with each way to set these limits.
func limited(t *testing.T, f func(t *testing.T, b bundle)) {
	t.Helper()
	storetest.All(t, func(t *testing.T, s *store.Store) { f(t, bundle{enginetest.Setup(t, s, twoADay, nil)}) })
}

// plan returns when the messages to a contact leave, or left, by the day, in order.
func (b bundle) plan(id string) (days []string) {
	b.Helper()
	rows, err := b.Store.Deliveries(b.Context(), b.Workspace.ID, store.DeliveryFilter{Contact: b.row(id).ID}, store.Page{Limit: 500})
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range rows {
		switch {
		case !d.LastSentAt.IsZero():
			days = append(days, d.LastSentAt.Format("02")+" sent")
		case !d.SendAt.IsZero():
			days = append(days, d.SendAt.Format("02"))
		default:
			days = append(days, string(d.Status)+" "+string(d.Reason))
		}
	}
	slices.Sort(days)
	return days
}

func (b bundle) plain(id, recipient string) delivery.Row {
	b.Helper()
	return b.made(b.Post(fmt.Sprintf(`{"kind": "news", "id": %q, "recipient": {%s}}`, id, recipient)))
}

// A contact who claims an address takes over what was made for it: messages that it got count in their limits, waiting messages are planned again by
// these limits, and a later message finds what is left of them.
//
// Shows: R5, R20.
func TestAddressChangesHands(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		phone := `"address": "+44 20 000001"`
		first := b.plain("1", phone)
		b.plain("2", phone)
		b.plain("3", phone)
		b.plain("4", phone)
		b.At(b.Now())
		who, _, err := b.Store.ContactByID(t.Context(), b.Workspace.ID, first.Contact)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"14 sent", "14 sent", "15", "15"}, b.plan(who.ExtID)); diff != "" {
			t.Fatal(diff)
		}
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000001"}, "cadence": {"max_per_day": 3}}`)
		b.plain("5", `"customer_ref": "ada"`)
		b.At(b.Now())
		if diff := cmp.Diff([]string{"14 sent", "14 sent", "14 sent", "15", "15"}, b.plan("ada")); diff != "" {
			t.Error(diff)
		}
		if left := b.plan(who.ExtID); len(left) > 0 || b.row(who.ExtID).Claimant != "ada" {
			t.Errorf("%s keeps %v, claimed by %q", who.ExtID, left, b.row(who.ExtID).Claimant)
		}
		if d := b.Delivery(first.ID); d.Address != "+44 20 000001" {
			t.Errorf("the first went to %q", d.Address)
		}
		if d := b.plain("6", fmt.Sprintf(`"customer_ref": %q`, who.ExtID)); d.Contact != b.row("ada").ID || d.SendAt.Format("02") != "15" {
			t.Errorf("by the old name it goes to %d on %s", d.Contact, d.SendAt)
		}
		b.stop(who.ExtID, true) // a suppression of the address applies to the contact who has it
		if !b.row("ada").Suppressed || !slices.Contains(b.plan("ada"), "cancelled suppressed") {
			t.Errorf("ada: %v", b.plan("ada"))
		}
		b.stop("ada", false)

		// An address that is given up is on its own again, until the next contact claims it.
		b.write(upsert.Change, `{"id": "ada", "addresses": {"sms": null}}`)
		if d := b.plain("7", phone); d.Contact != who.ID || b.row(who.ExtID).Claimant != "" {
			t.Errorf("after it was given up it is %d's, claimed by %q", d.Contact, b.row(who.ExtID).Claimant)
		}
		before := b.plan("ada")
		b.write(upsert.Merge, `{"id": "bob", "addresses": {"sms": "+44 20 000001"}}`)
		if b.row(who.ExtID).Claimant != "bob" || len(b.plan("bob")) != 1 || cmp.Diff(before, b.plan("ada")) != "" {
			t.Errorf("claimed by %q: bob %v, ada %v", b.row(who.ExtID).Claimant, b.plan("bob"), b.plan("ada"))
		}
	})
}

// Two contacts with the same address are not merged. The second one gets it when the first one gives it up, even if nothing else of them changes.
func TestSecondOfTwoTakesOver(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000001"}}`, `{"id": "bob", "addresses": {"sms": "+44 20 000001"}}`)
		b.write(upsert.Change, `{"id": "ada", "addresses": {"sms": null}}`)
		d := b.plain("1", `"address": "+44 20 000001"`)
		who, _, err := b.Store.ContactByID(t.Context(), b.Workspace.ID, d.Contact)
		if err != nil || !strings.HasPrefix(who.ExtID, "addr:") {
			t.Fatal(who, err)
		}
		b.stop(who.ExtID, true)
		b.write(upsert.Change, `{"id": "bob", "name": "Bob"}`)
		if bob := b.row("bob"); b.Delivery(d.ID).Contact != bob.ID || !bob.Suppressed {
			t.Errorf("it is %d's, bob is %d, suppressed %t", b.Delivery(d.ID).Contact, bob.ID, bob.Suppressed)
		}
	})
}

// One occasion that reached two addresses of a contact who claims both is one message to them.
func TestOneOccasionByTwoAddresses(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		b.Post(`{"kind": "both", "id": "1", "payload": {"who": ["+44 20 000001", "+44 20 000002"]}}`)
		b.Provider.Next(channel.Temporary(errors.New("busy")), channel.Temporary(errors.New("busy")))
		b.At(b.Now())
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000001", "whatsapp": "+44 20 000002"}}`)
		b.At(b.Now().Add(time.Hour))
		if n := len(b.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent", n)
		}
		rows, err := b.Store.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 9})
		if err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		ended := slices.IndexFunc(rows, func(d delivery.Row) bool { return d.Status == delivery.Skipped && d.Reason == reason.Duplicate })
		if ended < 0 {
			t.Errorf("none was ended as the other's double: %s (%s), %s (%s)", rows[0].Status, rows[0].Reason, rows[1].Status, rows[1].Reason)
		}
	})
}

// While addresses are claimed, given up and suppressed, and two processes make and send messages, nobody gets more than their limits allow, no
// message is lost, and no two transactions deadlock.
//
// Shows: P5, R20.
func TestAddressesChangeHandsUnderLoad(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := bundle{enginetest.Setup(t, s, twoADay, func(c *engine.Config) { c.Concurrency = 0 })}
		const people, rounds = 8, 6
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var ticks, work sync.WaitGroup
		for range 2 {
			ticks.Go(func() {
				for ctx.Err() == nil {
					if _, err := b.Tick(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		post := func(n int, by string, recipient func(p int) string) {
			var items []ingest.Item
			for p := range people {
				items = append(items, ingest.Parse(json.RawMessage(
					fmt.Sprintf(`{"kind": %q, "id": "%s-%d", "recipient": {%s}}`, []string{"news", "plain", "text"}[n%3], by, n*people+p, recipient(p))), b.Now()))
			}
			if _, err := b.Ingest(t.Context(), b.Workspace, items); err != nil {
				t.Error(err)
			}
		}
		work.Go(func() {
			for n := range rounds {
				post(n, "address", func(p int) string { return fmt.Sprintf(`"address": "+44 20 0000%02d"`, p) })
			}
		})
		work.Go(func() {
			for n := range rounds {
				post(n, "id", func(p int) string { return fmt.Sprintf(`"customer_ref": "p%d"`, p) })
			}
		})
		work.Go(func() {
			for n := range rounds {
				for p := range people {
					b.write(upsert.Merge, fmt.Sprintf(`{"id": "p%d", "name": "%d", "addresses": {"sms": "+44 20 0000%02d"}}`, p, n, p))
					if p == 0 {
						b.stop("p0", n%2 == 0)
					}
				}
			}
		})
		work.Wait()
		for range 3 {
			if _, err := b.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		ticks.Wait()
		sent := map[string]int{}
		for _, out := range b.Provider.Sent() {
			sent[out.Address[len(out.Address)-2:]]++
		}
		for address, n := range sent {
			if n > 2 {
				t.Errorf("%d messages went to %s on one day", n, address)
			}
		}
		for p := range people {
			if n := len(b.plan(fmt.Sprintf("p%d", p))); n < rounds {
				t.Errorf("p%d has %d messages", p, n)
			}
		}
		if n := s.Deadlocks(); n > 0 {
			t.Errorf("%d deadlocks", n)
		}
	})
}
