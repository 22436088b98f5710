package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
)

// The claim is the intent: it touches no indexed column, so that the row stays where it is. intent_at is set only
// while an attempt is open; what it was before tells of one whose result never came (SQLite: RETURNING sees the
// updated table only, so the old value is kept in a column). Such a one may have arrived: the doubt begins with it.
const claimDeliveries = `
WITH due AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE send_at > 0 AND send_at <= $1 AND (send_at, id) > ($4, $5) AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $2
  /*SKIP LOCKED*/)
UPDATE delivery SET lease_until = $3, version = delivery.version + 1, attempt_no = delivery.attempt_no + 1,
  lost_intent = delivery.intent_at, intent_at = $1,
  doubt_at = CASE WHEN delivery.doubt_at = 0 THEN delivery.intent_at ELSE delivery.doubt_at END
FROM due
WHERE delivery.ws = due.ws AND delivery.id = due.id
RETURNING /*NAMES delivery (` + deliverySpec + `)*/, delivery.lost_intent`

const moveClaims = `
UPDATE delivery SET status = r.status, send_at = r.send_at, slot = r.slot, expires_at = r.expires_at, deferred_by = r.deferred_by,
  reason = r.reason, lease_until = r.lease_until, attempt_no = r.attempt_no, intent_at = r.intent_at, step = r.step,
  reminders_remaining = r.reminders_remaining, trace = r.trace, completed_at = r.completed_at, doubt_at = r.doubt_at, due_at = r.due_at
FROM /*ROWS $1 (ws bigint, id bigint, status text, send_at bigint, slot bigint, expires_at bigint, deferred_by text, reason text,
  lease_until bigint, attempt_no bigint, intent_at bigint, step bigint, reminders_remaining bigint, trace text, completed_at bigint,
  doubt_at bigint, due_at bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id`

