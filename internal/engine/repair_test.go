package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// behind opens the database for writes without the engine.
func behind(t testing.TB, database, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(map[string]string{"postgres": "pgx", "sqlite": "sqlite"}[database], url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // what it was asked is answered
	return db
}

const repairDaily = `    timing: {anchor: record.on_date, offset: [-7d, 0d], at: "12:00"}
    reconcile: {every: 1d, due_within: 14d, where: record.who != "bob", batch: 2}
`

// Rows that somebody deleted directly in the database are planned again under their keys: for unchanged records those that are due soon, for written
// ones all. Withdrawn rows are revived; rows that a person has cancelled, that were sent, or that the repair does not cover stay. The next repair
// covers the writes since the start of the last one.
//
// Shows: B42, B43, B44, B17.
func TestARepairPlansMissingRows(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			w, db := newWorld(t, storetest.Open(t, url), visits(repairDaily), "ann", "bob"), behind(t, database, url)
			visit := func(name, date, who string) {
				w.put("visit/"+name, fmt.Sprintf(`{"on_date": %q, "who": %q}`, date, who))
			}
			visit("far", "2026-07-20", "ann") // beyond due_within
			visit("allowed", "2026-05-26", "ann")
			visit("left", "2026-05-26", "bob")
			visit("cancelled", "2026-05-26", "ann")
			visit("sent", "2026-05-14", "ann")
			visit("withdrawn", "2026-05-26", "ann")
			visit("parted", "2026-05-26", "ann")
			visit("closed", "2026-05-26", "ann")
			w.live("10:05")
			cancelled, err := w.Store.InstanceByKey(t.Context(), w.Workspace.ID, "reminder:w:visit:cancelled:t:2026-05-26:0")
			if err == nil {
				_, err = w.Operator().CancelInstance(t.Context(), w.Workspace.ID, cancelled.ID, "test", w.Clock.Now())
			}
			if err != nil {
				t.Fatal(err)
			}
			w.live("12:05")
			w.days(1) // the first repair finds nothing; it has covered all earlier writes
			runs, err := w.runs(job.Reconcile)
			if err != nil || len(runs) != 1 || runs[0].Status != job.Done || runs[0].Done != 8 || runs[0].Total != 8 || runs[0].Changed != 0 || runs[0].Subject != "w/t" {
				t.Fatalf("%+v, %v", runs, err)
			}
			before := w.planned()
			w.Journal()
			for _, statement := range []string{
				`DELETE FROM instance WHERE status = 'pending' AND record_id IN (SELECT id FROM record WHERE ext_id <> 'parted' AND ext_id <> 'withdrawn')`,
				`DELETE FROM instance WHERE key = 'reminder:w:visit:parted:t:2026-05-26:7'`,
				`UPDATE instance SET status = 'deactivated', ready_at = 0, reason = 'source_no_longer_valid' WHERE key = 'reminder:w:visit:withdrawn:t:2026-05-26:0'`,
				`UPDATE record SET closed = 1 WHERE ext_id = 'closed'`,
				`UPDATE instance SET input_hash = 'foreign' WHERE status = 'cancelled'`,
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			w.days(1)
			want := maps.Clone(before)
			for _, gone := range []string{"far:t:2026-07-20:0", "far:t:2026-07-20:7", "left:t:2026-05-26:0", "left:t:2026-05-26:7", "closed:t:2026-05-26:0", "closed:t:2026-05-26:7"} {
				delete(want, "visit:"+gone)
			}
			w.mustPlan("after a repair", want)
			if held, err := w.Store.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{Limit: 10}); err != nil || len(held) > 0 {
				t.Errorf("held by a repair: %+v, %v", held, err)
			}
			if runs, err = w.runs(job.Reconcile); err != nil || len(runs) != 2 || runs[0].Status != job.Done || runs[0].Done != 8 || runs[0].Changed != 5 || !runs[0].Since.Equal(runs[1].StartedAt) {
				t.Errorf("%+v, %v", runs, err)
			}
			reported := 0
			for _, e := range w.Journal() {
				if e.What == journal.Created && e.Reason == reason.Repaired && e.Record != "" {
					reported++
				}
			}
			if reported != 5 {
				t.Errorf("%d occasions were reported", reported)
			}
			w.put("visit/far", `{"note": "x"}`) // a written record is covered, whenever its rows are due
			w.days(1)
			want["visit:far:t:2026-07-20:0"], want["visit:far:t:2026-07-20:7"] = "pending", "pending"
			w.mustPlan("after a write", want)
			w.Apply(visits("    timing: {anchor: record.on_date, offset: [-7d, 0d], at: \"12:00\"}"))
			w.days(2)
			if again, err := w.runs(job.Reconcile); err != nil || len(again) != 3 {
				t.Errorf("after the end of all repairs: %+v, %v", again, err)
			}
		})
	}
}

