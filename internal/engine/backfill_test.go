package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// marksAll is a store whose jobs mark every record for evaluation: none can be judged without its state.
type marksAll struct{ *store.Store }

func (m marksAll) RecordPage(ctx context.Context, ws subject.WorkspaceID, typ string, after int64, limit int) ([]store.PageRecord, error) {
	page, err := m.Store.RecordPage(ctx, ws, typ, after, limit)
	for i := range page {
		page[i].State = "unreadable"
	}
	return page, err
}

// remembered returns everything that evaluations store: for the records of a type, and for their firings.
func (w world) remembered(typ string) string {
	w.Helper()
	var b strings.Builder
	fail := func(err error) {
		if err != nil {
			w.Fatal(err)
		}
	}
	records, err := w.Store.Records(w.Context(), w.Workspace.ID, typ, store.Page{Limit: 1000})
	fail(err)
	names := map[subject.RecordID]string{}
	for _, r := range records {
		names[r.ID] = r.ExtID
		fmt.Fprintf(&b, "%s: %s, next %s\n", r.ExtID, r.State, r.EvaluateAt.Format("15:04:05.000000"))
	}
	instances, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1000})
	fail(err)
	decisions, err := w.Store.Decisions(w.Context(), w.Workspace.ID, store.DecisionFilter{}, store.Page{Limit: 1000})
	fail(err)
	throttles, err := w.Store.Throttles(w.Context(), w.Workspace.ID, store.ThrottleFilter{Limit: 1000})
	fail(err)
	var made []string
	for _, i := range instances {
		made = append(made, fmt.Sprintf("%s %s %s\n", i.CreatedAt.Format("15:04:05"), i.Key, i.Status))
	}
	for _, d := range decisions {
		made = append(made, fmt.Sprintf("%s %s %s %s\n", d.At.Format("15:04:05"), names[d.Record], d.Context, d.Reason))
	}
	for _, th := range throttles {
		made = append(made, fmt.Sprintf("%s %s %s %s\n", th.Context, th.FiredAt.Format("15:04:05"), th.ExtID, th.Issues))
	}
	slices.Sort(made)
	return b.String() + strings.Join(made, "")
}

// A job that marks only the records that an evaluation would change leaves the same state as one that marks every record, at once and later, for
// random old and new definitions and records.
// Shows: A5, A22, A23, D8.
func TestABackfillLeavesWhatAFullEvaluationWould(t *testing.T) {
	t.Parallel()
	try := func(outer *testing.T, t *rapid.T, most int, open func() *store.Store) {
		before, after := drawWatch(t), drawWatch(t)
		worlds := [2]world{newWorld(outer, open(), before.definition(), "alice"), newWorld(outer, open(), before.definition(), "alice")}
		minutes := rapid.IntRange(1, most).Draw(t, "minutes")
		for m := range minutes {
			now := ten.Add(time.Duration(m) * time.Minute)
			var writes []string
			for range rapid.IntRange(0, 3).Draw(t, "writes") {
				writes = append(writes, fmt.Sprint("host/", rapid.IntRange(0, 5).Draw(t, "host")), fmt.Sprintf(`{"load": %d, "disk": %q, "seen": %q}`,
					rapid.SampledFrom([]int{1, 1, 9}).Draw(t, "load"), rapid.SampledFrom([]string{"free", "free", "full"}).Draw(t, "disk"),
					now.Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "age"))*time.Minute).Format(time.RFC3339)))
			}
			for _, w := range worlds {
				w.live(now.Format("15:04"))
				for i := 0; i < len(writes); i += 2 {
					w.put(writes[i], writes[i+1])
				}
				w.live(now.Format("15:04"))
			}
		}
		at := ten.Add(time.Duration(minutes)*time.Minute - time.Duration(rapid.IntRange(0, 59).Draw(t, "seconds"))*time.Second).Format("15:04:05")
		for i, w := range worlds {
			w.live(at)
			w.Apply(after.definition())
			if i == 0 {
				w.live(at)
				continue
			}
			c := evaluator.New(marksAll{w.Store}, catalog.New(w.Store, loader.Options{}), nil)
			for {
				r, err := c.Step(w.Context(), w.Clock.Now(), 50)
				if err != nil {
					outer.Fatal(err)
				}
				if r.Evaluated+r.Passed == 0 && !r.More {
					break
				}
			}
			w.live(at)
		}
		later := ten.Add(time.Duration(minutes+most) * time.Minute).Format("15:04:05")
		for _, until := range []string{at, later} {
			worlds[0].live(until)
			worlds[1].live(until)
			if diff := cmp.Diff(worlds[1].remembered("host"), worlds[0].remembered("host")); diff != "" {
				t.Fatalf("at %s, after\n%s\nbecame\n%s\n(-all looked at, +marked alone)\n%s", until, before.definition(), after.definition(), diff)
			}
		}
	}
	checks, most := map[string]int{"memory": 10, "sqlite": 1, "postgres": 1}, map[string]int{"memory": 40, "sqlite": 5, "postgres": 5}
	for _, database := range append(storetest.Databases(t), "memory") {
		t.Run(database, func(outer *testing.T) {
			outer.Parallel()
			if database == "memory" {
				storetest.NotUnderRace(outer, "one goroutine and a store in memory")
			}
			enough := storetest.Lives(checks[database]) // two, of an hour
			rapid.Check(outer, func(t *rapid.T) {
				if enough() {
					return
				}
				try(outer, t, most[database], func() *store.Store {
					if database == "memory" {
						return storetest.Memory(outer)
					}
					return storetest.Open(outer, storetest.URL(outer, database))
				})
			})
		})
	}
}