// CommitIntents claims up to limit due deliveries of all workspaces until leaseUntil, commits the intent to send
// them, and returns those that are to be sent now, in the order of their slots (else send_at) and ids.
//
// decide is asked about every claim with its person as read without lock, and again, with the person locked and
// their slots loaded, about those whose verdict says NeedLock, and with the pace of their channel locked and loaded
// about those whose verdict says NeedPace. Slots of a person hold every place that is taken,
// the claim's own included: the decision leaves out one slot of the claim's instant, type and channel. A claim
// that is moved without Send gives its intent back, and its lease unless the move sets another.
func (s *Store) CommitIntents(
	ctx context.Context, now, leaseUntil time.Time, limit int,
	decide func(claims []Claim, locked bool) ([]IntentVerdict, error),
) ([]Claim, error) {
	var send []Claim
	err := s.write(ctx, func(t *session) error {
		claims, err := t.claim(ctx, now, leaseUntil, limit)
		if err != nil || len(claims) == 0 {
			return err
		}
		verdicts, err := t.decideIntents(ctx, now, claims, decide)
		if err != nil {
			return err
		}
		send, err = t.commitIntents(ctx, now, claims, verdicts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit intents: %w", err)
	}
	return send, nil
}

func (t *session) claim(ctx context.Context, now, leaseUntil time.Time, limit int) ([]Claim, error) {
	claims, err := takeUp(t, &t.s.dueDeliveries, dueMicros(now), limit, func(from position) ([]Claim, position, error) {
		var last position
		claims, err := query(ctx, t, func(rows *sql.Rows) (c Claim, err error) {
			c.Row, err = scanDeliveryAnd(rows, instant{&c.LostIntent})
			last = later(last, position{dueMicros(c.SendAt), int64(c.ID)}) // RETURNING promises no order
			return c, err
		}, claimDeliveries, dueMicros(now), int64(limit), micros(leaseUntil), from.at, from.id)
		return claims, last, err
	})
	if err != nil {
		return nil, fmt.Errorf("claim due deliveries: %w", err)
	}
	refs := make([]PersonRef, len(claims))
	for i, c := range claims {
		refs[i] = PersonRef{c.Workspace, c.Contact}
	}
	persons, err := t.readPersons(ctx, refs)
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		claims[i].Person = persons[PersonRef{c.Workspace, c.Contact}]
	}
	slices.SortFunc(claims, func(a, b Claim) int { return cmp.Or(order(a).Compare(order(b)), cmp.Compare(a.ID, b.ID)) })
	return claims, nil
}

func order(c Claim) time.Time {
	if c.Slot.IsZero() {
		return c.SendAt
	}
	return c.Slot
}

func (t *session) decideIntents(
	ctx context.Context, now time.Time, claims []Claim,
	decide func(claims []Claim, locked bool) ([]IntentVerdict, error),
) ([]IntentVerdict, error) {
	ask := func(claims []Claim, locked bool) ([]IntentVerdict, error) {
		verdicts, err := decide(claims, locked)
		if err == nil && len(verdicts) != len(claims) {
			err = fmt.Errorf("%w: verdicts on %d claims instead of %d", ErrInvalid, len(verdicts), len(claims))
		}
		return verdicts, err
	}
	verdicts, err := ask(claims, false)
	if err != nil {
		return nil, err
	}
	var odd []int
	var refs []PersonRef
	var channels []PaceRef
	for i, v := range verdicts {
		if v.NeedLock || v.NeedPace {
			odd = append(odd, i)
		}
		if v.NeedLock {
			refs = append(refs, PersonRef{claims[i].Workspace, claims[i].Contact})
		}
		if v.NeedPace {
			channels = append(channels, PaceRef{claims[i].Workspace, claims[i].Channel})
		}
	}
	if len(odd) == 0 {
		return verdicts, nil
	}
	locked, err := t.lockPersons(ctx, now, refs)
	if err != nil {
		return nil, err
	}
	paces, err := t.lockPaces(ctx, channels)
	if err != nil {
		return nil, err
	}
	again := make([]Claim, len(odd))
	for n, i := range odd {
		c := &claims[i]
		if verdicts[i].NeedLock {
			c.Person = locked[PersonRef{c.Workspace, c.Contact}]
		}
		if verdicts[i].NeedPace {
			pace := paces[PaceRef{c.Workspace, c.Channel}]
			c.Pace = &pace
		}
		again[n] = *c
	}
	second, err := ask(again, true)
	if err != nil {
		return nil, err
	}
	for n, i := range odd {
		if second[n].NeedLock || second[n].NeedPace { // it would go out undecided
			return nil, fmt.Errorf("%w: a lock is wanted again for delivery %d", ErrInvalid, claims[i].ID)
		}
		verdicts[i] = second[n]
	}
	return verdicts, nil
}

func (t *session) commitIntents(ctx context.Context, now time.Time, claims []Claim, verdicts []IntentVerdict) ([]Claim, error) {
	send := make([]Claim, 0, len(claims))
	var moves rowset
	var attempts []delivery.Attempt
	paces := map[PaceRef]flow.Pace{}
	for i, v := range verdicts {
		attempts = append(attempts, v.Attempts...)
		c := claims[i]
		if v.Pace != nil {
			paces[PaceRef{c.Workspace, c.Channel}] = *v.Pace
		}
		if v.Move == nil {
			send = append(send, c)
			continue
		}
		if c = moved(c, *v.Move, now); v.Move.Send {
			send = append(send, c)
		} else {
			t.dueDelivery(c.Row)
		}
		if err := checkDelivery(c.Row, c.Workspace); err != nil {
			return nil, err
		}
		moves.row().int(int64(c.Workspace)).int(int64(c.ID)).text(string(c.Status)).int(dueMicros(c.SendAt)).int(dueMicros(c.Slot)).
			int(dueMicros(c.ExpiresAt)).text(string(c.DeferredBy)).text(string(c.Reason)).time(c.LeaseUntil).int(int64(c.AttemptNo)).
			time(c.IntentAt).int(int64(c.Step)).int(int64(c.RemindersRemaining)).text(c.Trace).time(c.CompletedAt).
			time(c.DoubtAt).int(dueMicros(c.DueAt))
	}
	if _, err := t.exec(ctx, moveClaims, &moves); err != nil {
		return nil, fmt.Errorf("move claims: %w", err)
	}
	if err := t.updatePaces(ctx, paces); err != nil {
		return nil, err
	}
	return send, t.insertAttempts(ctx, attempts)
}

// moved is the claim as its move leaves it.
func moved(c Claim, m IntentMove, now time.Time) Claim {
	c.Status, c.SendAt, c.Slot, c.ExpiresAt, c.DeferredBy, c.Reason = m.Status, m.SendAt, m.Slot, m.ExpiresAt, m.DeferredBy, m.Reason
	if !c.SendAt.IsZero() {
		c.ExpiresAt = time.Time{}
	}
	c.AttemptNo, c.Step, c.RemindersRemaining, c.DoubtAt, c.DueAt = m.AttemptNo, m.Step, m.Remaining, m.DoubtAt, m.DueAt
	if m.Trace != "" {
		c.Trace = m.Trace
	}
	if m.Completed {
		c.CompletedAt = now
	}
	if !m.Send {
		c.LeaseUntil, c.IntentAt = m.LeaseUntil, time.Time{}
	}
	return c
}
