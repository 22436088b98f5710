package store

import (
	"context"
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
)

// A contact that was made for an address is merged into the one who claims that (R20): what was sent to it counts in the
// claimant's limits, and what waits for it waits for them. Nothing refers to it any more but its own row, until the
// claimant gives the address up.
//
//	event names X ──▶ addr:X ◀─ its deliveries, its places      claim: the locks of both, deliveries and places go over,
//	write of ada, who has X ──▶ ada                             what waits is planned anew (R5)
//
// The claim and whoever makes or sends something lock the person; who finds a merged one there does it again. What is made
// for a later instant takes no lock and may come too late: the intent hands it over.

const dropAddresses = `
DELETE FROM address
WHERE (ws, hash, contact_id) IN (SELECT r.ws, r.hash, r.contact_id FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r)`

// Whoever gives an address up is not who was merged into them any more. What was handed over stays theirs.
const unmerge = `
UPDATE cadence SET merged_into = 0
FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r CROSS JOIN contact AS p
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = '` + subject.MadePrefix + `' || r.hash
  AND cadence.ws = p.ws AND cadence.contact_id = p.id AND cadence.merged_into = r.contact_id`

const claimAddresses = `
INSERT INTO address (ws, hash, contact_id)
SELECT r.ws, r.hash, r.contact_id FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r
WHERE true
ON CONFLICT (ws, hash) DO UPDATE SET contact_id = excluded.contact_id
WHERE EXISTS (
  SELECT 1 FROM contact AS x
  WHERE x.ws = address.ws AND x.id = address.contact_id AND x.ext_id = '` + subject.MadePrefix + `' || address.hash)`

// A statement of its own: the claim's sees no contact that was made while it waited.
const madeForAddresses = `
SELECT r.hash, a.contact_id, x.id, c.merged_into
FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r CROSS JOIN address AS a CROSS JOIN contact AS x CROSS JOIN cadence AS c
WHERE a.ws = r.ws AND a.hash = r.hash
  AND /*BY NAME*/x.ws = r.ws AND x.ext_id = '` + subject.MadePrefix + `' || r.hash
  AND c.ws = x.ws AND c.contact_id = x.id`

const mergeContacts = `
UPDATE cadence SET merged_into = r.heir
FROM /*ROWS $1 (ws bigint, id bigint, heir bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id`

// One occasion reaches a person once on a channel: what they got of it by another name stays where it is.
const notTheirs = `
  AND NOT EXISTS (SELECT 1 FROM delivery AS x WHERE x.instance_id = delivery.instance_id AND x.contact_id = r.heir AND x.channel = delivery.channel)`

// The version stays: an attempt that is under way goes on.
const handDeliveries = `
UPDATE delivery SET contact_id = r.heir
FROM /*ROWS $1 (ws bigint, id bigint, heir bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.contact_id = r.id` + notTheirs

const handPastSlots = `
UPDATE past_slot SET contact_id = r.heir
FROM /*ROWS $1 (ws bigint, id bigint, heir bigint)*/ AS r
WHERE past_slot.ws = r.ws AND past_slot.contact_id = r.id`

// What stays behind was sent to them all the same, and counts.
const countWhatStays = `
INSERT INTO past_slot (ws, contact_id, slot, type, channel, delivery_id)
SELECT d.ws, r.heir, d.slot, d.type, d.channel, d.id
FROM /*ROWS $2 (ws bigint, id bigint, heir bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot > 0 AND d.slot <= $1
ON CONFLICT DO NOTHING`

const handClaims = `
UPDATE delivery SET contact_id = r.heir
FROM /*ROWS $1 (ws bigint, id bigint, heir bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id` + notTheirs + `
RETURNING delivery.ws, delivery.id`

// In one order for all contacts, so that no two of those who wait here wait for each other.
const deliveriesOfNamed = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN delivery AS d
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id
  AND d.ws = p.ws AND d.contact_id = p.id AND (d.send_at > 0 OR d.status = 'scheduled')
