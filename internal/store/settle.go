package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// While an attempt is in flight, others may stop the delivery, raise its status and report on its message; none of them changes version. So a result is
// written only over the status and the stop that it was decided with, and an unknown outcome only over the report.
const settleDeliveries = `
UPDATE delivery SET status = r.status, send_at = r.send_at, hold = r.hold, expires_at = r.expires_at, reason = r.reason, completed_at = r.completed_at,
  step = r.step, last_sent_at = r.last_sent_at, retry_count = r.retry_count, reminders_remaining = r.reminders_remaining,
  lease_until = r.lease_until, intent_at = 0, unknown_since = r.unknown_since, due_at = r.due_at, version = delivery.version + 1, eligible_at = r.eligible_at
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, was text, stop_reason text, status text, send_at bigint, hold text, expires_at bigint, reason text,
  completed_at bigint, step bigint, last_sent_at bigint, retry_count bigint, reminders_remaining bigint, lease_until bigint, unknown_since bigint,
  due_at bigint, eligible_at bigint, reported_step bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.status = r.was AND delivery.stop_reason = r.stop_reason AND delivery.version = r.version
  AND (r.unknown_since = 0 OR delivery.reported_step = r.reported_step)
RETURNING delivery.ws, delivery.id, delivery.contact_id`

const lockClaims = selectDeliveriesOf + `
WHERE d.ws = r.ws AND d.id = r.id AND d.version = r.version
ORDER BY d.id, d.ws
/*LOCK d*/`

const selectDeliveriesOf = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint, version bigint)*/ AS r CROSS JOIN delivery AS d`

// A statement of its own, because the settlement never names slot: on SQLite that would write the index of persons each
// time.
const releaseSlots = `
UPDATE delivery SET slot = 0
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id`

// Messages refused in one slot are retried together, at the instant of the last retry. Otherwise the first one would leave
// and the others would wait for its cooldown.
const alignRetries = `
UPDATE delivery SET send_at = m.send_at, version = delivery.version + 1
FROM (
  SELECT d.ws AS ws, d.id AS id, MAX(x.send_at) AS send_at
  FROM /*ROWS $2 (ws bigint, contact_id bigint, slot bigint, kind text, send_at bigint)*/ AS r CROSS JOIN delivery AS d CROSS JOIN delivery AS x
  WHERE d.ws = r.ws AND d.contact_id = r.contact_id AND d.slot = r.slot AND substr(d.channel || ':', 1, length(r.kind) + 1) = r.kind || ':'
    AND x.ws = r.ws AND x.contact_id = r.contact_id AND x.slot = r.slot AND substr(x.channel || ':', 1, length(r.kind) + 1) = r.kind || ':'
    AND d.retry_count > 0 AND d.intent_at = 0 AND d.hold <> ` + sqlHoldPaused + ` AND d.send_at >= r.send_at - $1 AND d.send_at <= r.send_at + $1
    AND x.retry_count > 0 AND x.intent_at = 0 AND x.hold <> ` + sqlHoldPaused + ` AND x.send_at > d.send_at AND x.send_at <= r.send_at + $1
  GROUP BY d.ws, d.id) AS m
