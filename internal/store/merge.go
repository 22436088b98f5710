package store

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// A contact that was made for an address is merged into the contact that claims the address (R20), the survivor. A caller merges any contact into another
// one. Messages that were sent to the merged contact count in the survivor's limits, and waiting deliveries go to the survivor. After that only the merged
// contact's own row refers to it: until the survivor gives the address up for which it was made, or, if the survivor never had the address, until somebody
// names it.
//
//	event names X ──▶ addr:X ◀─ its deliveries and slots      claim: locks both, moves deliveries and slots,
//	write of ada, who has X ──▶ ada                           reschedules what waits (R5)
//
// The claim locks the contact, and so does every transaction that makes or sends a message for it; one that finds a merged
// contact under the lock runs again. A delivery for a later instant is made without the lock and may be late: its intent
// moves it to the survivor.

// SQLite takes the target of an UPDATE or DELETE first when it has no index on all columns that are joined, and reads all of the workspace. So the
// rows are found by a query whose order is given, and changed by their primary keys.
const dropAddresses = `
DELETE FROM address
WHERE (ws, hash) IN (SELECT a.ws, a.hash
  FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r CROSS JOIN address AS a
  WHERE a.ws = r.ws AND a.hash = r.hash AND a.contact_id = r.contact_id)`

const mergedForAddresses = `
SELECT r.ws, p.id, r.contact_id
FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = '` + subject.MadePrefix + `' || r.hash
  AND c.ws = p.ws AND c.contact_id = p.id AND c.merged_into = r.contact_id`

// A contact that gives an address up is no longer the survivor of the contact made for it, and keeps what was moved to it.
const unmerge = `
UPDATE cadence SET merged_into = 0
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id AND cadence.merged_into = r.survivor`

const claimAddresses = `
INSERT INTO address (ws, hash, contact_id)
SELECT r.ws, r.hash, r.contact_id FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r
WHERE true
ON CONFLICT (ws, hash) DO UPDATE SET contact_id = excluded.contact_id
WHERE EXISTS (
  SELECT 1 FROM contact AS x
  WHERE x.ws = address.ws AND x.id = address.contact_id AND x.ext_id = '` + subject.MadePrefix + `' || address.hash)`

// A separate statement: the statement that locks does not see contacts that were made while it waited.
const madeForAddresses = `
SELECT r.hash, a.contact_id, x.id, c.merged_into
FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r CROSS JOIN address AS a CROSS JOIN contact AS x CROSS JOIN cadence AS c
WHERE a.ws = r.ws AND a.hash = r.hash
  AND /*BY NAME*/x.ws = r.ws AND x.ext_id = '` + subject.MadePrefix + `' || r.hash
  AND c.ws = x.ws AND c.contact_id = x.id`

const mergeContacts = `
UPDATE cadence SET merged_into = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id`

// No contact is merged into one that is merged itself.
const mergeMerged = `
UPDATE cadence SET merged_into = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.merged_into = r.id AND cadence.merged_into > 0`

// An occasion reaches a person once on a channel. A delivery of the merged contact stays where it is if the survivor has one
// too.
const notTheSurvivors = `
  AND NOT EXISTS (SELECT 1 FROM delivery AS x WHERE x.instance_id = delivery.instance_id AND x.contact_id = r.survivor AND x.channel = delivery.channel
    AND x.topic_id = delivery.topic_id)`

const deliveriesOfMerged = `
SELECT d.ws, d.id, r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.contact_id = r.id`

// The version stays the same, so that a running attempt can still be settled.
const handDeliveries = `
UPDATE delivery SET contact_id = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id` + notTheSurvivors

const handPastSlots = `
UPDATE past_slot SET contact_id = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE past_slot.ws = r.ws AND past_slot.contact_id = r.id`

// Both have a delivery of an occasion, and only the merged contact's was sent, or is on its way: the survivor gets that one.
const toExchange = `
SELECT x.ws, x.id, d.id, d.contact_id, x.contact_id
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r CROSS JOIN delivery AS d CROSS JOIN delivery AS x
WHERE d.ws = r.ws AND d.contact_id = r.id AND (d.last_sent_at > 0 OR d.intent_at > 0 OR d.unknown_since > 0)
  AND x.instance_id = d.instance_id AND x.contact_id = r.survivor AND x.channel = d.channel AND x.topic_id = d.topic_id
  AND x.last_sent_at = 0 AND x.intent_at = 0 AND x.unknown_since = 0 AND d.session_turn = 0 AND x.session_turn = 0
ORDER BY x.id
/*LOCK NOW x*/`

