package store_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A snapshot sees nothing that is committed after its first statement, and no write waits for it.
func TestASnapshotIsOfOneInstant(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("k:1", instance.Pending)}})
		keys := []key.Instance{"k:1", "k:2"}
		err := s.Snapshot(t.Context(), func(tx *store.Tx) error {
			before, err := tx.Stored(f.ws, keys)
			f.must(err)
			storetest.Beside(func() {
				f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("k:2", instance.Pending)}})
			})
			after, err := tx.Stored(f.ws, keys)
			f.must(err)
			if len(before) != 1 || len(after) != 1 {
				t.Errorf("%d rows, and %d after a commit", len(before), len(after))
			}
			return nil
		})
		f.must(err)
		err = s.Snapshot(t.Context(), func(tx *store.Tx) error {
			found, err := tx.Stored(f.ws, keys)
			if len(found) != 2 {
				t.Errorf("%d rows in a new snapshot", len(found))
			}
			return err
		})
		f.must(err)
	})
}
