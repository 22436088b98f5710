package console_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const comingDefinitions = `workflow: course
type: reminder
triggers:
  - id: weekly
    record: stay
    when: record.out != null
timing:
  anchor: record.out
  timezone: Asia/Tokyo
  sequence: [{day: 0, at: "08:00"}, {day: 3, at: "18:00"}]
  repeat: {every: 1w, times: 2}
audience: {to: record.who}
channel: inbox
message: {inbox: {text: x}}
---
workflow: endless
type: reminder
triggers:
  - id: daily
    record: stay
    when: record.out != null
timing: {anchor: record.out, at: "09:00", repeat: {every: 1d}}
audience: {to: record.who}
channel: inbox
message: {inbox: {text: x}}
---
workflow: never
type: reminder
triggers:
  - id: high
    record: stay
    when: record.level > 3
    timing: {anchor: record.out}
audience: {to: record.who}
channel: inbox
message: {inbox: {text: x}}
---
workflow: welcome
type: broadcast
triggers: {id: joined, event: joined}
timing:
  timezone: [contact.timezone, UTC]
  sequence: [{after: 0m}, {day: 3, at: "09:00"}]
audience: {to: event.recipient}
channel: inbox
message: {inbox: {text: x}}
---
record_type: stay
fields: {out: date, who: contact, level: number}
`

// coming makes a record with courses and a contact in a series.
func (b *bundle) coming(t *testing.T) {
	t.Helper()
	b.apply(t, comingDefinitions)
	ann := []contact.Item{contact.Parse(json.RawMessage(`{"id":"ann","timezone":"Africa/Nairobi","addresses":{"inbox":"ann"}}`), "")}
	if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, ann, b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	b.write(t, `{"type": "stay", "id": "it's 7", "props": {"out": "2026-05-20", "who": "ann", "level": 1}}`, `{"type": "stay", "id": "8", "props": {"who": "ann"}}`)
	b.post(t, `{"kind":"joined","id":"1","recipient":{"customer_ref":"ann","address":"ann"}}`)
	b.tick(t)
}

// The page of a record lists what is to come of all workflows that follow it, each in its own zone, with the round and the message, why it ends, and the
// command that prints more. The page of a contact lists the series after events.
//
// Shows: D16, D21, R14, R15.
func TestWhatIsToCome(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.coming(t)
		h := b.handler(t, console.Deps{Guest: "default"})
		for path, want := range map[string][]string{
			"/records/stay/it%27s%207": {
				"What is to come", "20 May 08:00", "Asia/Tokyo course round 1, message 1 of 2 waiting", "20 May 09:00", "Asia/Tokyo course round 1, message 2 of 2 planned",
				"endless round 1 waiting", "It ends after 2 times. The last one is due on 30 May 2026.", "never high", "record.level &gt; 3", `carillon preview endless --record 'stay/it'\''s 7' -n 200`,
			},
			"/records/stay/8": {"Nothing is to come, as far as is known.", "never high"},
			"/contacts/ann":   {"What is to come", "17 May 09:00", "Africa/Nairobi welcome round 1, message 2 of 2 waiting"},
		} {
			a := get(t, h, path)
			wellFormed(t, path, a.body)
			text := plain(a.body)
			for _, part := range want {
				if !strings.Contains(text, part) && !strings.Contains(a.body, part) {
					t.Errorf("%s does not say %q:\n%s", path, part, text)
				}
			}
			if n := strings.Count(a.body, `data-label="message"`); n > 20 {
				t.Errorf("%s lists %d", path, n)
			}
		}
	})
}
