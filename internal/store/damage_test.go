package store_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Only the database of a scenario can be damaged.
func TestOnlyTheStoreOfAScenarioIsDamaged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		row := f.instance("k", instance.Pending)
		f.ingest(ingestRequest{Keys: []string{"k"}}, func(ingestState) (w store.OccasionWrites, err error) {
			event := f.event("x")
			row.Event = event.ID
			w.Events, w.Instances = append(w.Events, event), append(w.Instances, row)
			w.Decisions = append(w.Decisions, store.Decision{At: now, Event: event.ID})
			return w, nil
		})
		for what, err := range map[string]error{
			"lose":  s.Lose(t.Context(), f.ws, []instance.ID{row.ID}),
			"alter": s.AlterInputs(t.Context(), f.ws, []instance.ID{row.ID}, `{"anchor":"x"}`),
		} {
			if err == nil || !strings.Contains(err.Error(), "only the store of a scenario can be damaged") {
				t.Errorf("%s: %v", what, err)
			}
		}
		kept, err := s.Instances(t.Context(), f.ws, store.InstanceFilter{}, store.Page{Limit: 10})
		if err != nil || len(kept) != 1 || kept[0].InputHash != row.InputHash {
			t.Errorf("got %+v, %v", kept, err)
		}
	})
}
