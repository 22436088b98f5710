package store

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

const lockInstance = selectInstances + `
WHERE i.ws = $1 AND i.id = $2 AND ` + notDeletedInstance + `
/*LOCK i*/`

// The sign before ws is that of existingDeliveries.
const lockDeliveries = selectDeliveries + `
WHERE +d.ws = $1 AND d.instance_id = $2
ORDER BY d.id
/*LOCK d*/`

const deliveriesOfContact = selectDeliveries + `
WHERE +d.ws = $1 AND d.instance_id = $2 AND d.contact_id = $3 AND ` + notDeleted + `
ORDER BY d.id`

const lockDeliveriesOfContact = deliveriesOfContact + `
/*LOCK d*/`

// retryMark stands between a key and the number of its repetition (docs/concepts/keys-and-dedup.md).
const retryMark = ":retry:"

// retryEnd follows every repetition in the order of keys, as ';' follows ':'.
const retryEnd = ":retry;"

// The keys of an occasion's repetitions.
const retryKeys = `
SELECT key FROM instance
WHERE ws = $1 AND key > $2 AND key < $3`

// The rows whose keys begin with that of an event: those of the courses that it began, and of its repetitions. A ';' follows ':'.
const lockCourse = selectInstances + `
WHERE /*BY NAME*/i.ws = $1 AND i.key > $2 AND i.key < $3 AND i.id <> $4
ORDER BY i.id
/*LOCK i*/`

const updateInstance = `
UPDATE instance SET status = $4, hold = $5, held_at = $6, due_at = $7, next_retry_at = $8, ready_at = $9, lease_until = $10,
  attempts = $11, retry_count = $12, crashes = $13, reason = $14, trace = $15, completed_at = $16, input_hash = $17,
  delay = $18, cancelled_at = $19, unbraked_at = $20, version = version + 1
WHERE ws = $1 AND id = $2 AND version = $3`

const updateDeliveries = `
UPDATE delivery SET status = r.status, not_before = r.not_before, send_at = r.send_at, hold = r.hold, slot = r.slot, deferred_by = r.deferred_by,
  lease_until = r.lease_until, step = r.step, attempt_no = r.attempt_no, intent_at = r.intent_at, retry_count = r.retry_count,
  reminders_remaining = r.reminders_remaining, last_sent_at = r.last_sent_at, expires_at = r.expires_at, reason = r.reason,
  stop_reason = r.stop_reason, resent = r.resent, trace = r.trace, completed_at = r.completed_at,
  unknown_since = r.unknown_since, due_at = r.due_at, eligible_at = r.eligible_at, reported_step = r.reported_step, version = delivery.version + 1
FROM /*ROWS $1 (` + deliverySpec + `)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version`

const stopDeliveries = `
UPDATE delivery SET stop_reason = r.stop_reason, reported_step = r.reported_step
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, stop_reason text, reported_step bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version`

const retriedBy = `
SELECT retried_by FROM instance
WHERE ws = $1 AND id = $2`

const eventOfInstance = `
SELECT event_id FROM instance
WHERE ws = $1 AND id = $2`

const markRetried = `
UPDATE instance SET retried_by = $3
WHERE ws = $1 AND id = $2`

const forgetKey = `
UPDATE instance SET forgotten = $3, version = version + 1
WHERE ws = $1 AND key = $2 AND deleted_at = 0`

const forgetSpent = `
UPDATE spent SET forgotten = $3
WHERE ws = $1 AND hash = $2`

// LockInstance locks and returns an instance, else ErrNotFound.
func (t *Tx) LockInstance(ws subject.WorkspaceID, id instance.ID) (instance.Row, error) {
	found, err := query(t, scanInstance, lockInstance, int64(ws), int64(id))
	switch {
	case err != nil:
		return instance.Row{}, fmt.Errorf("lock instance: %w", err)
	case len(found) == 0:
		return instance.Row{}, fmt.Errorf("instance %d: %w", id, ErrNotFound)
	}
	return found[0], nil
}

