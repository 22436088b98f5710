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
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// The claim is the intent. It changes no indexed column, so that the row keeps its place in the indexes. intent_at is set
// only while an attempt is open. Its value before the claim shows an attempt whose result was never written, and the message
// may have arrived, so doubt_at is set. (SQLite: RETURNING sees the updated table only, so the old value is kept in a
// column.)
const claimDeliveries = `
WITH due AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE send_at > 0 AND send_at <= $1 AND (send_at, id) > ($4, $5) AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $2
  /*SKIP LOCKED*/)
` + takeUpDue

const takeUpDue = `UPDATE delivery SET lease_until = $3, version = delivery.version + 1, attempt_no = delivery.attempt_no + 1,
  lost_intent = delivery.intent_at, intent_at = $1,
  doubt_at = CASE WHEN delivery.doubt_at = 0 THEN delivery.intent_at ELSE delivery.doubt_at END
FROM due
WHERE delivery.ws = due.ws AND delivery.id = due.id
RETURNING /*NAMES delivery (` + deliverySpec + `)*/, delivery.lost_intent, ` + pausedSinceDelivery

// Further due deliveries of persons who are locked, and those that wait for a channel whose provider is away, in a slot that
// is not ahead. A delivery that another worker holds is left out: that worker decides about it once it has the lock.
const claimBeside = `
WITH due AS MATERIALIZED (
  SELECT d.ws, d.id FROM /*ROWS $5 (ws bigint, id bigint, kind text)*/ AS r CROSS JOIN delivery AS d
  WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot >= $4 AND d.slot <= $1 AND d.send_at > 0 AND d.lease_until <= $1
    AND (d.send_at <= $1 OR d.reason = '` + string(reason.ChannelDown) + `')
    AND (d.channel = r.kind OR substr(d.channel, 1, length(r.kind) + 1) = r.kind || ':')
  ORDER BY d.not_before, d.id
  LIMIT $2
  /*SKIP LOCKED d*/)
` + takeUpDue

const moveClaims = `
UPDATE delivery SET status = r.status, send_at = r.send_at, slot = r.slot, expires_at = r.expires_at, deferred_by = r.deferred_by,
  reason = r.reason, lease_until = r.lease_until, attempt_no = r.attempt_no, intent_at = r.intent_at, step = r.step,
  reminders_remaining = r.reminders_remaining, trace = r.trace, completed_at = r.completed_at, doubt_at = r.doubt_at, due_at = r.due_at,
  eligible_at = r.eligible_at, folded_into = r.folded_into, address = r.address
FROM /*ROWS $1 (ws bigint, id bigint, status text, send_at bigint, slot bigint, expires_at bigint, deferred_by text, reason text,
  lease_until bigint, attempt_no bigint, intent_at bigint, step bigint, reminders_remaining bigint, trace text, completed_at bigint,
  doubt_at bigint, due_at bigint, eligible_at bigint, folded_into bigint, address text)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id`

// The contacts of an address: the one that has it, and the one that was made for it.
const ownersOfAddresses = `
SELECT r.n, COALESCE((SELECT a.contact_id FROM address AS a WHERE a.ws = r.ws AND a.hash = r.hash), 0),
  COALESCE((SELECT x.id FROM contact AS x WHERE /*BY NAME*/x.ws = r.ws AND x.ext_id = '` + subject.MadePrefix + `' || r.hash), 0)
FROM /*ROWS $1 (n bigint, ws bigint, hash text)*/ AS r`

