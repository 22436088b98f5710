package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// writeRecords writes records that are decided by those that are locked.
func (f fixture) writeRecords(at time.Time, refs []subject.RecordRef, decide func(known map[subject.RecordRef]store.RecordRow) []store.RecordRow, across ...subject.RecordRef) {
	f.Helper()
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		known, err := tx.LockRecords(f.ws, refs)
		if err != nil {
			return err
		}
		return tx.WriteRecords(f.ws, at, store.RecordWrites{Records: decide(known), Across: across})
	}))
}

// records has each of the named records hold one field.
func (f fixture) records(at time.Time, value any, ids ...string) {
	f.Helper()
	refs := make([]subject.RecordRef, len(ids))
	for i, id := range ids {
		refs[i] = subject.RecordRef{Type: "kiosk", ExtID: id}
	}
	f.writeRecords(at, refs, func(known map[subject.RecordRef]store.RecordRow) (writes []store.RecordRow) {
		for _, ref := range refs {
			row := known[ref]
			row.Type, row.ExtID, row.Props, row.ModifiedBy = ref.Type, ref.ExtID, map[string]any{"n": value}, "ann"
			writes = append(writes, row)
		}
		return writes
	})
}

func (f fixture) record(id string) store.RecordRow {
	f.Helper()
	row, err := f.s.Record(f.Context(), f.ws, subject.RecordRef{Type: "kiosk", ExtID: id})
	f.must(err)
	return row
}

// A write marks its record: changed_at keeps the first write since the last evaluation, and an evaluation that was due earlier
// stays due then. The write wakes the evaluator.
func TestWritesMarkRecords(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var woken []time.Time
		s.OnCommit(func(due store.Due) { woken = append(woken, due.Earliest()) })
		f.records(now, "a", "1")
		f.records(now.Add(time.Minute), "b", "1")
		if r := f.record("1"); !r.ChangedAt.Equal(now) || !r.EvaluateAt.Equal(now) || !r.UpdatedAt.Equal(now.Add(time.Minute)) || r.Rev != 2 {
			t.Errorf("written twice: %+v", r)
		}
		if want := []time.Time{now, now.Add(time.Minute)}; !cmp.Equal(woken, want) {
			t.Errorf("woken for %v, want %v", woken, want)
		}
		for name, c := range map[string]struct{ planned, want int64 }{
			"never": {0, now.UnixMicro()}, "later": {now.Add(time.Hour).UnixMicro(), now.UnixMicro()}, "earlier": {7, 7},
		} {
			_, err := s.Exec(t.Context(), `UPDATE record SET changed_at = 0, evaluate_at = $1, evaluated_at = 5, state = 'x'`, c.planned)
			f.must(err)
			f.records(now, name, "1")
			if r := f.record("1"); r.EvaluateAt.UnixMicro() != c.want || !r.ChangedAt.Equal(now) || r.State != "x" || r.EvaluatedAt.UnixMicro() != 5 {
				t.Errorf("a look planned %s: %+v", name, r)
			}
		}
		woken = nil
		f.writeRecords(now, []subject.RecordRef{{Type: "kiosk", ExtID: "1"}}, func(map[subject.RecordRef]store.RecordRow) []store.RecordRow { return nil })
		if len(woken) > 0 && !woken[0].IsZero() {
			t.Errorf("nothing was written, and %v was woken for", woken)
		}
	})
}

// Records belong to their workspace and their type, and retention leaves them alone.
func TestRecordsApart(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		g := fixture{t, s, other.ID}
		f.records(now, "mine", "1", "2", "3")
		g.records(now, "theirs", "1")
		if a, b := f.record("1"), g.record("1"); a.Props["n"] != "mine" || b.Props["n"] != "theirs" || a.ID == b.ID {
			t.Errorf("%+v %+v", a, b)
		}
		page, err := s.Records(t.Context(), f.ws, "kiosk", store.Page{Limit: 2})
		f.must(err)
		rest, err := s.Records(t.Context(), f.ws, "kiosk", store.Page{Before: int64(page[1].ID)})
		f.must(err)
		var ids []string
		for _, r := range append(page, rest...) {
			ids = append(ids, r.ExtID)
		}
		if got := strings.Join(ids, " "); got != "3 2 1" {
			t.Errorf("listed %s", got)
		}
		f.writeRecords(now, nil, func(map[subject.RecordRef]store.RecordRow) []store.RecordRow {
			return []store.RecordRow{{Record: subject.Record{Type: "Zoo", ExtID: "1"}}, {Record: subject.Record{Type: "a-b", ExtID: "1"}}}
		})
		types, err := s.RecordTypes(t.Context(), f.ws)
		if diff := cmp.Diff([]string{"Zoo", "a-b", "kiosk"}, types); diff != "" || err != nil {
			t.Errorf("%s %v", diff, err)
		}
		f.retain(now.Add(1000*time.Hour), now.Add(999*time.Hour), 10)
		f.record("1")
	})
}

