package engine_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// finishing is a way in which a record comes to have many finished occasions, and a change of its plan.
type finishing struct {
	name    string
	trigger string
	timing  string
	first   string    // fields of which an occasion follows
	due     time.Time // when its message is sent
	changes [2]string // fields that change the plan, again and again
}

// finishings are the policies that make more than one occasion of a record.
func finishings() []finishing {
	return []finishing{
		{
			name: "dates", trigger: "{id: t, record: visit}", timing: `{anchor: record.due_on, offset: [0d, 30d], at: "09:00", reminders: [1d]}`,
			first: `{"due_on": "2026-05-20"}`, due: time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC),
			changes: [2]string{`{"due_on": "2026-07-01"}`, `{"due_on": "2026-07-02"}`},
		},
		{
			name: "once_per_day", trigger: "{id: t, record: visit, when: record.low == true, fire: once_per_day}", timing: "{reminders: [1d]}",
			first: `{"low": true}`, due: enginetest.Start, changes: [2]string{`{"low": false}`, `{"low": true}`},
		},
		{
			name: "crossings", trigger: "{id: t, record: visit, when: record.low == true, fire: false_to_true}", timing: "{reminders: [1d]}",
			first: `{"low": true}`, due: enginetest.Start, changes: [2]string{`{"low": false}`, `{"low": true}`},
		},
		{
			name: "rounds", trigger: "{id: t, record: visit}",
			timing: `{anchor: record.due_on, sequence: [{day: 0, at: "09:00"}], repeat: {every: 1d}}`,
			first:  `{"due_on": "2026-05-20"}`, due: time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC),
			changes: [2]string{`{"due_on": "2026-07-01"}`, `{"due_on": "2026-07-02"}`},
		},
		{
			name: "rounds that stop", trigger: "{id: t, record: visit, when: record.low == true}",
			timing: `{anchor: record.due_on, sequence: [{day: 0, at: "09:00"}], repeat: {every: 1d}}`,
			first:  `{"due_on": "2026-05-20", "low": true}`, due: time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC),
			changes: [2]string{`{"low": false}`, `{"low": true}`},
		},
	}
}

// finishedCopies inserts copies of the occasion that has ended and of its delivery.
const finishedCopies = `
INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, status, due_at, reason, input_hash,
  created_at, completed_at, record_id, local_date, timezone, round, message)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d)
SELECT o.ws, -n.i, o.key || CAST(n.i AS text), o.workflow, o.workflow_version, o.definitions, o.type, o.trigger, o.source, o.event_id, o.status, o.due_at, o.reason,
  o.input_hash, o.created_at, o.completed_at, o.record_id, o.local_date, o.timezone, o.round, o.message
FROM (SELECT * FROM instance WHERE status = 'completed' AND id > 0) AS o CROSS JOIN n`

const finishedDeliveries = `
INSERT INTO delivery (ws, id, key, instance_id, event_id, record_id, contact_id, workflow, workflow_version, definitions, type, trigger, channel, address, locale,
  customer_ref, status, not_before, send_at, slot, last_sent_at, created_at, completed_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d)
SELECT d.ws, -n.i, d.key || CAST(n.i AS text), -n.i, d.event_id, d.record_id, d.contact_id, d.workflow, d.workflow_version, d.definitions, d.type, d.trigger, d.channel,
  d.address, d.locale, d.customer_ref, 'expired', d.not_before, 0, 0, d.not_before, d.created_at, d.not_before
FROM (SELECT * FROM delivery WHERE id > 0) AS d CROSS JOIN n`

