package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// planned returns every occasion, by key without its kind and workflow: status, reason and due instant.
func (w world) planned() map[string]string {
	w.Helper()
	all := map[string]string{}
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	for _, row := range rows {
		all[strings.TrimPrefix(row.Key, "reminder:w:")] = strings.TrimSuffix(fmt.Sprintf("%s %s", row.Status, row.Reason), " ")
	}
	return all
}

// mustPlan compares the occasions with the wanted ones.
func (w world) mustPlan(when string, want map[string]string) {
	w.Helper()
	got := w.planned()
	for k := range want {
		if got[k] != want[k] {
			w.Errorf("%s: %s is %q, want %q", when, k, got[k], want[k])
		}
	}
	if len(got) != len(want) {
		w.Errorf("%s: %d occasions, want %d: %v", when, len(got), len(want), got)
	}
}

// days advances the clock by some days and runs every stage whenever something is due.
func (w world) days(n int) {
	w.Helper()
	end := w.Clock.Now().AddDate(0, 0, n)
	for range 10_000 {
		for w.tick() {
		}
		next, err := w.NextDue(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			w.Clock.Set(end)
			return
		}
		w.Clock.Set(next)
	}
	w.Fatal("there is no end to it")
}

// When a record changes, the records that read it are evaluated in pages. A process that dies between two pages loses none, and a field that nobody
// reads starts no job.
//
// Shows: B31, B34.
func TestAParentsChildrenFollow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const children = 3000
		w := newWorld(t, s, papers{offsets: []int{-1}, at: "09:00", zone: "UTC", enabled: true, there: true}.text())
		w.put("home/x", `{"open": true, "zone": "Europe/Berlin"}`)
		for from := 0; from < children; from += 1000 {
			items := make([]record.Item, 1000)
			for i := range items {
				items[i] = record.Item{Type: "paper", ID: fmt.Sprint(from + i), Props: map[string]any{"date": "2026-06-01", "wanted": true, "who": "ann", "home": "x"}}
			}
			if _, err := w.Records().Write(t.Context(), w.Workspace, upsert.Merge, items, "test", w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		w.live("10:01")
		runs := func() (n int) {
			all, err := s.Jobs(t.Context(), w.Workspace.ID, store.Page{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if r.Kind == job.Related {
					n++
				}
			}
			return n
		}
		before := runs()
		w.put("home/x", `{"note": 7}`)
		if n := runs() - before; n != 0 {
			t.Errorf("%d runs for what nobody reads", n)
		}
		w.put("home/x", `{"zone": "Asia/Tokyo"}`)
		if n := runs() - before; n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
		passed := 0
		for passed == 0 { // one page, and then the process dies
			r, err := evaluator.New(s, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}).Step(t.Context(), w.Clock.Now(), engine.TickBatch)
			if err != nil {
				t.Fatal(err)
			}
			passed += r.Passed
		}
		if passed >= children {
			t.Errorf("%d children in one page", passed)
		}
		w.live("10:05")
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: children + 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Status != instance.Pending || row.Timezone != "Asia/Tokyo" || !row.DueAt.Equal(time.Date(2026, 5, 31, 0, 0, 0, 0, time.UTC)) {
				t.Fatalf("%d rows, one of which is %+v", len(rows), row)
			}
		}
		t.Logf("%d children, %d in the first page", len(rows), passed)
	})
}

// An occasion that an operator has cancelled is not revived by a heartbeat, but by a change of what its trigger reads.
//
// Shows: R13, B21.
func TestAHeartbeatRevivesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00"}`), "ann")
		w.put("visit/v", `{"on_date": "2026-05-20", "who": "ann"}`)
		w.live("10:05")
		row, err := s.InstanceByKey(t.Context(), w.Workspace.ID, "reminder:w:visit:v:t:2026-05-20:0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.put("visit/v", `{"battery": 7}`)
		w.live("10:10")
		w.mustPlan("after a heartbeat", map[string]string{"visit:v:t:2026-05-20:0": "cancelled cancelled_by_operator"})
		w.put("visit/v", `{"on_date": "2026-05-21"}`)
		w.live("10:15")
		w.put("visit/v", `{"on_date": "2026-05-20"}`)
		w.live("10:20")
		w.mustPlan("after a change of the date", map[string]string{"visit:v:t:2026-05-20:0": "pending", "visit:v:t:2026-05-21:0": "deactivated date_changed"})
	})
}