// Instances and decisions of a record are listed by it.
func TestListedByRecord(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.records(now, 1, "1")
		id := f.record("1").ID
		of := f.instance("k:1", instance.Completed)
		of.Record = id
		f.add(store.OccasionWrites{
			Instances: []instance.Row{of, f.instance("k:2", instance.Completed)},
			Decisions: []store.Decision{{At: now, Record: id, Context: "low:1", Workflow: "watch"}, {At: now}},
		})
		got, err := s.Instances(t.Context(), f.ws, store.InstanceFilter{Record: id}, store.Page{})
		if err != nil || len(got) != 1 || got[0].Key != "k:1" {
			t.Errorf("instances %+v, %v", got, err)
		}
		list, err := s.Decisions(t.Context(), f.ws, store.DecisionFilter{Record: id}, store.Page{})
		if err != nil || len(list) != 1 || list[0].Context != "low:1" {
			t.Errorf("decisions %+v, %v", list, err)
		}
	})
}

// A batch of any size costs the same number of statements.
func TestStatementsOfRecords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for _, n := range []int{1, 1000} {
			var ids []string
			for i := range n {
				ids = append(ids, fmt.Sprint(n, "-", i))
			}
			lock := int64(0)
			if s.Dialect() == "postgres" {
				lock = 1
			}
			for _, value := range []string{"made", "changed"} {
				before := s.Statements()
				f.records(now, value, ids...)
				if got, want := s.Statements()-before, 4+lock; got != want { // begin, (lock,) read, write, commit
					t.Errorf("%d %s: %d statements, want %d", n, value, got, want)
				}
			}
		}
	})
}

// Which contacts exist takes one statement, however many are asked for, and none if none are.
func TestContactsThatRecordsName(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.contact("ann")
		look := func(ids []string) (spent int64, known map[string]bool) {
			before := s.Statements()
			f.must(s.Write(t.Context(), func(tx *store.Tx) (err error) {
				known, err = tx.KnownContacts(f.ws, ids)
				return err
			}))
			return s.Statements() - before, known
		}
		var many []string
		for i := range 1000 {
			many = append(many, fmt.Sprint("stranger", i))
		}
		none, _ := look(nil)
		for _, ids := range [][]string{{"ann"}, append(many, "ann")} {
			spent, known := look(ids)
			if diff := cmp.Diff(map[string]bool{"ann": true}, known); diff != "" || spent != none+1 {
				t.Errorf("%d ids: %d statements, %d without; %s", len(ids), spent, none, diff)
			}
		}
		if known, err := s.KnownContacts(t.Context(), f.ws+1, []string{"ann"}); len(known) > 0 || err != nil {
			t.Errorf("in another workspace: %v, %v", known, err)
		}
	})
}

// Records are found by the index of names, and listed by that of types, also in a table that has grown since its
// statistics were made.
func TestRecordsReadByIndex(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.records(now, 1, "first")
		explain := "EXPLAIN QUERY PLAN "
		if s.Dialect() == "postgres" {
			explain = "EXPLAIN "
			_, err := s.Exec(t.Context(), "ANALYZE")
			f.must(err)
		}
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprint("k", i))
		}
		f.records(now, 1, ids...)
		for text, args := range store.RecordStatements() {
			plan, err := s.Strings(t.Context(), explain+text, args...)
			f.must(err)
			lines := strings.Join(plan, "\n")
			wrong := strings.Contains(lines, "Seq Scan") || strings.Contains(lines, "SCAN rec\n") || strings.HasSuffix(lines, "SCAN rec") || strings.Contains(lines, "SCAN record")
			if strings.Contains(text, "ext_id = ") {
				wrong = wrong || strings.Contains(lines, "record_pkey") || strings.Contains(lines, "record_type") || strings.Contains(lines, "(ws=")
			}
			if wrong {
				t.Errorf("%s\n%s", text, lines)
			}
		}
	})
}
