// Package jobs advances background work over many rows, a page at a time: the one place where a job is continued, counted,
// ended, failed, cancelled and resumed. Package job has the states and what each change makes of a job; a kind supplies only
// its page: what to read, and what to write.
//
//	a change starts a job ─▶ oldest running job of a kind ─▶ page ─▶ page ─▶ … ─▶ done
//
// A page saves the progress of its job in the transaction that writes its rows (store.Tx.SaveJobs). Whatever happens follows
// from this, and from the version of the job, by which a change is saved only if no other process has made one meanwhile:
//
//   - Crash: an uncommitted page leaves rows and cursor as they were, and is repeated. In-memory state between
//     two pages, such as a page read ahead, may be lost at any time.
//   - Two processes with the same page: the first commit wins. The other one gets store.ErrMoved, which rolls it back, and
//     takes the page after it. A page that needs the job to itself calls HoldJob first (store.Tx.HoldJob), and is passed over
//     while another process holds the job.
//   - Cancel in the middle: of the page and the cancel, the one that commits first wins. If that is the cancel, the page is rolled back.
//     Nothing that was done is undone, and a resumed job continues at its cursor.
//   - A newer seed of the same kind and subject: the open job is cancelled in the transaction that starts the new one, so
//     the two never run at once, and an older one is not resumed beside it. A job over related records is not replaced while
//     it runs but followed (store.Tx.WriteRecords): a record that is written all the time would keep it at its first page.
//   - A page that can never be done fails the job (Impossible), so that the jobs after it are not kept waiting. After any
//     other error the page is tried again.
//
// The oldest job of a kind comes first, whatever its workspace. In one process one goroutine at a time advances a kind.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Store is what advancing jobs needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
	OldestJob(ctx context.Context, kinds ...job.Kind) (oldest job.Row, open bool, err error)
}

// Kind is how jobs of some kinds advance.
type Kind struct {
	Kinds []job.Kind
	// Begin begins the jobs that are due; nil: others begin them.
	Begin func(ctx context.Context, now time.Time) error
	// Page does the next page of a job and saves its progress, in one transaction or several. It returns how many rows it
	// did. Its error may be store.ErrMoved, ErrHeld or an *Impossible.
	Page func(ctx context.Context, now time.Time, j job.Row) (done int, err error)
}

// ErrHeld means that another transaction has the job.
var ErrHeld = errors.New("another transaction has the job")

// Impossible means that a job can never continue.
type Impossible struct{ Cause error }

func (e *Impossible) Error() string { return e.Cause.Error() }

// Worker advances the jobs of its kinds.
type Worker struct {
	store Store
	kinds []*kind
	begun []job.Kind // those that others begin
}

type kind struct {
	Kind
	advancing sync.Mutex
}

// New makes a worker. An open job of an earlier kind is advanced before one of a later kind.
func New(s Store, kinds ...Kind) *Worker {
	w := &Worker{store: s}
	for _, k := range kinds {
		w.kinds = append(w.kinds, &kind{Kind: k})
		if k.Begin == nil {
			w.begun = append(w.begun, k.Kinds...)
		}
	}
	return w
}

// Step does one page of one job. done is the number of rows of that page; more is false if there is no job, or others advance
// all of them.
func (w *Worker) Step(ctx context.Context, now time.Time) (done int, more bool, err error) {
	_, open, err := w.store.OldestJob(ctx, w.begun...)
	if err != nil {
		return 0, false, err
	}
	for _, k := range w.kinds {
		if !open && k.Begin == nil {
			continue
		}
		if done, more, err = w.page(ctx, now, k); err != nil || more {
			return done, more, err
		}
	}
	return 0, false, nil
}

func (w *Worker) page(ctx context.Context, now time.Time, k *kind) (done int, more bool, err error) {
	if !k.advancing.TryLock() {
		return 0, false, nil
	}
	defer k.advancing.Unlock()
	if k.Begin != nil {
		if err := k.Begin(ctx, now); err != nil {
			return 0, false, err
		}
	}
	j, open, err := w.store.OldestJob(ctx, k.Kinds...)
	if err != nil || !open {
		return 0, false, err
	}
	done, err = k.Page(ctx, now, j)
	impossible := (*Impossible)(nil)
	switch {
	case errors.Is(err, ErrHeld):
		return 0, false, nil
	case errors.Is(err, store.ErrMoved):
		return done, true, nil
	case errors.As(err, &impossible):
		return done, true, w.fail(ctx, now, j, impossible.Cause)
	case err != nil:
		return done, false, fmt.Errorf("advance a job (%s): %w", j.Kind, err)
	}
	return done, true, nil
}

// fail ends a job that cannot continue, unless another process has changed it.
func (w *Worker) fail(ctx context.Context, now time.Time, j job.Row, cause error) error {
	err := w.store.Write(ctx, func(tx *store.Tx) error { return tx.SaveJobs(now, j.Fail(cause, now)) })
	if err != nil && !errors.Is(err, store.ErrMoved) {
		return fmt.Errorf("end a job: %w", err)
	}
	return nil
}

// Cancel ends a job where it is. The error is a *job.StateError for a job that has ended, and store.ErrNotFound if there is
// no such job.
func Cancel(ctx context.Context, s Store, ws subject.WorkspaceID, id int64, now time.Time, audit store.Audit) (job.Row, error) {
	return change(ctx, s, ws, id, now, audit, func(_ *store.Tx, j job.Row) (job.Row, error) { return j.Cancel(now) })
}

// Resume continues a cancelled or failed job. The error is a *job.StateError for a job that is done, and if a newer one of
// its kind and subject exists; it is store.ErrNotFound if there is no such job.
func Resume(ctx context.Context, s Store, ws subject.WorkspaceID, id int64, now time.Time, audit store.Audit) (job.Row, error) {
	return change(ctx, s, ws, id, now, audit, func(tx *store.Tx, j job.Row) (job.Row, error) {
		newer, err := tx.NewerJob(j)
		if err != nil {
			return j, err
		}
		tx.WakeAt(store.WorkJobs, now)
		return j.Resume(newer, now)
	})
}

func change(ctx context.Context, s Store, ws subject.WorkspaceID, id int64, now time.Time, audit store.Audit, decide func(*store.Tx, job.Row) (job.Row, error)) (changed job.Row, err error) {
	err = s.Write(ctx, func(tx *store.Tx) error {
		was, err := tx.LockJob(ws, id)
		if err != nil {
			return err
		}
		if changed, err = decide(tx, was); err != nil || changed.Status == was.Status {
			return err
		}
		if err := tx.SaveJobs(now, changed); err != nil {
			return err
		}
		return tx.Audit(ws, now, audit)
	})
	if err != nil {
		return job.Row{}, fmt.Errorf("change a job: %w", err)
	}
	return changed, nil
}
