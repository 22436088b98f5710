package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/subject"
)

// The claim is the intent. It changes no indexed column, so that the row keeps its place in the indexes. intent_at is set
// only while an attempt is open. Its value before the claim shows an attempt whose result was never written, and the message
// may have arrived, so unknown_since is set. (SQLite: RETURNING sees the updated table only, so the old value is kept in a
// column.)
//
// Rows of a lower priority are read only as far as those of higher ones leave room.
const claimDeliveries = `
WITH urgent AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = -1 AND send_at <= $1 AND (send_at, id) > ($4, $5) AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $2
  /*SKIP LOCKED*/),
transactional AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = 0 AND send_at <= $1 AND (send_at, id) > ($6, $7) AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $2 - (SELECT COUNT(*) FROM urgent)
  /*SKIP LOCKED*/),
immediate AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = 1 AND send_at <= $1 AND (send_at, id) > ($8, $9) AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $2 - (SELECT COUNT(*) FROM urgent) - (SELECT COUNT(*) FROM transactional)
  /*SKIP LOCKED*/),
digest AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = 2 AND send_at <= $1 AND (send_at, id) > ($10, $11) AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $2 - (SELECT COUNT(*) FROM urgent) - (SELECT COUNT(*) FROM transactional) - (SELECT COUNT(*) FROM immediate)
  /*SKIP LOCKED*/),
due AS MATERIALIZED (
  SELECT ws, id FROM urgent UNION ALL SELECT ws, id FROM transactional UNION ALL SELECT ws, id FROM immediate UNION ALL SELECT ws, id FROM digest)
` + takeUpDue

// priorities is how many there are. The statements name each by its number.
const priorities = 4

const takeUpDue = `UPDATE delivery SET lease_until = $3, version = delivery.version + 1, attempt_no = delivery.attempt_no + 1,
  lost_intent = delivery.intent_at, intent_at = $1,
  unknown_since = CASE WHEN delivery.unknown_since = 0 THEN delivery.intent_at ELSE delivery.unknown_since END
FROM due
WHERE delivery.ws = due.ws AND delivery.id = due.id
RETURNING /*NAMES delivery (` + deliverySpec + `)*/, delivery.lost_intent, ` + pausedSinceDelivery + `, ` + cancelledSince

// Further due deliveries of persons who are locked, and those that wait for a channel whose provider is away, in a slot that
// is not ahead. A delivery that another worker holds is left out: that worker decides about it once it has the lock.
const claimBeside = `
WITH due AS MATERIALIZED (
  SELECT d.ws, d.id FROM /*ROWS $5 (ws bigint, id bigint, kind text)*/ AS r CROSS JOIN delivery AS d
  WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot >= $4 AND d.slot <= $1 AND d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` AND d.lease_until <= $1
    AND (d.send_at <= $1 OR d.hold = ` + sqlHoldChannelDown + `)
    AND (d.channel = r.kind OR substr(d.channel, 1, length(r.kind) + 1) = r.kind || ':')
  ORDER BY d.not_before, d.id
  LIMIT $2
  /*SKIP LOCKED d*/)
` + takeUpDue

const moveClaims = `
UPDATE delivery SET status = r.status, send_at = r.send_at, hold = r.hold, slot = r.slot, expires_at = r.expires_at, deferred_by = r.deferred_by,
  reason = r.reason, lease_until = r.lease_until, attempt_no = r.attempt_no, intent_at = r.intent_at, step = r.step,
  reminders_remaining = r.reminders_remaining, trace = r.trace, completed_at = r.completed_at, unknown_since = r.unknown_since, due_at = r.due_at,
  eligible_at = r.eligible_at, fold = r.fold, folded_into = r.folded_into, address = r.address, survey_set = r.survey_set, message = r.message,
  asks = r.asks
FROM /*ROWS $1 (ws bigint, id bigint, status text, send_at bigint, hold text, slot bigint, expires_at bigint, deferred_by text, reason text,
  lease_until bigint, attempt_no bigint, intent_at bigint, step bigint, reminders_remaining bigint, trace text, completed_at bigint,
  unknown_since bigint, due_at bigint, eligible_at bigint, fold text, folded_into bigint, address text, survey_set bigint, message bigint,
  asks text)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id`

// The contacts of an address: the one that has it, and the one that was made for it.
const ownersOfAddresses = `
SELECT r.n, COALESCE((SELECT a.contact_id FROM address AS a WHERE a.ws = r.ws AND a.hash = r.hash), 0),
  COALESCE((SELECT x.id FROM contact AS x WHERE /*BY NAME*/x.ws = r.ws AND x.ext_id = '` + subject.MadePrefix + `' || r.hash), 0)
