package store_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The rows of digests are found by their key, and not by the workspace that they all have, nor among all that are open.
func TestDigestsAreFoundByTheirKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		if s.Dialect() == "postgres" { // else its planner reads a small table whole
			for _, text := range []string{
				"INSERT INTO digest SELECT 1, n, n, n % 2, '{}' FROM generate_series(1, 20000) AS n",
				"INSERT INTO subscription SELECT 1, n, n, n % 9, 'daily', 'api', 1, 1, 0, '', 0, 0, 0 FROM generate_series(1, 20000) AS n",
				"ANALYZE digest", "ANALYZE subscription",
			} {
				if _, err := s.Exec(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
		}
		pair := store.Rows(2, func(n int) []any { return []any{1, n} })
		for name, tt := range map[string]struct {
			text string
			args []any
			key  string // the last column by which the index is searched
		}{
			"close":      {store.CloseDigestsQuery, []any{pair}, "delivery_id"},
			"by id":      {store.DigestsByIDQuery, []any{pair}, "delivery_id"},
			"open":       {store.OpenDigestsQuery, []any{pair}, "contact_id"},
			"covered":    {store.MoveCoveredQuery, []any{store.Rows(2, func(n int) []any { return []any{1, n, 3, 4} })}, "contact_id"},
			"ahead":      {store.AheadOfQuery, []any{pair}, "contact_id"},
			"active":     {store.ActiveOfContactsQuery, []any{pair}, "contact_id"},
			"matches":    {store.MatchesAfterQuery, []any{store.Rows(2, func(n int) []any { return []any{1, n, 3, 4} })}, "topic_id"},
			"items":      {store.ItemsOfTopicQuery, []any{int64(1), int64(1) << 60, int64(50), int64(3)}, "seq"},
			"deliveries": {store.DeliveriesOfPairsQuery, []any{pair}, "contact_id"},
			"forgotten":  {store.DeletePassedAheadQuery, []any{store.Rows(2, func(n int) []any { return []any{1, n, 3, 4} })}, "topic_id"},
		} {
			plans, err := s.Plans(t.Context(), tt.text, tt.args...)
			if err != nil {
				t.Fatal(name, err)
			}
			for _, plan := range plans {
				found := false
				for line := range strings.Lines(plan) {
					found = found || (strings.Contains(line, "Index Cond") || strings.Contains(line, "SEARCH")) && strings.Contains(line, tt.key)
				}
				if !found || strings.Contains(plan, "Seq Scan") {
					t.Errorf("%s is not searched by %s:\n%s", name, tt.key, plan)
				}
			}
		}
	})
}
