package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// multitude is a workflow for a persona with many members; trigger is its trigger.
func multitude(trigger string) string {
	return `
workflow: w
type: alert
vars: {plan: gold}
triggers:
  - id: t
    ` + trigger + `
audience:
  - persona: Manager
    where: contact.attributes.plan == vars.plan
channel: email
message:
  email: {subject: first, text: first}
---
persona: Manager
cadence: {max_per_month: 10000}
---
channel: inbox
provider: inbox
---
channel: email
provider: memory
`
}

// An edit while a large audience is expanded applies to the next occasion: everybody gets the version with which this one began, with its channel and
// its texts. Only a removed trigger or a disabled workflow ends the occasion at once.
//
// Shows: R17.
func TestAnEditWhileAnAudienceIsExpanded(t *testing.T) {
	t.Parallel()
	const people = store.MemberPage + 200
	for name, how := range map[string]struct {
		trigger string
		begin   func(w world)
	}{
		"record": {"record: team\n    when: record.go == true\n    cooldown: {length: 9h}", func(w world) { w.put("team/1", `{"go": true}`) }},
		"ahead":  {"record: team\n    when: record.go == true", func(w world) { w.put("team/1", `{"go": true}`) }},
		"schedule": {`schedule: {every: 1d, at: "10:30"}`, func(w world) {
			w.Clock.Set(at("10:30"))
		}},
	} {
		definitions := multitude(how.trigger)
		edits := map[string]struct {
			text string
			want int
		}{
			"edited":  {strings.NewReplacer("first", "second", "channel: email\nm", "channel: inbox\nm", "  email: {", "  inbox: {", "gold", "silver").Replace(definitions), people},
			"removed": {strings.Replace(definitions, "id: t", "id: other\n    enabled: false", 1), 0},
			"off":     {strings.Replace(definitions, "vars:", "enabled: false\nvars:", 1), 0},
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for edit, e := range edits {
				if edit != "edited" && name != "schedule" { // the same for all
					continue
				}
				t.Run(edit, func(t *testing.T) {
					storetest.Each(t, func(t *testing.T, s *store.Store) {
						w := newWorld(t, s, definitions)
						items := make([]contact.Item, people)
						for i := range items {
							items[i] = contact.Parse(fmt.Appendf(nil, `{"persona": "Manager", "addresses": {"inbox": "p%d", "email": "p%[1]d@example.org"}, "attributes": {"plan": "gold"}}`, i), fmt.Sprint("p", i))
						}
						if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, items, w.Clock.Now(), nil); err != nil {
							t.Fatal(err)
						}
						how.begin(w)
						w.tick()
						before := len(w.Provider.Sent())
						w.Apply(e.text)
						w.live(w.Clock.Now().Add(90 * time.Second).Format("15:04:05"))
						got := map[string]int{}
						for _, out := range w.Provider.Sent() {
							got[out.Subject+" by "+out.Channel]++
						}
						if e.want > 0 && got["first by email:default"] != e.want-before || e.want == 0 && len(got) > 0 {
							t.Errorf("%d before, then %v", before, got)
						}
					})
				})
			}
		})
	}
}

// A contact claims an address during the fan-out, after the message to that address was made: they have got the message. No fallback channel is used
// for them because that message has used up their limits.
//
// Shows: R19, R20.
func TestAMergeWhileAnAudienceIsExpanded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, `
workspace: default
cadence: {cooldown: 1h}
---
channel: sms
provider: memory
---
channel: email
provider: memory
---
workflow: hello
type: custom
triggers: [{id: t, event: hello}]
audience: [{to: event.recipient}]
channel: sms
message:
  sms: {text: hello}
---
workflow: all
type: alert
triggers: [{id: t, event: all}]
audience: [{everyone: true}]
channel: sms
fallback: [email]
limits: {at_create: fallback}
message:
  sms: {text: news}
  email: {subject: news, text: news}
`)
		w.Post(`{"kind": "hello", "id": "1", "recipient": {"address": "+49 30 1"}}`)
		w.live("10:01")
		w.Clock.Set(at("12:00"))
		write := func(items ...contact.Item) {
			t.Helper()
			if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Merge, items, w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		others := make([]contact.Item, store.MemberPage)
		for i := range others {
			others[i] = contact.Parse([]byte(`{}`), fmt.Sprint("p", i))
		}
		write(others...)
		write(contact.Parse([]byte(`{"addresses": {"email": "zoe@example.org"}}`), "zoe"))
		w.Post(`{"kind": "all", "id": "2"}`)
		w.tick()
		w.Clock.Set(at("12:00:01"))
		write(contact.Parse([]byte(`{"addresses": {"sms": "+49 30 1"}}`), "zoe"))
		w.live("14:00")
		var got []string
		for _, out := range w.Provider.Sent() {
			got = append(got, out.Channel+" "+out.Text)
		}
		w.mustBe("what one person got", got, []string{"sms:default hello", "sms:default news"})
	})
}
