package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Every row arrives as it was written, whichever columns of the batch are constant.
func TestConstantColumns(t *testing.T) {
	t.Parallel()
	const insert = "\nINSERT INTO spent (ws, hash, instance_id, retries, forgotten) " +
		"SELECT r.* FROM /*ROWS $1 (ws bigint, hash text, instance_id bigint, retries bigint, forgotten bigint)*/ AS r"
	const update = "\nUPDATE spent SET retries = r.retries, forgotten = r.forgotten " +
		"FROM /*ROWS $1 (ws bigint, hash text, retries bigint, forgotten bigint)*/ AS r WHERE spent.ws = r.ws AND spent.hash = r.hash"
	const read = "SELECT ws || ' ' || hash || ' ' || instance_id || ' ' || retries || ' ' || forgotten FROM spent ORDER BY hash, ws"
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		check := func(n int, cells func(i int) []any) {
			t.Helper()
			_, err := s.Exec(t.Context(), insert, store.Rows(n, func(i int) []any { return append(slices.Clone(cells(i)[:3]), -1, -1) }))
			f.must(err)
			changed, err := s.Exec(t.Context(), update, store.Rows(n, func(i int) []any { return slices.Delete(slices.Clone(cells(i)), 2, 3) }))
			f.must(err)
			if changed != int64(n) {
				t.Errorf("%d of %d rows were updated", changed, n)
			}
			got, err := s.Strings(t.Context(), read)
			f.must(err)
			var want []string
			for i := range n {
				want = append(want, strings.TrimSuffix(fmt.Sprintln(cells(i)...), "\n"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d rows: got %q, want %q", n, got, want)
			}
			_, err = s.Exec(t.Context(), "DELETE FROM spent")
			f.must(err)
		}
		hash := func(i int) string { return fmt.Sprintf("\"h%03d\\", i) }
		for _, n := range []int{1, 15, 16, 17, 100} {
			check(n, func(i int) []any { return []any{7, hash(i), 3, 4, 5} })
			check(n, func(i int) []any { return []any{i, "", 3, 4, 5} })
			for odd := range 3 { // the last row alone differs from the others, in one column
				check(n, func(i int) []any {
					cells := []any{7, hash(i), 3, 4, 5}
					if i == n-1 {
						cells[2+odd] = 0
					}
					return cells
				})
			}
		}
		// More sets of constant columns than a query has renderings.
		for set := range 3 * store.MaxRenderings {
			check(16, func(i int) []any {
				cells := []any{7, hash(i), 3, 4, 5}
				for k := range 4 {
					if set>>k&1 == 1 {
						cells[[]int{0, 2, 3, 4}[k]] = i
					}
				}
				return cells
			})
		}
		same, err := s.Strings(t.Context(), "SELECT '' || r.b FROM /*ROWS $1 (a bigint, b text)*/ AS r", store.Rows(16, func(int) []any { return []any{1, "b"} }))
		f.must(err)
		if len(same) != 16 {
			t.Errorf("%d of 16 rows that are all the same", len(same))
		}
	})
}
