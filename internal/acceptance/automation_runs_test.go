package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// runsOfOccasions has occasions come due: which are taken up, what they wait for when they fail, and what is asked then.
func runsOfOccasions(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	dueQuery(t, &o, open, data)
	ladder(t, &o, open, data)
	asked(t, &o, open, data)
	leases(t, &o, open, data)
	once(t, &o, open, data)
	return o
}

// leases has two workers take the same occasion up, as the source does: under its lease, of which a lost one counts as a failed
// try. The first worker stands still until the second one has taken the occasion up, and goes on then.
func leases(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	lease, _, _ := strings.Cut(data["lease"].(string), " ")
	w := newWorld(t, open(), strings.Replace(strings.Replace(failing, "audience:", "retry: {on_crash: ladder, lease: "+lease+", jitter: none}\naudience:", 1), "1 / 0 : 1", "1 / 0 : record.people", 1))
	w.record("paper/p", map[string]any{"target": "2026-05-14", "people": 1})
	w.rest(enginetest.Start)
	step := func(list string, i int) map[string]any { return data[list].([]any)[i].(map[string]any) }
	// The source's row has been written seven times before; ours only as often as it was.
	read, err := step("claim", 0)["read_version"].(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	ours := int(read - w.only().Version)
	version := func() json.Number { return count(int(w.only().Version) + ours) }
	row := func() map[string]any {
		r := w.only()
		status := string(r.Status)
		if r.Processing(w.Clock.Now()) {
			status = "processing"
		}
		return map[string]any{"status": status, "retry_count": count(r.RetryCount), "next_retry_on": instant(r.NextRetryAt), "version": version()}
	}
	acted := "" // the worker that took the occasion up last, or was done with it or without it
	is := func(list string, i int, names []string, got map[string]any) {
		want := step(list, i)
		o.begin(fmt.Sprintf("%s %d", list, i))
		if name, ok := want["worker"]; ok {
			o.equal("worker", name, acted, nil)
		}
		if name, ok := want["op"]; ok {
			o.equal("op", name, []string{"cleanup", "cleanup", "claim", "complete", "complete"}[i], nil)
		}
		for _, name := range names {
			o.equal(name, want[name], got[name], nil)
		}
	}
	// worker is a process that begins to work at an instant, and does something else once it holds the occasion.
	worker := func(name string, meanwhile func()) error {
		defer func() { acted = name }()
		e, err := engine.New(engine.Config{Store: w.Store, Clock: w.Clock, Concurrency: 1, NoJitter: true, Failpoint: func(point string) error {
			if point == fanout.AfterTaken {
				acted = name
				meanwhile()
			}
			return nil
		}})
		if err == nil {
			_, err = e.Tick(t.Context())
		}
		return err
	}
	changed := func(do func()) json.Number {
		before := w.only()
		do()
		return map[bool]json.Number{true: "1", false: "0"}[w.only() != before]
	}
	tick := func(list string, i int) json.Number {
		return changed(func() { w.At(at(t, step(list, i)["at"])) })
	}

	holds, goOn, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.Clock.Set(at(t, step("claim", 0)["at"]))
	before, unclaimed := version(), w.only()
	go func() { over <- worker("A", func() { close(holds); <-goOn }) }()
	select {
	case <-holds:
	case err := <-over:
		t.Fatalf("A claimed nothing: %v", err)
	}
	first := version() // A's token
	is("claim", 0, []string{"row_version", "token", "lease_until", "rows_changed"}, map[string]any{
		"row_version": before, "token": first, "lease_until": instant(w.only().LeaseUntil), "rows_changed": map[bool]json.Number{true: "1", false: "0"}[w.only() != unclaimed],
	})
	seen := version()
	n := changed(func() {
		w.Clock.Set(at(t, step("claim", 1)["at"]))
		if err := worker("B", func() {}); err != nil {
			t.Errorf("B: %v", err)
		}
	})
	is("claim", 1, []string{"row_version", "rows_changed", "proceeds"}, map[string]any{"row_version": seen, "rows_changed": n, "proceeds": n != "0"})
	n = tick("stale", 0)
	is("stale", 0, []string{"result"}, map[string]any{"result": map[json.Number]string{"0": "nothing, lease alive"}[n]})
	tick("stale", 1)
	is("stale", 1, []string{"row"}, map[string]any{"row": row()})

	w.Clock.Set(at(t, step("stale", 2)["at"]))
	lost, second := version(), json.Number("")
	err = worker("B", func() {
		second = version()
		is("stale", 2, []string{"read_version", "token"}, map[string]any{"read_version": lost, "token": second})
		w.Clock.Set(at(t, step("stale", 3)["at"]))
		n := changed(func() {
			close(goOn)
			if err := <-over; err != nil {
				t.Errorf("A: %v", err)
			}
		})
		is("stale", 3, []string{"token", "rows_changed", "row"}, map[string]any{"token": first, "rows_changed": n, "row": row()})
		unclaimed = w.only()
		w.Clock.Set(at(t, step("stale", 4)["at"]))
	})
	if err != nil {
		t.Fatalf("B: %v", err)
	}
	is("stale", 4, []string{"token", "rows_changed", "row"}, map[string]any{
		"token": second, "rows_changed": map[bool]json.Number{true: "1", false: "0"}[w.only() != unclaimed], "row": row(),
	})
	if sent := w.Provider.Sent(); len(sent) > 1 {
		o.differ("%d messages were sent", len(sent))
	}
}

// only is the one occasion of a world.
func (w *world) only() instance.Row {
	w.Helper()
	rows := slices.Collect(maps.Values(w.occasions()))
	if len(rows) != 1 {
		w.Fatalf("%d occasions, want one", len(rows))
	}
	return rows[0]
}

// write changes the stored row of an occasion past the engine.
func (w *world) write(row instance.Row, change func(*instance.Row)) {
	w.Helper()
	storetest.ChangeInstance(w, w.Store, w.Clock.Now(), row, change)
}

// theirState is a status of the source.
func theirState(t testing.TB, v any) instance.Status {
	t.Helper()
	status := instance.Status(v.(string))
	if !slices.Contains(instance.Statuses(), status) {
		t.Fatalf("unknown status %s", status)
	}
	return status
}

// dueQuery writes each row of the table into the store and has a worker look for work at the instant of the table.
func dueQuery(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	for i, c := range data["due_query"].([]any) {
		c := c.(map[string]any)
		want := c["row"].(map[string]any)
		o.begin(fmt.Sprintf("due query %d", i))
		scheduled := at(t, want["scheduled_on"])
		w := newWorld(t, open(), strings.Replace(failing, "\"09:00\"", fmt.Sprintf("%q", scheduled.Format("15:04")), 1))
		w.record("paper/p", map[string]any{"target": scheduled.Format("2006-01-02"), "people": 0})
		w.rest(enginetest.Start)
		w.write(w.only(), func(row *instance.Row) {
			if row.Status = theirState(t, want["status"]); row.Status != instance.Pending {
				row.CompletedAt = enginetest.Start
			}
			if want["held"].(bool) {
				row.PutOnHold(instance.HoldRetries, enginetest.Start)
			}
			if want["next_retry_on"] != nil {
				row.NextRetryAt = at(t, want["next_retry_on"])
			}
		})
		before := w.only().Attempts
		w.At(at(t, c["at"]))
		o.equal("due", c["due"], w.only().Attempts > before, nil)
	}
}

// once has an occasion go on failing when its ladder is over, where the definition says that it is tried once a day.
func once(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	w := newWorld(t, open(), strings.Replace(failing, "audience:", data["daily_retry"].(map[string]any)["config"].(string)+"\naudience:", 1))
	w.record("paper/p", map[string]any{"target": "2026-05-14", "people": 0})
	w.rest(enginetest.Start)
	nine := at(t, "2026-05-14T09:00:00Z")
	var last time.Time
	for _, after := range []time.Duration{0, 5 * time.Minute, 20 * time.Minute, 80 * time.Minute} {
		last = nine.Add(after)
		w.rest(last)
	}
	o.begin("a retry once a day")
	for _, row := range w.occasions() {
		want := data["daily_retry"].(map[string]any)["after_third"].(map[string]any)
		o.equal("a retry once a day", want, map[string]any{"next": fmt.Sprintf("%.0fh", row.NextRetryAt.Sub(last).Hours()), "held": row.Held()}, nil)
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

// ladder has an occasion fail at every step of its ladder.
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
	if taken(nine.Add(-time.Microsecond)) {
		o.differ("it was taken up before it is due")
	}
	for i, step := range data["ladder"].([]any) {
		step := step.(map[string]any)
		now := at(t, step["at"])
		if i > 0 && taken(now.Add(-time.Second)) {
			o.differ("step %d: it was taken up before it is time", i)
		}
		failed := ""
		if taken(now) {
			failed = "retryable failure"
		}
		row := find()
		o.begin(fmt.Sprintf("step %d of the ladder", i))
		want := maps.Clone(step)
		delete(want, "at")
		if hold, ok := want["hold_reason"]; ok {
			o.equal("why it is held", hold, strings.Replace(string(row.Reason), "retries_used_up", "retries_exhausted", 1), nil)
			delete(want, "hold_reason")
		}
		o.equal(fmt.Sprintf("step %d of the ladder", i), want, map[string]any{
			"status": string(row.Status), "retry_count": count(row.RetryCount), "next_retry_on": instant(row.NextRetryAt), "held": row.Held(), "outcome": failed,
		}, nil)
	}
	if taken(nine.Add(72 * time.Hour)) {
		o.differ("what is held was taken up")
	}
}

// asked changes the world between the evaluation that planned an occasion and its due time, without one in between: each case
// writes to the store what nobody has looked at.
func asked(t testing.TB, o *outcome, open func() *store.Store, data map[string]any) {
	due := time.Date(2026, 7, 31, 21, 0, 0, 0, time.UTC)
	for _, c := range data["revalidation"].([]any) {
		c := c.(map[string]any)
		o.begin("revalidation, " + fmt.Sprint(c["at_due"]))
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
			w.write(w.only(), func(row *instance.Row) { row.InputHash = key.Hash("what another version of the program hashes") })
		default:
			o.differ("%s: unknown", where)
		}
		w.rest(due)
		row := w.occasions()["reminder:set1:staff:s1:vetting_expiry:2026-08-31:30"]
		got := map[string]any{"status": string(row.Status), "reason": theirReason(row.Reason), "held": row.Held(), "hold_reason": string(row.Hold.Reason()), "outcome": strings.Replace(string(row.Reason), "no_recipient", "no_recipients", 1)}
		if sent := w.Provider.Sent(); len(sent) == 1 {
			got["uses"] = sent[0].Subject
		}
		want := maps.Clone(c)
		delete(want, "at_due")
		o.equal(where, want, got, nil)
	}
}
