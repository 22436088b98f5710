package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// An occasion that was cancelled with its deliveries is cancelled in the list and on its page, which says since when.
func TestPagesOfACancelledOccasion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.post(t, `{"id":"v1","kind":"visit-closed","payload":{"wip":"40956","jobType":"GR"},"recipient":{"address":"+964 770 000 0001"}}`)
		rows, err := s.Instances(t.Context(), b.ws.ID, store.InstanceFilter{}, store.Page{Limit: 2})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		h := b.handler(t, console.Deps{Guest: "default"})
		page := "/instances/" + engine.PublicIDs(b.ws).Encode(key.KindInstance, int64(b.ws.ID), int64(rows[0].ID))
		if body := get(t, h, page).body; strings.Contains(body, ">cancelled</") {
			t.Errorf("it is not cancelled yet: %s", body)
		}
		b.clock.Set(b.clock.Now().Add(time.Hour))
		if _, err := b.engine.Operator().CancelInstance(t.Context(), b.ws.ID, rows[0].ID, "ann", b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string][]string{
			page:         {"<dt>cancelled</dt>", "09:12", ">cancelled</span>"},
			"/instances": {">cancelled</span>"},
		} {
			body := get(t, h, path).body
			for _, text := range want {
				if !strings.Contains(body, text) {
					t.Errorf("%s lacks %q in\n%s", path, text, body)
				}
			}
		}
	})
}