WHERE delivery.ws = m.ws AND delivery.id = m.id AND delivery.intent_at = 0`

// alignWithin bounds how much later a retry may come to join another one of its slot: the longest time of a request.
const alignWithin = time.Minute

type deliveryRef struct {
	ws subject.WorkspaceID
	id delivery.ID
}

func compareDeliveryRef(a, b deliveryRef) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.ws, b.ws))
}

// LockClaims locks claims and reads them as they are now. Those that another worker holds by now are left out.
func (t *Tx) LockClaims(claims []LeaseRef) ([]delivery.Row, error) {
	found, err := query(t, scanDelivery, lockClaims, leaseRows(claims))
	if err != nil {
		return nil, fmt.Errorf("lock claims: %w", err)
	}
	return found, nil
}

// WriteSettlements writes the results of attempts. It returns ErrAgain if a claim is not as its result was decided for, by its
// version, status, stop or report.
func (t *Tx) WriteSettlements(now time.Time, list []Settlement) error {
	byRef := make(map[deliveryRef]*Settlement, len(list))
	for i := range list {
		byRef[deliveryRef{list[i].Row.Workspace, list[i].Row.ID}] = &list[i]
	}
	if len(byRef) < len(list) {
		return fmt.Errorf("settle attempts: %w: a delivery is listed twice in a batch", ErrInvalid)
	}
	refs := slices.SortedFunc(maps.Keys(byRef), compareDeliveryRef) // one order everywhere: no deadlock
	contacts, err := t.settleRows(refs, byRef)
	if err != nil {
		return err
	}
	var released, again rowset
	attempts := make([]delivery.Attempt, 0, len(list))
	var contents []Content
	var said []SessionMessage
	var made []delivery.Row
	var refolds []delivery.Refold
	for _, ref := range refs {
		s := byRef[ref]
		row := s.Row
		row.Contact = contacts[ref]
		t.ended(now, row)
		t.told(now, row)
		attempts = append(attempts, s.Attempt)
		if s.Content != nil {
			contents = append(contents, *s.Content)
		}
		if s.Said != nil {
			said = append(said, *s.Said)
		}
		if s.Fallback != nil {
			if err := checkDelivery(*s.Fallback, ref.ws); err != nil {
				return err
			}
			instead := *s.Fallback
			instead.Contact = contacts[ref]
			made = append(made, instead)
		}
		if s.Together != "" {
			again.row().int(int64(ref.ws)).int(int64(contacts[ref])).int(dueMicros(s.Row.Slot)).text(s.Together).int(dueMicros(s.Row.SendAt))
		}
		if s.Refold != nil {
			refolds = append(refolds, *s.Refold)
		}
		if s.Release {
			released.row().int(int64(ref.ws)).int(int64(ref.id))
		}
	}
	if _, err := t.exec(releaseSlots, &released); err != nil {
		return fmt.Errorf("release slots: %w", err)
	}
	if _, err := t.exec(alignRetries, alignWithin.Microseconds(), &again); err != nil {
		return fmt.Errorf("align the retries of one slot: %w", err)
	}
	if _, err := t.insertDeliveries(made); err != nil {
		return err
	}
	if err := t.refold(now, refolds); err != nil {
		return err
	}
	if err := t.insertAttempts(attempts); err != nil {
		return err
	}
	if err := t.insertContents(contents); err != nil {
		return err
	}
	return t.insertSessionMessages(said)
}

// settleRows writes the new values of claims, and returns their contacts: a contact may have been merged into another one meanwhile.
func (t *Tx) settleRows(refs []deliveryRef, byRef map[deliveryRef]*Settlement) (map[deliveryRef]subject.ContactID, error) {
	var rows rowset
	for _, ref := range refs {
		s := byRef[ref]
		d := &s.Row
		if err := checkDelivery(*d, ref.ws); err != nil {
			return nil, err
		}
		rows.row().int(int64(d.Workspace)).int(int64(d.ID)).int(d.Version).text(string(s.Was)).text(string(d.StopReason)).text(string(d.Status)).
			int(dueMicros(d.SendAt)).text(string(d.Hold)).int(dueMicros(d.ExpiresAt)).text(string(d.Reason)).time(d.CompletedAt).int(int64(d.Step)).time(d.LastSentAt).
			int(int64(d.RetryCount)).int(int64(d.RemindersRemaining)).time(d.LeaseUntil).time(d.UnknownSince).int(dueMicros(d.DueAt)).int(eligibleMicros(*d)).
			int(int64(d.ReportedStep))
		t.dueDelivery(*d)
	}
	contacts := make(map[deliveryRef]subject.ContactID, len(refs))
	_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var ref deliveryRef
		var contact subject.ContactID
		err = rows.Scan(integer(&ref.ws), integer(&ref.id), integer(&contact))
		contacts[ref] = contact
		return none, err
	}, settleDeliveries, &rows)
	if err != nil {
		return nil, fmt.Errorf("settle attempts: %w", err)
	}
	if len(contacts) < len(refs) {
		return nil, ErrAgain
	}
	return contacts, nil
}
