package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// plannedRow is an occasion of record 7, and what is stored of it.
type plannedRow struct {
	key    string
	status instance.Status
	change func(*instance.Row)
	// of has a delivery of it; nil: it has none.
	of func(*delivery.Row)
}

// The dates of a course that have had their messages are those of messages that have ended or begun. A withdrawn one was never sent, and one whose key
// was freed is sent again.
func TestThePlanOfACourseHasTheDatesThatHadAMessage(t *testing.T) {
	t.Parallel()
	on := func(date string, number int) func(*instance.Row) {
		return func(i *instance.Row) { i.Round, i.MessageDate, i.MessageNumber = 1, date, number }
	}
	rows := []struct {
		key    string
		status instance.Status
		change func(*instance.Row)
	}{
		{"before", instance.Completed, on("2026-05-19", 1)},
		{"completed", instance.Completed, on("2026-05-20", 1)},
		{"skipped", instance.Skipped, on("2026-05-20", 2)},
		{"failed", instance.Failed, on("2026-05-21", 1)},
		{"cancelled", instance.Cancelled, on("2026-05-22", 1)},
		{"withdrawn", instance.Deactivated, on("2026-05-20", 3)},
		{"waits", instance.Pending, on("2026-05-23", 1)},
		{"begun", instance.Pending, func(i *instance.Row) { on("2026-05-20", 4)(i); i.Event = 5 }},
		{"freed", instance.Completed, on("2026-05-20", 5)},
		{"undated", instance.Completed, nil},
		{"other record", instance.Completed, func(i *instance.Row) { on("2026-05-20", 1)(i); i.Record = 8 }},
		{"other trigger", instance.Completed, func(i *instance.Row) { on("2026-05-20", 1)(i); i.Trigger = "other" }},
		{"other workflow", instance.Completed, func(i *instance.Row) { on("2026-05-20", 1)(i); i.Workflow = "other" }},
		{"other workspace", instance.Completed, on("2026-05-20", 1)},
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var w store.OccasionWrites
		for _, r := range rows {
			in := f.instance(r.key, r.status)
			in.Source, in.Record = instance.FromPlan, 7
			if r.change != nil {
				r.change(&in)
			}
			if r.status != instance.Pending {
				in.CompletedAt = now
			}
			w.Instances = append(w.Instances, in)
		}
		f.add(w)
		f.exec(`UPDATE instance SET forgotten = 1 WHERE key = 'freed'`)
		stranger, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		f.exec(`UPDATE instance SET ws = $1 WHERE key = 'other workspace'`, int64(stranger.ID))

		ref := store.PlanRef{Workspace: f.ws, Record: 7, Workflow: "visit", Trigger: "closed", OfCourse: true}
		for since, want := range map[string]string{"": "", "2026-05-20": "begun cancelled completed failed skipped", "2026-05-23": ""} {
			ref.Since = since
			plans, err := s.PlansOf(t.Context(), map[store.PlanRef][]key.Instance{ref: nil})
			f.must(err)
			var got []string
			for _, row := range plans[ref].Dated {
				got = append(got, row.Key)
				if row.MessageDate < since || row.MessageNumber == 0 {
					t.Errorf("%+v", row)
				}
			}
			if slices.Sort(got); strings.Join(got, " ") != want {
				t.Errorf("since %q: %q, want %q", since, got, want)
			}
		}
	})
}