// dyingRepair is a store of a process that dies during a repair, before or after it writes.
type dyingRepair struct {
	*store.Store
	writes    int // how many succeed before the process ends
	late      bool
	repairing bool // the next transaction is that of a repair
}

func (d *dyingRepair) OldestJob(ctx context.Context, kinds ...job.Kind) (oldest job.Row, open bool, err error) {
	oldest, open, err = d.Store.OldestJob(ctx, kinds...)
	d.repairing = open && oldest.Kind == job.Reconcile
	return oldest, open, err
}

func (d *dyingRepair) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	if !d.repairing {
		return d.Store.WriteHoldingDefinitions(ctx, work)
	}
	d.repairing = false
	if d.writes--; d.writes < 0 && !d.late {
		return errCrash
	}
	err := d.Store.WriteHoldingDefinitions(ctx, work)
	if err == nil && d.writes < 0 {
		err = errCrash
	}
	return err
}

// A process that dies during a repair leaves it to others, who continue where it was: everything is planned again once. If a person ends a repair,
// the next one covers the same writes again.
//
// Shows: B44, B45.
func TestARepairGoesOn(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			w, db := newWorld(t, s, visits(repairDaily), "ann"), behind(t, database, url)
			const visits = 9
			for i := range visits {
				w.put(fmt.Sprintf("visit/%d", i), `{"on_date": "2026-05-26", "who": "ann"}`)
			}
			w.live("10:05")
			want := w.planned()
			if _, err := db.ExecContext(t.Context(), `DELETE FROM instance`); err != nil {
				t.Fatal(err)
			}
			w.Clock.Set(w.Clock.Now().AddDate(0, 0, 1))
			for life := range 20 {
				d := &dyingRepair{Store: s, writes: 1, late: life%2 == 1}
				c := evaluator.New(d, catalog.New(s, loader.Options{}), nil)
				var err error
				for more := true; more && err == nil; {
					var r evaluator.Result
					r, err = c.Step(t.Context(), w.Clock.Now(), 100)
					more = r.More
				}
				if err == nil {
					break
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
			}
			w.mustPlan("after many lives", want)
			runs, err := w.runs(job.Reconcile)
			if err != nil || len(runs) != 1 || runs[0].Status != job.Done || runs[0].Done != visits || runs[0].Changed != 2*visits {
				t.Errorf("%+v, %v", runs, err)
			}
			w.Clock.Set(w.Clock.Now().AddDate(0, 0, 1))
			d := &dyingRepair{Store: s} // the job begins, and its first page is lost
			if _, err := evaluator.New(d, catalog.New(s, loader.Options{}), nil).Step(t.Context(), w.Clock.Now(), 100); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if runs, err = w.runs(job.Reconcile); err != nil || len(runs) != 2 {
				t.Fatalf("%+v, %v", runs, err)
			}
			audit := store.Audit{At: w.Clock.Now(), Actor: "test", Action: "cancel run"}
			if _, err := jobs.Cancel(t.Context(), s, w.Workspace.ID, runs[0].ID, w.Clock.Now(), audit); err != nil {
				t.Fatal(err)
			}
			w.days(1)
			after, err := w.runs(job.Reconcile)
			if err != nil || len(after) != 3 || after[1].Status != job.Cancelled || !after[0].Since.Equal(after[1].Since) || after[0].Since.IsZero() {
				t.Errorf("%+v, %v", after, err)
			}
		})
	}
}
