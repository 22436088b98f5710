package acceptance

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
)

// runsOfOccasions has occasions come due: which are taken up, what they wait for when they fail, and what is asked then.
func runsOfOccasions(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	ladder(t, &o, open, data)
	asked(t, &o, open, data)
	o.waiting = append(o.waiting,
		"claim and stale: an occasion is held by the lock of its row and not by a lease, so that a worker that dies leaves it as it was (lease_test.go shows both of deliveries)",
		"daily_retry: then: daily is not in the format yet")
	return o
}

// failing is a reminder whose audience cannot be computed while a record says so.
const failing = `
workflow: w
type: reminder
triggers:
  - id: t
    record: paper
    timing: {anchor: record.target, at: "09:00"}
audience:
  - to: "record.people == 0 ? 1 / 0 : 1"
channel: email
message:
  email: {subject: x, text: x}
---
record_type: paper
fields: {target: date, people: number}
---
channel: email
provider: memory
`

// ladder has an occasion fail at every step of its ladder; what was found in between is the due query.
func ladder(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	w := newWorld(t, open(), failing)
	w.record("paper/p", map[string]any{"target": "2026-05-14", "people": 0})
	w.rest(enginetest.Start)
	find := func() instance.Row {
		for _, row := range w.occasions() {
			return row
		}
		return instance.Row{}
	}
	taken := func(at time.Time) bool {
		before := find().Attempts
		w.rest(at)
		return find().Attempts > before
	}
	nine := at(t, "2026-05-14T09:00:00Z")
	queries := data["due_query"].([]any)
	query := func(i int, got bool) {
		o.cases++
		o.equal(fmt.Sprintf("due query %d", i), queries[i].(map[string]any)["due"], got, nil)
	}
	if taken(nine.Add(-time.Microsecond)) {
		o.differ("it was taken up before it is due")
	}
	for i, step := range data["ladder"].([]any) {
		step := step.(map[string]any)
		now := at(t, step["at"])
		if i > 0 && taken(now.Add(-time.Second)) {
			o.differ("step %d: it was taken up before it is time", i)
		}
		got := taken(now)
		if i == 0 {
			query(1, got)
			query(2, taken(now.Add(time.Minute)))
		}
		row := find()
		o.cases++
		want := maps.Clone(step)
		delete(want, "at")
		delete(want, "outcome")
		delete(want, "hold_reason") // ours is why the last try failed
		o.equal(fmt.Sprintf("step %d of the ladder", i), want, map[string]any{
			"status": string(row.Status), "retry_count": count(row.RetryCount), "next_retry_on": instant(row.NextRetryAt), "held": row.Held,
		}, nil)
	}
	query(3, taken(nine.Add(72*time.Hour)))
	// What is late is taken up, and what was withdrawn is not, whatever it is due.
	w.record("paper/late", map[string]any{"target": "2026-05-17", "people": 0})
	w.record("paper/gone", map[string]any{"target": "2026-05-19", "people": 0})
	w.rest(nine.Add(73 * time.Hour))
	late := false
	for _, row := range w.occasions() {
		late = late || strings.Contains(row.Key, ":late:") && row.Attempts == 1
	}
	query(0, late)
	w.record("paper/gone", map[string]any{"people": 0})
	w.rest(nine.Add(74 * time.Hour))
	w.rest(nine.Add(6 * 24 * time.Hour))
	gone := false
	for _, row := range w.occasions() {
		gone = gone || strings.Contains(row.Key, ":gone:") && (row.Attempts > 0 || row.Status == instance.Pending)
	}
	query(4, gone)
}

// asked changes the world between the look that planned an occasion and its due time, without a look in between: each case
// writes to the store what nobody has looked at.
func asked(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	due := time.Date(2026, 7, 31, 21, 0, 0, 0, time.UTC)
	for _, c := range data["revalidation"].([]any) {
		c := c.(map[string]any)
		o.cases++
		where := fmt.Sprint(c["at_due"])
		w := newWorld(t, open(), vetting)
		if where != "no recipients" {
			w.person("kim")
		}
		w.record("staff/s1", map[string]any{"vetting_expiry": "2026-08-31", "owner_id": "kim"})
		w.rest(enginetest.Start)
		w.Clock.Set(due)
		switch where {
		case "source archived":
			w.must("PUT", "/v1/records/staff/s1", map[string]any{"props": map[string]any{"vetting_expiry": "2026-08-31", "owner_id": "kim"}, "closed": true})
		case "setting disabled":
			w.Apply(strings.Replace(vetting, "type: reminder", "type: reminder\nenabled: false", 1))
		case "template changed":
			w.Apply(strings.Replace(vetting, "{subject: v1, text: v1}", "{subject: new template, text: x}", 1))
		case "no recipients":
		case "identity hash differs":
			o.cases--
			o.waiting = append(o.waiting, "revalidation, identity hash differs: nothing that a caller can do writes another hash (the engine's own tests write one)")
			continue
		default:
			o.differ("%s: unknown", where)
		}
		w.rest(due)
		row := w.occasions()["reminder:set1:staff:s1:vetting_expiry:2026-08-31:30"]
		got := map[string]any{"status": string(row.Status), "reason": theirReason(row.Reason), "held": row.Held, "outcome": strings.Replace(string(row.Reason), "no_recipient", "no_recipients", 1)}
		if sent := w.Provider.Sent(); len(sent) == 1 {
			got["uses"] = sent[0].Subject
		}
		want := maps.Clone(c)
		delete(want, "at_due")
		o.equal(where, want, got, nil)
	}
}