// finished sets up a record with an occasion that has ended, and so many copies of it.
func (f finishing) finished(t testing.TB, database string, copies int) world {
	url := storetest.URL(t, database)
	w := world{enginetest.Setup(t, storetest.Open(t, url), fmt.Sprintf(`
workflow: w
type: reminder
triggers: [%s]
timing: %s
audience: {to: record.who}
channel: inbox
message: {inbox: {text: x}}
---
record_type: visit
fields: {who: contact, due_on: date, low: bool}
---
channel: inbox
provider: inbox
`, f.trigger, f.timing), nil)}
	w.person("ann", `"name": "Ann"`)
	w.put("visit/1", `{"who": "ann"}`)
	w.put("visit/1", f.first)
	for w.At(w.Clock.Now()).Any() {
	}
	for w.At(f.due).Any() {
	}
	if sent := len(w.Provider.Sent()); sent != 1 {
		t.Fatalf("%d messages were sent", sent)
	}
	if copies > 0 {
		db, err := sql.Open(map[string]string{"sqlite": "sqlite", "postgres": "pgx"}[database], url)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{finishedCopies, finishedDeliveries} {
			_, failed := db.ExecContext(t.Context(), fmt.Sprintf(text, copies))
			err = errors.Join(err, failed)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	w.Clock.Set(f.due.Add(time.Hour))
	return w
}

// planRows returns how many occasions an evaluation reads that wants one key.
func (w world) planRows(k key.Instance) int {
	w.Helper()
	row, err := w.Store.Record(w.Context(), w.Workspace.ID, subject.RecordRef{Type: "visit", ExtID: "1"})
	if err != nil {
		w.Fatal(err)
	}
	ref := store.PlanRef{Workspace: w.Workspace.ID, Record: row.ID, Workflow: "w", Trigger: "t"}
	found, err := w.Store.PlansOf(w.Context(), map[store.PlanRef][]key.Instance{ref: {k}})
	if err != nil {
		w.Fatal(err)
	}
	return len(found[ref].Instances)
}

// What an evaluation reads of a record depends on what waits, and not on how much has ended.
func TestAnEvaluationReadsWhatWaits(t *testing.T) {
	t.Parallel()
	for _, f := range finishings() {
		for _, database := range storetest.Databases(t) {
			t.Run(f.name+"/"+database, func(t *testing.T) {
				t.Parallel()
				type reading struct {
					statements int64
					rows       int
					became     string
				}
				var read [2][2]reading
				for i, copies := range []int{0, 1000} {
					w := f.finished(t, database, copies)
					for n, change := range f.changes {
						w.put("visit/1", change)
						before := w.Store.Statements()
						w.evaluateOnly()
						read[i][n].statements = w.Store.Statements() - before
						read[i][n].rows = w.planRows("reminder:w:visit:1:t:2026-05-20:0")
						for _, status := range instance.Statuses() {
							rows, err := w.Store.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Status: status}, store.Page{Limit: 5000})
							if err != nil {
								t.Fatal(err)
							}
							became := len(rows)
							if status == instance.Completed {
								became -= copies
							}
							read[i][n].became += fmt.Sprintf(" %d %s", became, status)
						}
					}
				}
				if read[0] != read[1] {
					t.Errorf("with one occasion that has ended: %+v\nwith 1,000 more: %+v", read[0], read[1])
				}
				if most := 4; read[1][1].rows > most {
					t.Errorf("%d rows are read", read[1][1].rows)
				}
			})
		}
	}
}

// BenchmarkFinished evaluates a record whose plan changes each time, after one to a thousand occasions have ended. Its figures are those of the
// fastest evaluation: what else the machine does slows down the others.
func BenchmarkFinished(b *testing.B) {
	for _, f := range finishings() {
		for _, database := range storetest.Databases(b) {
			for _, n := range []int{1, 10, 100, 1000} {
				b.Run(fmt.Sprintf("%s/%s/%d", f.name, database, n), func(b *testing.B) {
					w := f.finished(b, database, n-1)
					c := evaluator.New(w.Store, catalog.New(w.Store, loader.Options{}), nil)
					fastest := time.Hour
					for i := range b.N {
						w.put("visit/1", f.changes[i%2])
						elapsed := clock.Monotonic()
						if r, err := c.Step(b.Context(), w.Clock.Now(), 100); err != nil || r.Evaluated == 0 {
							b.Fatal(r, err)
						}
						fastest = min(fastest, elapsed())
					}
					b.ReportMetric(float64(fastest.Microseconds()), "µs/fastest")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
