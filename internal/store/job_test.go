package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// A run is moved on by one of the processes that read it, and by none once it is over: what the others found is not
// written. Who stands still for a second is woken for.
func TestARunIsMovedOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for _, name := range []string{"a", "b", "c"} {
			f.records(now, "x", name)
		}
		f.check(now, 10, func(d store.DueRecord) string { return d.ExtID }, nil)
		start := func() {
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				open, err := tx.OpenJobs(f.ws)
				if err != nil {
					return err
				}
				begun, replaced := job.Restart(open, []job.Seed{{Kind: job.Backfill, Subject: "kiosk"}}, now)
				if err := tx.SaveJobs(now, replaced...); err != nil {
					return err
				}
				_, err = tx.AddJobs(now, []job.Row{job.New(f.ws, begun[0], 1, now)})
				return err
			}))
		}
		start()
		first, open, err := s.OldestJob(t.Context(), job.Backfill)
		if err != nil || !open || first.Total != 0 {
			t.Fatalf("%+v, %t, %v", first, open, err)
		}
		page, err := s.RecordPage(t.Context(), f.ws, "kiosk", 0, 2)
		if err != nil || len(page) != 2 || page[0].ExtID != "a" || page[0].PropsJSON == "" || page[0].Type != "kiosk" || !page[0].EvaluatedAt.Equal(now) {
			t.Fatalf("%+v, %v", page, err)
		}
		// advance advances a job and marks a record, and reports whether it did.
		advance := func(now time.Time, j job.Row, step job.Step, marked subject.RecordID) bool {
			err := s.Write(t.Context(), func(tx *store.Tx) error {
				if err := tx.SaveJobs(now, j.Advance(step, now)); err != nil {
					return err
				}
				return tx.MarkRecords(f.ws, now, []subject.RecordID{marked})
			})
			if err != nil && !errors.Is(err, store.ErrMoved) {
				t.Fatal(err)
			}
			return err == nil
		}
		step := job.Step{Cursor: int64(page[1].ID), Done: 2, Total: 3}
		at := now.Add(time.Minute)
		for i, want := range []bool{true, false} {
			if moved := advance(at.Add(time.Duration(i)), first, step, page[1].ID); moved != want {
				t.Errorf("process %d moved it: %t", i, moved)
			}
		}
		if r := f.record("b"); !r.EvaluateAt.Equal(at) || !r.ChangedAt.Equal(at) {
			t.Errorf("what was marked: %+v", r)
		}
		if r := f.record("a"); !r.EvaluateAt.IsZero() || !r.ChangedAt.IsZero() {
			t.Errorf("what was not: %+v", r)
		}
		f.check(at, 10, func(d store.DueRecord) string { return d.ExtID }, nil)
		if next, err := s.EarliestDue(t.Context(), at); err != nil || !next.Equal(at.Add(time.Second)) {
			t.Errorf("somebody is woken at %s, %v", next, err)
		}
		moving, _, err := s.OldestJob(t.Context(), job.Backfill)
		if err != nil || moving.ID != first.ID || moving.Cursor != step.Cursor || moving.Done != 2 || moving.Total != 3 {
			t.Errorf("%+v, %v", moving, err)
		}
		start()
		last, err := s.RecordPage(t.Context(), f.ws, "kiosk", moving.Cursor, 2)
		if err != nil || len(last) != 1 {
			t.Fatalf("%+v, %v", last, err)
		}
		end := job.Step{Cursor: int64(last[0].ID), Done: 1, End: true}
		if advance(at, moving, end, last[0].ID) {
			t.Error("a run that was cancelled is moved")
		}
		if r := f.record("c"); !r.EvaluateAt.IsZero() {
			t.Errorf("a run that was cancelled marks: %+v", r)
		}
		again, _, err := s.OldestJob(t.Context(), job.Backfill)
		if err != nil || again.ID == first.ID || again.Cursor != 0 {
			t.Errorf("%+v, %v", again, err)
		}
		end.Done = 3
		if !advance(at, again, end, last[0].ID) {
			t.Error("the newer run is not moved")
		}
		if _, open, err := s.OldestJob(t.Context(), job.Backfill); open || err != nil {
			t.Errorf("after its end: %t, %v", open, err)
		}
	})
}

// If fields of a record change that other records read, those are marked for evaluation in pages, and not in the transaction
// of the write.
//
// Shows: B32.
func TestChildrenAreMarkedInPages(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for _, name := range []string{"a", "b", "c", "centre"} {
			f.records(now, "x", name)
		}
		parent, ids := subject.RecordRef{Type: "kiosk", ExtID: "centre"}, map[string]subject.RecordID{}
		for _, name := range []string{"a", "b", "c", "centre"} {
			ids[name] = f.record(name).ID
		}
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			var w store.EvaluateWrites
			for name, id := range ids {
				w.Evaluated = append(w.Evaluated, store.Evaluated{Workspace: f.ws, ID: id})
				if name != "centre" {
					w.Links = append(w.Links, store.Links{Workspace: f.ws, ID: id, Refs: []subject.RecordRef{parent}})
				}
			}
			return tx.WriteEvaluations(now, store.EvaluateState{}, w)
		}))
		_, _, err := storetest.Apply(t.Context(), s, f.ws, now, store.Definition{Kind: "workflow", Name: "w", Text: "x", Hash: "1"})
		f.must(err)
		at := now.Add(time.Minute)
		write := func(across ...subject.RecordRef) {
			f.writeRecords(at, []subject.RecordRef{parent}, func(known map[subject.RecordRef]store.RecordRow) []store.RecordRow {
				r := known[parent]
				r.Props = map[string]any{"n": r.Rev}
				return []store.RecordRow{r}
			}, across...)
		}
		write()
		children := jobs.New(s, related.Jobs(s, 2))
		if done, more, err := children.Step(t.Context(), at); done != 0 || more || err != nil {
			t.Errorf("nothing that they read has changed: %d, %t, %v", done, more, err)
		}
		write(parent)
		if r := f.record("a"); !r.EvaluateAt.IsZero() || r.Links != "kiosk/centre" {
			t.Errorf("in the transaction of the write: %+v", r)
		}
		for i, want := range []int{2, 1, 0} {
			if done, more, err := children.Step(t.Context(), at); done != want || more != (want > 0) || err != nil {
				t.Errorf("page %d: %d, %t, %v", i, done, more, err)
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			if r := f.record(name); !r.EvaluateAt.Equal(at) {
				t.Errorf("%s is evaluated at %s", name, r.EvaluateAt)
			}
		}
	})
}