// LockDeliveriesOfInstance locks and returns all deliveries of an instance.
func (t *Tx) LockDeliveriesOfInstance(ws subject.WorkspaceID, id instance.ID) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, lockDeliveries, int64(ws), int64(id))
	if err != nil {
		return nil, fmt.Errorf("lock deliveries: %w", err)
	}
	return rows, nil
}

// LockDeliveriesOfContact locks and returns the deliveries of an instance to one contact.
func (t *Tx) LockDeliveriesOfContact(ws subject.WorkspaceID, id instance.ID, contact subject.ContactID) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, lockDeliveriesOfContact, int64(ws), int64(id), int64(contact))
	if err != nil {
		return nil, fmt.Errorf("lock deliveries of a contact: %w", err)
	}
	return rows, nil
}

// DeliveriesOfContact returns the deliveries of an instance to one contact, which the transaction has locked.
func (t *Tx) DeliveriesOfContact(ws subject.WorkspaceID, id instance.ID, contact subject.ContactID) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, deliveriesOfContact, int64(ws), int64(id), int64(contact))
	if err != nil {
		return nil, fmt.Errorf("read the deliveries of a contact: %w", err)
	}
	return rows, nil
}

// LockCourse locks and returns the rows of the courses that an event began, except the one with an id. event is the key of the event.
func (t *Tx) LockCourse(ws subject.WorkspaceID, except instance.ID, event key.Instance) ([]instance.Row, error) {
	base, _ := event.Base()
	rows, err := query(t, scanInstance, lockCourse, int64(ws), string(base)+":", string(base)+";", int64(except))
	if err != nil {
		return nil, fmt.Errorf("lock a course: %w", err)
	}
	return rows, nil
}

// LockWaitingDeliveries locks and returns the deliveries of instances that wait or will be reminded.
func (t *Tx) LockWaitingDeliveries(of []instance.Row) ([]delivery.Row, error) {
	var ids rowset
	for _, i := range of {
		ids.row().int(int64(i.Workspace)).int(int64(i.ID))
	}
	rows, err := query(t, scanDelivery, lockPlanDeliveries, &ids)
	if err != nil {
		return nil, fmt.Errorf("lock deliveries that wait: %w", err)
	}
	return rows, nil
}

// Retries returns the highest n of key:retry:n in use for an occasion, of deleted rows too.
func (t *Tx) Retries(ws subject.WorkspaceID, base key.Instance) (highest int, err error) {
	keys, err := query(t, func(rows *sql.Rows) (k key.Instance, err error) {
		return k, rows.Scan(&k)
	}, retryKeys, int64(ws), string(base)+retryMark, string(base)+retryEnd)
	if err != nil {
		return 0, fmt.Errorf("find repetitions: %w", err)
	}
	for _, k := range keys {
		if b, n := k.Base(); b == base {
			highest = max(highest, n)
		}
	}
	spent, err := t.spent(ws, []string{string(base)})
	if err != nil {
		return 0, fmt.Errorf("find deleted repetitions: %w", err)
	}
	return max(highest, spent[string(base)].Retries), nil
}

// RetriedBy returns the instance by which a person retried an instance; 0: none.
func (t *Tx) RetriedBy(ws subject.WorkspaceID, id instance.ID) (by instance.ID, err error) {
	found, err := query(t, scanInt, retriedBy, int64(ws), int64(id))
	if err != nil {
		return 0, fmt.Errorf("look for a repetition: %w", err)
	}
	for _, n := range found {
		by = instance.ID(n)
	}
	return by, nil
}

// EventOfInstance returns the event of an instance, without a lock; 0: it has none, or there is no such instance.
func (t *Tx) EventOfInstance(ws subject.WorkspaceID, id instance.ID) (of subject.EventID, err error) {
	found, err := query(t, scanInt, eventOfInstance, int64(ws), int64(id))
	if err != nil {
		return 0, fmt.Errorf("read the event of an instance: %w", err)
	}
	for _, n := range found {
		of = subject.EventID(n)
	}
	return of, nil
}

// MarkRetried stores by which instance a person retried an instance.
func (t *Tx) MarkRetried(ws subject.WorkspaceID, id, by instance.ID) error {
	if _, err := t.exec(markRetried, int64(ws), int64(id), int64(by)); err != nil {
		return fmt.Errorf("mark a repetition: %w", err)
	}
	return nil
}