// manyTeams inserts records of teams by SQL: one of a thousand has a low morale.
var manyTeams = map[string]string{
	"postgres": `INSERT INTO record (ws, id, type, ext_id, props, rev, modified_by, created_at, updated_at)
SELECT $1, n, 'team', 'r' || n, '{"name":"T","morale":' || CASE WHEN n % 1000 = 7 THEN 10 ELSE 90 END || ',"owner_id":"alice"}', 1, 'test', $2, $2
FROM generate_series(1, $3::bigint) AS n`,
	"sqlite": `INSERT INTO record (ws, id, type, ext_id, props, rev, modified_by, created_at, updated_at)
WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < $3)
SELECT $1, n, 'team', 'r' || n, '{"name":"T","morale":' || CASE WHEN n % 1000 = 7 THEN 10 ELSE 90 END || ',"owner_id":"alice"}', 1, 'test', $2, $2
FROM series`,
}

// dying is a store of a process that dies during a job, before or after it writes.
type dying struct {
	*store.Store
	mu     sync.Mutex
	pages  int
	writes int // how many succeed before the process ends
	late   bool
}

func (d *dying) RecordPage(ctx context.Context, ws subject.WorkspaceID, typ string, after int64, limit int) ([]store.PageRecord, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	return d.Store.RecordPage(ctx, ws, typ, after, limit)
}

func (d *dying) Write(ctx context.Context, work func(*store.Tx) error) error {
	if d.writes--; d.writes >= 0 {
		return d.Store.Write(ctx, work)
	}
	if d.late {
		if err := d.Store.Write(ctx, work); err != nil {
			return err
		}
	}
	return errCrash
}

// A new trigger over 100,000 records: processes that die in between read them in pages. The hundred records that fire are reported once each, as is
// one that is written meanwhile, and the others are not written.
func TestABackfillOfManyRecords(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "the same run over fewer records is raced by TestANewTriggerEvaluatesAllRecords")
	for _, database := range storetest.EveryDatabase(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			const records = 100_000
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			w := newWorld(t, s, "")
			db, err := sql.Open(map[string]string{"postgres": "pgx", "sqlite": "sqlite"}[database], url)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), manyTeams[database], int64(w.Workspace.ID), ten.UnixMicro(), records); err != nil {
				t.Fatal(err)
			}
			w.Apply(simple("[change]", "    cooldown: {length: 1h}\n", ""))
			w.person("alice", `"persona": "Manager"`)
			pages := 0
			for life := range 12 {
				d := &dying{Store: s, writes: 2, late: life%2 == 1}
				c := evaluator.New(d, catalog.New(s, loader.Options{}), nil)
				for err = nil; err == nil; {
					var r evaluator.Result
					if r, err = c.Step(t.Context(), w.Clock.Now(), 100); err == nil && !r.More {
						break
					}
				}
				if pages += d.pages; err == nil {
					break
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				if life == 2 {
					w.put("team/r100000", `{"morale": 5}`)
				}
			}
			for w.tick() {
			}
			runs, err := w.runs(job.Backfill)
			if err != nil || len(runs) != 1 || runs[0].Status != job.Done || runs[0].Done != records {
				t.Errorf("%+v, %v", runs, err)
			}
			if pages < records/5000 || pages > 3*records/5000 {
				t.Errorf("%d pages were read", pages)
			}
			var looked, marked, fired int
			if err := db.QueryRowContext(t.Context(), `SELECT (SELECT COUNT(*) FROM record WHERE evaluated_at > 0), (SELECT COUNT(*) FROM record WHERE evaluate_at > 0),
  (SELECT COUNT(*) FROM instance WHERE status = 'completed')`).Scan(&looked, &marked, &fired); err != nil {
				t.Fatal(err)
			}
			if looked != 101 || fired != 101 || marked != 101 { // each waits for the end of its cooldown
				t.Errorf("%d were evaluated, %d fired, %d will be evaluated", looked, fired, marked)
			}
		})
	}
}
