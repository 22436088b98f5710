package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// expand expands what is due now; without decide every instance completes without recipients.
func (f fixture) expand(decide func([]store.DueInstance, []store.People) ([]store.FanoutResult, error), refs ...store.RecipientRef) int {
	f.Helper()
	if decide == nil {
		decide = complete
	}
	n, err := f.s.FanOutDue(f.Context(), now, 1000, nil, nil, func(due []store.DueInstance) ([]store.Audience, error) {
		all := make([]store.Audience, len(due))
		for i := range due {
			all[i].Refs = refs
		}
		return all, nil
	}, decide)
	f.must(err)
	return n
}

func complete(due []store.DueInstance, _ []store.People) ([]store.FanoutResult, error) {
	results := make([]store.FanoutResult, len(due))
	for i := range results {
		results[i] = store.FanoutResult{Status: instance.Completed, Reason: reason.Expanded}
	}
	return results, nil
}

func TestFanOutTakesDueInstances(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		event := f.event("closed")
		var list []instance.Row
		add := func(key string, change func(*instance.Row)) {
			in := f.instance(key, instance.Pending)
			change(&in)
			list = append(list, in)
		}
		add("later", func(i *instance.Row) { i.DueAt = now.Add(time.Microsecond) })
		add("now", func(i *instance.Row) { i.Event = event.ID })
		add("earlier", func(i *instance.Row) { i.DueAt = now.Add(-time.Hour) })
		add("before 1970", func(i *instance.Row) { i.DueAt = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) })
		add("waits for its retry", func(i *instance.Row) { i.NextRetryAt = now.Add(time.Minute) })
		add("held", func(i *instance.Row) { i.Held = true })
		add("over", func(i *instance.Row) { i.Status = instance.Skipped })
		f.add(store.IngestWrites{Events: []store.EventRow{event}, Instances: list})
		var got []string
		n := f.expand(func(due []store.DueInstance, people []store.People) ([]store.FanoutResult, error) {
			for i, in := range due {
				got = append(got, in.Key)
				if (in.EventRow.ID == event.ID) != (in.Key == "now") || len(people[i].Persons) != 1 || people[i].Persons[0].ExtID != "c-1" {
					t.Errorf("%s: event %d, people %v", in.Key, in.EventRow.ID, people[i])
				}
			}
			return complete(due, people)
		}, person("c-1", ""))
		if diff := cmp.Diff([]string{"before 1970", "earlier", "now"}, got); diff != "" || n != 3 {
			t.Errorf("%d taken (-want +got)\n%s", n, diff)
		}
		in, err := s.InstanceByKey(t.Context(), f.ws, "now")
		f.must(err)
		if in.Status != instance.Completed || in.Reason != reason.Expanded || !in.CompletedAt.Equal(now) || in.Version != 1 || in.Attempts != 1 {
			t.Errorf("%+v", in)
		}
		if n := f.expand(nil); n != 0 {
			t.Errorf("%d taken again", n)
		}
	})
}

func TestFanOutSettles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		result store.FanoutResult
		next   time.Time
	}{
		{"retry", store.FanoutResult{Status: instance.Pending, Reason: reason.AudienceFailed, NextRetryAt: now.Add(time.Minute), RetryCount: 1, Trace: "x"}, now.Add(time.Minute)},
		{"at once", store.FanoutResult{Status: instance.Pending}, now},
		{"held", store.FanoutResult{Status: instance.Pending, Held: true, Reason: reason.AudienceFailed, RetryCount: 3}, time.Time{}},
		{"deactivated", store.FanoutResult{Status: instance.Deactivated, Reason: reason.WorkflowInactive}, time.Time{}},
		{"failed", store.FanoutResult{Status: instance.Failed, Reason: reason.ExpressionFailed}, time.Time{}},
	}
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for _, test := range tests {
			in := f.instance("k:"+test.name, instance.Pending)
			in.Trace = "as planned"
			f.add(store.IngestWrites{Instances: []instance.Row{in}})
			f.expand(func(due []store.DueInstance, _ []store.People) ([]store.FanoutResult, error) {
				return []store.FanoutResult{test.result}, nil
			})
			want := in
			want.Status, want.Held, want.Reason, want.NextRetryAt, want.RetryCount = test.result.Status, test.result.Held, test.result.Reason, test.result.NextRetryAt, test.result.RetryCount
			want.Version, want.Attempts = 1, 1
			if want.Held {
				want.HeldAt = now
			}
			if test.result.Trace != "" {
				want.Trace = test.result.Trace
			}
			if want.Status != instance.Pending {
				want.CompletedAt = now
			}
			got, err := s.InstanceByID(t.Context(), f.ws, in.ID)
			f.must(err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", test.name, diff)
			}
			next, err := s.NextDue(t.Context(), now)
			if err != nil || !next.Equal(test.next) {
				t.Errorf("%s: next due %v %v, want %v", test.name, next, err, test.next)
			}
			f.exec(`UPDATE instance SET ready_at = 0 WHERE id = $1`, int64(in.ID))
		}
	})
}

