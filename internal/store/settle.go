package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// While an attempt is in flight, others may write stop_reason and raise the rank to opened or responded; neither changes
// version. So the outcome is written over the row as it is now:
//
//	stopped      the attempt was not accepted and nothing was before: cancelled for the reason of the stop
//	answered     stays responded, and nothing more is sent
//	any stop     nothing more is sent; without an expiry to wait for, the delivery is complete
//	opened       stays opened where the outcome is scheduled, sent or unknown
//
// last_sent_at is never before the slot, even on a clock that was set back. This distinguishes the slot of a sent message
// from the slot of a reminder.
const stopped = `(delivery.stop_reason <> '' AND delivery.step = 0 AND r.accepted = 0 AND r.status <> 'unknown' AND delivery.status <> 'responded')`

const settleDeliveries = `
UPDATE delivery SET
  status = CASE
    WHEN delivery.status = 'responded' THEN 'responded'
    WHEN ` + stopped + ` THEN 'cancelled'
    WHEN delivery.status = 'opened' AND r.status IN ('scheduled', 'sent', 'unknown') THEN 'opened'
    WHEN delivery.stop_reason <> '' AND r.accepted = 0 AND r.status = 'scheduled' THEN delivery.status
    ELSE r.status END,
  send_at = CASE WHEN delivery.status = 'responded' OR delivery.stop_reason <> '' THEN 0 ELSE r.send_at END,
  expires_at = CASE
    WHEN delivery.status = 'responded' OR ` + stopped + ` THEN 0
    WHEN delivery.stop_reason <> '' OR r.send_at = 0 THEN r.expires_at
    ELSE 0 END,
  reason = CASE
    WHEN delivery.status = 'responded' THEN delivery.reason
    WHEN ` + stopped + ` THEN delivery.stop_reason
    ELSE r.reason END,
  completed_at = CASE
    WHEN delivery.completed_at > 0 THEN delivery.completed_at
    WHEN r.completed = 1 OR ` + stopped + ` OR (delivery.stop_reason <> '' AND r.expires_at = 0) THEN $1
    ELSE 0 END,
  step = r.step,
  last_sent_at = CASE WHEN r.accepted = 0 THEN delivery.last_sent_at WHEN delivery.slot > $1 THEN delivery.slot ELSE $1 END,
  retry_count = r.retry_count, reminders_remaining = r.reminders_remaining,
  lease_until = r.lease_until, intent_at = 0, doubt_at = r.doubt_at, due_at = r.due_at, version = delivery.version + 1,
  eligible_at = CASE WHEN delivery.status = 'responded' OR delivery.stop_reason <> '' THEN 0 ELSE r.eligible_at END
FROM /*ROWS $2 (ws bigint, id bigint, version bigint, accepted bigint, step bigint, lease_until bigint, status text, send_at bigint, expires_at bigint, retry_count bigint,
  reminders_remaining bigint, reason text, completed bigint, doubt_at bigint, due_at bigint, eligible_at bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version
RETURNING delivery.ws, delivery.id, delivery.status, delivery.instance_id, delivery.last_sent_at, delivery.doubt_at, delivery.contact_id,
  delivery.slot, delivery.send_at`

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
    AND d.retry_count > 0 AND d.intent_at = 0 AND d.send_at >= r.send_at - $1 AND d.send_at <= r.send_at + $1
    AND x.retry_count > 0 AND x.intent_at = 0 AND x.send_at > d.send_at AND x.send_at <= r.send_at + $1
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