const giveDeliveries = `
UPDATE delivery SET contact_id = r.contact_id
FROM /*ROWS $1 (ws bigint, id bigint, contact_id bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id`

// What a message of theirs is about to tell the merged contact, it tells the survivor.
const handDigests = `
UPDATE digest SET contact_id = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE digest.ws = r.ws AND digest.contact_id = r.id AND digest.open = 1`

const handAhead = `
INSERT INTO covered_ahead (ws, contact_id, topic_id, seq)
SELECT a.ws, r.survivor, a.topic_id, a.seq
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r CROSS JOIN covered_ahead AS a
WHERE a.ws = r.ws AND a.contact_id = r.id
ON CONFLICT DO NOTHING`

// A delivery that stays with the merged contact was sent to the same person, and counts in the survivor's limits.
const countWhatStays = `
INSERT INTO past_slot (ws, contact_id, slot, type, channel, delivery_id)
SELECT d.ws, r.survivor, d.slot, d.type, d.channel, d.id
FROM /*ROWS $2 (ws bigint, id bigint, survivor bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot > 0 AND d.slot <= $1
ON CONFLICT DO NOTHING`

const handClaims = handDeliveries + `
RETURNING delivery.ws, delivery.id`

// All transactions that wait here take the rows in one order, so that no two of them wait for each other.
const deliveriesOfNamed = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN delivery AS d
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id
  AND d.ws = p.ws AND d.contact_id = p.id AND (d.send_at > 0 OR d.status = ` + sqlScheduled + `)
