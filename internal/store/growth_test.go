package store_test

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Who fills the tables of a new database has PostgreSQL look at what is in them: the plans of its statements depend on it.
func TestTablesAreAnalyzedAsTheyGrow(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			if database != "postgres" {
				t.Skip("SQLite has statistics that never change")
			}
			analyzedAsTheyGrow(t, storetest.URL(t, database))
		})
	}
}

func analyzedAsTheyGrow(t *testing.T, url string) {
	t.Helper()
	f := setup(t, storetest.Open(t, url))
	direct, person := raw(t, url), f.contact("a")
	add := func(from, many int) {
		w := store.OccasionWrites{}
		for n := range many {
			i := f.instance(fmt.Sprint("n", from+n), instance.Pending)
			w.Instances = append(w.Instances, i)
			w.Deliveries = append(w.Deliveries, f.delivery(i, person))
		}
		f.add(w)
	}
	known := func(instances, deliveries string) {
		t.Helper()
		got := column(t, direct, "SELECT reltuples::text FROM pg_class WHERE relname IN ('delivery', 'instance') AND relkind = 'r' ORDER BY relname DESC")
		if got[0] != instances || got[1] != deliveries {
			t.Errorf("PostgreSQL takes them for %s instances and %s deliveries, want %s and %s", got[0], got[1], instances, deliveries)
		}
	}
	add(0, 999)
	known("-1", "-1")
	add(999, 1)
	known("1000", "1000")
	add(1000, 500)
	known("1000", "1000")
	add(1500, 600)
	known("2100", "2100")
}