// FreeKey frees the key of an occasion: its next instance is key:retry:n. The occasion's first instance may have been
// deleted while a repetition stayed.
func (t *Tx) FreeKey(ws subject.WorkspaceID, base key.Instance, n int) error {
	changed, err := t.exec(forgetKey, int64(ws), string(base), int64(n))
	if err == nil && changed == 0 {
		changed, err = t.exec(forgetSpent, int64(ws), key.Hash(string(base)), int64(n))
	}
	if err == nil && changed == 0 {
		err = fmt.Errorf("the occasion's first instance: %w", ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("free key: %w", err)
	}
	return nil
}

// UpdateInstance writes the state of an instance; old is the locked row.
func (t *Tx) UpdateInstance(now time.Time, old, i instance.Row) error {
	if i.Workspace != old.Workspace || i.ID != old.ID {
		return fmt.Errorf("update instance: %w: another row than the one that is locked", ErrInvalid)
	}
	n, err := t.exec(updateInstance, int64(i.Workspace), int64(i.ID), old.Version, string(i.Status), string(i.Hold), micros(i.HeldAt), micros(i.DueAt),
		micros(i.NextRetryAt), readyAt(i), micros(i.LeaseUntil), int64(i.Attempts), int64(i.RetryCount), int64(i.Crashes), string(i.Reason),
		i.Trace, micros(i.CompletedAt), i.InputHash, string(i.Delay), dueMicros(i.CancelledAt), micros(i.UnbrakedAt))
	if err != nil {
		return fmt.Errorf("update instance: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("update instance: %w", ErrConflict)
	}
	t.due(WorkInstances, readyAt(i))
	if i.Status != instance.Pending {
		t.endedWhole(now, i.Workspace, i.ID)
	}
	return nil
}

// UpdateDeliveries writes deliveries with their new values; old are the locked rows. A delivery that is being sent (an open
// intent under a lease that runs) takes a stop_reason and a reported_step only; the result of the attempt applies them. Any other change of such a
// row is ErrConflict.
func (t *Tx) UpdateDeliveries(now time.Time, old, changed []delivery.Row) error {
	read := map[delivery.ID]delivery.Row{}
	for _, d := range old {
		read[d.ID] = d
	}
	var whole, stops rowset
	var freed []delivery.Refold
	for _, d := range changed {
		was, ok := read[d.ID]
		if !ok || d.Workspace != was.Workspace {
			return fmt.Errorf("update deliveries: %w: delivery %d is not one of the instance's", ErrInvalid, d.ID)
		}
		delete(read, d.ID) // twice is as wrong as never
		d.Version = was.Version
		if !was.IntentAt.IsZero() && was.LeaseUntil.After(now) {
			if was.StopReason, was.ReportedStep = d.StopReason, d.ReportedStep; was != d {
				return fmt.Errorf("update deliveries: %w: delivery %d is being sent", ErrConflict, d.ID)
			}
			stops.row().int(int64(d.Workspace)).int(int64(d.ID)).int(d.Version).text(string(d.StopReason)).int(int64(d.ReportedStep))
			continue
		}
		if err := checkDelivery(d, d.Workspace); err != nil {
			return fmt.Errorf("update deliveries: %w", err)
		}
		deliveryRow(&whole, d)
		t.dueDelivery(d)
		t.ended(now, d)
		if was.IsFoldHead() && was.Status == delivery.Scheduled && d.Status.Final() && !d.OutcomeUnknown() {
			freed = append(freed, delivery.Refold{Workspace: d.Workspace, From: d.ID})
		}
	}
	for _, update := range []struct {
		text string
		rows *rowset
	}{{updateDeliveries, &whole}, {stopDeliveries, &stops}} {
		if n, err := t.exec(update.text, update.rows); err != nil {
			return fmt.Errorf("update deliveries: %w", err)
		} else if n < int64(update.rows.n) {
			return fmt.Errorf("update deliveries: %w", ErrConflict)
		}
	}
	return t.refold(now, freed)
}