// A plan has what waits of a record, and what is stored under the keys that are asked for. It is found with the same statements for one
// record and for many.
func TestAPlanHasWhatWaitsAndWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	ended := func(d *delivery.Row) {
		d.Status, d.SendAt, d.Slot, d.CompletedAt = delivery.Expired, time.Time{}, time.Time{}, now
	}
	reminded := func(d *delivery.Row) { d.Status, d.Slot, d.Step, d.LastSentAt = delivery.Sent, time.Time{}, 1, now }
	parked := func(d *delivery.Row) { d.SendAt, d.Hold = time.Time{}, delivery.HoldNoChannel }
	waits := func(*delivery.Row) {}
	course := func(i *instance.Row) { i.Round = 3 }
	rows := []plannedRow{
		{"k1", instance.Completed, nil, ended},
		{"k1:retry:2", instance.Failed, nil, nil},
		{"k1:retry:10", instance.Cancelled, nil, nil},
		{"k1:z:Asia/Kolkata", instance.Completed, nil, ended},
		{"k10", instance.Completed, nil, ended},
		{"k2", instance.Completed, nil, ended},
		{"k2:retry:1", instance.Completed, nil, ended},
		{"k3", instance.Pending, nil, nil},
		{"k4", instance.Completed, nil, nil},
		{"k4:z:Asia/Kolkata", instance.Pending, nil, nil},
		{"k5", instance.Completed, nil, waits},
		{"k6", instance.Completed, nil, reminded},
		{"k7", instance.Completed, nil, parked},
		{"k8", instance.Completed, nil, ended},
		{"k9", instance.Pending, course, nil},
		{"other record", instance.Pending, func(i *instance.Row) { i.Record = 8 }, nil},
		{"other trigger", instance.Pending, func(i *instance.Row) { i.Trigger = "other" }, nil},
		{"other workflow", instance.Completed, func(i *instance.Row) { i.Workflow = "other" }, waits},
		{"k11", instance.Completed, func(i *instance.Row) { i.Record = 8 }, nil},
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		p := f.contact("ann")
		var w store.OccasionWrites
		for _, r := range rows {
			in := f.instance(r.key, r.status)
			in.Source, in.Record = instance.FromPlan, 7
			if r.change != nil {
				r.change(&in)
			}
			if r.status != instance.Pending {
				in.CompletedAt = now
			}
			w.Instances = append(w.Instances, in)
			if r.of != nil {
				d := f.delivery(in, p)
				d.Record = in.Record
				r.of(&d)
				w.Deliveries = append(w.Deliveries, d)
			}
		}
		f.add(w)
		f.exec(`UPDATE instance SET forgotten = 1 WHERE key = 'k4'`)
		stranger, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		f.exec(`UPDATE instance SET ws = $1 WHERE key = 'k11'`, int64(stranger.ID)) // the same name in another workspace

		ref := store.PlanRef{Workspace: f.ws, Record: 7, Workflow: "visit", Trigger: "closed"}
		ofCourse := ref
		ofCourse.OfCourse = true
		read := func(ref store.PlanRef, keys ...key.Instance) (plan store.Plan) {
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				_, plans, err := tx.LockOccasions(nil, map[store.PlanRef][]key.Instance{ref: keys})
				plan = plans[ref]
				return err
			}))
			without, err := s.PlansOf(t.Context(), map[store.PlanRef][]key.Instance{ref: keys})
			f.must(err)
			if got, want := keysOf(without[ref].Instances), keysOf(plan.Instances); got != want {
				t.Errorf("without a lock it is %s, and with one %s", got, want)
			}
			return plan
		}
		for _, test := range []struct {
			name string
			ref  store.PlanRef
			keys []key.Instance
			want string
		}{
			{"asked for", ref, []key.Instance{"k1", "k11"}, "k1 k1:retry:10 k3 k4 k4:z:Asia/Kolkata k5 k6 k7 k9"},
			{"not asked for", ref, nil, "k3 k4 k4:z:Asia/Kolkata k5 k6 k7 k9"},
			{"of a course", ofCourse, []key.Instance{"k1"}, "k3 k4 k4:z:Asia/Kolkata k9"},
		} {
			plan := read(test.ref, test.keys...)
			if got := keysOf(plan.Instances); got != test.want {
				t.Errorf("%s: %s, want %s", test.name, got, test.want)
			}
			if plan.Freed["k4"] != 1 || len(plan.Freed) != 1 {
				t.Errorf("%s: freed are %v", test.name, plan.Freed)
			}
		}
		var deliveries []string
		for _, d := range read(ref).Deliveries {
			deliveries = append(deliveries, d.Key[:2])
		}
		if got := strings.Join(deliveries, " "); got != "k5 k6 k7" {
			t.Errorf("deliveries of %s", got)
		}

		for _, n := range []int{1, 100} {
			wanted := map[store.PlanRef][]key.Instance{}
			for i := range n {
				r := ref
				r.Trigger = []string{"closed", fmt.Sprint(i)}[min(i, 1)]
				wanted[r] = []key.Instance{key.Instance(fmt.Sprint("k", i))}
			}
			before := s.Statements()
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				_, _, err := tx.LockOccasions(nil, wanted)
				return err
			}))
			if got := s.Statements() - before; got != 8 {
				t.Errorf("%d plans: %d statements", n, got)
			}
		}
	})
}

// keysOf returns the keys of instances, sorted.
func keysOf(rows []instance.Row) string {
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = row.Key
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}
