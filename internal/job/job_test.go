package job_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/job"
)

var now = time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)

// What each change makes of a job in each state.
func TestChanges(t *testing.T) {
	t.Parallel()
	began := now.Add(-time.Hour)
	with := func(change func(*job.Row)) job.Row {
		r := job.New(7, job.Seed{Kind: job.Backfill, Subject: "host"}, 3, began)
		r.ID, r.Version, r.Cursor, r.Done, r.Changed, r.Total = 1, 4, 40, 5, 2, 9
		change(&r)
		return r
	}
	in := func(status job.Status, cause string) job.Row {
		return with(func(r *job.Row) { r.Status, r.Error, r.UpdatedAt, r.FinishedAt = status, cause, began, began })
	}
	running := with(func(*job.Row) {})
	at := func(change func(*job.Row)) job.Row {
		return with(func(r *job.Row) { r.UpdatedAt = now; change(r) })
	}
	cancel := func(r job.Row) (job.Row, error) { return r.Cancel(now) }
	resume := func(newer bool) func(job.Row) (job.Row, error) {
		return func(r job.Row) (job.Row, error) { return r.Resume(newer, now) }
	}
	advance := func(s job.Step) func(job.Row) (job.Row, error) {
		return func(r job.Row) (job.Row, error) { return r.Advance(s, now), nil }
	}
	for _, test := range []struct {
		name    string
		row     job.Row
		change  func(job.Row) (job.Row, error)
		want    job.Row
		refused *job.StateError
	}{
		{"a page", running, advance(job.Step{Cursor: 60, Done: 3, Changed: 1}), at(func(r *job.Row) { r.Cursor, r.Done, r.Changed = 60, 8, 3 }), nil},
		{"the first page, counted", running, advance(job.Step{Cursor: 60, Done: 3, Total: 12}), at(func(r *job.Row) { r.Cursor, r.Done, r.Total = 60, 8, 12 }), nil},
		{"the last page", running, advance(job.Step{Cursor: 40, End: true}), at(func(r *job.Row) { r.Status, r.FinishedAt = job.Done, now }), nil},
		{
			"failed", running, func(r job.Row) (job.Row, error) { return r.Fail(errors.New("why"), now), nil },
			at(func(r *job.Row) { r.Status, r.Error, r.FinishedAt = job.Failed, "why", now }), nil,
		},
		{"cancel, running", running, cancel, at(func(r *job.Row) { r.Status, r.FinishedAt = job.Cancelled, now }), nil},
		{"cancel, twice", in(job.Cancelled, ""), cancel, in(job.Cancelled, ""), nil},
		{"cancel, done", in(job.Done, ""), cancel, in(job.Done, ""), &job.StateError{Status: job.Done}},
		{"cancel, failed", in(job.Failed, "why"), cancel, at(func(r *job.Row) { r.Status, r.Error, r.FinishedAt = job.Cancelled, "why", now }), nil},
		{"resume, cancelled", in(job.Cancelled, ""), resume(false), at(func(*job.Row) {}), nil},
		{"resume, failed and then cancelled", in(job.Cancelled, "why"), resume(false), at(func(*job.Row) {}), nil},
		{"resume, failed", in(job.Failed, "why"), resume(false), at(func(*job.Row) {}), nil},
		{"resume, running", running, resume(false), running, nil},
		{"resume, done", in(job.Done, ""), resume(false), in(job.Done, ""), &job.StateError{Status: job.Done}},
		{"resume beside a newer one", in(job.Cancelled, ""), resume(true), in(job.Cancelled, ""), &job.StateError{Status: job.Cancelled, Newer: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := test.change(test.row)
			var refused *job.StateError
			if errors.As(err, &refused); !cmp.Equal(refused, test.refused) {
				t.Errorf("refused: %+v, want %+v", refused, test.refused)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A newer seed of the same kind and subject replaces an open job and keeps its causes; other jobs go on.
func TestRestart(t *testing.T) {
	t.Parallel()
	open := func(id int64, kind job.Kind, subject, cause string) job.Row {
		return job.Row{ID: id, Seed: job.Seed{Kind: kind, Subject: subject, Cause: cause}, Status: job.Running}
	}
	jobs := []job.Row{open(1, job.Backfill, "host", "v"), open(2, job.Backfill, "team", "t"), open(3, job.Limits, "host", "x")}
	begun, replaced := job.Restart(jobs, []job.Seed{
		{Kind: job.Limits}, {Kind: job.Backfill, Subject: "host", Cause: "w"}, {Kind: job.Backfill, Subject: "host", Cause: "a"},
	}, now)
	if diff := cmp.Diff([]job.Seed{{Kind: job.Backfill, Subject: "host", Cause: "a,v,w"}, {Kind: job.Limits}}, begun); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(replaced) != 1 || replaced[0].ID != 1 || replaced[0].Status != job.Cancelled || !replaced[0].FinishedAt.Equal(now) {
		t.Errorf("%+v", replaced)
	}
	var locked *job.LockedError
	if err := job.Unlocked(jobs, []string{"a", "t"}); !errors.As(err, &locked) || *locked != (job.LockedError{Workflow: "t", Job: 2}) {
		t.Errorf("%v", err)
	}
	if err := job.Unlocked(jobs, []string{"a"}); err != nil {
		t.Error(err)
	}
}
