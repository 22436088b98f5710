package outbox

import (
	"cmp"
	"slices"
	"time"
)

// Choose returns the rows whose try may begin now, at most perSink of each sink, in the order in which they are due.
//
// Rows are pending rows of any sinks. For each row that is due, those of the earlier events of its group at its sink must be
// among them, due or not: a row waits while one of them is pending, also while its try is in flight. So at most one row of a
// group leaves at a time. Rows without a group wait for none.
//
// Health holds what is known of sinks; one that is missing is active. Rows of a sink that is paused or disabled stay.
func Choose(rows []Row, health map[string]Health, now time.Time, perSink int) []Row {
	type line struct{ sink, group string }
	first := make(map[line]int64, len(rows))
	for _, r := range rows {
		if r.Status != Pending || r.Group == "" {
			continue
		}
		at := line{r.Sink, r.Group}
		if id, ok := first[at]; !ok || r.EventID < id {
			first[at] = r.EventID
		}
	}
	var chosen []Row
	for _, r := range rows {
		if r.Status != Pending || r.NextAt.After(now) || !health[r.Sink].Sends() {
			continue
		}
		if r.Group == "" || first[line{r.Sink, r.Group}] == r.EventID {
			chosen = append(chosen, r)
		}
	}
	slices.SortStableFunc(chosen, func(a, b Row) int {
		return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.EventID, b.EventID), cmp.Compare(a.Sink, b.Sink))
	})
	taken := make(map[string]int)
	return slices.DeleteFunc(chosen, func(r Row) bool {
		taken[r.Sink]++
		return taken[r.Sink] > perSink
	})
}
