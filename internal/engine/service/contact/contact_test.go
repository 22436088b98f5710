package contact_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

const definitions = `
workflow: text
type: custom
triggers: [{id: t, event: text}]
timing: {reminders: [1d]}
audience: [{to: event.recipient}]
channel: sms
message:
  sms:
    text: "{{ contact.name }} {{ contact.email }} {{ contact.attributes.points | default: '-' }}"
---
workflow: letter
type: custom
triggers: [{id: t, event: letter}]
audience: [{to: event.who, where: contact.attributes.vip == true}]
channel: email
message:
  email:
    subject: Hello
    text: "Dear {{ contact.name }}"
---
workflow: plain
type: custom
triggers: [{id: t, event: plain}]
timing: {offset: 2h}
audience: [{to: event.recipient}]
channel: memory
message:
  sms: {text: Hello}
---
{channel: "sms:default", provider: memory}
---
{channel: "email:default", provider: memory}
---
{channel: "memory:default", provider: memory}
`

// bundle is an engine with helpers for contacts.
type bundle struct{ *enginetest.Bundle }

func each(t *testing.T, f func(t *testing.T, b bundle)) {
	t.Helper()
	storetest.All(t, func(t *testing.T, s *store.Store) { f(t, bundle{enginetest.Setup(t, s, definitions, nil)}) })
}