// CommitIntents claims up to limit due deliveries of all workspaces until leaseUntil, commits the intent to send them, and
// returns those to send now, in the order of their slots (else send_at) and ids.
//
// decide is called in every try: with no claims if there are none, else with every claim and its person, read without a
// lock. It is called again for claims whose verdict has NeedSlots, with the person's slots; NeedLock, with the person locked
// and the slots; or NeedPace, with the pace of the channel locked. NeedDue adds claims to the next call. Slots of a person
// are all slots taken since floor, the claim's own included: the decision ignores one slot of the claim's instant, type and
// channel. A claim that is moved without Send loses its intent, and its lease unless the move sets another.
func (s *Store) CommitIntents(
	ctx context.Context, now, leaseUntil time.Time, limit int, floor Floor,
	decide func(claims []Claim, again bool) ([]IntentVerdict, error),
) ([]Claim, error) {
	var send []Claim
	early := map[PersonRef]bool{}
	err := s.Write(ctx, func(t *Tx) error {
		send = nil // drop what a try that was not committed would have sent
		t.claimed = map[deliveryRef]bool{}
		claims, err := t.claim(now, leaseUntil, limit)
		if err != nil {
			return err
		}
		if len(claims) == 0 {
			_, err = decide(nil, false)
			return err
		}
		d := intents{Tx: t, now: now, leaseUntil: leaseUntil, claims: claims, floor: floor, early: early, held: map[PersonRef]bool{}}
		if err := d.decide(decide); err != nil {
			return err
		}
		send, err = t.commitIntents(now, d.claims, d.verdicts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit intents: %w", err)
	}
	return send, nil
}

func (t *Tx) claim(now, leaseUntil time.Time, limit int) ([]Claim, error) {
	claims, err := takeUp(t, &t.s.dueDeliveries, dueMicros(now), limit, func(from scanPosition) ([]Claim, scanPosition, error) {
		var last scanPosition
		claims, err := query(t, scanClaim, claimDeliveries, dueMicros(now), int64(limit), micros(leaseUntil), from.at, from.id)
		for _, c := range claims {
			last = later(last, scanPosition{dueMicros(c.SendAt), int64(c.ID)}) // RETURNING promises no order
		}
		return claims, last, err
	})
	if err != nil {
		return nil, fmt.Errorf("claim due deliveries: %w", err)
	}
	refs := make([]PersonRef, len(claims))
	for i, c := range claims {
		refs[i] = PersonRef{c.Workspace, c.Contact}
		t.claimed[deliveryRef{c.Workspace, c.ID}] = true
	}
	persons, err := t.readPersons(refs)
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		claims[i].Person = persons[PersonRef{c.Workspace, c.Contact}]
	}
	if err := t.redirect(claims); err != nil {
		return nil, err
	}
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(order(a).Compare(order(b)), foldHeadsFirst(a, b), cmp.Compare(a.ID, b.ID))
	})
	return claims, nil
}

func scanClaim(rows *sql.Rows) (c Claim, err error) {
	c.Row, err = deliveryColumns.scan(rows, instant{&c.LostIntent}, instant{&c.PausedAt})
	return c, err
}

func order(c Claim) time.Time {
	if c.Slot.IsZero() {
		return c.SendAt
	}
	return c.Slot
}

// foldHeadsFirst orders fold heads before other claims.
func foldHeadsFirst(a, b Claim) int {
	switch {
	case a.IsFoldHead() == b.IsFoldHead():
		return 0
	case a.IsFoldHead():
		return -1
	}
	return 1
}

const (
	// rounds bounds how often claims are decided: as read, with slots, under the lock, and once more for claims that were
	// added.
	rounds = 4
	// mostBeside bounds the claims that NeedDue adds; only people who get nothing but messages have more.
	mostBeside = 1000
)

// intents holds the claims of a transaction while they are decided.
type intents struct {
	*Tx
	now, leaseUntil time.Time
	claims          []Claim
	verdicts        []IntentVerdict
	floor           Floor
	early, held     map[PersonRef]bool // persons to lock first; persons that are locked
}

// decide asks until no verdict needs more. Persons are locked in one order by all transactions. A person who would have to
// be locked before ones that are locked already is added to early, and the transaction runs again with early locked first.
func (d *intents) decide(decide func(claims []Claim, again bool) ([]IntentVerdict, error)) error {
	d.verdicts = make([]IntentVerdict, len(d.claims))
	open := make([]int, len(d.claims)) // indexes of the claims that are not decided yet
	for i := range open {
		open[i] = i
	}
	for round := 1; ; round++ {
		ask := make([]Claim, len(open))
		for n, i := range open {
			ask[n] = d.claims[i]
		}
		answers, err := decide(ask, round > 1)
		if err == nil && len(answers) != len(ask) {
			err = fmt.Errorf("%w: verdicts on %d claims instead of %d", ErrInvalid, len(answers), len(ask))
		}
		if err != nil {
			return err
		}
		var odd []int
		for n, i := range open {
			if d.verdicts[i] = answers[n]; d.verdicts[i].Needs() {
				odd = append(odd, i)
			}
		}
		if len(odd) == 0 {
			return nil
		}
		if round == rounds { // it would be sent undecided
			return fmt.Errorf("%w: more is wanted again for delivery %d", ErrInvalid, d.claims[odd[0]].ID)
		}
		if err := d.supply(odd); err != nil {
			return err
		}
		open = odd
		beside, err := d.claimBeside(odd)
		if err != nil {
			return err
		}
		for _, c := range beside {
			open = append(open, len(d.claims))
			d.claims, d.verdicts = append(d.claims, c), append(d.verdicts, IntentVerdict{})
		}
	}
}