// Settle writes the results of attempts, each guarded by the version of its claim. It returns those that came too late,
// because another worker has claimed the row; nothing of them is written. A status that is not final should always have
// ExpiresAt: it counts when nothing more is planned, as after a stop in the meantime.
func (s *Store) Settle(ctx context.Context, now time.Time, list []Settlement) (stale []delivery.ID, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = s.Write(ctx, func(t *Tx) error {
		stale, err = t.settle(now, list)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle attempts: %w", err)
	}
	return stale, nil
}

func (t *Tx) settle(now time.Time, list []Settlement) ([]delivery.ID, error) {
	byRef := make(map[deliveryRef]Settlement, len(list))
	for _, s := range list {
		if _, ok := byRef[deliveryRef{s.Workspace, s.ID}]; ok {
			return nil, fmt.Errorf("%w: delivery %d twice in one batch", ErrInvalid, s.ID)
		}
		byRef[deliveryRef{s.Workspace, s.ID}] = s
	}
	refs := slices.SortedFunc(maps.Keys(byRef), compareDeliveryRef) // one order everywhere: no deadlock
	var rows rowset
	for _, ref := range refs {
		s := byRef[ref]
		send, _ := planned(s.Status, dueMicros(s.SendAt), 0)
		_, expire := planned(s.Status, 0, dueMicros(s.ExpiresAt))
		rows.row().int(int64(s.Workspace)).int(int64(s.ID)).int(s.Version).flag(s.Accepted).int(int64(s.Step)).time(s.LeaseUntil).text(string(s.Status)).int(send).int(expire).
			int(int64(s.RetryCount)).int(int64(s.Remaining)).text(string(s.Reason)).flag(s.Completed).time(s.UnknownSince).int(dueMicros(s.DueAt)).
			int(eligibleMicros(delivery.Row{Status: s.Status, SendAt: s.SendAt, EligibleAt: s.EligibleAt}))
		t.due(max(send, micros(s.LeaseUntil)))
		t.due(expire)
	}
	type settled struct {
		deliveryRef
		status   delivery.Status
		instance instance.ID
		reached  bool              // a message was sent or may have arrived
		contact  subject.ContactID // the contact may have been merged into another one meanwhile
		slot     int64
		sent     int64 // the last time
		sendAt   int64
	}
	done, err := query(t, func(rows *sql.Rows) (v settled, err error) {
		var unknownSince int64
		err = rows.Scan(&v.ws, &v.id, &v.status, &v.instance, &v.sent, &unknownSince, &v.contact, &v.slot, &v.sendAt)
		v.reached = v.sent > 0 || unknownSince > 0
		return v, err
	}, settleDeliveries, micros(now), &rows)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(done, func(a, b settled) int { return compareDeliveryRef(a.deliveryRef, b.deliveryRef) })
	var released, again rowset
	attempts := make([]delivery.Attempt, 0, len(done))
	var contents []Content
	var made []delivery.Row
	var refolds []Refold
	for _, d := range done {
		s := byRef[d.deliveryRef]
		delete(byRef, d.deliveryRef)
		attempts = append(attempts, s.Attempt)
		if !d.reached {
			t.endedAs(now, d.ws, d.instance, d.status)
		}
		if s.Content != nil {
			contents = append(contents, *s.Content)
		}
		if s.Fallback != nil && d.status == delivery.Failed {
			if err := checkDelivery(*s.Fallback, d.ws); err != nil {
				return nil, err
			}
			instead := *s.Fallback
			instead.Contact = d.contact
			made = append(made, instead)
		}
		if s.Together != "" && d.slot > 0 && d.sendAt > 0 {
			again.row().int(int64(d.ws)).int(int64(d.contact)).int(d.slot).text(s.Together).int(d.sendAt)
		}
		switch {
		case !s.FoldHead:
		case s.Fallback != nil && d.status == delivery.Failed:
			refolds = append(refolds, Refold{d.ws, d.id, s.Fallback.ID})
		case s.Unfold, d.status == delivery.Cancelled && s.UnknownSince.IsZero() && !s.Accepted:
			refolds = append(refolds, Refold{d.ws, d.id, 0})
		}
		// A message was planned in this slot and is not sent any more. While an outcome is unknown, the slot stays taken,
		// because the message may have arrived.
		stopped := d.sendAt == 0 && !s.SendAt.IsZero() && !s.Accepted && s.Attempt.Outcome != delivery.AttemptUnknown && s.UnknownSince.IsZero()
		if s.Release || stopped && d.slot > d.sent {
			released.row().int(int64(d.ws)).int(int64(d.id))
		}
	}
	if _, err := t.exec(releaseSlots, &released); err != nil {
		return nil, fmt.Errorf("release slots: %w", err)
	}
	if _, err := t.exec(alignRetries, alignWithin.Microseconds(), &again); err != nil {
		return nil, fmt.Errorf("have retries of one place come together: %w", err)
	}
	if _, err := t.insertDeliveries(made); err != nil {
		return nil, err
	}
	if err := t.refold(now, refolds); err != nil {
		return nil, err
	}
	if err := t.insertAttempts(attempts); err != nil {
		return nil, err
	}
	if err := t.insertContents(contents); err != nil {
		return nil, err
	}
	var stale []delivery.ID
	for _, s := range list {
		if _, ok := byRef[deliveryRef{s.Workspace, s.ID}]; ok {
			stale = append(stale, s.ID)
		}
	}
	return stale, nil
}
