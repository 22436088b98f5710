package store_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Of two requests at once for the same run the second one waits, and finds the run that the first one has begun.
func TestOneRunOfTwoRequests(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	begin := func(meanwhile func()) error {
		return f.s.Write(t.Context(), func(tx *store.Tx) error {
			_, open, err := tx.OpenBulk(f.ws, job.Retry, `{"workflow":"news"}`)
			if err != nil || open {
				return err
			}
			meanwhile()
			j := job.New(f.ws, job.Seed{Kind: job.Retry, Subject: "news"}, 1, now)
			j.Selection = `{"workflow":"news"}`
			_, err = tx.AddJobs(now, []job.Row{j})
			return err
		})
	}
	done := make(chan error, 1)
	f.must(begin(func() {
		go func() { done <- begin(func() {}) }()
		for column(t, db, `SELECT CAST(count(*) AS text) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] == "0" {
			select {
			case err := <-done:
				t.Errorf("it did not wait: %v", err)
				done <- err
				return
			default:
				if t.Context().Err() != nil {
					return
				}
			}
		}
	}))
	f.must(<-done)
	if runs, err := f.s.Jobs(t.Context(), f.ws, store.Page{Limit: 10}); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}
