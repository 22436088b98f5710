package related

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Jobs returns the kind of job that requests the evaluation of the records that depend on one that was written, on the zone of a contact
// who has moved, or on children of a record, in pages of up to limit records. A job is held before its page is read: a write of the same record that finds it unbegun relies on it
// to find every record that depends on that record by then.
func Jobs(s jobs.Store, limit int) jobs.Kind {
	return jobs.Kind{Kinds: []job.Kind{job.Related}, Page: func(ctx context.Context, now time.Time, j job.Row) (done int, err error) {
		err = s.Write(ctx, func(tx *store.Tx) (err error) {
			done, err = page(tx, now, j, limit)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("request the evaluation of related records: %w", err)
		}
		return done, nil
	}}
}

func page(tx *store.Tx, now time.Time, open job.Row, limit int) (done int, err error) {
	j, held, err := tx.HoldJob(open)
	if err != nil {
		return 0, err
	}
	if !held {
		return 0, jobs.ErrHeld
	}
	if j.Subject == subject.ContactType || j.Subject == subject.ChildrenType {
		return announced(tx, now, j)
	}
	typ, id, _ := strings.Cut(j.Subject, "/")
	of := store.RelatedRef{Workspace: j.Workspace, RecordRef: subject.RecordRef{Type: typ, ExtID: id}}
	ids, err := tx.Dependents(of, subject.RecordID(j.Cursor), limit)
	if err != nil {
		return 0, err
	}
	if err := tx.MarkRecords(j.Workspace, now, ids); err != nil {
		return 0, err
	}
	step := job.Step{Cursor: j.Cursor, Done: len(ids), End: len(ids) < limit}
	if len(ids) > 0 {
		step.Cursor = int64(slices.Max(ids))
	}
	return len(ids), tx.SaveJobs(now, j.Advance(step, now))
}

// announced begins a job for each contact who has moved and whose zone records follow, or for each record on whose children others depend.
func announced(tx *store.Tx, now time.Time, j job.Row) (done int, err error) {
	var ids []string
	if err := json.Unmarshal([]byte(j.Selection), &ids); err != nil {
		return 0, &jobs.Impossible{Cause: err}
	}
	if err := tx.Follow(j.Workspace, now, j.Subject, ids); err != nil {
		return 0, err
	}
	return len(ids), tx.SaveJobs(now, j.Advance(job.Step{Cursor: j.Cursor, Done: len(ids), End: true}, now))
}