// claimBeside claims the deliveries that NeedDue asks for. Their persons are locked.
func (d *intents) claimBeside(odd []int) ([]Claim, error) {
	type holder struct {
		PersonRef
		kind string
	}
	persons, wanted := map[PersonRef]Person{}, map[holder]bool{}
	for _, i := range odd {
		if kind, c := d.verdicts[i].NeedDue, d.claims[i]; kind != "" && c.Person.Locked {
			ref := PersonRef{c.Workspace, c.Contact}
			persons[ref], wanted[holder{ref, kind}] = c.Person, true
		}
	}
	var rows rowset
	for _, of := range slices.SortedFunc(maps.Keys(wanted), func(a, b holder) int {
		return cmp.Or(comparePersonRef(a.PersonRef, b.PersonRef), cmp.Compare(a.kind, b.kind))
	}) {
		rows.row().int(int64(of.Workspace)).int(int64(of.ID)).text(of.kind)
	}
	claims, err := query(d.Tx, scanClaim, claimBeside, dueMicros(d.now), int64(mostBeside), micros(d.leaseUntil),
		max(dueMicros(d.now.Add(-slotHistory)), 1), &rows)
	if err != nil {
		return nil, fmt.Errorf("claim what is due beside: %w", err)
	}
	for i, c := range claims {
		d.claimed[deliveryRef{c.Workspace, c.ID}] = true
		claims[i].Person = persons[PersonRef{c.Workspace, c.Contact}]
	}
	return claims, nil
}

// Needs reports whether the decision asks for more data.
func (v IntentVerdict) Needs() bool {
	return v.NeedLock || v.NeedSlots || v.NeedPace || v.NeedDue != "" || v.NeedAddress != ""
}

// outOfOrder reports whether a person to lock comes before one who is locked.
func outOfOrder(lock []PersonRef, held map[PersonRef]bool) bool {
	if len(held) == 0 {
		return false
	}
	last := slices.MaxFunc(slices.Collect(maps.Keys(held)), comparePersonRef)
	return slices.ContainsFunc(lock, func(ref PersonRef) bool { return !held[ref] && comparePersonRef(ref, last) < 0 })
}

// supply reads what the verdicts of claims ask for.
func (d *intents) supply(odd []int) error {
	t, now, claims, verdicts, floor, early, held := d.Tx, d.now, d.claims, d.verdicts, d.floor, d.early, d.held
	var lock []PersonRef
	var channels []PaceRef
	persons := map[PersonRef]Person{} // whose slots are read without a lock
	for _, i := range odd {
		c, v := claims[i], verdicts[i]
		ref := PersonRef{c.Workspace, c.Contact}
		switch {
		case v.NeedLock, early[ref]:
			lock = append(lock, ref)
		case v.NeedSlots:
			persons[ref] = c.Person
		}
		if v.NeedPace {
			channels = append(channels, PaceRef{c.Workspace, c.Channel})
		}
	}
	owners, err := t.ownersOf(claims, verdicts, odd)
	if err != nil {
		return err
	}
	for _, list := range owners {
		lock = append(lock, list...) // in one statement with the others, to keep the order of locks
	}
	if len(held) == 0 {
		lock = slices.AppendSeq(lock, maps.Keys(early))
	}
	if t.s.dialect.lock != "" && outOfOrder(lock, held) {
		for _, ref := range lock {
			early[ref] = true
		}
		return ErrAgain
	}
	locked, err := t.lockPersons(now, lock, floor)
	if err != nil {
		return err
	}
	for i, list := range owners {
		claims[i].AddressRead = true
		claims[i].AddressStopped = slices.ContainsFunc(list, func(ref PersonRef) bool { return locked[ref].Suppressed })
	}
	for ref := range locked {
		held[ref] = true
		delete(persons, ref)
	}
	if err := t.readSlots(now, persons, floor); err != nil {
		return err
	}
	maps.Copy(persons, locked)
	if err := t.foldable(now, claims, verdicts, odd, persons); err != nil {
		return err
	}
	paces, err := t.lockPaces(channels)
	if err != nil {
		return err
	}
	for _, i := range odd {
		c, v := &claims[i], verdicts[i]
		if v.NeedLock || v.NeedSlots {
			c.Person = persons[PersonRef{c.Workspace, c.Contact}]
		}
		if v.NeedPace {
			pace := paces[PaceRef{c.Workspace, c.Channel}]
			c.Pace = &pace
		}
	}
	return nil
}

