package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Snapshot runs work in a transaction that only reads: all of its statements see the database as it was at the first of them, and it waits
// for no lock. It runs work again if the connection is lost.
func (s *Store) Snapshot(ctx context.Context, work func(*Tx) error) error {
	if s.memory { // its only connection belongs to one caller at a time
		return s.Read(ctx, work)
	}
	leave := s.enter()
	defer leave()
	for try := 1; ; try++ {
		if err := s.file.check(); err != nil {
			return err
		}
		err := s.snapshot(ctx, work)
		if err == nil || ctx.Err() != nil || try == maxTries || !s.dialect.broken(err) {
			return err
		}
	}
}

func (s *Store) snapshot(ctx context.Context, work func(*Tx) error) (err error) {
	c, err := s.readers.Conn(ctx)
	if err != nil {
		return err
	}
	t := &Tx{s: s, ctx: ctx, conn: c}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		t.ctx = end
		_, _ = t.exec("ROLLBACK") // nothing was written; the pool checks the state of a connection that refuses
		err = errors.Join(err, c.Close())
	}()
	if _, err := t.exec(s.dialect.beginRead); err != nil {
		return fmt.Errorf("%w: %w", errBegin, err)
	}
	return work(t)
}

const readPause = `
SELECT p.workflow, p.paused_at, p.resumed_at, p.actor, p.why, p.cause, 0, 0
FROM pause AS p
WHERE p.ws = $1 AND p.workflow = $2`

// Pause returns the pause of a workflow, in force or with parked rows left, without counts and without a lock; nil: there is none.
func (t *Tx) Pause(ws subject.WorkspaceID, workflow string) (*Pause, error) {
	found, err := query(t, scanPause, readPause, int64(ws), workflow)
	if err != nil {
		return nil, fmt.Errorf("read a pause: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

// Record returns one record without a lock, or ErrNotFound if it does not exist or is deleted.
func (t *Tx) Record(ws subject.WorkspaceID, ref subject.RecordRef) (RecordRow, error) {
	found, err := query(t, scanRecord, recordByName, int64(ws), ref.Type, ref.ExtID)
	switch {
	case err != nil:
		return RecordRow{}, fmt.Errorf("read record: %w", err)
	case len(found) == 0:
		return RecordRow{}, fmt.Errorf("record: %w", ErrNotFound)
	}
	return found[0], nil
}

// ReadSeries is Series without locks.
func (t *Tx) ReadSeries(ws subject.WorkspaceID, refs []SeriesRef) (map[SeriesRef]Series, error) {
	return t.series(ws, refs, pendingOfSeriesNow)
}

// ReadPlans is LockOccasions for plans, without locks and without deliveries. Wanted maps them to the keys that may be freed, or belong to rows
// that retention has taken.
func (t *Tx) ReadPlans(wanted map[PlanRef][]key.Instance) (map[PlanRef]Plan, error) {
	planned, err := t.planInstances(wanted, false)
	if err != nil {
		return nil, err
	}
	if err := t.ownOfPlans(planned, wanted); err != nil {
		return nil, err
	}
	return planned.plans, t.spentOfPlans(planned, wanted)
}

// Stored returns what is stored under keys, without a lock.
func (t *Tx) Stored(ws subject.WorkspaceID, keys []key.Instance) (map[key.Instance]instance.Stored, error) {
	refs := make([]instance.KeyRef, len(keys))
	for i, k := range keys {
		refs[i] = instance.KeyRef{Workspace: ws, Key: string(k)}
	}
	stored, err := t.storedKeys(refs)
	found := make(map[key.Instance]instance.Stored, len(stored))
	for ref, s := range stored {
		found[key.Instance(ref.Key)] = s
	}
	return found, err
}

const waitingOfRecord = selectInstances + `
WHERE i.record_id = $1 AND i.record_id > 0 AND i.ws = $2 AND i.workflow = $3 AND i.status = ` + sqlPending + `
ORDER BY i.due_at, i.id
LIMIT $4`

// WaitingOfRecord returns the pending instances of a workflow about a record, by their due instants, as many as limit.
func (t *Tx) WaitingOfRecord(ws subject.WorkspaceID, record subject.RecordID, workflow string, limit int) ([]instance.Row, error) {
	rows, err := query(t, scanInstance, waitingOfRecord, int64(record), int64(ws), workflow, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read what waits of a record: %w", err)
	}
	return rows, nil
}

const waitingAfterEvents = selectInstances + `
WHERE i.workflow = $1 AND i.ws = $2 AND i.source = ` + sqlFromEvent + ` AND i.status = ` + sqlPending + `
ORDER BY i.due_at, i.id
LIMIT $3`

// WaitingAfterEvents returns the pending instances of a workflow that events have caused, by their due instants, as many as limit.
func (t *Tx) WaitingAfterEvents(ws subject.WorkspaceID, workflow string, limit int) ([]instance.Row, error) {
	rows, err := query(t, scanInstance, waitingAfterEvents, workflow, int64(ws), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read what waits after events: %w", err)
	}
	return rows, nil
}

const waitingOfRecipient = `
SELECT /*NAMES i (` + instanceSpec + `)*/
FROM (SELECT DISTINCT d.event_id FROM delivery AS d WHERE d.ws = $1 AND d.contact_id = $2 AND d.slot >= 0 AND d.workflow = $3 AND d.event_id > 0) AS e CROSS JOIN instance AS i
WHERE i.event_id = e.event_id AND i.ws = $1 AND i.workflow = $3 AND i.source = ` + sqlFromEvent + ` AND i.status = ` + sqlPending + `
ORDER BY i.due_at, i.id
LIMIT $4`

// WaitingOfRecipient returns the pending instances of a workflow that such events have caused of which the contact has a delivery already, by their due
// instants, as many as limit.
func (t *Tx) WaitingOfRecipient(ws subject.WorkspaceID, contact subject.ContactID, workflow string, limit int) ([]instance.Row, error) {
	rows, err := query(t, scanInstance, waitingOfRecipient, int64(ws), int64(contact), workflow, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read what waits after the events of a contact: %w", err)
	}
	return rows, nil
}

const waitingForContact = selectDeliveries + `
WHERE d.ws = $1 AND d.contact_id = $2 AND d.workflow = $3 AND (d.send_at > 0 OR d.hold <> '') AND ` + notCancelled + `
ORDER BY d.send_at, d.id
LIMIT $4`

// WaitingForContact returns the deliveries of a workflow to a contact that have a message to send, by when it leaves, as many as limit. Those
// that wait for a person come first.
func (t *Tx) WaitingForContact(ws subject.WorkspaceID, contact subject.ContactID, workflow string, limit int) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, waitingForContact, int64(ws), int64(contact), workflow, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read what waits for a contact: %w", err)
	}
	return rows, nil
}

// Firings returns the contexts that have ever fired, as they are now, without a lock.
func (t *Tx) Firings(refs []ThrottleRef) (map[ThrottleRef]Throttle, error) {
	throttles, err := t.throttles(throttlesByContext, refs)
	if err != nil {
		return nil, fmt.Errorf("read throttles: %w", err)
	}
	return throttles, nil
}
