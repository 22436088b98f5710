package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Parked rows are found by an index of their own, and their number does not change what the claims read.
func TestPausesAreReadByIndex(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.pause("w")
		if s.Dialect() == "postgres" {
			_, err := s.Exec(t.Context(), "ANALYZE")
			f.must(err)
		}
		var list []instance.Row
		for i := range 500 {
			list = append(list, f.instance(fmt.Sprint("k:", i), instance.Pending))
		}
		f.add(store.OccasionWrites{Instances: list})
		f.scheduled(500, nil)
		for text, args := range store.PauseStatements(f.ws) {
			plans, err := s.Plans(t.Context(), text, args...)
			f.must(err)
			for _, plan := range plans {
				for _, wrong := range []string{"Seq Scan", "SCAN i\n", "SCAN d\n", "SCAN instance", "SCAN delivery\n", "instance_pkey on instance i", "delivery_pkey on delivery d"} {
					if strings.Contains(plan+"\n", wrong) {
						t.Errorf("%s\n%s", text, plan)
					}
				}
			}
		}
	})
}

// A pause stays as long as rows of its workflow are parked, whatever was known of them before.
func TestAPauseWithParkedRowsStays(t *testing.T) {
	t.Parallel()
	for _, parked := range []string{"instance", "delivery"} {
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			f := setup(t, s)
			f.pause("w")
			in := f.instance("k:1", instance.Pending)
			in.Workflow = "w"
			f.add(store.OccasionWrites{Instances: []instance.Row{in}})
			d := f.scheduled(1, func(_ int, d *delivery.Row) { d.Workflow = "w" })[0]
			if parked == "instance" {
				f.exec("UPDATE instance SET hold = 'paused', ready_at = 0 WHERE id = $1", int64(in.ID))
			} else {
				f.exec("UPDATE delivery SET hold = 'paused' WHERE id = $1", int64(d.ID))
			}
			_, err := f.resume("w")
			f.must(err)
			ended := func() bool {
				f.must(s.Write(t.Context(), func(tx *store.Tx) error {
					return tx.DeletePause(store.Resumed{Workspace: f.ws, Workflow: "w"})
				}))
				left, err := s.Pauses(t.Context(), f.ws)
				f.must(err)
				return len(left) == 0
			}
			if ended() {
				t.Errorf("a parked %s has no pause any more", parked)
			}
			f.exec("UPDATE " + parked + " SET hold = ''")
			if !ended() {
				t.Error("nothing is parked, and the pause stays")
			}
		})
	}
}

// No row of a workflow is parked that was resumed meanwhile, because nothing would take it up again. The step runs again, and the
// workflow is no longer paused.
func TestNothingIsParkedTooLate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.pause("w")
		d := f.scheduled(1, func(_ int, d *delivery.Row) { d.Workflow = "w" })[0]
		tries := 0
		_, err := claimDue(t.Context(), s, now, 10, func(_ *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
			for _, c := range claims {
				if tries++; c.PausedAt.IsZero() {
					continue
				}
				if s.Dialect() == "postgres" && tries == 1 { // beside this transaction
					storetest.Beside(func() { _, err = f.resume("w") })
					if err != nil {
						return w, err
					}
				}
				c.Hold, c.Reason, c.IntentAt, c.LeaseUntil = delivery.HoldPaused, reason.WorkflowPaused, time.Time{}, time.Time{}
				w.Claims = append(w.Claims, c.Row)
			}
			return w, nil
		})
		f.must(err)
		got := f.row(d.ID)
		if resumed := s.Dialect() == "postgres"; resumed && (got.Parked() || tries < 2) || !resumed && !got.Parked() {
			t.Errorf("%d tries: %+v", tries, got)
		}
		if was, err := f.resume("other"); was || err != nil {
			t.Errorf("resumed %t, %v", was, err)
		}
	})
}