// ownersOf finds the contacts of the addresses that verdicts ask for, by the index of the claim.
func (t *Tx) ownersOf(claims []Claim, verdicts []IntentVerdict, odd []int) (map[int][]PersonRef, error) {
	var wanted rowset
	owners := map[int][]PersonRef{}
	for _, i := range odd {
		if hash := verdicts[i].NeedAddress; hash != "" {
			wanted.row().int(int64(i)).int(int64(claims[i].Workspace)).text(hash)
			owners[i] = nil
		}
	}
	_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var i int
		var ids [2]subject.ContactID
		err = rows.Scan(&i, &ids[0], &ids[1])
		for _, id := range ids {
			if id != 0 {
				owners[i] = append(owners[i], PersonRef{claims[i].Workspace, id})
			}
		}
		return none, err
	}, ownersOfAddresses, &wanted)
	if err != nil {
		return nil, fmt.Errorf("find whose addresses are: %w", err)
	}
	return owners, nil
}

func (t *Tx) commitIntents(now time.Time, claims []Claim, verdicts []IntentVerdict) ([]Claim, error) {
	send := make([]Claim, 0, len(claims))
	var moves rowset
	var attempts []delivery.Attempt
	var past []PastSlot
	var made []delivery.Row
	var folded []delivery.Row
	var inherit reassignment
	paces := map[PaceRef]flow.Pace{}
	parked := map[pauseRef]bool{}
	for i, v := range verdicts {
		folded = append(folded, v.Folded...)
		attempts = append(attempts, v.Attempts...)
		c := claims[i]
		if v.Past != nil {
			past = append(past, *v.Past)
		}
		if v.Fallback != nil {
			if err := checkDelivery(*v.Fallback, c.Workspace); err != nil {
				return nil, err
			}
			made = append(made, *v.Fallback)
		}
		if v.Pace != nil {
			paces[PaceRef{c.Workspace, c.Channel}] = *v.Pace
		}
		if v.Move == nil {
			send = append(send, c)
			continue
		}
		if c = moved(c, *v.Move, now); c.Parked() {
			parked[pauseRef{c.Workspace, c.Workflow}] = true
		}
		if v.Move.Send {
			send = append(send, c)
		} else {
			t.dueDelivery(c.Row)
			t.ended(now, c.Row)
		}
		if err := checkDelivery(c.Row, c.Workspace); err != nil {
			return nil, err
		}
		moves.row().int(int64(c.Workspace)).int(int64(c.ID)).text(string(c.Status)).int(dueMicros(c.SendAt)).int(dueMicros(c.Slot)).
			int(dueMicros(c.ExpiresAt)).text(string(c.DeferredBy)).text(string(c.Reason)).time(c.LeaseUntil).int(int64(c.AttemptNo)).
			time(c.IntentAt).int(int64(c.Step)).int(int64(c.RemindersRemaining)).text(c.Trace).time(c.CompletedAt).
			time(c.UnknownSince).int(dueMicros(c.DueAt)).int(eligibleMicros(c.Row)).int(int64(c.FoldedInto)).text(c.Address)
		inherit.left(claims[i], v, c.Row)
	}
	if err := t.park(parked); err != nil {
		return nil, err
	}
	if _, err := t.exec(moveClaims, &moves); err != nil {
		return nil, fmt.Errorf("move claims: %w", err)
	}
	if err := t.updatePaces(paces); err != nil {
		return nil, err
	}
	if err := t.insertPastSlots(past); err != nil {
		return nil, err
	}
	if _, err := t.insertDeliveries(made); err != nil {
		return nil, err
	}
	if err := t.insertAttempts(attempts); err != nil {
		return nil, err
	}
	if err := t.endWaiting(folded); err != nil {
		return nil, err
	}
	if err := t.settleReassignment(now, &inherit); err != nil {
		return nil, err
	}
	return send, t.withFolded(send)
}

// moved returns the claim after its move.
func moved(c Claim, m IntentMove, now time.Time) Claim {
	c.Status, c.SendAt, c.Slot, c.ExpiresAt, c.DeferredBy, c.Reason = m.Status, m.SendAt, m.Slot, m.ExpiresAt, m.DeferredBy, m.Reason
	if !c.SendAt.IsZero() {
		c.ExpiresAt = time.Time{}
	}
	c.AttemptNo, c.Step, c.RemindersRemaining, c.UnknownSince, c.DueAt, c.EligibleAt = m.AttemptNo, m.Step, m.Remaining, m.UnknownSince, m.DueAt, m.EligibleAt
	c.FoldedInto = m.FoldedInto
	if m.Address != "" {
		c.Address, c.OwnAddress = m.Address, true
	}
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