ORDER BY d.id
`

// An intent locks a delivery first and its contact second. So a transaction that locks both waits for deliveries first. Once
// it holds the contacts, it runs again if another transaction holds a delivery.
const (
	lockDeliveriesOf    = deliveriesOfNamed + `/*LOCK d*/`
	lockDeliveriesOfNow = deliveriesOfNamed + `/*LOCK NOW d*/`
)

// LockDeliveriesOf waits for and locks the deliveries of contacts that can still be sent. The contacts are locked after them.
func (t *Tx) LockDeliveriesOf(ws subject.WorkspaceID, ids []string) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, lockDeliveriesOf, contactsNamed(ws, ids))
	if err != nil {
		return nil, fmt.Errorf("lock deliveries: %w", err)
	}
	return rows, nil
}

// LockDeliveriesOfNow is LockDeliveriesOf once the contacts are locked. If another transaction holds one of the deliveries,
// this one runs again.
func (t *Tx) LockDeliveriesOfNow(ws subject.WorkspaceID, ids []string) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, lockDeliveriesOfNow, contactsNamed(ws, ids))
	switch {
	case err == nil:
		return rows, nil
	case t.s.dialect.busy(err):
		return nil, ErrAgain
	}
	return nil, fmt.Errorf("lock deliveries: %w", err)
}

func contactsNamed(ws subject.WorkspaceID, ids []string) *rowset {
	var rows rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		rows.row().int(int64(ws)).text(id)
	}
	return &rows
}

const survivorsOf = `
SELECT CASE WHEN c.merged_into > 0 THEN COALESCE((SELECT h.ext_id FROM contact AS h WHERE h.ws = c.ws AND h.id = c.merged_into), p.ext_id) ELSE p.ext_id END
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id AND c.ws = p.ws AND c.contact_id = p.id`

// Survivors returns the ids of the contacts that exist of those named: of merged ones the ids of their survivors. In no order.
func (t *Tx) Survivors(ws subject.WorkspaceID, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := query(t, scanText, survivorsOf, contactsNamed(ws, ids))
	if err != nil {
		return nil, fmt.Errorf("find survivors: %w", err)
	}
	return found, nil
}

const survivorByID = `
SELECT CASE WHEN c.merged_into > 0 THEN c.merged_into ELSE c.contact_id END FROM cadence AS c
WHERE c.ws = $1 AND c.contact_id = $2`

// survivor returns the id of a contact, or of the survivor into whom they are merged; none: they are no more.
func (t *Tx) survivor(ws subject.WorkspaceID, id subject.ContactID) ([]subject.ContactID, error) {
	ids, err := query(t, func(rows *sql.Rows) (id subject.ContactID, err error) { return id, rows.Scan(integer(&id)) }, survivorByID, int64(ws), int64(id))
	if err != nil {
		return nil, fmt.Errorf("find the survivor of a merge: %w", err)
	}
	return ids, nil
}

const mergedOf = `
SELECT x.ext_id
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c CROSS JOIN contact AS x
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id
  AND c.ws = p.ws AND c.merged_into = p.id AND c.merged_into > 0
  AND x.ws = c.ws AND x.id = c.contact_id`

// Merged returns the ids of the contacts that are merged into those named. In no order.
func (t *Tx) Merged(ws subject.WorkspaceID, into []string) ([]string, error) {
	found, err := query(t, scanText, mergedOf, contactsNamed(ws, into))
	if err != nil {
		return nil, fmt.Errorf("find merged contacts: %w", err)
	}
	return found, nil
}

// made returns the ids that were made for addresses.
func made(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, subject.MadePrefix) })
}

// Merges is what merges of contacts did.
type Merges struct {
	Survivors     []delivery.PersonRef
	Subscriptions []topic.Change
}

// merging is a contact that is merged into a survivor. Both are locked.
type merging struct {
	extID        string
	id, survivor subject.ContactID
}

// MergeContact merges a contact into another one, the survivor, and writes both. The survivor claims the addresses that its write has. known are the
// contacts that are locked. missing are the ids of further contacts that must be locked when the transaction runs again.
func (t *Tx) MergeContact(ws subject.WorkspaceID, now time.Time, known map[string]subject.ContactRow, from, into string, writes []ContactWrite) (m Merges, missing []string, err error) {
	claims, err := t.writeContacts(ws, now, writes)
	if err != nil {
		return m, nil, err
	}
	return t.mergeInto(ws, now, claims, known, merging{from, known[from].ID, known[into].ID})
}

// mergeInto merges into each contact the ones that were made for the addresses it claims, unless a contact with an id of the
// caller's owns the address, and then those that a caller merges. known are the contacts that are locked. missing are the ids of
// further contacts that must be locked, if the transaction has to run again.
func (t *Tx) mergeInto(ws subject.WorkspaceID, now time.Time, claims map[string]subject.ContactID, known map[string]subject.ContactRow, asked ...merging) (m Merges, missing []string, err error) {
	standIns, missing, err := t.claimAll(ws, claims, known)
	if err != nil {
		return m, missing, err
	}
	var rounds []*rowset // one for each contact that is merged into the same survivor
	var ids []string
	merged := map[subject.ContactID]subject.ContactID{} // the survivor of each
	nth := map[subject.ContactID]int{}
	for _, s := range append(standIns, asked...) {
		if merged[s.id] != 0 {
			continue // it is merged by its address
		}
		n := nth[s.survivor]
		if nth[s.survivor]++; n == len(rounds) {
			rounds = append(rounds, new(rowset))
		}
		rounds[n].row().int(int64(ws)).int(int64(s.id)).int(int64(s.survivor))
		merged[s.id] = s.survivor
		ids, m.Survivors = append(ids, s.extID), append(m.Survivors, delivery.PersonRef{Workspace: ws, ID: s.survivor})
	}
	if _, err := t.LockDeliveriesOfNow(ws, ids); err != nil {
		return m, nil, err
	}
	for _, round := range rounds {
		if err := t.reassignRows(now, round); err != nil {
			return m, nil, err
		}
	}
	m.Subscriptions, err = t.mergeSubscriptions(ws, now, merged)
	return m, nil, err
}

// claimAll has contacts claim addresses, and returns the contacts that were made for them and have to be merged.
func (t *Tx) claimAll(ws subject.WorkspaceID, claims map[string]subject.ContactID, known map[string]subject.ContactRow) (list []merging, missing []string, err error) {
	var claim rowset
	for _, hash := range slices.Sorted(maps.Keys(claims)) {
		claim.row().int(int64(ws)).text(hash).int(int64(claims[hash]))
	}
	if _, err := t.exec(claimAddresses, &claim); err != nil {
		return nil, nil, fmt.Errorf("claim addresses of contacts: %w", err)
	}
	type standIn struct {
		hash               string
		owner, id, present subject.ContactID
	}
	found, err := query(t, func(rows *sql.Rows) (s standIn, err error) {
		return s, rows.Scan(&s.hash, &s.owner, &s.id, &s.present)
	}, madeForAddresses, &claim)
	if err != nil {
		return nil, nil, fmt.Errorf("find who was made for addresses: %w", err)
	}
	for _, s := range found {
		id, survivor := subject.MadePrefix+s.hash, claims[s.hash]
		if s.owner != survivor && s.owner != s.id || s.present == survivor || s.id == survivor {
			continue // the address belongs to another contact, or the contact is merged already, or is the survivor
		}
		if _, locked := known[id]; !locked || s.owner == s.id {
			missing = append(missing, id)
			continue
		}
		list = append(list, merging{id, s.id, survivor})
	}
	if len(missing) > 0 {
		return nil, missing, ErrAgain
	}
	return list, nil, nil
}

// exchange gives survivors the deliveries of merged contacts that were sent, where they have some of the same occasions that were not.
func (t *Tx) exchange(merged *rowset) error {
	var parked, given, taken rowset // no contact has two at any time
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ws, own, sent, from, survivor int64
		err := rows.Scan(&ws, &own, &sent, &from, &survivor)
		parked.row().int(ws).int(own).int(-survivor)
		given.row().int(ws).int(sent).int(survivor)
		taken.row().int(ws).int(own).int(from)
		return struct{}{}, err
	}, toExchange, merged)
	if err != nil {
		if t.s.dialect.busy(err) {
			return ErrAgain
		}
		return fmt.Errorf("find what was sent of both: %w", err)
	}
	for _, rows := range []*rowset{&parked, &given, &taken} {
		if _, err := t.exec(giveDeliveries, rows); err != nil {
			return fmt.Errorf("exchange deliveries: %w", err)
		}
	}
	return nil
}

func (t *Tx) reassignRows(now time.Time, merged *rowset) error {
	if err := t.exchange(merged); err != nil {
		return err
	}
	deliveries, err := t.rowsOf(deliveriesOfMerged, merged)
	if err != nil {
		return fmt.Errorf("merge contacts: %w", err)
	}
	for _, change := range []struct {
		text string
		rows *rowset
	}{{mergeContacts, merged}, {mergeMerged, merged}, {handDeliveries, deliveries}, {handPastSlots, merged}, {handMembers, merged}, {handDigests, merged}, {handAhead, merged}, {mergeRequests, merged}} {
		_, err := t.exec(change.text, change.rows)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == uniqueViolation {
			return ErrAgain // a fallback of a failed message was made for the survivor meanwhile
		}
		if err != nil {
			return fmt.Errorf("merge contacts: %w", err)
		}
	}
	if _, err := t.exec(countWhatStays, dueMicros(now), merged); err != nil {
		return fmt.Errorf("merge contacts: %w", err)
	}
	return t.mergeSessions(now, merged)
}

// dropAddresses has contacts give addresses up.
func (t *Tx) dropAddresses(drop *rowset) error {
	merged, err := t.rowsOf(mergedForAddresses, drop)
	if err != nil {
		return err
	}
	if _, err := t.exec(dropAddresses, drop); err != nil {
		return err
	}
	_, err = t.exec(unmerge, merged)
	return err
}

// rowsOf reads rows of a workspace, an id and a survivor.
func (t *Tx) rowsOf(text string, by *rowset) (*rowset, error) {
	found := &rowset{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ws, id, survivor int64
		err := rows.Scan(&ws, &id, &survivor)
		found.row().int(ws).int(id).int(survivor)
		return struct{}{}, err
	}, text, by)
	return found, err
}

// redirect moves claims to the survivor if their contact was merged between the claim and the lock.
func (t *Tx) redirect(claims []delivery.Claim) error {
	var late rowset
	var survivors []delivery.PersonRef
	at := map[deliveryRef]int{}
	for i, c := range claims {
		if survivor := c.Person.MergedInto; survivor != 0 {
			late.row().int(int64(c.Workspace)).int(int64(c.ID)).int(int64(survivor))
			survivors = append(survivors, delivery.PersonRef{Workspace: c.Workspace, ID: survivor})
			at[deliveryRef{c.Workspace, c.ID}] = i
		}
	}
	if len(survivors) == 0 {
		return nil
	}
	handed, err := query(t, func(rows *sql.Rows) (ref deliveryRef, err error) {
		return ref, rows.Scan(&ref.ws, &ref.id)
	}, handClaims, &late)
	if err != nil {
		return fmt.Errorf("hand claims over: %w", err)
	}
	persons, err := t.readPersons(survivors)
	if err != nil {
		return err
	}
	for _, ref := range handed {
		c := &claims[at[ref]]
		c.Contact = c.Person.MergedInto
		c.Person = persons[delivery.PersonRef{Workspace: c.Workspace, ID: c.Contact}]
	}
	return nil
}
