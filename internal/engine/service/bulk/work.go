package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

// Undo starts a run that takes back what another one has done, as far as nothing newer stands against it. The error is store.ErrNotFound if there is no run
// of this id, and a *job.StateError if it goes on, or does not change subscriptions.
func (r *Runner) Undo(ctx context.Context, ws store.Workspace, id int64, now time.Time, audit store.Audit) (run job.Row, err error) {
	set, err := r.catalog.Current(ctx, ws.ID)
	if err != nil {
		return run, err
	}
	err = r.store.Write(ctx, func(tx *store.Tx) error {
		was, err := tx.LockJob(ws.ID, id)
		if err != nil {
			return err
		}
		var b topic.Bulk
		undoable := slices.Contains([]job.Kind{job.Subscribe, job.Migrate, job.Unsubscribe}, was.Kind)
		if !undoable || was.Status == job.Running {
			return &job.StateError{Status: was.Status, Final: !undoable}
		}
		if err := json.Unmarshal([]byte(was.Selection), &b); err != nil {
			return fmt.Errorf("read what a run did: %w", err)
		}
		b.Action, b.Undoes, b.Contacts, b.Except = topic.ActUndo, id, nil, nil
		selection, err := json.Marshal(b)
		if err != nil {
			return fmt.Errorf("write what a run does: %w", err)
		}
		j := job.New(ws.ID, job.Seed{Kind: job.Undo, Subject: string(was.Kind) + " " + was.Subject}, set.Number, now)
		j.Selection, j.Actor, j.Total = string(selection), audit.Actor, was.Changed
		open, is, err := tx.OpenBulk(ws.ID, j.Kind, j.Selection)
		if err != nil {
			return err
		}
		if run = open; !is {
			added, err := tx.AddJobs(now, []job.Row{j})
			if err != nil {
				return err
			}
			run = added[0]
			return tx.Audit(ws.ID, now, audit)
		}
		return nil
	})
	if err != nil {
		return job.Row{}, fmt.Errorf("undo a run: %w", err)
	}
	return run, nil
}

// page does the next page of a run.
func (r *Runner) page(ctx context.Context, now time.Time, j job.Row) (done int, err error) {
	var b topic.Bulk
	if err := json.Unmarshal([]byte(j.Selection), &b); err != nil {
		return 0, &jobs.Impossible{Cause: fmt.Errorf("what it does cannot be read: %w", err)}
	}
	err = r.catalog.Supply(ctx, store.MemberPage, func(int) error {
		return r.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			held, ok, err := tx.HoldJob(j)
			switch {
			case err != nil:
				return err
			case !ok:
				return jobs.ErrHeld
			case held.Version != j.Version:
				return store.ErrMoved
			}
			p, err := r.find(tx, held.Workspace, b)
			if missing := (*ErrNoTopic)(nil); errors.As(err, &missing) {
				return &jobs.Impossible{Cause: err}
			}
			if err != nil {
				return err
			}
			step, err := r.step(tx, held, p, now)
			if done = step.Done; err != nil {
				return err
			}
			return tx.SaveJobs(now, held.Advance(step, now))
		})
	})
	return done, err
}

// step is the transaction of a page. It locks the deliveries of the contacts before the contacts, as who ends one subscription does: what is being sent was
// committed before.
func (r *Runner) step(tx *store.Tx, j job.Row, p plan, now time.Time) (step job.Step, err error) {
	people, last, err := r.people(tx, j.Workspace, p, j.Cursor)
	if err != nil {
		return step, err
	}
	names := make([]string, 0, len(people))
	for _, who := range people {
		if who.id != 0 {
			names = append(names, who.name)
		}
	}
	if p.Action != topic.ActSubscribe {
		if _, err := tx.LockDeliveriesOf(j.Workspace, names); err != nil {
			return step, err
		}
	}
	if _, err := tx.LockContacts(j.Workspace, names); err != nil {
		return step, err
	}
	var changes []topic.Change
	err = r.decide(tx, j.Workspace, p, people, j, now, func(_ person, of []topic.Change, verdict topic.Verdict) {
		step.Done++
		if verdict == topic.Changed {
			step.Changed++
		}
		changes = append(changes, of...)
	})
	if err != nil {
		return step, err
	}
	if err := tx.WriteSubscriptions(j.Workspace, changes); err != nil {
		return step, err
	}
	if err := digests.TellRest(tx, r.catalog.Loaded, j.Workspace, changes, func() int64 { return r.store.NewID(now) }, now); err != nil {
		return step, err
	}
	if step.End = last == 0; step.End {
		last = j.Cursor
		if len(people) > 0 && len(p.Contacts) == 0 {
			last = int64(people[len(people)-1].id)
		}
	}
	step.Cursor = last
	return step, nil
}
