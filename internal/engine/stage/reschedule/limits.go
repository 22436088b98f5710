package reschedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Jobs returns the kind of job that marks the contacts whose limits have changed, up to store.MemberPage in a page.
func Jobs(s jobs.Store) jobs.Kind {
	return jobs.Kind{Kinds: []job.Kind{job.Limits}, Page: func(ctx context.Context, now time.Time, j job.Row) (marked int, err error) {
		err = s.Write(ctx, func(tx *store.Tx) (err error) {
			marked, err = mark(tx, now, j)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("mark contacts for planning: %w", err)
		}
		return marked, nil
	}}
}

func mark(tx *store.Tx, now time.Time, open job.Row) (marked int, err error) {
	j, held, err := tx.HoldJob(open)
	if err != nil {
		return 0, err
	}
	if !held {
		return 0, jobs.ErrHeld
	}
	ids, err := tx.Members(j.Workspace, j.Subject, subject.ContactID(j.Cursor))
	if err != nil {
		return 0, err
	}
	refs := make([]delivery.PersonRef, len(ids))
	for i, id := range ids {
		refs[i] = delivery.PersonRef{Workspace: j.Workspace, ID: id}
	}
	if err := tx.MarkReschedule(now, refs); err != nil {
		return 0, err
	}
	step := job.Step{Cursor: j.Cursor, Done: len(ids), End: len(ids) == 0}
	if len(ids) > 0 {
		step.Cursor = int64(slices.Max(ids))
	}
	return len(ids), tx.SaveJobs(now, j.Advance(step, now))
}
