package engine_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A repair covers the writes since the last one began, not since that one ended: records that were written while it ran, behind its page, are covered
// by the next one. So are records that were written shortly before it began, because such a write may have been committed late. Earlier writes are
// not covered, unless their rows are due soon.
//
// Shows: B43, B44.
func TestARepairIncludesConcurrentWrites(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			w, db := newWorld(t, s, visits(repairDaily), "ann"), behind(t, database, url)
			names := []string{"meanwhile", "long_before", "just_before", "untouched"} // two to a page
			for _, name := range names {
				w.put("visit/"+name, `{"on_date": "2026-08-20", "who": "ann"}`)
			}
			w.live("10:05")
			repairs := evaluator.New(s, catalog.New(s, loader.Options{}), nil)
			step := func() evaluator.Result {
				t.Helper()
				r, err := repairs.Step(t.Context(), w.Clock.Now(), 100)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			start := enginetest.Start.AddDate(0, 0, 1) // the definitions were applied a day before
			for _, written := range []struct {
				before time.Duration
				name   string
			}{{10 * time.Minute, "long_before"}, {2 * time.Minute, "just_before"}} {
				w.Clock.Set(start.Add(-written.before))
				w.put("visit/"+written.name, `{"note": "x"}`)
				step() // it is evaluated
			}
			w.Clock.Set(start)
			if r := step(); r.Passed != 2 || !r.More {
				t.Fatalf("the first page: %+v", r)
			}
			w.Clock.Set(start.Add(10 * time.Minute))
			w.put("visit/meanwhile", `{"note": "x"}`)
			for w.Clock.Set(start.Add(30 * time.Minute)); step().More; {
			}
			runs, err := w.runs(job.Reconcile)
			if err != nil || len(runs) != 1 || runs[0].Status != job.Done || !runs[0].StartedAt.Equal(start) || runs[0].Done != int64(len(names)) {
				t.Fatalf("%+v, %v", runs, err)
			}
			if _, err := db.ExecContext(t.Context(), `DELETE FROM instance`); err != nil {
				t.Fatal(err)
			}
			for w.Clock.Set(start.AddDate(0, 0, 1)); step().More; {
			}
			want := map[string]string{}
			for _, name := range []string{"meanwhile", "just_before"} {
				want["visit:"+name+":t:2026-08-20:0"], want["visit:"+name+":t:2026-08-20:7"] = "pending", "pending"
			}
			w.mustPlan("after the second repair", want)
		})
	}
}
