package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Reschedule is a person whose limits have changed, locked, with the deliveries that wait for a later slot.
type Reschedule struct {
	Workspace subject.WorkspaceID
	InForce   int64 // number of the definition set in force, which stays so until the transaction ends
	Person    Person
	Waiting   []delivery.Row
}

// The request is stored in the row that is the lock on a person. A person without a later slot needs none.
const markReschedule = `
UPDATE cadence SET replan_at = $1
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id AND cadence.replan_at = 0
  AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.ws = cadence.ws AND d.contact_id = cadence.contact_id AND d.slot > $1)`

const dueReschedules = `
SELECT c.ws, c.contact_id, (SELECT w.definitions FROM workspace AS w WHERE w.id = c.ws)
FROM cadence AS c
WHERE c.replan_at > 0 AND c.replan_at <= $1
ORDER BY c.replan_at, c.contact_id
LIMIT $2
/*SKIP LOCKED*/`

// A delivery that a sender holds is left out: it may be leaving now.
const rescheduleDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.contact_id = r.id AND d.send_at > 0 AND d.lease_until <= $1
  AND (d.slot > $1 OR d.folded_into > 0 AND d.folded_into <> d.id AND d.send_at > $1)
/*SKIP LOCKED d*/`

const writeRescheduled = `
UPDATE delivery SET status = r.status, send_at = r.send_at, slot = r.slot, expires_at = r.expires_at, deferred_by = r.deferred_by,
  reason = r.reason, trace = r.trace, step = r.step, reminders_remaining = r.reminders_remaining, completed_at = r.completed_at,
  folded_into = r.folded_into, type = r.type, due_at = 0, eligible_at = 0, version = delivery.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, status text, send_at bigint, slot bigint, expires_at bigint, deferred_by text,
  reason text, trace text, step bigint, reminders_remaining bigint, completed_at bigint, folded_into bigint, type text)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version`

const clearReschedule = `
UPDATE cadence SET replan_at = 0
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id`

// markReschedule requests that the waiting deliveries of persons are rescheduled for changed limits (R5).
func (t *Tx) markReschedule(now time.Time, refs []PersonRef) error {
	n, err := t.exec(markReschedule, dueMicros(now), personRows(refs))
	if err != nil {
		return fmt.Errorf("mark contacts to reschedule: %w", err)
	}
	if n > 0 {
		t.due(dueMicros(now))
	}
	return nil
}

// AdvanceCadence requests rescheduling for the next page of people of the oldest cadence job, in one transaction, and
// returns how many they are. With no people left, the job is done. open is false if there is no such job.
func (s *Store) AdvanceCadence(ctx context.Context, now time.Time) (marked int, open bool, err error) {
	if _, open, err = first(ctx, s, "look for a run", scanRun, oldestRun, RunCadence); err != nil || !open {
		return 0, false, err // nearly always the case, and needs no transaction that writes
	}
	err = s.Write(ctx, func(t *Tx) error {
		runs, err := query(t, scanRun, openRun, RunCadence)
		marked, open = 0, len(runs) > 0
		if err != nil || !open {
			return err
		}
		run, at := runs[0], dueMicros(now)
		ids, err := t.members(page{ws: run.Workspace, persona: run.Subject, after: subject.ContactID(run.Cursor)})
		if err != nil {
			return err
		}
		marked = len(ids)
		refs := make([]PersonRef, len(ids))
		for i, id := range ids {
			refs[i] = PersonRef{run.Workspace, id}
		}
		if err := t.markReschedule(now, refs); err != nil {
			return err
		}
		status, finished := RunRunning, int64(0)
		if marked > 0 {
			run.Cursor = int64(slices.Max(ids))
		} else {
			status, finished = RunDone, at
		}
		t.due(at)
		_, err = t.exec(advanceRun, int64(run.Workspace), run.ID, run.Cursor, int64(marked), at, status, finished)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("advance a run: %w", err)
	}
	return marked, open, nil
}

// RescheduleDue takes up to limit people whose limits have changed, passes their waiting deliveries to decide, and writes
// the rows that decide returns, in one transaction. n is the number of people taken.
func (s *Store) RescheduleDue(ctx context.Context, now time.Time, limit int, floor func([]Reschedule) Floor,
	decide func([]Reschedule) ([]delivery.Row, error),
) (n int, err error) {
	err = s.WriteHoldingDefinitions(ctx, func(t *Tx) error {
		due, err := query(t, func(rows *sql.Rows) (r Reschedule, err error) {
			return r, rows.Scan(&r.Workspace, &r.Person.ID, &r.InForce)
		}, dueReschedules, dueMicros(now), int64(limit))
		n = len(due)
		if err != nil || n == 0 {
			return err
		}
		refs := make([]PersonRef, n)
		for i, r := range due {
			refs[i] = PersonRef{r.Workspace, r.Person.ID}
		}
		rows := personRows(refs)
		persons, err := t.personsBy(personsByID, rows, true)
		if err != nil {
			return err
		}
		if err := t.readSlots(now, persons, floor(due)); err != nil {
			return err
		}
		waiting, err := query(t, scanDelivery, rescheduleDeliveries, dueMicros(now), rows)
		if err != nil {
			return err
		}
		of := map[PersonRef][]delivery.Row{}
		for _, d := range waiting {
			ref := PersonRef{d.Workspace, d.Contact}
			of[ref] = append(of[ref], d)
		}
		for i, ref := range refs {
			due[i].Person, due[i].Waiting = persons[ref], of[ref]
		}
		changed, err := decide(due)
		if err != nil {
			return err
		}
		if err := t.writeRescheduled(now, changed); err != nil {
			return err
		}
		_, err = t.exec(clearReschedule, rows)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reschedule: %w", err)
	}
	return n, nil
}

func (t *Tx) writeRescheduled(now time.Time, changed []delivery.Row) error {
	var rows rowset
	var inherit reassignment
	for _, d := range changed {
		switch ref := (deliveryRef{d.Workspace, d.ID}); {
		case d.IsFoldMember(): // what was folded into it moves along
			inherit.to(ref, d.FoldedInto)
		case d.IsFoldHead() && d.Status.Final():
			inherit.none(ref)
		}
		if err := checkDelivery(d, d.Workspace); err != nil {
			return err
		}
		rows.row().int(int64(d.Workspace)).int(int64(d.ID)).int(d.Version).text(string(d.Status)).int(dueMicros(d.SendAt)).
			int(dueMicros(d.Slot)).int(dueMicros(d.ExpiresAt)).text(string(d.DeferredBy)).text(string(d.Reason)).text(d.Trace).
			int(int64(d.Step)).int(int64(d.RemindersRemaining)).time(d.CompletedAt).int(int64(d.FoldedInto)).text(d.Type)
		t.dueDelivery(d)
		t.ended(now, d)
	}
	n, err := t.exec(writeRescheduled, &rows)
	if err == nil && n < int64(rows.n) { // the rows are locked: no other transaction can have changed them
		err = fmt.Errorf("%w: %d of %d rows", ErrConflict, n, rows.n)
	}
	if err != nil {
		return err
	}
	return t.settleReassignment(now, &inherit)
}
