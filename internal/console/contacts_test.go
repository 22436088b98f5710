package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const people = `
persona: Mechanic
cadence: {max_per_day: 1, quiet_hours: "23:00-07:00"}
---
workflow: pump-alert
type: alert
triggers:
  - id: stopped
    record: pump
    when: record.running == false
    cooldown: {length: 2h, per: [record.id]}
timing:
  expire_after: 50h
audience:
  - persona: Mechanic
channel: sms:box
message:
  sms: {text: A pump stands still.}
---
channel: sms:box
provider: inbox
`

// TestPagesOfPeople: what limits, and a missing address, did to four messages, on each page that shows it.
//
// Shows: A43.
func TestPagesOfPeople(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, people)
		var items []contact.Item
		for _, raw := range []string{
			`{"id": "ann/1", "persona": "Mechanic", "addresses": {"sms": "+4930000001"}}`, `{"id": "ben", "persona": "Mechanic"}`,
			`{"id": "cid", "persona": "Mechanic", "addresses": {"sms": "+4930000002"}, "cadence": {"max_per_day": 9}}`,
		} {
			items = append(items, contact.Parse(json.RawMessage(raw), ""))
		}
		if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, items, b.clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		var pumps []string
		for i := range 4 {
			pumps = append(pumps, fmt.Sprintf(`{"type": "pump", "id": "%d", "props": {"running": false}}`, i))
		}
		b.write(t, pumps...)
		h := b.handler(t, console.Deps{Guest: "default"})
		says := func(path string, want ...string) string {
			t.Helper()
			a := get(t, h, path)
			wellFormed(t, path, a.body)
			text := plain(a.body)
			for _, w := range want {
				if a.status != http.StatusOK || !strings.Contains(text, w) {
					t.Errorf("%s (%d) does not say %q:\n%s", path, a.status, w, text)
				}
			}
			return a.body
		}
		// Of the four alerts to Ann one came, two wait for the next days, and the last would come too late.
		says("/", "5 deliveries sent.")
		body := says("/contacts/ann%2F1", "reachable", "messages a day 1 persona Mechanic 1 of 1 today", "Waiting status workflow channel last sent next why deferred pump-alert sms:box",
			"not sent pump-alert sms:box Expired. There was no free instant before it expires.", "15 May 07:00 waits pump-alert sms:box The person's limit for the day is used up.",
			"sent pump-alert sms:box", "The times above are in Asia/Baghdad, the person's zone.")
		last := regexp.MustCompile(`href="(/deliveries/[^"]*)"`).FindAllStringSubmatch(body, 2)
		says(last[0][1], "It waits until 15 May 07:00. The person's limit for the day is used up. In the end it waits for the end of the quiet hours.", "1 of 1 today, free again 2026-05-15 00:00", "after that, other limits or what waits already keep it: waits for the end of the quiet hours until 2026-05-15 07:00 Asia/Baghdad")
		// Another version of the program kept limits that this one does not know: they do not hold, and the page says so.
		if err := s.Write(t.Context(), func(tx *store.Tx) error {
			known, err := tx.LockContacts(b.ws.ID, []string{"cid"})
			if err != nil {
				return err
			}
			row := known["cid"]
			row.Cadence = `{"max_per_day":9,"max_per_fortnight":1}`
			_, _, err = tx.WriteContacts(b.ws.ID, b.clock.Now(), known, []store.ContactWrite{{ContactRow: row}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		says("/contacts?top=1d", "contact name messages channels", "Who got most messages.", "ann/1", "sms:box 1")
		says("/contacts?top=30d", "most in 30 days")
		if a := get(t, h, "/contacts?top=nonsense"); a.status != http.StatusSeeOther {
			t.Errorf("a span that cannot be read: %d", a.status)
		}
		says("/contacts/cid", `Their own limits cannot be read by this version, so they do not hold: "max_per_fortnight" is not a limit`, "persona Mechanic")
		b.apply(t, "group: mechanics\nwhere: contact.persona == \"Mechanic\"\n---\ngroup: board\nmembers: [ann/1, nobody]\n")
		says("/groups", "mechanics 0 contact.persona == \"Mechanic\" computing", "board 0 2 ids computing")
		says("/groups/board", "Its contacts are being computed", "Nobody belongs to it.")
		b.settle(t)
		says("/groups", "mechanics 3 contact.persona == \"Mechanic\" computed", "board 1 2 ids computed")
		says("/groups/mechanics", "members 3", "ann/1", "ben", "cid")
		b.apply(t, "workflow: tip\ntype: broadcast\ntriggers: {id: weekly, schedule: {every: 1d, at: \"09:00\"}}\naudience: [{group: mechanics}, {address: '\"+4930000003\"', kind: sms}]\nchannel: sms:box\nmessage: {sms: {text: Hello}}\n")
		says("/workflows/tip", "Its audience now")
		says("/workflows/tip/recipients", "people 4", "without a contact yet 1", "none yet +4930000003", "ann/1", "carillon run tip --count")
		says("/workflows/pump-alert/recipients", "It is known when a message is due: trigger stopped: it is about a record of type pump.")
		if a := get(t, h, "/workflows/none/recipients"); a.status != http.StatusNotFound {
			t.Errorf("a workflow that is not defined: %d", a.status)
		}
		if _, err := b.engine.Contacts().Stop(t.Context(), b.ws, contact.Suppression{Contact: "ann/1", Suppress: true, Kind: "sms", Reason: "asked us", Actor: "eve"}, b.clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		says("/contacts/ann%2F1", "group board", "group mechanics", "not reachable No sms is sent: The person wants no messages", "no sms since", "opted out")
		says("/runs", "computes groups of everybody")
		if a := get(t, h, "/groups/none"); a.status != http.StatusNotFound {
			t.Errorf("a group that is not defined: %d", a.status)
		}
		says("/contacts/ben", "not reachable", "They have no address on any channel that is defined", "not sent pump-alert sms:box Skipped. The person has no address for this channel.")
		says("/deliveries?reason=no_address", "skipped ben pump-alert")
	})
}
