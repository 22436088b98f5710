package store_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The last insert is sent with COMMIT. If it fails, nothing of the transaction is stored, and the error names the insert.
func TestInsertThatFailsCommitsNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		event, bad := f.event("x"), f.instance("k", instance.Pending)
		bad.Status = "no status"
		err := ingest(t.Context(), s, f.ws, ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
			return store.OccasionWrites{Events: []store.EventRow{event}, Instances: []instance.Row{bad}}, nil
		})
		if err == nil || !strings.Contains(err.Error(), "insert instances") {
			t.Errorf("error %v", err)
		}
		ref := store.EventRef{Workspace: f.ws, ID: event.ID}
		if found, err := s.EventsByID(t.Context(), []store.EventRef{ref}); err != nil || len(found) > 0 {
			t.Errorf("its event is there: %v, %v", found, err)
		}
		f.add(store.OccasionWrites{Events: []store.EventRow{event}, Instances: []instance.Row{f.instance("k", instance.Pending)}})
	})
}

// The next try of the transaction leaves out a row that exists; the first try inserts without ON CONFLICT.
func TestInsertMeetsWhatExists(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("k", instance.Pending)}})
		f.contact("c")
		tries := 0
		err := ingest(t.Context(), s, f.ws, ingestRequest{}, func(state ingestState) (w store.OccasionWrites, err error) {
			if tries++; tries < 3 {
				w.Instances = []instance.Row{f.instance("k", instance.Pending)}
			}
			return w, nil
		})
		if err != nil || tries != 3 {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}
