package store_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A later occasion counts in the workspace that has it, whether it waits or is over. A series of the same name in another workspace has none.
func TestLaterOccasionsAreOfTheWorkspace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one := setup(t, s)
		second, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		one.must(err)
		two := fixture{t, s, second.ID}
		for _, status := range []instance.Status{instance.Pending, instance.Completed, instance.Skipped, instance.Failed, instance.Cancelled} {
			occasion := func(f fixture, date string, due time.Time, is instance.Status) instance.Row {
				row := f.instance("survey:visit:"+string(status)+":"+date, is)
				row.Trigger, row.Source, row.DueAt, row.LocalDate = "daily-"+string(status), instance.FromSchedule, due, date
				if is != instance.Pending {
					row.CompletedAt = due
				}
				f.add(store.OccasionWrites{Instances: []instance.Row{row}})
				return row
			}
			alone := occasion(one, "2026-05-14", now, instance.Completed)
			followed := occasion(two, "2026-05-14", now, instance.Completed)
			occasion(two, "2026-05-15", now.Add(day), status)
			one.must(s.Write(t.Context(), func(tx *store.Tx) error {
				later, err := tx.LaterOccasions([]instance.Row{alone, followed})
				if later[alone.ID] || !later[followed.ID] {
					t.Errorf("%s: a later occasion is found in the workspace without one: %t, in the one that has it: %t", status, later[alone.ID], later[followed.ID])
				}
				return err
			}))
		}
	})
}
