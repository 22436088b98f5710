package store_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// check looks at what is due, each record as look says, and fires contexts in its name.
func (f fixture) check(at time.Time, limit int, fires func(store.DueRecord) string, evaluated func(store.DueRecord) store.Evaluated) int {
	f.Helper()
	n := 0
	err := f.s.WriteHoldingDefinitions(f.Context(), func(tx *store.Tx) error {
		due, err := tx.DueRecords(at, limit)
		if n = len(due); err != nil || n == 0 {
			return err
		}
		var wanted []store.ThrottleRef
		audiences := make([][]store.Audience, n)
		for i, d := range due {
			wanted = append(wanted, store.ThrottleRef{Workspace: f.ws, Workflow: "w", Context: fires(d)})
			audiences[i] = []store.Audience{{Personas: []string{"Manager"}}}
		}
		var state store.EvaluateState
		if state.Throttles, err = tx.LockThrottles(wanted); err != nil {
			return err
		}
		people, err := tx.People(at, audiences, func(int) subject.WorkspaceID { return f.ws }, nil, true)
		if err != nil {
			return err
		}
		var w store.EvaluateWrites
		for i := range people {
			l := store.Evaluated{Workspace: f.ws, ID: due[i].ID}
			if evaluated != nil {
				l = evaluated(due[i])
			}
			w.Evaluated = append(w.Evaluated, l)
			w.Fired = append(w.Fired, store.Throttle{
				ThrottleRef: store.ThrottleRef{Workspace: f.ws, Workflow: "w", Context: fires(due[i])}, Trigger: "t", Record: due[i].ID, FiredAt: at, Issues: []string{"A", "B"},
			})
		}
		n = len(people)
		tx.LeaveRecords(at, due[n:])
		return tx.WriteEvaluations(at, state, w)
	})
	f.must(err)
	return n
}

// A record whose fields cannot be read is reported as unreadable, and the other records of the batch are read.
func TestEvaluateAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.records(now, "x", "a", "bad", "c")
		_, err := s.Exec(t.Context(), `UPDATE record SET props = '{' WHERE ext_id = 'bad'`)
		f.must(err)
		row, err := s.Record(t.Context(), f.ws, subject.RecordRef{Type: "kiosk", ExtID: "bad"})
		if err != nil || row.Unreadable == nil || !strings.Contains(row.Unreadable.Error(), "kiosk/bad") || row.Rev != 1 {
			t.Errorf("%+v, %v", row, err)
		}
		if list, err := s.Records(t.Context(), f.ws, "kiosk", store.Page{}); err != nil || len(list) != 3 || list[0].Unreadable != nil {
			t.Errorf("%+v, %v", list, err)
		}
		evaluated := func(d store.DueRecord) store.Evaluated {
			if d.Err == nil {
				return store.Evaluated{Workspace: f.ws, ID: d.ID}
			}
			return store.Evaluated{Workspace: f.ws, ID: d.ID, EvaluateAt: now.Add(time.Hour), Failures: d.Failures + 1}
		}
		fires := func(d store.DueRecord) string { return "t:" + d.ExtID }
		for i, want := range []int{3, 1} {
			if n := f.check(now.Add(time.Duration(i)*time.Hour), 10, fires, evaluated); n != want {
				t.Errorf("%d evaluations, want %d", n, want)
			}
		}
		rows, err := s.Strings(t.Context(), `SELECT ext_id || ' ' || failures FROM record ORDER BY ext_id`)
		f.must(err)
		if diff := cmp.Diff([]string{"a 0", "bad 2", "c 0"}, rows); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// What is due is taken in its order, and a look says when the next one is.
func TestEvaluateTakesDueRecords(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.records(now.Add(time.Second), "x", "second")
		f.records(now, "x", "first")
		f.records(now.Add(time.Hour), "x", "later")
		if b, err := s.Backlog(t.Context(), now.Add(time.Minute)); err != nil || b.DueRecords != 2 || !b.OldestDue.Equal(now) {
			t.Errorf("%+v, %v", b, err)
		}
		var order []string
		fires := func(d store.DueRecord) string {
			order = append(order, d.ExtID)
			return "t:" + d.ExtID
		}
		if n := f.check(now.Add(time.Minute), 10, fires, func(d store.DueRecord) store.Evaluated {
			return store.Evaluated{Workspace: f.ws, ID: d.ID, State: `{"w/t":{"n":1}}`, EvaluateAt: now.Add(2 * time.Hour)}
		}); n != 2 || order[0] != "first" || order[1] != "second" {
			t.Errorf("%d, %v", n, order)
		}
		r := f.record("first")
		if !r.ChangedAt.IsZero() || !r.EvaluatedAt.Equal(now.Add(time.Minute)) || !r.EvaluateAt.Equal(now.Add(2*time.Hour)) || r.State == "" {
			t.Errorf("after an evaluation: %+v", r)
		}
		if next, err := s.EarliestDue(t.Context(), now.Add(time.Minute)); err != nil || !next.Equal(now.Add(time.Hour)) {
			t.Errorf("next due %s, %v", next, err)
		}
		if n := f.check(now.Add(30*time.Minute), 10, fires, nil); n != 0 {
			t.Errorf("%d taken before they are due", n)
		}
	})
}

