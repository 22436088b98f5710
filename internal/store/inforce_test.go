package store_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// An apply waits for every transaction that plans by the definitions in force. So no process acts on an old rule after the apply.
func TestAnApplyWaitsForWhatIsPlanned(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected: SQLite has one writer")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	waits := f.pending("k")
	f.records(now, "x", "a")
	done := make(chan error, 1)
	begun := 0
	meanwhile := func() { // an apply begins in the middle of a stage, and waits
		if begun++; begun > 1 {
			return
		}
		go func() {
			_, _, err := storetest.Apply(t.Context(), f.s, f.ws, now, store.Definition{Kind: "workflow", Name: t.Name(), Hash: "x"})
			done <- err
		}()
		for column(t, db, `SELECT CAST(count(*) AS text) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] == "0" {
			select {
			case err := <-done:
				t.Errorf("the apply did not wait: %v", err)
				done <- err
				return
			default:
				if t.Context().Err() != nil {
					return
				}
			}
		}
	}
	for _, stage := range []struct {
		name string
		do   func()
	}{
		{"ingest", func() {
			f.ingest(ingestRequest{}, func(ingestState) (w store.OccasionWrites, err error) { meanwhile(); return w, nil })
		}},
		{"operate", func() {
			f.must(f.operate(waits, func(*store.Tx, instance.Row, []delivery.Row) error { meanwhile(); return nil }))
		}},
		{"look", func() {
			f.check(now, 10, func(store.DueRecord) string { meanwhile(); return "c" }, func(d store.DueRecord) store.Evaluated {
				return store.Evaluated{Workspace: f.ws, ID: d.ID, EvaluateAt: now}
			})
		}},
		{"expand", func() {
			f.expand(func(due []store.DueInstance, people []store.People) ([]result, error) {
				meanwhile()
				return complete(due, people)
			})
		}},
	} {
		begun = 0
		stage.do()
		if begun == 0 {
			t.Fatalf("%s had nothing to do", stage.name)
		}
		f.must(<-done)
		if t.Failed() {
			t.Fatalf("during %s", stage.name)
		}
	}
}