FROM /*ROWS $1 (n bigint, ws bigint, hash text)*/ AS r`

// ClaimDueDeliveries claims up to limit due deliveries of all workspaces until leaseUntil and opens their intents. It returns
// them with their persons, who are read without a lock, in the order of their priorities, slots (else send_at) and ids.
func (t *Tx) ClaimDueDeliveries(now, leaseUntil time.Time, limit int) ([]delivery.Claim, error) {
	t.claimed = map[deliveryRef]bool{}
	inTurn, err := t.claimInTurn(now, leaseUntil, limit)
	if err != nil {
		return nil, err
	}
	claims, err := t.claimInOrder(now, leaseUntil, limit-len(inTurn))
	if err != nil {
		return nil, err
	}
	if len(inTurn) == 0 && len(claims) == limit {
		if err := t.beginTurns(now, lowest(claims)); err != nil {
			return nil, err
		}
	}
	if len(inTurn) > 0 {
		claims = append(inTurn, claims...)
	}
	refs := make([]delivery.PersonRef, len(claims))
	for i, c := range claims {
		refs[i] = delivery.PersonRef{Workspace: c.Workspace, ID: c.Contact}
		t.claimed[deliveryRef{c.Workspace, c.ID}] = true
	}
	persons, err := t.readPersons(refs)
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		claims[i].Person = persons[delivery.PersonRef{Workspace: c.Workspace, ID: c.Contact}]
	}
	if err := t.redirect(claims); err != nil {
		return nil, err
	}
	slices.SortFunc(claims, func(a, b delivery.Claim) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), order(a).Compare(order(b)), foldHeadsFirst(a, b), cmp.Compare(a.ID, b.ID))
	})
	return claims, nil
}

// claimInOrder claims what has been due longest of each priority, the highest one first.
func (t *Tx) claimInOrder(now, leaseUntil time.Time, limit int) ([]delivery.Claim, error) {
	if limit == 0 {
		return nil, nil
	}
	claims, err := takeUpParts(t, t.s.dueOfPriorities(), dueMicros(now), limit, func(from []scanPosition) ([]delivery.Claim, []partRead, error) {
		args := []any{dueMicros(now), int64(limit), micros(leaseUntil)}
		claims, err := query(t, scanClaim, claimDeliveries, append(args, positions(from)...)...)
		of := make([]partRead, priorities)
		for _, c := range claims {
			one := &of[c.Priority-flow.Urgent]
			one.rows, one.last = one.rows+1, later(one.last, scanPosition{dueMicros(c.SendAt), int64(c.ID)}) // RETURNING promises no order
		}
		return claims, of, err
	})
	if err != nil {
		return nil, fmt.Errorf("claim due deliveries: %w", err)
	}
	return claims, nil
}

// dueOfPriorities returns the cursors of due deliveries, by their priorities.
func (s *Store) dueOfPriorities() []*scanCursor {
	of := make([]*scanCursor, priorities)
	for i := range of {
		of[i] = &s.dueDeliveries[i]
	}
	return of
}

// positions are the arguments of a statement that reads past some.
func positions(list []scanPosition) []any {
	args := make([]any, 0, 2*len(list))
	for _, p := range list {
		args = append(args, p.at, p.id)
	}
	return args
}

func scanClaim(rows *sql.Rows) (c delivery.Claim, err error) {
	err = deliveryColumns.scanInto(&c.Row, rows, instant{&c.LostIntent}, instant{&c.PausedAt}, instant{&c.CancelledAt})
	return c, err
}

func order(c delivery.Claim) time.Time {
	if c.Slot.IsZero() {
		return c.SendAt
	}
	return c.Slot
}

// foldHeadsFirst orders fold heads before other claims.
func foldHeadsFirst(a, b delivery.Claim) int {
	switch {
	case a.IsFoldHead() == b.IsFoldHead():
		return 0
	case a.IsFoldHead():
		return -1
	}
	return 1
}

// mostBeside bounds the claims of ClaimBeside; no real contact has more due at once.
const mostBeside = 1000

// ClaimBeside claims further deliveries of persons who are locked, on channels of a kind, whose slot is not ahead and that are
// due or wait for a channel whose provider is away. Their Person is not set.
func (t *Tx) ClaimBeside(now, leaseUntil time.Time, of []delivery.PersonKind) ([]delivery.Claim, error) {
	var rows rowset
	for _, of := range slices.SortedFunc(slices.Values(of), func(a, b delivery.PersonKind) int {
		return cmp.Or(comparePersonRef(a.PersonRef, b.PersonRef), cmp.Compare(a.Kind, b.Kind))
	}) {
		rows.row().int(int64(of.Workspace)).int(int64(of.ID)).text(of.Kind)
	}
	claims, err := query(t, scanClaim, claimBeside, dueMicros(now), int64(mostBeside), micros(leaseUntil), max(dueMicros(now.Add(-slotHistory)), 1), &rows)
	if err != nil {
		return nil, fmt.Errorf("claim what is due beside: %w", err)
	}
	for _, c := range claims {
		t.claimed[deliveryRef{c.Workspace, c.ID}] = true
	}
	return claims, nil
}

// OwnersOf finds the contacts of addresses.
func (t *Tx) OwnersOf(addresses []delivery.AddressRef) (map[delivery.AddressRef][]delivery.PersonRef, error) {
	var wanted rowset
	for i, a := range addresses {
		wanted.row().int(int64(i)).int(int64(a.Workspace)).text(a.Hash)
	}
	owners := make(map[delivery.AddressRef][]delivery.PersonRef, len(addresses))
	_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var i int
		var ids [2]subject.ContactID
		err = rows.Scan(&i, &ids[0], &ids[1])
		for _, id := range ids {
			if of := addresses[i]; id != 0 {
				owners[of] = append(owners[of], delivery.PersonRef{Workspace: of.Workspace, ID: id})
			}
		}
		return none, err
	}, ownersOfAddresses, &wanted)
	if err != nil {
		return nil, fmt.Errorf("find the owners of addresses: %w", err)
	}
	return owners, nil
}

// LockPersons locks persons until the transaction ends and reads them with their slots since floor.
func (t *Tx) LockPersons(now time.Time, refs []delivery.PersonRef, floor Floor) (map[delivery.PersonRef]delivery.Person, error) {
	persons, err := t.lockPersons(now, refs, floor)
	for ref := range persons {
		if t.lastPerson == (delivery.PersonRef{}) || comparePersonRef(t.lastPerson, ref) < 0 {
			t.lastPerson = ref
		}
	}
	return persons, err
}

// MayLock reports whether persons can be locked in the order that all transactions keep: after those that LockPersons has
// locked. Where no rows are locked, that is always so.
func (t *Tx) MayLock(refs []delivery.PersonRef) bool {
	return t.s.dialect.lock == "" || !slices.ContainsFunc(refs, func(ref delivery.PersonRef) bool { return comparePersonRef(ref, t.lastPerson) < 0 })
}

// ReadSlots reads the slots of persons since floor into persons, without a lock.
func (t *Tx) ReadSlots(now time.Time, persons map[delivery.PersonRef]delivery.Person, floor Floor) error {
	return t.readSlots(now, persons, floor)
}

// ClaimWrites is what is written about claimed deliveries.
type ClaimWrites struct {
	Claims    []delivery.Row // new values of claims; one that is not sent has no intent
	Folded    []delivery.Row // new values of locked deliveries that leave with a claim
	Fallbacks []delivery.Row // new deliveries; one that exists already is left out
	Attempts  []delivery.Attempt
	PastSlots []delivery.PastSlot
	Paces     map[delivery.PaceRef]flow.Pace      // of locked channels
	Sends     map[delivery.WorkflowRef]flow.Sends // of locked counts
	TooFast   []TooFast                           // workflows that are paused
	Refolds   []delivery.Refold
}

// SaveClaims writes decisions about claims.
func (t *Tx) SaveClaims(now time.Time, w ClaimWrites) error {
	var moves rowset
	parked := map[pauseRef]bool{}
	for _, d := range w.Claims {
		if err := checkDelivery(d, d.Workspace); err != nil {
			return err
		}
		if d.Parked() {
			parked[pauseRef{d.Workspace, d.Workflow}] = true
		}
		if d.IntentAt.IsZero() {
			t.dueDelivery(d)
			t.ended(now, d)
			t.told(now, d)
		}
		moves.row().int(int64(d.Workspace)).int(int64(d.ID)).text(string(d.Status)).int(dueMicros(d.SendAt)).text(string(d.Hold)).int(dueMicros(d.Slot)).
			int(dueMicros(d.ExpiresAt)).text(string(d.DeferredBy)).text(string(d.Reason)).time(d.LeaseUntil).int(int64(d.AttemptNo)).
			time(d.IntentAt).int(int64(d.Step)).int(int64(d.RemindersRemaining)).text(d.Trace).time(d.CompletedAt).
			time(d.UnknownSince).int(dueMicros(d.DueAt)).int(eligibleMicros(d)).text(string(d.Fold)).int(int64(d.FoldedInto)).text(d.Address).int(d.SurveySet).int(int64(d.Message)).text(d.Asks)
	}
	for _, d := range w.Fallbacks {
		if err := checkDelivery(d, d.Workspace); err != nil {
			return err
		}
	}
	if err := t.updateSends(w.Sends); err != nil {
		return err
	}
	if err := t.pauseTooFast(now, w.TooFast); err != nil {
		return err
	}
	if err := t.park(parked); err != nil {
		return err
	}
	if _, err := t.exec(moveClaims, &moves); err != nil {
		return fmt.Errorf("move claims: %w", err)
	}
	if err := t.updatePaces(w.Paces); err != nil {
		return err
	}
	if err := t.insertPastSlots(w.PastSlots); err != nil {
		return err
	}
	if _, err := t.insertDeliveries(w.Fallbacks); err != nil {
		return err
	}
	if err := t.insertAttempts(w.Attempts); err != nil {
		return err
	}
	if err := t.endWaiting(w.Folded); err != nil {
		return err
	}
	return t.refold(now, w.Refolds)
}
