package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/expander"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
)

// runsOfOccasions has occasions come due: which are taken up, what they wait for when they fail, and what is asked then.
func runsOfOccasions(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	ladder(t, &o, open, data)
	asked(t, &o, open, data)
	leases(t, &o, open, data)
	once(t, &o, open, data)
	return o
}

// leases has two workers take the same occasion up, as the source does: under a lease of five minutes, of which a lost one counts
// as a failed try.
func leases(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	w := newWorld(t, open(), strings.Replace(strings.Replace(failing, "audience:", "retry: {on_crash: ladder, lease: 5m, jitter: none}\naudience:", 1), "1 / 0 : 1", "1 / 0 : record.people", 1))
	w.record("paper/p", map[string]any{"target": "2026-05-14", "people": 1})
	w.rest(enginetest.Start)
	row := func() instance.Row {
		for _, row := range w.occasions() {
			return row
		}
		return instance.Row{}
	}
	// The source's row has been written seven times before; ours only as often as it was.
	claim, stale := data["claim"].([]any), data["stale"].([]any)
	first := claim[0].(map[string]any)
	read, err := first["read_version"].(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	ours := int(read - row().Version)
	version := func() json.Number { return count(int(row().Version) + ours) }
	is := func(what string, want, got any) {
		o.cases++
		o.equal(what, want, got, nil)
	}
	// A worker takes the occasion up and stands still; what others do meanwhile is done in between.
	worker := func(meanwhile func()) {
		t.Helper()
		e, err := engine.New(engine.Config{Store: w.Store, Clock: w.Clock, Concurrency: 1, NoJitter: true, Failpoint: func(point string) error {
			if point == expander.AfterTaken {
				meanwhile()
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tick := func(at time.Time) {
		t.Helper()
		w.Clock.Set(at)
		if _, err := w.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.Clock.Set(at(t, first["at"]))
	worker(func() { // A
		is("A claims", map[string]any{"token": first["token"], "lease_until": first["lease_until"]},
			map[string]any{"token": version(), "lease_until": instant(row().LeaseUntil)})
		before := row()
		tick(w.Clock.Now()) // B
		is("B claims too", claim[1].(map[string]any)["proceeds"], row() != before)
		tick(at(t, stale[0].(map[string]any)["at"]))
		is("cleanup while the lease is alive", false, row() != before)
		lost := stale[1].(map[string]any)
		tick(at(t, lost["at"]))
		is("cleanup of the lost lease", lost["row"], map[string]any{
			"status": string(row().Status), "retry_count": count(row().RetryCount), "next_retry_on": instant(row().NextRetryAt), "version": version(),
		})
		again := stale[2].(map[string]any)
		w.Clock.Set(at(t, again["at"]))
		worker(func() { // B
			is("B claims", again["token"], version())
			w.Clock.Set(at(t, stale[4].(map[string]any)["at"]))
		})
	})
	// A has gone on by now, with the token of before, when B was done: nothing of what it did was written.
	done := stale[4].(map[string]any)["row"]
	is("B completes, and A does not", done, map[string]any{"status": string(row().Status), "version": version()})
	if sent := w.Provider.Sent(); len(sent) > 1 {
		o.differ("%d messages were sent", len(sent))
	}
}

// once has an occasion go on failing when its ladder is over, where the definition says that it is tried once a day.
func once(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	w := newWorld(t, open(), strings.Replace(failing, "audience:", "retry: {backoff: [5m, 15m, 1h], then: daily}\naudience:", 1))
	w.record("paper/p", map[string]any{"target": "2026-05-14", "people": 0})
	w.rest(enginetest.Start)
	nine := at(t, "2026-05-14T09:00:00Z")
	var last time.Time
	for _, after := range []time.Duration{0, 5 * time.Minute, 20 * time.Minute, 80 * time.Minute} {
		last = nine.Add(after)
		w.rest(last)
	}
	o.cases++
	for _, row := range w.occasions() {
		want := data["daily_retry"].(map[string]any)["after_third"].(map[string]any)
		o.equal("a retry once a day", want, map[string]any{"next": fmt.Sprintf("%.0fh", row.NextRetryAt.Sub(last).Hours()), "held": row.Held}, nil)
	}
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
		if hold, ok := want["hold_reason"]; ok {
			o.equal("why it is held", hold, strings.Replace(string(row.Reason), "retries_used_up", "retries_exhausted", 1), nil)
			delete(want, "hold_reason")
		}
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
