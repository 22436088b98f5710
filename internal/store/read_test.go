package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

func TestListings(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ann, bob := f.contact("ann"), f.contact("bob")
		var w store.OccasionWrites
		for i := range 5 {
			in := f.instance(fmt.Sprintf("k:%d", i), instance.Completed)
			w.Instances = append(w.Instances, in)
			w.Deliveries = append(w.Deliveries, f.delivery(in, ann))
		}
		w.Instances[1].Workflow, w.Instances[2].Status, w.Instances[3].Hold, w.Instances[4].Event = "other", instance.Pending, instance.HoldConflict, 77
		d := w.Deliveries
		d[0].Workflow, d[1].Status, d[2].Channel, d[3].Reason, d[4].Contact, d[4].Address = "other", delivery.Opened, "email:smtp", reason.Stale, bob, "ann"
		f.add(w)
		elsewhere, err := s.EnsureWorkspace(t.Context(), "elsewhere", nil, now)
		f.must(err)

		for _, test := range []struct {
			name   string
			filter store.InstanceFilter
			page   store.Page
			want   []int
		}{
			{"all, newest first", store.InstanceFilter{}, store.Page{}, []int{4, 3, 2, 1, 0}},
			{"a page", store.InstanceFilter{}, store.Page{Limit: 2}, []int{4, 3}},
			{"the next", store.InstanceFilter{}, store.Page{Limit: 2, Before: int64(w.Instances[3].ID)}, []int{2, 1}},
			{"workflow", store.InstanceFilter{Workflow: "other"}, store.Page{}, []int{1}},
			{"status", store.InstanceFilter{Status: instance.Pending}, store.Page{}, []int{2}},
			{"held", store.InstanceFilter{Held: true}, store.Page{}, []int{3}},
			{"event", store.InstanceFilter{Event: 77}, store.Page{}, []int{4}},
			{"key", store.InstanceFilter{Key: "k:2"}, store.Page{}, []int{2}},
			{"two at once", store.InstanceFilter{Key: "k:2", Workflow: "other"}, store.Page{}, nil},
		} {
			got, err := s.Instances(t.Context(), f.ws, test.filter, test.page)
			f.must(err)
			var want []instance.Row
			for _, i := range test.want {
				want = append(want, w.Instances[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("instances by %s (-want +got)\n%s", test.name, diff)
			}
		}
		for _, test := range []struct {
			name   string
			filter store.DeliveryFilter
			page   store.Page
			want   []int
		}{
			{"all, newest first", store.DeliveryFilter{}, store.Page{}, []int{4, 3, 2, 1, 0}},
			{"a page", store.DeliveryFilter{Workflow: "visit"}, store.Page{Limit: 2, Before: int64(d[4].ID)}, []int{3, 2}},
			{"workflow", store.DeliveryFilter{Workflow: "other"}, store.Page{}, []int{0}},
			{"status", store.DeliveryFilter{Status: delivery.Opened}, store.Page{}, []int{1}},
			{"channel", store.DeliveryFilter{Channel: "email:smtp"}, store.Page{}, []int{2}},
			{"reason", store.DeliveryFilter{Reason: reason.Stale}, store.Page{}, []int{3}},
			{"contact", store.DeliveryFilter{Contact: bob}, store.Page{}, []int{4}},
			{"to an address or a person", store.DeliveryFilter{To: store.ContactQuery{Text: "ann"}}, store.Page{}, []int{4, 3, 2, 1, 0}},
			{"to an address in another spelling", store.DeliveryFilter{To: store.ContactQuery{Text: "+964 77"}}, store.Page{}, []int{3, 2, 1, 0}},
			{"to a person", store.DeliveryFilter{To: store.ContactQuery{Text: "bob"}, Status: delivery.Scheduled}, store.Page{}, []int{4}},
			{"instance", store.DeliveryFilter{Instance: w.Instances[2].ID}, store.Page{}, []int{2}},
		} {
			got, err := s.Deliveries(t.Context(), f.ws, test.filter, test.page)
			f.must(err)
			var want []delivery.Row
			for _, i := range test.want {
				want = append(want, d[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("deliveries by %s (-want +got)\n%s", test.name, diff)
			}
		}
		_, err = s.DeliveryByID(t.Context(), elsewhere.ID, d[0].ID)
		f.mustBe(err, store.ErrNotFound)
		_, err = s.InstanceByKey(t.Context(), elsewhere.ID, "k:1")
		f.mustBe(err, store.ErrNotFound)
		got, err := store.ContactsByID(s, t.Context(), f.ws, []subject.ContactID{ann, bob, 5, ann})
		if err != nil || len(got) != 2 || got[ann].ExtID != "ann" || got[bob].ExtID != "bob" {
			t.Errorf("contacts %+v %v", got, err)
		}
	})
}

func TestCounts(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		held, pending := f.instance("k:1", instance.Pending), f.instance("k:2", instance.Pending)
		held.Hold, held.DueAt, pending.DueAt = instance.HoldConflict, now.Add(-2*time.Hour), now.Add(-time.Hour)
		f.add(store.OccasionWrites{Events: []store.EventRow{f.event("a"), f.event("b")}, Instances: []instance.Row{held, pending}})
		f.scheduled(3, func(i int, d *delivery.Row) {
			switch i {
			case 0:
				d.Status, d.SendAt = delivery.Failed, time.Time{}
			case 1: // a reminder follows
				d.LastSentAt = now
			}
		})
		got, err := s.Counts(t.Context(), f.ws)
		f.must(err)
		want := store.Counts{
			Events: 2, Held: 1, Sent: 1, OldestDue: now.Add(-time.Hour),
			InstancesByStatus:  map[instance.Status]int64{instance.Pending: 2, instance.Completed: 3},
			DeliveriesByStatus: map[delivery.Status]int64{delivery.Scheduled: 2, delivery.Failed: 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		empty, err := s.Counts(t.Context(), f.ws+1)
		if err != nil || empty.Events != 0 || len(empty.DeliveriesByStatus) != 0 || !empty.OldestDue.IsZero() {
			t.Errorf("another workspace: %+v %v", empty, err)
		}
	})
}