func (b bundle) write(mode upsert.Mode, contacts ...string) []upsert.Result[subject.ContactRow] {
	b.Helper()
	items := make([]contact.Item, len(contacts))
	for i, raw := range contacts {
		items[i] = contact.Parse(json.RawMessage(raw), "")
	}
	results, err := b.Contacts().Write(b.Context(), b.Workspace, mode, items, b.Now(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return results
}

func outcomes(results []upsert.Result[subject.ContactRow]) string {
	var all []string
	for _, r := range results {
		text := string(r.Outcome)
		if r.Error != nil {
			text += " " + r.Error.Error()
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (b bundle) row(id string) subject.ContactRow {
	b.Helper()
	row, err := b.Store.ContactRow(b.Context(), b.Workspace.ID, id)
	if err != nil {
		b.Fatal(err)
	}
	return row
}

func (b bundle) stop(id string, suppress bool) contact.Stopped {
	b.Helper()
	stopped, err := b.Contacts().Stop(b.Context(), b.Workspace, contact.Suppression{Contact: id, Suppress: suppress, Reason: "asked", Actor: "ann"}, b.Now(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return stopped
}

// made returns the one delivery of an event's answer.
func (b bundle) made(r ingest.Result) delivery.Row {
	b.Helper()
	if len(r.Instances) != 1 || len(r.Instances[0].Deliveries) != 1 {
		b.Fatalf("not one delivery: %+v", r)
	}
	return b.Delivery(r.Instances[0].Deliveries[0].ID)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		ada := `{"id": "ada", "name": "Ada", "locale": "en-GB", "timezone": "Europe/London", "addresses": {"email": " Ada@Example.org", "sms": "+44 20 0000-01"}, "attributes": {"vip": true, "points": 1.50}}`
		if got := outcomes(b.write(upsert.Merge, ada, `{"id": "bob"}`, ada, `{"id": "bob", "name": "Bob"}`, `{"id": "x", "nam": "X"}`)); got !=
			"created, created, unchanged, changed, failed nam: unknown key" {
			t.Errorf("got %s", got)
		}
		want := subject.ContactRow{Contact: subject.Contact{
			ExtID: "ada", Name: "Ada", Locale: "en-GB", Timezone: "Europe/London",
			Addresses:  map[string]string{"email": "ada@example.org", "sms": "+4420000001"},
			Attributes: map[string]any{"vip": true, "points": json.Number("1.50")},
		}, CreatedAt: b.Now()}
		got := b.row("ada")
		want.ID = got.ID
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if b.row("bob").Name != "Bob" {
			t.Error("the second word about bob is lost")
		}

		b.Clock.Set(enginetest.Start.Add(time.Hour))
		b.write(upsert.Change, `{"id": "ada", "locale": null, "addresses": {"sms": "", "whatsapp": "+4420000002"}, "attributes": {"vip": null, "city": "London"}}`)
		want.Locale, want.UpdatedAt = "", b.Now()
		want.Addresses = map[string]string{"email": "ada@example.org", "whatsapp": "+4420000002"}
		want.Attributes = map[string]any{"points": json.Number("1.50"), "city": "London"}
		if diff := cmp.Diff(want, b.row("ada")); diff != "" {
			t.Errorf("changed (-want +got)\n%s", diff)
		}
		b.write(upsert.Replace, `{"id": "ada", "name": "A."}`)
		want.Name, want.Timezone, want.Addresses, want.Attributes = "A.", "", nil, nil
		if diff := cmp.Diff(want, b.row("ada")); diff != "" {
			t.Errorf("replaced (-want +got)\n%s", diff)
		}
		_, err := b.Contacts().Write(t.Context(), b.Workspace, upsert.Change, []contact.Item{{ID: "nobody"}}, b.Now(), nil)
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
		rows, err := b.Store.Contacts(t.Context(), b.Workspace.ID, store.ContactFilter{}, store.Page{Limit: 1})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		more, err := b.Store.Contacts(t.Context(), b.Workspace.ID, store.ContactFilter{}, store.Page{Before: int64(rows[0].ID), Limit: 5})
		if ids := []string{rows[0].ExtID, more[0].ExtID}; err != nil || len(more) != 1 || !slices.Contains(ids, "ada") || !slices.Contains(ids, "bob") {
			t.Errorf("listed %v, %v", ids, err)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:                                "a contact is a JSON object",
		`null`:                              "a contact is a JSON object",
		`{}`:                                "id: the id of the contact is missing",
		`{"id": " "}`:                       "id: is blank",
		`{"id": 7}`:                         "",
		`{"id": true}`:                      "id: is not a text",
		`{"id": "addr:1"}`:                  "id: begins with addr:",
		`{"id": "a", "name": 1}`:            "name: is not a text",
		`{"id": "a", "name": "a\nb"}`:       "name: holds a control or an invalid character",
		`{"id": "a", "locale": "english!"}`: "locale: is not a locale",
		`{"id": "a", "timezone": "Europe/Berln"}`:                 "timezone: is not a zone",
		`{"id": "a", "personas": []}`:                             "personas: unknown key",
		`{"id": "a", "groups": []}`:                               "groups: is not written: a group says by members or where who belongs to it",
		`{"id": "a", "cadence": []}`:                              "cadence: is not an object",
		`{"id": "a", "persona": 1}`:                               "persona: is not a text",
		`{"id": "a", "addresses": []}`:                            "addresses: is not an object",
		`{"id": "a", "addresses": {"emial": "a@b"}}`:              "addresses.emial: unknown kind of address",
		`{"id": "a", "addresses": {"email": "a.b"}}`:              "addresses.email: is not an e-mail address",
		`{"id": "a", "addresses": {"email": "a b@c"}}`:            "addresses.email: is not an e-mail address",
		`{"id": "a", "addresses": {"sms": "call me"}}`:            "addresses.sms: is not a telephone number",
		`{"id": "a", "addresses": {"whatsapp": "123"}}`:           "addresses.whatsapp: is not a telephone number",
		`{"id": "a", "attributes": 1}`:                            "attributes: is not an object",
		`{"id": "a", "name": "` + strings.Repeat("x", 257) + `"}`: "name: is longer than 256 bytes",
	} {
		item := contact.Parse(json.RawMessage(text), "")
		got := ""
		if item.Err != nil {
			got = item.Err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if item := contact.Parse(json.RawMessage(`{"id": "b"}`), "a"); item.Err == nil {
		t.Error("two ids were taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"id": "a", "addresses": {"email": "A@b.c", "sms": "+49 30 1"}, "attributes": {"x": [1, null]}, "locale": "en"}`)
	f.Fuzz(func(t *testing.T, text string) {
		item := contact.Parse(json.RawMessage(text), "")
		if item.Err != nil && (item.Err.Message == "" || item.Err.Reason != reason.InvalidContact) {
			t.Fatalf("refused without words: %+v", item.Err)
		}
		for kind, address := range item.Addresses {
			if address != subject.NormalizeAddress(address) || address != "" && subject.CheckAddress(kind, address) != nil {
				t.Fatalf("%s %q is not in its normal form", kind, address)
			}
		}
	})
}

// An event that names a contact reaches them at their own address for the channel; an address in the event takes precedence.
func TestAddressOfTheChannel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"id": "ada", "name": "Ada", "addresses": {"email": "ada@example.org", "sms": "+44 20 000001"}, "attributes": {"points": 7, "vip": true}}`,
			`{"id": "bob", "addresses": {"email": "bob@example.org"}, "attributes": {"vip": true}}`, `{"id": "cid", "addresses": {"email": "cid@example.org"}}`)
		for event, want := range map[string]string{
			`{"kind": "text", "id": "1", "recipient": {"customer_ref": "ada"}}`:                           "+4420000001",
			`{"kind": "text", "id": "2", "recipient": {"customer_ref": "ada", "address": "+44 9 99999"}}`: "+44 9 99999",
			`{"kind": "text", "id": "3", "recipient": {"customer_ref": "bob"}}`:                           "",
			`{"kind": "plain", "id": "4", "recipient": {"customer_ref": "bob"}}`:                          "bob@example.org",
			`{"kind": "text", "id": "5", "recipient": {"address": "+44 (20) 000001"}}`:                    "+44 (20) 000001",
		} {
			d := b.made(b.Post(event))
			if d.Address != want || want == "" && d.Reason != reason.NoAddress {
				t.Errorf("%s goes to %q (%s), want %q", event, d.Address, d.Reason, want)
			}
			if strings.Contains(event, `"5"`) && d.Contact != b.row("ada").ID {
				t.Errorf("the address is not ada's")
			}
		}
		b.Post(`{"kind": "letter", "payload": {"who": ["ada", "bob", "cid"]}}`)
		b.At(b.Now())
		letters := map[string]string{}
		var text string
		for _, out := range b.Provider.Sent() {
			if out.Subject != "" {
				letters[out.Address] = strings.TrimSpace(out.Text)
			}
			if out.Address == "+4420000001" {
				text = out.Text
			}
		}
		if want := map[string]string{"ada@example.org": "Dear Ada", "bob@example.org": "Dear"}; !maps.Equal(letters, want) {
			t.Errorf("letters %v, want %v", letters, want)
		}
		if text != "Ada ada@example.org 7" {
			t.Errorf("the text reads %q", text)
		}
	})
}

// Shows: P5.
func TestSuppress(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000001"}}`)
		sent := b.made(b.Post(`{"kind": "text", "id": "1", "recipient": {"customer_ref": "ada"}}`))
		b.At(b.Now())
		later := b.made(b.Post(`{"kind": "plain", "id": "2", "recipient": {"customer_ref": "ada"}}`))
		first := b.stop("ada", true)
		if !first.Changed || len(first.Deliveries) != 2 || !first.Contact.Suppressed || first.Contact.SuppressReason != "asked" {
			t.Errorf("suppressed: %+v", first)
		}
		if again := b.stop("ada", true); again.Changed || len(again.Deliveries) != 0 {
			t.Errorf("again: %+v", again)
		}
		if d := b.Delivery(later.ID); d.Status != delivery.Cancelled || d.Reason != reason.Suppressed || !d.SendAt.IsZero() {
			t.Errorf("what waited is %s (%s)", d.Status, d.Reason)
		}
		if d := b.Delivery(sent.ID); d.Status != delivery.Sent || !d.SendAt.IsZero() || d.CompletedAt.IsZero() {
			t.Errorf("what was sent is %s, next %s", d.Status, d.SendAt)
		}
		if d := b.made(b.Post(`{"kind": "text", "id": "3", "recipient": {"address": "+44 20 000001"}}`)); d.Status != delivery.Cancelled || d.Reason != reason.Suppressed {
			t.Errorf("by address alone: %s (%s)", d.Status, d.Reason)
		}
		b.At(enginetest.Start.Add(72 * time.Hour))
		if n := len(b.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent", n)
		}
		if ended := b.stop("ada", false); !ended.Changed || ended.Contact.Suppressed || ended.Contact.SuppressReason != "" {
			t.Errorf("ended: %+v", ended)
		}
		if d := b.made(b.Post(`{"kind": "text", "id": "4", "recipient": {"customer_ref": "ada"}}`)); d.Status != delivery.Scheduled {
			t.Errorf("afterwards: %s", d.Status)
		}
		if _, err := b.Contacts().Stop(t.Context(), b.Workspace, contact.Suppression{Contact: "nobody", Suppress: true}, b.Now(), nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
	})
}

// A contact that was made for an address, and the contact who has that address, are suppressed together, whichever came first.
// Shows: P5, R20.
func TestSuppressionFollowsTheAddress(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		made := b.made(b.Post(`{"kind": "plain", "id": "1", "recipient": {"address": "+44 20 000001"}}`))
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000001"}}`)
		if d := b.made(b.Post(`{"kind": "plain", "id": "2", "recipient": {"address": "+4420000001"}}`)); d.Contact != b.row("ada").ID {
			t.Error("ada has not taken over her address")
		}
		b.stop("ada", true)
		if d := b.Delivery(made.ID); d.Status != delivery.Cancelled {
			t.Errorf("what was made for her address is %s", d.Status)
		}
		b.stop("ada", false)

		stranger := b.made(b.Post(`{"kind": "plain", "id": "3", "recipient": {"address": "+44 20 000002"}}`))
		who, _, err := b.Store.ContactByID(t.Context(), b.Workspace.ID, stranger.Contact)
		if err != nil || !strings.HasPrefix(who.ExtID, subject.MadePrefix) {
			t.Fatal(who, err)
		}
		b.stop(who.ExtID, true)
		b.write(upsert.Merge, `{"id": "bob", "addresses": {"sms": "+44 20 000002"}}`)
		if row := b.row("bob"); !row.Suppressed || row.SuppressReason != "asked" {
			t.Errorf("bob may be messaged at an address that is suppressed: %+v", row)
		}
		b.stop("bob", false)
		b.write(upsert.Merge, `{"id": "bob", "name": "Bob"}`, `{"id": "bob", "addresses": {"sms": "+44 20 000002"}}`)
		if b.row("bob").Suppressed {
			t.Error("bob is suppressed again")
		}

		// An address of a contact with a caller's id stays theirs; one that is given up is free.
		b.write(upsert.Merge, `{"id": "cid", "addresses": {"sms": "+44 20 000001"}}`)
		if d := b.made(b.Post(`{"kind": "plain", "id": "4", "recipient": {"address": "+4420000001"}}`)); d.Contact != b.row("ada").ID {
			t.Error("cid has taken ada's address")
		}
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000009"}}`)
		b.write(upsert.Merge, `{"id": "cid", "addresses": {"sms": "+44 20 000001"}, "name": "Cid"}`)
		if d := b.made(b.Post(`{"kind": "plain", "id": "5", "recipient": {"address": "+4420000001"}}`)); d.Contact != b.row("cid").ID {
			t.Error("cid has not got the address that ada gave up")
		}
	})
}

// While messages are made and sent, no intent is committed after a suppression has returned.
// Shows: P5.
func TestSuppressAgainstTheSender(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		const people, each = 12, 4
		for p := range people {
			b.write(upsert.Merge, fmt.Sprintf(`{"id": "p%d", "addresses": {"sms": "+44 20 0000%02d"}}`, p, p))
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var work sync.WaitGroup
		work.Go(func() { // one event after the other
			for n := range people * each {
				if _, err := b.Ingest(t.Context(), b.Workspace, []ingest.Item{ingest.Parse(json.RawMessage(
					fmt.Sprintf(`{"kind": "text", "id": "e%d", "recipient": {"customer_ref": "p%d"}}`, n, n%people)), b.Now())}); err != nil {
					t.Error(err)
				}
			}
		})
		var ticks sync.WaitGroup
		ticks.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.Tick(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		after := map[string]int{} // messages begun when the suppression had returned
		intents := func(id string) int {
			n := 0
			rows, err := b.Store.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{To: store.ContactQuery{Text: id}}, store.Page{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range rows {
				n += d.AttemptNo
			}
			return n
		}
		for p := range people {
			id := fmt.Sprintf("p%d", p)
			b.stop(id, true)
			after[id] = intents(id)
		}
		work.Wait()
		for range 3 {
			if _, err := b.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		ticks.Wait()
		for id, before := range after {
			if now := intents(id); now != before {
				t.Errorf("%s: %d attempts were begun after the suppression", id, now-before)
			}
		}
	})
}

// Concurrent changes of one contact do not undo each other, and neither does a suppression.
func TestChangesAtTheSameTime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		const callers = 16
		b.write(upsert.Merge, `{"id": "p"}`)
		var work sync.WaitGroup
		for n := range callers {
			work.Go(func() {
				item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"id": "p", "attributes": {"a%d": 1}}`, n)), "")
				if _, err := b.Contacts().Write(t.Context(), b.Workspace, upsert.Change, []contact.Item{item}, b.Now(), nil); err != nil {
					t.Error(err)
				}
			})
		}
		work.Go(func() { b.stop("p", true) })
		work.Wait()
		if row := b.row("p"); len(row.Attributes) != callers || !row.Suppressed || row.SuppressReason != "asked" {
			t.Errorf("of %d attributes there are %d; suppressed %v %q", callers, len(row.Attributes), row.Suppressed, row.SuppressReason)
		}
	})
}

// A contact who gave an address up gets nothing at it, even if another one gave it up in the same call.
func TestAddressGivenUpByTwo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"id": "a", "addresses": {"sms": "+44 20 1"}}`, `{"id": "b", "addresses": {"sms": "+44 20 1"}}`)
		b.write(upsert.Merge, `{"id": "a", "addresses": {"sms": null}}`, `{"id": "b", "addresses": {"sms": null}}`)
		d := b.made(b.Post(`{"kind": "text", "id": "e", "recipient": {"address": "+44 20 1"}}`))
		for _, id := range []string{"a", "b"} {
			if d.Contact == b.row(id).ID {
				t.Errorf("it goes to %s", id)
			}
		}
	})
}