// A trigger that is not defined any more, or has another record type, withdraws its occasions.
//
// Shows: B40.
func TestOccasionsOfARemovedDefinitionAreWithdrawn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		date := visits(`    timing: {anchor: record.on_date, at: "12:00"}`)
		w := newWorld(t, s, date, "ann")
		w.put("visit/v", `{"on_date": "2026-05-20", "who": "ann"}`)
		w.live("10:05")
		w.Apply(strings.Replace(date, "record: visit", "record: stay", 1))
		w.live("10:10")
		for k, is := range w.planned() {
			if !strings.HasPrefix(is, "deactivated") {
				t.Errorf("%s is %q", k, is)
			}
		}
		w.Apply(date)
		w.live("10:15")
		w.mustPlan("again", map[string]string{"visit:v:t:2026-05-20:0": "pending"})
		w.Apply(strings.Replace(date, "  - id: t\n", "  - id: u\n", 1))
		w.live("10:20")
		w.mustPlan("another trigger", map[string]string{"visit:v:t:2026-05-20:0": "deactivated rule_changed", "visit:v:u:2026-05-20:0": "pending"})
	})
}

// A row that another plan has made is revalidated when it is due: if nothing asks for its key, it ends; if the inputs differ, it is put on hold.
//
// Shows: R14, B23, B30, B41.
func TestARowOfAnotherPlan(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ set, want string }{
		{"key = 'reminder:w:visit:v:t:2026-05-13:0'", "deactivated source_no_longer_valid"},
		{"input_hash = 'another'", "pending input_conflict"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, "postgres")
			w := newWorld(t, storetest.Open(t, url), visits(`    timing: {anchor: record.on_date, at: "12:00"}`), "ann")
			w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann"}`)
			w.live("10:05")
			if _, err := connect(t, url).Exec(t.Context(), "UPDATE instance SET "+test.set); err != nil {
				t.Fatal(err)
			}
			w.live("12:05")
			found := false
			for k, is := range w.planned() {
				found = found || is == test.want
				t.Log(k, is)
			}
			if !found {
				t.Errorf("none is %s", test.want)
			}
		})
	}
}

// An occasion that was moved by a related record and becomes due while no process runs is late like any other.
// Shows: R2, R14.
func TestADeferredMessageMayBecomeStale(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00"}`), "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann"}`)
		w.live("11:00")
		w.Clock.Set(at("12:00"))
		w.put("visit/v", `{"timezone": "America/New_York"}`)
		if n, err := fanout.New(s, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}, nil).Step(t.Context(), w.Clock.Now(), 10); err != nil || n != 1 {
			t.Fatalf("%d were taken up: %v", n, err)
		}
		for w.tick() {
		}
		w.Clock.Set(at("16:00").Add(48*time.Hour + time.Minute))
		for w.tick() {
		}
		w.mustPlan("two days later", map[string]string{"visit:v:t:2026-05-14:0": "skipped stale"})
	})
}

// Under false_to_true the values that are true when a trigger is applied are its baseline; a record that is created above the threshold counts.
//
// Shows: R11, B36.
func TestTheBaseline(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		trigger := "    metric: {name: m, value: record.booked, thresholds: [80]}\n    fire: false_to_true\n"
		w := newWorld(t, s, strings.Replace(visits(trigger), "record: visit", "record: stay", 1), "ann")
		w.put("visit/old", `{"booked": 85, "who": "ann"}`)
		w.live("10:05")
		w.Apply(visits(trigger))
		w.live("10:10")
		w.put("visit/new", `{"booked": 85, "who": "ann"}`)
		w.put("visit/old", `{"booked": 86}`)
		w.live("10:15")
		w.mustPlan("at first", map[string]string{"visit:new:t:threshold:m:80:FalseToTrue:e1": "completed expanded"})
		w.put("visit/old", `{"booked": 70}`)
		w.live("10:20")
		w.put("visit/old", `{"booked": 90}`)
		w.live("10:25")
		w.mustPlan("when it is crossed", map[string]string{
			"visit:new:t:threshold:m:80:FalseToTrue:e1": "completed expanded", "visit:old:t:threshold:m:80:FalseToTrue:e1": "completed expanded",
		})
	})
}

// stop_when withdraws waiting occasions, and ends the reminders of sent ones.
func TestStopWhenEndsReminders(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", offset: [0d, 9d], reminders: [2d, 2d], stop_when: record.paid == true}`), "ann")
		for _, name := range []string{"visit/paid", "visit/open"} {
			w.put(name, `{"on_date": "2026-05-14", "who": "ann"}`)
		}
		w.days(1)
		w.put("visit/paid", `{"paid": true}`)
		w.days(7)
		if n := len(w.Provider.Sent()); n != 4 { // one for the paid record, three for the other
			t.Errorf("%d messages, want 4", n)
		}
		w.mustPlan("after a week", map[string]string{
			"visit:paid:t:2026-05-14:0": "completed expanded", "visit:paid:t:2026-05-14:-9": "deactivated condition_cleared",
			"visit:open:t:2026-05-14:0": "completed expanded", "visit:open:t:2026-05-14:-9": "pending",
		})
	})
}

