package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// made fills a workspace with a row of each kind at each instant.
func (f fixture) made(times ...time.Time) {
	f.Helper()
	p := f.contact("c-made")
	for i, at := range times {
		f.ingest(ingestRequest{At: at}, func(ingestState) (w store.OccasionWrites, err error) {
			in := f.instance(fmt.Sprint("made:", i), instance.Completed)
			in.ID, in.CreatedAt = instance.ID(f.s.NewID(at)), at
			e := f.event(fmt.Sprint("kind-", i))
			e.ID, e.ReceivedAt, e.ExtID = subject.EventID(f.s.NewID(at)), at, fmt.Sprint("made-", i)
			d := f.delivery(in, p)
			d.ID, d.CreatedAt = delivery.ID(f.s.NewID(at)), at
			w.Events, w.Instances, w.Deliveries = []store.EventRow{e}, []instance.Row{in}, []delivery.Row{d}
			w.Decisions = []store.Decision{{ID: f.s.NewID(at), At: at, Workflow: "visit", Reason: "throttled"}}
			return w, nil
		})
	}
}

// A list of a span has the rows that were made from its beginning to before its end, even if the clock was set back meanwhile.
func TestListsOfASpan(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		at := func(d time.Duration) time.Time { return now.Add(d) }
		f.made(at(0), at(time.Second), at(time.Minute), at(30*time.Second), at(time.Hour))
		for _, c := range []struct {
			name         string
			since, until time.Time
			want         []time.Duration
		}{
			{"open", time.Time{}, time.Time{}, []time.Duration{time.Hour, 30 * time.Second, time.Minute, time.Second, 0}},
			{"since is included", at(time.Second), time.Time{}, []time.Duration{time.Hour, 30 * time.Second, time.Minute, time.Second}},
			{"until is not", time.Time{}, at(time.Second), []time.Duration{0}},
			{"both", at(time.Second), at(time.Minute), []time.Duration{30 * time.Second, time.Second}},
			{"nothing", at(2 * time.Hour), time.Time{}, nil},
			{"before 1970", time.Unix(-10, 0), time.Unix(-5, 0), nil},
		} {
			span := store.Span{Since: c.since, Until: c.until}
			got := map[string][]time.Duration{}
			deliveries, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{Made: span}, store.Page{})
			f.must(err)
			for _, r := range deliveries {
				got["deliveries"] = append(got["deliveries"], r.CreatedAt.Sub(now))
			}
			instances, err := s.Instances(t.Context(), f.ws, store.InstanceFilter{Made: span}, store.Page{})
			f.must(err)
			for _, r := range instances {
				got["instances"] = append(got["instances"], r.CreatedAt.Sub(now))
			}
			events, err := s.Events(t.Context(), f.ws, store.EventFilter{Made: span}, store.Page{})
			f.must(err)
			for _, r := range events {
				got["events"] = append(got["events"], r.ReceivedAt.Sub(now))
			}
			decisions, err := s.Decisions(t.Context(), f.ws, store.DecisionFilter{Made: span}, store.Page{})
			f.must(err)
			for _, r := range decisions {
				got["decisions"] = append(got["decisions"], r.At.Sub(now))
			}
			for _, list := range []string{"deliveries", "instances", "events", "decisions"} {
				if !slices.Equal(got[list], c.want) {
					t.Errorf("%s, %s: got %v, want %v", c.name, list, got[list], c.want)
				}
			}
		}
		events, err := s.Events(t.Context(), f.ws, store.EventFilter{Kind: "kind-2"}, store.Page{})
		f.must(err)
		decisions, err := s.Decisions(t.Context(), f.ws, store.DecisionFilter{Workflow: "visit", Reason: "duplicate"}, store.Page{})
		f.must(err)
		instances, err := s.Instances(t.Context(), f.ws, store.InstanceFilter{Reason: "expanded"}, store.Page{})
		f.must(err)
		if len(events) != 1 || events[0].Kind != "kind-2" || len(decisions) != 0 || len(instances) != 0 {
			t.Errorf("got %d events, %d decisions, %d instances", len(events), len(decisions), len(instances))
		}
		first, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{Made: store.Span{Until: at(time.Minute)}}, store.Page{Limit: 1})
		f.must(err)
		rest, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{Made: store.Span{Until: at(time.Minute)}}, store.Page{Limit: 5, Before: int64(first[0].ID)})
		f.must(err)
		if len(rest) != 2 {
			t.Errorf("the pages of a span hold 1 and %d", len(rest))
		}
	})
}

// A list of a span is a range of the primary key: rows that were made before or after it are not read.
func TestListsOfASpanReadOneRange(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.made(now)
		for name, l := range store.SpanStatements(store.Span{Since: now, Until: now.Add(time.Hour)}) {
			plans, err := s.Plans(t.Context(), l.Text, l.Args...)
			f.must(err)
			for _, plan := range plans {
				low, high := "id>? AND id<?", "id>? AND id<?"
				if s.Dialect() == "postgres" {
					low, high = "id >=", "id <"
				}
				cond := plan
				if i := strings.Index(plan, "Index Cond"); i >= 0 {
					cond, _, _ = strings.Cut(plan[i:], "\n")
				}
				if !strings.Contains(cond, low) || !strings.Contains(cond, high) || strings.Contains(plan, "SCAN") || strings.Contains(plan, "Seq Scan") {
					t.Errorf("%s:\n%s", name, plan)
				}
			}
		}
	})
}
