package store_test

import (
	"testing"
	"time"

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
		apply := func(hash string) {
			docs := []store.Definition{{Kind: "workflow", Name: "w", Text: "x", Hash: hash, Runs: []store.RunSeed{{Kind: store.RunLook, Subject: "kiosk"}}}}
			_, _, err := s.ApplyDefinitions(t.Context(), f.ws, now, docs, store.Audit{At: now, Actor: "test", Action: "apply"}, nil, nil)
			f.must(err)
		}
		apply("1")
		first, open, err := s.LookRun(t.Context())
		if err != nil || !open || first.Total != 0 {
			t.Fatalf("%+v, %t, %v", first, open, err)
		}
		page, err := s.RecordPage(t.Context(), f.ws, "kiosk", 0, 2)
		if err != nil || len(page) != 2 || page[0].ExtID != "a" || page[0].PropsJSON == "" || page[0].Type != "kiosk" || !page[0].LookedAt.Equal(now) {
			t.Fatalf("%+v, %v", page, err)
		}
		step := store.RunStep{Cursor: int64(page[1].ID), Done: 2, Total: 3, Marks: []subject.RecordID{page[1].ID}}
		at := now.Add(time.Minute)
		for i, want := range []bool{true, false} {
			if moved, err := s.MoveLook(t.Context(), at.Add(time.Duration(i)), first, step); err != nil || moved != want {
				t.Errorf("process %d moved it: %t, %v", i, moved, err)
			}
		}
		if r := f.record("b"); !r.LookAt.Equal(at) || !r.ChangedAt.Equal(at) {
			t.Errorf("what was marked: %+v", r)
		}
		if r := f.record("a"); !r.LookAt.IsZero() || !r.ChangedAt.IsZero() {
			t.Errorf("what was not: %+v", r)
		}
		f.check(at, 10, func(d store.DueRecord) string { return d.ExtID }, nil)
		if next, err := s.NextDue(t.Context(), at); err != nil || !next.Equal(at.Add(time.Second)) {
			t.Errorf("somebody is woken at %s, %v", next, err)
		}
		moving, _, err := s.LookRun(t.Context())
		if err != nil || moving.ID != first.ID || moving.Cursor != step.Cursor || moving.Done != 2 || moving.Total != 3 {
			t.Errorf("%+v, %v", moving, err)
		}
		apply("2")
		last, err := s.RecordPage(t.Context(), f.ws, "kiosk", moving.Cursor, 2)
		if err != nil || len(last) != 1 {
			t.Fatalf("%+v, %v", last, err)
		}
		end := store.RunStep{Cursor: int64(last[0].ID), Done: 1, Marks: []subject.RecordID{last[0].ID}, End: true}
		if moved, err := s.MoveLook(t.Context(), at, moving, end); err != nil || moved {
			t.Errorf("a run that was cancelled is moved: %t, %v", moved, err)
		}
		if r := f.record("c"); !r.LookAt.IsZero() {
			t.Errorf("a run that was cancelled marks: %+v", r)
		}
		again, _, err := s.LookRun(t.Context())
		if err != nil || again.ID == first.ID || again.Cursor != 0 {
			t.Errorf("%+v, %v", again, err)
		}
		end.Done = 3
		if moved, err := s.MoveLook(t.Context(), at, again, end); err != nil || !moved {
			t.Errorf("%t, %v", moved, err)
		}
		if _, open, err := s.LookRun(t.Context()); open || err != nil {
			t.Errorf("after its end: %t, %v", open, err)
		}
	})
}
