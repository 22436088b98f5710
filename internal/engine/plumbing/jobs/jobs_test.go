package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

var now = time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)

// What a worker makes of the outcome of a page: which job is advanced next, whether there is more, and what becomes of the job.
func TestPages(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		err    error // of the page of the first kind
		done   int
		more   bool
		next   bool // the job of the second kind is advanced in the same step
		fails  bool
		status job.Status
	}{
		{"a page", nil, 3, true, false, false, job.Running},
		{"another process has the job", jobs.ErrHeld, 5, true, true, false, job.Running},
		{"another process has advanced it", fmt.Errorf("a page: %w", store.ErrMoved), 3, true, false, false, job.Running},
		{"it can never continue", &jobs.Impossible{Cause: broken}, 3, true, false, false, job.Failed},
		{"any other error", broken, 3, false, false, true, job.Running},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				first := begin(t, s, job.Backfill)[0]
				begin(t, s, job.Limits)
				var advanced []job.Kind
				page := func(done int, err error) func(context.Context, time.Time, job.Row) (int, error) {
					return func(_ context.Context, _ time.Time, j job.Row) (int, error) {
						advanced = append(advanced, j.Kind)
						return done, err
					}
				}
				w := jobs.New(s, jobs.Kind{Kinds: []job.Kind{job.Backfill}, Page: page(3, test.err)}, jobs.Kind{Kinds: []job.Kind{job.Limits}, Page: page(5, nil)})
				done, more, err := w.Step(t.Context(), now)
				if done != test.done || more != test.more || (err != nil) != test.fails || test.fails && !errors.Is(err, broken) {
					t.Errorf("%d, %t, %v", done, more, err)
				}
				if next := slices.Contains(advanced, job.Limits); next != test.next || advanced[0] != job.Backfill {
					t.Errorf("advanced: %v", advanced)
				}
				if j := read(t, s, first); j.Status != test.status || (j.Error != "") != (test.status == job.Failed) {
					t.Errorf("%+v", j)
				}
			})
		})
	}
}

// A page that was read before its job was cancelled, or advanced by another process, is rolled back. A resumed job continues
// at its cursor.
func TestCancelInTheMiddle(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		j := begin(t, s, job.Backfill)[0]
		audit := store.Audit{At: now, Actor: "test", Action: "cancel run"}
		meanwhile := func() {}
		w := jobs.New(s, jobs.Kind{Kinds: []job.Kind{job.Backfill}, Page: func(ctx context.Context, now time.Time, j job.Row) (int, error) {
			meanwhile()
			step := job.Step{Cursor: j.Cursor + 10, Done: 1, End: j.Cursor == 20}
			return 1, s.Write(ctx, func(tx *store.Tx) error { return tx.SaveJobs(now, j.Advance(step, now)) })
		}})
		step := func() {
			t.Helper()
			if _, _, err := w.Step(t.Context(), now); err != nil {
				t.Error(err)
			}
		}
		step()
		meanwhile = func() {
			if _, err := jobs.Cancel(t.Context(), s, j.Workspace, j.ID, now, audit); err != nil {
				t.Error(err)
			}
		}
		step()
		if got := read(t, s, j); got.Status != job.Cancelled || got.Cursor != 10 || got.Done != 1 {
			t.Errorf("cancelled in the middle: %+v", got)
		}
		step() // there is none
		meanwhile = func() {}
		if _, err := jobs.Resume(t.Context(), s, j.Workspace, j.ID, now, audit); err != nil {
			t.Error(err)
		}
		step()
		step()
		if got := read(t, s, j); got.Status != job.Done || got.Cursor != 30 || got.Done != 3 || got.FinishedAt.IsZero() {
			t.Errorf("resumed: %+v", got)
		}
		var refused *job.StateError
		if _, err := jobs.Cancel(t.Context(), s, j.Workspace, j.ID, now, audit); !errors.As(err, &refused) {
			t.Errorf("a job that is done is cancelled: %v", err)
		}
		newer := begin(t, s, job.Backfill)[0]
		if _, err := jobs.Cancel(t.Context(), s, newer.Workspace, newer.ID, now, audit); err != nil {
			t.Error(err)
		}
		begin(t, s, job.Backfill)
		if _, err := jobs.Resume(t.Context(), s, newer.Workspace, newer.ID, now, audit); !errors.As(err, &refused) || !refused.Newer {
			t.Errorf("a job is resumed beside a newer one: %v", err)
		}
	})
}

// begin begins jobs.
func begin(t *testing.T, s *store.Store, kinds ...job.Kind) (begun []job.Row) {
	t.Helper()
	ws, err := s.EnsureWorkspace(t.Context(), "w", []byte("0123456789abcdef0123456789abcdef"), now)
	if err != nil {
		t.Fatal(err)
	}
	var rows []job.Row
	for _, k := range kinds {
		rows = append(rows, job.New(ws.ID, job.Seed{Kind: k, Subject: "host"}, 1, now))
	}
	err = s.Write(t.Context(), func(tx *store.Tx) (err error) {
		begun, err = tx.AddJobs(now, rows)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return begun
}

// read reads a job.
func read(t *testing.T, s *store.Store, j job.Row) job.Row {
	t.Helper()
	all, err := s.Jobs(t.Context(), j.Workspace, store.Page{Limit: 100})
	i := slices.IndexFunc(all, func(r job.Row) bool { return r.ID == j.ID })
	if err != nil || i < 0 {
		t.Fatal(all, err)
	}
	return all[i]
}
