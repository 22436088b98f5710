package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Backlog counts the waiting work of all workspaces at an instant, and nothing else.
func TestBacklog(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		got, err := s.Backlog(t.Context(), now)
		f.must(err)
		if diff := cmp.Diff(store.Backlog{Definitions: map[string]int64{"clinic": 0}}, got); diff != "" {
			t.Errorf("empty (-want +got):\n%s", diff)
		}
		f.scheduled(3, nil)
		got, err = s.Backlog(t.Context(), now.Add(-time.Second))
		f.must(err)
		if got.DueDeliveries != 0 || !got.OldestDue.IsZero() {
			t.Errorf("before they are due: %+v", got)
		}
		if _, err := s.Exec(t.Context(), "UPDATE delivery SET status = 'unknown', send_at = 0 WHERE id = (SELECT MIN(id) FROM delivery)"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exec(t.Context(), "UPDATE instance SET hold = 'input_conflict', ready_at = 0"); err != nil {
			t.Fatal(err)
		}
		got, err = s.Backlog(t.Context(), now.Add(time.Minute))
		f.must(err)
		queue := func(n int64) []store.Queue { return []store.Queue{{Channel: "sms:twilio", N: n, Oldest: now}} }
		want := store.Backlog{DueDeliveries: 2, OldestDue: now, Queues: queue(2), Unknown: 1, Held: got.Held, Definitions: map[string]int64{"clinic": 0}}
		if diff := cmp.Diff(want, got); diff != "" || got.Held == 0 {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.exec("UPDATE instance SET hold = 'paused' WHERE id = (SELECT MIN(id) FROM instance)")
		f.exec("UPDATE delivery SET hold = 'paused', reason = 'workflow_paused' WHERE id = (SELECT MAX(id) FROM delivery)")
		f.pause("w")
		got, err = s.Backlog(t.Context(), now.Add(time.Minute))
		f.must(err)
		want.DueDeliveries, want.Queues, want.Held, want.Paused, want.Parked = 1, queue(1), want.Held-1, 1, 2
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with a pause (-want +got):\n%s", diff)
		}
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			for range 2 {
				_, err := tx.AddJobs(now, []job.Row{job.New(f.ws, job.Seed{Kind: job.Limits}, 1, now)})
				if err != nil {
					return err
				}
			}
			return nil
		}))
		f.exec("UPDATE job SET updated_at = updated_at + 60000000 WHERE id = (SELECT MIN(id) FROM job)")
		got, err = s.Backlog(t.Context(), now.Add(time.Hour))
		f.must(err)
		if !got.RunAdvanced.Equal(now.Add(time.Minute)) {
			t.Errorf("the last run to advance did at %s", got.RunAdvanced)
		}
		f.exec("UPDATE job SET status = 'failed'")
		got, err = s.Backlog(t.Context(), now.Add(time.Hour))
		f.must(err)
		if !got.RunAdvanced.IsZero() {
			t.Errorf("no run is under way: %s", got.RunAdvanced)
		}
		if c := s.Connections(); c.OpenConnections == 0 || c.MaxOpenConnections == 0 {
			t.Errorf("connections: %+v", c)
		}
	})
}
