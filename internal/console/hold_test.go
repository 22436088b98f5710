package console_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const dated = `
workflow: due
type: reminder
triggers:
  - id: t
    record: visit
    timing: {anchor: record.on_date, at: "06:00", timezone: UTC}
retry: {backoff: [5m]}
audience: {to: record.who}
channel: inbox
message: {inbox: {text: x}}
---
workflow: daily
type: reminder
triggers: {schedule: {every: 1d, at: "07:00", timezone: UTC}}
audience: {to: "'ann'"}
channel: inbox
message: {inbox: {text: x}}
`

const conflictKey = "reminder:due:visit:other:t:2026-05-14:0"

// heldOccasions puts one occasion of the workflow due on hold for other inputs and one for its failures. What it returns changes
// the stored inputs of the first.
func heldOccasions(t *testing.T, b *bundle) (planBy func(inputs string)) {
	t.Helper()
	items := []record.Item{
		record.Parse(json.RawMessage(`{"props": {"on_date": "2026-05-14", "who": "ann"}}`), "visit", "other"),
		record.Parse(json.RawMessage(`{"props": {"on_date": "2026-05-14", "who": {"not": "a name"}}}`), "visit", "failing"),
	}
	if _, err := b.engine.Records().Write(t.Context(), b.ws, upsert.Merge, items, "test", b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	b.tick(t)
	const other = `{"anchor":"record.booked_on"}`
	if err := b.store.KeepInputs(t.Context(), b.ws.ID, []string{other}); err != nil {
		t.Fatal(err)
	}
	conflict, err := b.store.InstanceByKey(t.Context(), b.ws.ID, conflictKey)
	if err != nil {
		t.Fatal(err)
	}
	planBy = func(inputs string) {
		t.Helper()
		storetest.ChangeInstance(t, b.store, b.clock.Now(), conflict, func(in *instance.Row) { in.InputHash = key.Hash(inputs) })
	}
	planBy(other)
	for _, at := range []time.Duration{0, 5 * time.Minute, 6 * time.Minute} {
		b.clock.Set(time.Date(2026, 5, 14, 6, 0, 0, 0, time.UTC).Add(at))
		b.tick(t)
	}
	return planBy
}

// The page of what is held says since when, for what, with which failures or between which inputs, and by which commands it goes
// on; the list of holds leads there. It changes nothing itself.
//
// Shows: B23, B28.
func TestPagesOfHolds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, dated)
		planBy := heldOccasions(t, b)
		row := func(id string) instance.Row {
			t.Helper()
			row, err := s.InstanceByKey(t.Context(), b.ws.ID, id)
			if err != nil {
				t.Fatal(err)
			}
			return row
		}
		conflict, failing, daily := row(conflictKey), row("reminder:due:visit:failing:t:2026-05-14:0"), row("reminder:daily:2026-05-14")
		h := b.handler(t, console.Deps{Guest: "default"})
		id := func(in instance.Row) string {
			return engine.PublicIDs(b.ws).Encode(key.KindInstance, int64(b.ws.ID), int64(in.ID))
		}
		shows := func(path string, want ...string) {
			t.Helper()
			page := get(t, h, path).body
			wellFormed(t, path, page)
			if strings.Contains(page, "@distant") || strings.Contains(page, "@stamp") {
				t.Errorf("%s shows how it is made", path)
			}
			for _, text := range want {
				if !strings.Contains(page, text) {
					t.Errorf("%s lacks %q in\n%s", path, text, page)
				}
			}
		}
		held := "The same key came again with other inputs; a person must decide."
		shows("/instances/"+id(conflict), "06:00", held, "record.booked_on", "record.on_date", "differs", "stored, version 1", "carillon instances release "+id(conflict), "carillon instances cancel")
		shows("/instances/"+id(failing), "06:05", "The last failures", "carillon instances release "+id(failing))
		shows("/instances?held=true", "Held since", held, "/instances/"+id(conflict), "/instances/"+id(failing))
		shows("/instances/"+id(daily), "carillon run daily --run-id ID")
		if page := get(t, h, "/instances/"+id(daily)).body; strings.Contains(page, "instances release") {
			t.Error("what is not held has the commands of what is")
		}
		planBy("inputs that are not stored")
		shows("/instances/"+id(conflict), "not known", "was never written down")
	})
}

// The pages of a broadcast with more people than its brake allows: whom it would concern, how many have it, that it is held, and the command that
// has it go on.
func TestPagesOfABroadcastHeldByItsBrake(t *testing.T) {
	t.Parallel()
	const brakes = "workflow: news\ntype: broadcast\ntriggers: {schedule: {every: 1d, from: 2099-01-01, at: \"07:00\", timezone: UTC}}\naudience: {everyone: true}\nchannel: inbox\n" +
		"message: {inbox: {text: x}}\nlimits: {max_recipients_per_run: 2}\n"
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		if applied, err := b.engine.Apply(t.Context(), b.ws, []definition.File{{Name: "news.yaml", Text: []byte(brakes)}}, "test"); err != nil || applied.Number == 0 {
			t.Fatal(applied.Problems, err)
		}
		var people []contact.Item
		for _, who := range []string{"ann", "bob", "cyd", "dan"} {
			people = append(people, contact.Parse(json.RawMessage(`{"addresses": {"inbox": "`+who+`"}}`), who))
		}
		if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Replace, people, b.clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		run, err := b.engine.RunManually(t.Context(), b.ws, "news", "1", "ann", nil)
		if err != nil {
			t.Fatal(err)
		}
		b.tick(t)
		h := b.handler(t, console.Deps{Guest: "default"})
		id := engine.PublicIDs(b.ws).Encode(key.KindInstance, int64(b.ws.ID), int64(run.Row.ID))
		page, cancel := "/instances/"+id, "carillon instances cancel "+id
		shows := func(path string, want, lacks []string) {
			t.Helper()
			body := get(t, h, path).body
			for _, text := range want {
				if !strings.Contains(body, text) {
					t.Errorf("%s lacks %q in\n%s", path, text, body)
				}
			}
			for _, text := range lacks {
				if strings.Contains(body, text) {
					t.Errorf("%s has %q", path, text)
				}
			}
		}
		const more = "Its audience has more people, who are taken up when it is released."
		release := "carillon instances release " + id
		shows("/workflows/news/recipients", []string{"max_recipients_per_run", "A run is held after 2 of them, until a person releases it.", ">ann</a>", ">dan</a>"}, nil)
		shows(page, []string{
			reason.TooManyRecipients.Sentence(), "has it take up all the others too", release, cancel, more, "<dt>people taken up</dt><dd>2</dd>", "<dt>sent</dt><dd>2</dd>",
		}, []string{"released from its brake"})
		if _, err := b.engine.Operator().Release(t.Context(), b.ws.ID, run.Row.ID, "ann", b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.tick(t)
		shows(page, []string{"<dt>released from its brake</dt>", "<dt>people taken up</dt><dd>4</dd>", "<dt>sent</dt><dd>4</dd>"}, []string{release, more, reason.TooManyRecipients.Sentence()})
	})
}