ORDER BY d.id
`

// An intent holds a delivery and asks for its person. So whoever locks both takes deliveries first, and waits for them; once
// they have the persons, a delivery that somebody else holds has the whole done again.
const (
	lockDeliveriesOf    = deliveriesOfNamed + `/*LOCK d*/`
	lockDeliveriesOfNow = deliveriesOfNamed + `/*LOCK NOW d*/`
)

// lockDeliveriesOf locks what may still go to contacts.
func (t *Tx) lockDeliveriesOf(ctx context.Context, text string, ws subject.WorkspaceID, ids []string) ([]delivery.Row, error) {
	var named rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		named.row().int(int64(ws)).text(id)
	}
	rows, err := query(ctx, t, scanDelivery, text, &named)
	switch {
	case err == nil:
		return rows, nil
	case text == lockDeliveriesOfNow && t.s.dialect.busy(err):
		return nil, errAgain
	}
	return nil, fmt.Errorf("lock deliveries: %w", err)
}

// made are those of the ids that were made for addresses.
func made(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, subject.MadePrefix) })
}

// mergeInto gives contacts the addresses that they ask for, as far as nobody has them by an id of the caller's, and with
// each what was made for it so far. It returns whom that concerns. known are the contacts that are locked; missing are
// the ids of those that have to be besides, when it has to be done again.
func (t *Tx) mergeInto(ctx context.Context, ws subject.WorkspaceID, now time.Time, claims map[string]subject.ContactID, known map[string]ContactRow) (heirs []PersonRef, missing []string, err error) {
	var claim rowset
	for _, hash := range slices.Sorted(maps.Keys(claims)) {
		claim.row().int(int64(ws)).text(hash).int(int64(claims[hash]))
	}
	if _, err := t.exec(ctx, claimAddresses, &claim); err != nil {
		return nil, nil, fmt.Errorf("claim addresses of contacts: %w", err)
	}
	type standIn struct {
		hash               string
		owner, id, present subject.ContactID
	}
	found, err := query(ctx, t, func(rows *sql.Rows) (s standIn, err error) {
		return s, rows.Scan(&s.hash, &s.owner, &s.id, &s.present)
	}, madeForAddresses, &claim)
	if err != nil {
		return nil, nil, fmt.Errorf("find who was made for addresses: %w", err)
	}
	var rounds []*rowset // one for each contact that is merged into the same one
	var ids []string
	nth := map[subject.ContactID]int{}
	for _, s := range found {
		id, heir := subject.MadePrefix+s.hash, claims[s.hash]
		if s.owner != heir && s.owner != s.id || s.present == heir {
			continue // it is another one's, or merged already
		}
		if _, locked := known[id]; !locked || s.owner == s.id {
			missing = append(missing, id)
			continue
		}
		n := nth[heir]
		if nth[heir]++; n == len(rounds) {
			rounds = append(rounds, new(rowset))
		}
		rounds[n].row().int(int64(ws)).int(int64(s.id)).int(int64(heir))
		ids, heirs = append(ids, id), append(heirs, PersonRef{ws, heir})
	}
	if len(missing) > 0 {
		return nil, missing, errAgain
	}
	if _, err := t.lockDeliveriesOf(ctx, lockDeliveriesOfNow, ws, ids); err != nil {
		return nil, nil, err
	}
	for _, round := range rounds {
		if err := t.reassignRows(ctx, now, round); err != nil {
			return nil, nil, err
		}
	}
	return heirs, nil, nil
}

func (t *Tx) reassignRows(ctx context.Context, now time.Time, merged *rowset) error {
	for _, text := range []string{mergeContacts, handDeliveries, handPastSlots} {
		_, err := t.exec(ctx, text, merged)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == uniqueViolation {
			return errAgain // what stands in for a message that has failed was made for the claimant meanwhile
		}
		if err != nil {
			return fmt.Errorf("merge contacts: %w", err)
		}
	}
	if _, err := t.exec(ctx, countWhatStays, dueMicros(now), merged); err != nil {
		return fmt.Errorf("merge contacts: %w", err)
	}
	return nil
}

// redirect hands claims over that were made for a contact while that was being merged into another one.
func (t *Tx) redirect(ctx context.Context, claims []Claim) error {
	var late rowset
	var heirs []PersonRef
	at := map[deliveryRef]int{}
	for i, c := range claims {
		if heir := c.Person.MergedInto; heir != 0 {
			late.row().int(int64(c.Workspace)).int(int64(c.ID)).int(int64(heir))
			heirs = append(heirs, PersonRef{c.Workspace, heir})
			at[deliveryRef{c.Workspace, c.ID}] = i
		}
	}
	if len(heirs) == 0 {
		return nil
	}
	handed, err := query(ctx, t, func(rows *sql.Rows) (ref deliveryRef, err error) {
		return ref, rows.Scan(&ref.ws, &ref.id)
	}, handClaims, &late)
	if err != nil {
		return fmt.Errorf("hand claims over: %w", err)
	}
	persons, err := t.readPersons(ctx, heirs)
	if err != nil {
		return err
	}
	for _, ref := range handed {
		c := &claims[at[ref]]
		c.Contact = c.Person.MergedInto
		c.Person = persons[PersonRef{c.Workspace, c.Contact}]
	}
	return nil
}