// An occasion that is too late when it is first seen is stored as one skipped row, never as thousands.
//
// Shows: B20, R3.
func TestStaleOccasionsAreKept(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", offset: [-30d, -7d, -1d]}`), "ann")
		for range 3 {
			w.put("visit/v", fmt.Sprintf(`{"on_date": "2026-05-20", "who": "ann", "beat": %q}`, w.Clock.Now()))
			w.days(1)
		}
		w.mustPlan("after three days", map[string]string{
			"visit:v:t:2026-05-20:30": "skipped stale", "visit:v:t:2026-05-20:7": "completed expanded", "visit:v:t:2026-05-20:1": "pending",
		})
	})
}

// An invalid date, a missing number and a division by zero are reported once, with their reason; other records go on.
func TestAPlanningErrorIsReportedOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, trigger, broken string
		want                  reason.Reason
	}{
		{"date", `    timing: {anchor: record.on_date, at: "12:00"}`, `{"on_date": "soon", "who": "ann"}`, reason.ExpressionFailed},
		{"division", "    metric: {name: m, value: 100 * record.booked / record.capacity, thresholds: [80]}\n    timing: {offset: 6h}", `{"booked": 1, "capacity": 0, "who": "ann"}`, reason.ExpressionFailed},
		{"missing", "    metric: {name: m, value: 100 * record.booked / record.capacity, thresholds: [80]}\n    timing: {offset: 6h}", `{"booked": 1, "who": "ann"}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, visits(test.trigger), "ann")
				w.put("visit/broken", test.broken)
				w.put("visit/well", `{"on_date": "2026-05-14", "booked": 90, "capacity": 100, "who": "ann"}`)
				for i := range 3 {
					w.live(fmt.Sprintf("10:%02d", 10+i))
					w.put("visit/broken", fmt.Sprintf(`{"beat": %d}`, i))
				}
				w.live("10:30")
				var reported []reason.Reason
				for _, e := range w.Journal() {
					if e.Record == "visit/broken" && e.What == journal.Failed {
						reported = append(reported, e.Reason)
					}
				}
				if test.want == "" && len(reported) > 0 || test.want != "" && (len(reported) != 1 || reported[0] != test.want) {
					t.Errorf("reported %v, want %q once", reported, test.want)
				}
				if waits := w.waits(); len(waits) != 1 {
					t.Errorf("%v wait, want one", waits)
				}
			})
		})
	}
}

// Eight processes write and evaluate records, each with its own clock: every occasion exists once, and the last write decides the plan.
//
// Shows: B12, B25, P2.
func TestManyWriteAndEvaluate(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "postgres")
	s := storetest.Open(t, url)
	w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", offset: [-2d, -1d]}`), "ann")
	const records, writes = 12, 8
	now := w.Clock.Now()
	var running sync.WaitGroup
	for n := range 8 {
		running.Go(func() {
			own := storetest.Open(t, url)
			c := evaluator.New(own, catalog.New(own, enginetest.Options(nil)), func(journal.Entry) {})
			for i := range writes {
				items := make([]record.Item, 0, records)
				for r := range records {
					items = append(items, record.Item{Type: "visit", ID: fmt.Sprint(r), Props: map[string]any{"who": "ann", "on_date": fmt.Sprintf("2026-05-%02d", 20+(n+i+r)%8)}})
				}
				if _, err := w.Records().Write(t.Context(), w.Workspace, upsert.Merge, items, "test", now, nil); err != nil {
					t.Error(err)
				}
				if _, err := c.Step(t.Context(), now.Add(time.Duration(i*8+n)*time.Millisecond), 5); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	w.Clock.Set(now.Add(time.Second))
	for w.tick() {
	}
	waits := map[string]bool{}
	for k, is := range w.planned() {
		if is == "pending" {
			waits[k] = true
		}
	}
	if len(waits) != 2*records {
		t.Errorf("%d wait, want %d", len(waits), 2*records)
	}
	for r := range records {
		row, err := s.Record(t.Context(), w.Workspace.ID, subject.RecordRef{Type: "visit", ExtID: fmt.Sprint(r)})
		if err != nil {
			t.Fatal(err)
		}
		for _, offset := range []int{1, 2} {
			if k := fmt.Sprintf("visit:%d:t:%s:%d", r, row.Props["on_date"], offset); !waits[k] {
				t.Errorf("%s does not wait", k)
			}
		}
	}
	w.days(20)
	if n := len(w.Provider.Sent()); n != 2*records {
		t.Errorf("%d messages, want %d", n, 2*records)
	}
}
