package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// letters is a workflow that writes to the contacts of a record, by email and else by SMS.
func letters(to string) string {
	return `
workflow: w
type: reminder
triggers:
  - id: t
    record: patient
    when: record.status == "due"
audience:
` + to + `
channel: email
fallback: [sms:twilio]
message:
  email:
    subject: Dear
    text: "{{ record.name }}, {{ contact.timezone }}"
  sms:
    text: "{{ record.name }}"
---
record_type: patient
fields:
  name: text
  status: text
  email: text
  phone: text
  locale: text
  timezone: text
  owner: contact
  mother: record(patient)
  helpers: list
---
channel: email
provider: memory
---
channel: sms:twilio
provider: memory
---
persona: Manager
cadence: {max_per_day: 0}
`
}

// sentTo returns the contacts who got messages since the last call, and the messages.
func (w world) sentTo() (all []string) {
	for _, m := range w.Provider.Sent() {
		all = append(all, fmt.Sprintf("%s %s: %s", m.Channel, m.Address, m.Text))
	}
	slices.Sort(all)
	return all
}

// A record is reached as the contact with its id, else by its own address for the first channel for which it has one: as the contact with that
// address, once, with their limits and their suppression.
//
// Shows: R20.
func TestARecordIsReachedByItsOwnAddress(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, letters("  - to: record"), "ann")
		w.put("patient/ann", `{"name": "Ann", "email": "other@example.org", "status": "due"}`)
		w.put("patient/1", `{"name": "One", "email": "One@example.org", "phone": "+49 30 000001", "timezone": "Europe/Berlin", "locale": "de", "status": "due"}`)
		w.put("patient/2", `{"name": "Two", "phone": "+49 30 000002", "status": "due"}`)
		w.put("patient/3", `{"name": "Three", "email": "not given", "status": "due"}`)
		w.put("patient/4", `{"name": "Four", "email": "ann@example.org", "status": "due"}`)
		w.live("10:01")
		w.mustBe("each by their own", w.sentTo(), []string{
			"email:default One@example.org: One, Europe/Berlin", "email:default ann@example.org: Ann, ", "email:default ann@example.org: Four, ",
			"sms:twilio +49 30 000002: Two",
		})
		people, err := s.Contacts(t.Context(), w.Workspace.ID, store.ContactFilter{}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(people) != 3 { // Ann, who is Four too, One and Two
			t.Errorf("%d contacts: %v", len(people), people)
		}
		w.put("patient/5", `{"name": "Five", "email": "one@EXAMPLE.org", "status": "due"}`)
		one := people[slices.IndexFunc(people, func(c subject.ContactRow) bool { return c.Address == "One@example.org" })]
		wish := contact.Suppression{Contact: one.ExtID, Suppress: true, Reason: "asked", Actor: "test"}
		if _, err := w.Contacts().Stop(t.Context(), w.Workspace, wish, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.live("10:02")
		w.mustBe("One is suppressed, and Five has their address", w.sentTo(), nil)
	})
}

// Audiences go from a record to its owner, to records that it references, and to lists of them.
func TestAudiencesFollowARecord(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, letters("  - to: record.owner\n  - to: record.mother\n  - to: record.mother.owner\n  - to: record.helpers"), "ann", "bob", "cyd")
		w.put("patient/mum", `{"name": "Mum", "email": "mum@example.org", "owner": "bob"}`)
		w.put("patient/kid", `{"name": "Kid", "mother": "mum", "owner": "ann", "helpers": ["cyd", "ann", "nobody"], "status": "due"}`)
		w.live("10:01")
		w.mustBe("all of them, once", w.sentTo(), []string{
			"email:default ann@example.org: Kid, ", "email:default bob@example.org: Kid, ", "email:default cyd@example.org: Kid, ",
			"email:default mum@example.org: Kid, ",
		})
		w.put("patient/kid2", `{"name": "Kid", "mother": "gone", "status": "due"}`)
		w.live("10:02")
		w.mustBe("nobody", w.sentTo(), nil)
	})
}
