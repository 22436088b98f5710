package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Every list, with any filter and any size of page, has an occasion with rows for single time zones exactly once: its instance if
// that matches the filter, else the first of its rows that does.
func TestListsHaveAnOccasionOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		statuses := []instance.Status{instance.Completed, instance.Skipped, instance.Cancelled}
		var rows []instance.Row
		add := func(head instance.ID) instance.ID {
			at := now.Add(time.Duration(len(rows)) * time.Minute)
			in := f.instance(fmt.Sprint("k:", len(rows)), statuses[r.IntN(len(statuses))])
			in.ID, in.CreatedAt, in.Head = instance.ID(s.NewID(at)), at, head
			in.Reason = []reason.Reason{reason.Expanded, reason.Stale}[r.IntN(2)]
			rows = append(rows, in)
			return in.ID
		}
		for n := range 12 {
			head := add(0)
			if n%4 == 3 { // its instance is kept no longer
				rows = rows[:len(rows)-1]
			}
			for range r.IntN(4) {
				add(head)
			}
		}
		f.ingest(ingestRequest{At: now}, func(ingestState) (store.OccasionWrites, error) { return store.OccasionWrites{Instances: rows}, nil })
		for _, filter := range []store.InstanceFilter{
			{Once: true},
			{Once: true, Status: instance.Skipped},
			{Once: true, Reason: reason.Stale},
			{Once: true, Status: instance.Cancelled, Reason: reason.Expanded},
			{Once: true, Made: store.Span{Since: now.Add(10 * time.Minute), Until: now.Add(20 * time.Minute)}},
			{Once: true, Key: rows[5].Key},
			{},
		} {
			fits := func(i instance.Row) bool {
				return (filter.Status == "" || i.Status == filter.Status) && (filter.Reason == "" || i.Reason == filter.Reason) && (filter.Key == "" || i.Key == filter.Key) &&
					(filter.Made.Since.IsZero() || !i.CreatedAt.Before(filter.Made.Since) && i.CreatedAt.Before(filter.Made.Until))
			}
			var want []string
			for n, i := range rows {
				another := slices.ContainsFunc(rows[:n], func(o instance.Row) bool { // rows of an occasion are in the order of their ids
					return fits(o) && i.Head != 0 && (o.Head == i.Head || o.ID == i.Head)
				})
				if fits(i) && (!filter.Once || !another) {
					want = append(want, i.Key)
				}
			}
			slices.Reverse(want)
			for _, limit := range []int{1, 2, 5, 100} {
				var got []string
				for p := (store.Page{Limit: limit}); ; {
					page, err := s.Instances(t.Context(), f.ws, filter, p)
					f.must(err)
					for _, i := range page {
						got = append(got, i.Key)
					}
					if len(page) < limit {
						break
					}
					p.Before = int64(page[len(page)-1].ID)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%+v in pages of %d (-want +got)\n%s", filter, limit, diff)
				}
			}
		}
		var head instance.ID
		for _, i := range rows {
			head = max(head, i.Head)
		}
		zones, err := s.ZonesOf(t.Context(), []instance.ID{head, rows[0].ID, head})
		f.must(err)
		for id, list := range zones {
			n := 0
			for _, i := range rows {
				if i.Head == id {
					n++
				}
			}
			if len(list) != n || !slices.IsSortedFunc(list, func(a, b instance.Row) int { return int(a.ID - b.ID) }) {
				t.Errorf("%d zones, want %d", len(list), n)
			}
		}
		if len(zones[head]) == 0 {
			t.Error("the last occasion has no zones")
		}
	})
}

// Lists find the rows for time zones by their ids: only the range of the page is read.
func TestZonesAreFoundByIndex(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.made(now)
		for _, filter := range []store.InstanceFilter{{Once: true}, {Status: instance.Pending}, {Held: true}, {Workflow: "visit", Reason: reason.Stale}} {
			for name, l := range store.ZoneStatements(filter) {
				plans, err := s.Plans(t.Context(), l.Text, l.Args...)
				f.must(err)
				for _, plan := range plans {
					if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "SCAN i") || strings.Contains(plan, "SCAN y") || strings.Contains(plan, "SCAN z") ||
						strings.Contains(plan, "SCAN h") || name != "zones" && strings.Contains(plan, "TEMP B-TREE FOR ORDER") || !strings.Contains(plan, "instance_zones") {
						t.Errorf("%s, %+v:\n%s", name, filter, plan)
					}
				}
			}
		}
	})
}