func TestFanOutKeepsDeliveriesThatExist(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.instance("k:1", instance.Pending)
		before := f.delivery(in, f.contact("c-1"))
		f.add(store.IngestWrites{Instances: []instance.Row{in}, Deliveries: []delivery.Row{before}})
		ref := person("c-1", "")
		ref.Lock = true
		f.expand(func(due []store.DueInstance, people []store.People) ([]store.FanoutResult, error) {
			if p := people[0].Persons[0]; !p.Locked || len(p.Slots) != 1 {
				t.Errorf("person %+v", p)
			}
			again, other := f.delivery(due[0].Row, people[0].Persons[0].ID), f.delivery(due[0].Row, people[0].Persons[1].ID)
			again.Slot = now.Add(time.Hour)
			return []store.FanoutResult{{Status: instance.Completed, Deliveries: []delivery.Row{again, other}}}, nil
		}, ref, person("c-2", ""))
		rows, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{Instance: in.ID}, store.Page{})
		f.must(err)
		if len(rows) != 2 || rows[1].ID != before.ID || !rows[1].Slot.Equal(before.Slot) {
			t.Errorf("deliveries %+v", rows)
		}
	})
}

func TestFanOutErrorsRollBack(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.add(store.IngestWrites{Instances: []instance.Row{f.instance("k:1", instance.Pending)}})
		nobody := func(due []store.DueInstance) ([]store.Audience, error) {
			return make([]store.Audience, len(due)), nil
		}
		broken := func([]store.DueInstance) ([]store.Audience, error) { return nil, errBroken }
		short := func([]store.DueInstance, []store.People) ([]store.FanoutResult, error) { return nil, nil }
		_, err := s.FanOutDue(t.Context(), now, 10, nil, nil, broken, complete)
		f.mustBe(err, errBroken)
		_, err = s.FanOutDue(t.Context(), now, 10, nil, nil, nobody, short)
		f.mustBe(err, store.ErrInvalid)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = s.FanOutDue(t.Context(), now, 10, nil, nil, nobody, func([]store.DueInstance, []store.People) ([]store.FanoutResult, error) { panic("x") })
		}()
		if n := f.expand(nil); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
}

func TestRacingFanOutsTakeEachInstanceOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const instances = 200
		f := setup(t, s)
		var w store.IngestWrites
		for i := range instances {
			w.Instances = append(w.Instances, f.instance(fmt.Sprintf("k:%d", i), instance.Pending))
		}
		f.add(w)
		var mu sync.Mutex
		taken := 0
		race(t, 8, func(int) error {
			for {
				n, err := s.FanOutDue(t.Context(), now, 7, nil, nil, func(due []store.DueInstance) ([]store.Audience, error) {
					refs := make([]store.Audience, len(due))
					for i := range due {
						ref := person(fmt.Sprintf("c-%d", i%3), "")
						ref.Lock = true
						refs[i].Refs = []store.RecipientRef{ref}
					}
					return refs, nil
				}, func(due []store.DueInstance, people []store.People) ([]store.FanoutResult, error) {
					results, _ := complete(due, people)
					for i, in := range due {
						results[i].Deliveries = []delivery.Row{f.delivery(in.Row, people[i].Persons[0].ID)}
					}
					return results, nil
				})
				mu.Lock()
				taken += n
				mu.Unlock()
				if err != nil || n == 0 {
					return err
				}
			}
		})
		counts, err := s.Counts(t.Context(), f.ws)
		f.must(err)
		if taken != instances || counts.InstancesByStatus[instance.Completed] != instances || counts.DeliveriesByStatus[delivery.Scheduled] != instances {
			t.Errorf("taken %d, %+v, want %d", taken, counts, instances)
		}
	})
}