// Contexts are listed in their order, page by page, of a workflow and of a record; what was reset is not.
func TestThrottlesAreListed(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for i := range 5 {
			f.records(now, "x", fmt.Sprint(i))
		}
		f.check(now, 10, func(d store.DueRecord) string { return "t:" + d.ExtID }, nil)
		list := func(filter store.ThrottleFilter) string {
			t.Helper()
			rows, err := s.Throttles(t.Context(), f.ws, filter)
			f.must(err)
			var names []string
			for _, r := range rows {
				if r.Type != "kiosk" || "t:"+r.ExtID != r.Context || !r.FiredAt.Equal(now) || len(r.Issues) != 2 {
					t.Errorf("%+v", r)
				}
				names = append(names, r.Context)
			}
			return strings.Join(names, " ")
		}
		for filter, want := range map[store.ThrottleFilter]string{
			{}: "t:0 t:1 t:2 t:3 t:4", {Limit: 2}: "t:0 t:1", {Limit: 2, After: store.ThrottleRef{Workflow: "w", Context: "t:1"}}: "t:2 t:3",
			{Workflow: "w"}: "t:0 t:1 t:2 t:3 t:4", {Workflow: "other"}: "", {Record: f.record("3").ID}: "t:3",
			{Record: f.record("3").ID, Workflow: "other"}: "", {Workflow: "w", After: store.ThrottleRef{Context: "t:3"}}: "t:4",
		} {
			if got := list(filter); got != want {
				t.Errorf("%+v: got %q, want %q", filter, got, want)
			}
		}
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		if rows, err := s.Throttles(t.Context(), other.ID, store.ThrottleFilter{}); len(rows) != 0 || err != nil {
			t.Errorf("another workspace sees %v, %v", rows, err)
		}
	})
}

// A page of people of several personas leaves nobody out and nobody in twice, whichever persona has more. Another workspace has as
// many people of the same personas, and none of them is in it.
func TestMembersInPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var refs []store.RecipientRef
		for i := range 1301 {
			refs = append(refs, person(fmt.Sprint("c", i), ""))
		}
		nothing := func(ingestState) (w store.OccasionWrites, err error) { return w, nil }
		f.ingest(ingestRequest{Recipients: refs}, nothing)
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		f.must(ingest(t.Context(), s, other.ID, ingestRequest{Recipients: refs}, nothing))
		f.exec(`UPDATE contact SET persona = CASE WHEN id % 3 = 0 THEN 'A' WHEN id % 7 = 0 THEN 'B' ELSE 'C' END`)
		f.exec(`UPDATE contact SET persona = 'C' WHERE persona = 'A' AND id IN (SELECT id FROM contact ORDER BY id DESC LIMIT 1400)`)
		in := f.instance("k", instance.Pending)
		f.add(store.OccasionWrites{Instances: []instance.Row{in}})
		for name, a := range map[string]store.Audience{"personas": {Personas: []string{"A", "C", "A"}}, "everybody": {Everyone: true, Personas: []string{"A"}}} {
			seen := map[subject.ContactID]int{}
			for pages := 1; ; pages++ {
				_, err := f.fanOut(now, dueAt(now, 10), func(int, store.DueInstance) store.Audience { return a }, func(_ []store.DueInstance, people []store.People) ([]result, error) {
					for _, p := range people[0].Members {
						seen[p.ID]++
					}
					a.After = people[0].After
					return []result{{Patch: instance.Patch{Status: instance.Pending, Cursor: a.After}}}, nil
				})
				f.must(err)
				if row, err := s.InstanceByID(t.Context(), f.ws, in.ID); err != nil || row.ExpandCursor != int64(a.After) {
					t.Fatalf("cursor %d, want %d", row.ExpandCursor, a.After)
				}
				if a.After == 0 {
					break
				}
			}
			want := 1301
			if name == "personas" {
				n, err := s.Strings(t.Context(), `SELECT CAST(COUNT(*) AS text) FROM contact WHERE persona <> 'B' AND ws = `+fmt.Sprint(int64(f.ws)))
				f.must(err)
				if want, err = strconv.Atoi(n[0]); err != nil {
					t.Fatal(err)
				}
			}
			for id, times := range seen {
				if times != 1 {
					t.Errorf("%s: contact %d stands %d times", name, id, times)
				}
			}
			if len(seen) != want {
				t.Errorf("%s: %d people, want %d", name, len(seen), want)
			}
		}
	})
}
