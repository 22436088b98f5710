package store

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// ContactRow is a contact with what only people look at.
type ContactRow struct {
	subject.Contact
	SuppressReason string
	SuppressedAt   time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time // none: as it was made
}

const contactRowColumns = contactColumns + `, p.suppress_reason, p.suppressed_at, p.created_at, p.updated_at`

func scanContactRow(rows *sql.Rows) (r ContactRow, err error) {
	var addresses, attributes string
	err = rows.Scan(&r.ID, &r.ExtID, &r.Address, &r.Name, &r.Locale, &r.Timezone, &addresses, &attributes, &r.Persona, &r.Cadence, &r.Suppressed,
		&r.SuppressReason, instant{&r.SuppressedAt}, instant{&r.CreatedAt}, instant{&r.UpdatedAt})
	if err != nil {
		return r, err
	}
	if r.Cadence != "" && !json.Valid([]byte(r.Cadence)) {
		return r, fmt.Errorf("limits of contact %d are not JSON", r.ID)
	}
	return r, readDetails(&r.Contact, addresses, attributes)
}

// readDetails reads the columns that are JSON. Most contacts have none.
func readDetails(c *subject.Contact, addresses, attributes string) error {
	if addresses != "" {
		if err := json.Unmarshal([]byte(addresses), &c.Addresses); err != nil {
			return fmt.Errorf("addresses of contact %d: %w", c.ID, err)
		}
	}
	if attributes == "" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(attributes)))
	d.UseNumber() // a number keeps its spelling
	if err := d.Decode(&c.Attributes); err != nil {
		return fmt.Errorf("attributes of contact %d: %w", c.ID, err)
	}
	return nil
}

func writeDetails(c subject.Contact) (addresses, attributes string, err error) {
	for _, one := range []struct {
		size  int
		value any
		into  *string
	}{{len(c.Addresses), c.Addresses, &addresses}, {len(c.Attributes), c.Attributes, &attributes}} {
		if one.size == 0 {
			continue
		}
		text, err := json.Marshal(one.value)
		if err != nil {
			return "", "", fmt.Errorf("%w: contact %q cannot be written: %w", ErrInvalid, c.ExtID, err)
		}
		*one.into = string(text)
	}
	return addresses, attributes, nil
}

const contactRow = `
SELECT ` + contactRowColumns + `
FROM contact AS p CROSS JOIN cadence AS c
WHERE /*BY NAME*/p.ws = $1 AND p.ext_id = $2
  AND c.ws = p.ws AND c.contact_id = p.id`

// ContactRow returns the contact whom the caller knows by that id, else ErrNotFound.
func (s *Store) ContactRow(ctx context.Context, ws subject.WorkspaceID, id string) (ContactRow, error) {
	return one(ctx, s, "read contact", scanContactRow, contactRow, int64(ws), id)
}

const listContacts = `
SELECT ` + contactRowColumns + `
FROM contact AS p JOIN cadence AS c ON c.ws = p.ws AND c.contact_id = p.id`

// ContactFilter narrows a list of contacts. Empty fields ask for nothing.
type ContactFilter struct {
	Persona string
}

// Contacts lists contacts, the newest first.
func (s *Store) Contacts(ctx context.Context, ws subject.WorkspaceID, f ContactFilter, p Page) ([]ContactRow, error) {
	l := list(listContacts, "p", int64(ws), p)
	if f.Persona != "" {
		l.and("p.persona = ? AND p.persona <> ''", f.Persona) // the second as the index says it
	}
	text, args := l.end("p", p)
	return all(ctx, s, "list contacts", scanContactRow, text, args...)
}

// ContactWrite is a contact as it is to be: without an ID it is made.
type ContactWrite struct {
	ContactRow
	// Hashes are those of its addresses; events that name only an address reach whoever had it first. One that has
	// it by an event alone, and no id of the caller's, gives it up.
	Hashes []string
	// Dropped are hashes of addresses that it no longer has.
	Dropped []string
}

const lockContacts = `
SELECT c.contact_id
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id
  AND c.ws = p.ws AND c.contact_id = p.id
ORDER BY c.contact_id
/*LOCK c*/`

const contactsByExtID = `
SELECT ` + contactRowColumns + `
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE p.ws = r.ws AND p.ext_id = r.ext_id
  AND c.ws = p.ws AND c.contact_id = p.id`

const insertFullContactsSpec = `ws bigint, id bigint, ext_id text, address text, name text, locale text, timezone text, addresses text, attributes text,
  persona text, cadence text, suppress_reason text, suppressed_at bigint, created_at bigint`

const insertFullContacts = `
INSERT INTO contact (/*NAMES (` + insertFullContactsSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + insertFullContactsSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const updateContacts = `
UPDATE contact SET name = r.name, locale = r.locale, timezone = r.timezone, addresses = r.addresses, attributes = r.attributes,
  persona = r.persona, cadence = r.cadence, suppress_reason = r.suppress_reason, suppressed_at = r.suppressed_at, updated_at = $1
FROM /*ROWS $2 (ws bigint, id bigint, name text, locale text, timezone text, addresses text, attributes text, persona text,
  cadence text, suppress_reason text, suppressed_at bigint)*/ AS r
WHERE contact.ws = r.ws AND contact.id = r.id`

const setSuppressed = `
UPDATE cadence SET suppressed = r.suppressed
FROM /*ROWS $1 (ws bigint, id bigint, suppressed bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id AND cadence.suppressed <> r.suppressed`

const dropAddresses = `
DELETE FROM address
WHERE (ws, hash, contact_id) IN (SELECT r.ws, r.hash, r.contact_id FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r)`

const claimAddresses = `
INSERT INTO address (ws, hash, contact_id)
SELECT r.ws, r.hash, r.contact_id FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r
WHERE true
ON CONFLICT (ws, hash) DO UPDATE SET contact_id = excluded.contact_id
WHERE EXISTS (
  SELECT 1 FROM contact AS x
  WHERE x.ws = address.ws AND x.id = address.contact_id AND x.ext_id = '` + subject.MadePrefix + `' || address.hash)`

// WriteContacts locks those of the named contacts that exist, asks decide what they are to be, and writes that, in one
// transaction. Each contact is written at most once.
func (s *Store) WriteContacts(
	ctx context.Context, ws subject.WorkspaceID, now time.Time, ids []string,
	decide func(map[string]ContactRow) ([]ContactWrite, error), once *Once[[]ContactWrite],
) error {
	err := s.write(ctx, func(t *session) error {
		_, err := once.do(ctx, t, ws, func() ([]ContactWrite, error) {
			known, err := t.lockContacts(ctx, ws, ids)
			if err != nil {
				return nil, err
			}
			writes, err := decide(known)
			if err != nil {
				return nil, err
			}
			if err := t.writeContacts(ctx, ws, now, writes); err != nil {
				return nil, err
			}
			var limited []PersonRef // whose limits, or the days in which they are counted, are others now
			for _, w := range writes {
				old, ok := known[w.ExtID]
				if ok && (old.Persona != w.Persona || old.Cadence != w.Cadence || old.Timezone != w.Timezone) {
					limited = append(limited, PersonRef{ws, old.ID})
				}
			}
			return writes, t.markReplan(ctx, now, limited)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("write contacts: %w", err)
	}
	return nil
}

// lockContacts locks those of the contacts that exist, and reads them in a statement of its own: the one that waited for
// a lock saw the contacts as they were before, and what is written by it would undo what it waited for.
func (t *session) lockContacts(ctx context.Context, ws subject.WorkspaceID, ids []string) (map[string]ContactRow, error) {
	var wanted rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		wanted.row().int(int64(ws)).text(id)
	}
	var locked []int64
	var err error
	if t.s.dialect.lock != "" {
		if locked, err = query(ctx, t, scanInt, lockContacts, &wanted); err != nil {
			return nil, fmt.Errorf("lock contacts: %w", err)
		}
	}
	found, err := query(ctx, t, scanContactRow, contactsByExtID, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read contacts: %w", err)
	}
	if t.s.dialect.lock != "" && len(found) > len(locked) {
		return nil, errAgain // one was made between the two statements, and is not locked
	}
	known := make(map[string]ContactRow, len(found))
	for _, c := range found {
		known[c.ExtID] = c
	}
	return known, nil
}

func (t *session) writeContacts(ctx context.Context, ws subject.WorkspaceID, now time.Time, writes []ContactWrite) error {
	// One order everywhere: no deadlock.
	writes = slices.SortedFunc(slices.Values(writes), func(a, b ContactWrite) int { return strings.Compare(a.ExtID, b.ExtID) })
	var made, cadences, changed, suppressed rowset
	type held struct {
		hash string
		id   subject.ContactID
	}
	claims, dropped := map[string]subject.ContactID{}, []held{}
	for _, w := range writes {
		addresses, attributes, err := writeDetails(w.Contact)
		if err != nil {
			return err
		}
		if w.ID == 0 {
			w.ID = subject.ContactID(t.s.NewID(now))
			made.row().int(int64(ws)).int(int64(w.ID)).text(w.ExtID).text(w.Address).text(w.Name).text(w.Locale).text(w.Timezone).text(addresses).text(attributes).text(w.Persona).text(w.Cadence).
				text(w.SuppressReason).time(w.SuppressedAt).time(now)
			cadences.row().int(int64(ws)).int(int64(w.ID))
		} else {
			changed.row().int(int64(ws)).int(int64(w.ID)).text(w.Name).text(w.Locale).text(w.Timezone).text(addresses).text(attributes).text(w.Persona).text(w.Cadence).
				text(w.SuppressReason).time(w.SuppressedAt)
		}
		suppressed.row().int(int64(ws)).int(int64(w.ID)).flag(w.Suppressed)
		for _, hash := range w.Hashes {
			if _, taken := claims[hash]; !taken {
				claims[hash] = w.ID
			}
		}
		for _, hash := range w.Dropped {
			dropped = append(dropped, held{hash, w.ID})
		}
	}
	for _, insert := range []struct {
		text string
		rows *rowset
	}{{insertFullContacts, &made}, {insertCadences, &cadences}} {
		if n, err := t.insert(ctx, "insert contacts", insert.text, insert.rows); err != nil {
			return err
		} else if n < int64(insert.rows.n) {
			return errAgain
		}
	}
	if n, err := t.exec(ctx, updateContacts, micros(now), &changed); err != nil {
		return fmt.Errorf("update contacts: %w", err)
	} else if n < int64(changed.n) {
		return fmt.Errorf("update contacts: %w", ErrConflict)
	}
	if _, err := t.exec(ctx, setSuppressed, &suppressed); err != nil {
		return fmt.Errorf("suppress contacts: %w", err)
	}
	var drop, claim rowset
	// Several may have had an address that only one of them stands for.
	slices.SortFunc(dropped, func(a, b held) int { return cmp.Or(strings.Compare(a.hash, b.hash), cmp.Compare(a.id, b.id)) })
	for _, d := range dropped {
		drop.row().int(int64(ws)).text(d.hash).int(int64(d.id))
	}
	for _, hash := range slices.Sorted(maps.Keys(claims)) {
		claim.row().int(int64(ws)).text(hash).int(int64(claims[hash]))
	}
	if _, err := t.exec(ctx, dropAddresses, &drop); err != nil {
		return fmt.Errorf("drop addresses of contacts: %w", err)
	}
	if _, err := t.exec(ctx, claimAddresses, &claim); err != nil {
		return fmt.Errorf("claim addresses of contacts: %w", err)
	}
	return nil
}

// SuppressState is a contact with everything that may still go to them, locked. Others are contacts that stand for its
// addresses.
type SuppressState struct {
	Contact    ContactRow
	Others     []ContactRow
	Deliveries []delivery.Row
}

// SuppressChange is what suppressing, or the end of it, changes, in one transaction with its audit entry.
type SuppressChange struct {
	Contacts   []ContactRow
	Deliveries []delivery.Row
	Audit      Audit
}

const lockDeliveriesOf = selectDeliveries + `
WHERE d.ws = $1 AND d.contact_id = $2 AND (d.send_at > 0 OR d.status = 'scheduled')
ORDER BY d.id
/*LOCK d*/`

// Suppress carries out one person's wish about a contact, whom others names the ids of contacts that stand for the same
// addresses. ErrNotFound: there is no such contact.
//
// It locks the deliveries first: an intent that is being committed is waited for, and one that comes later finds its
// delivery taken or ended, so that what is sent was committed before the suppression is (P5). Then it locks the
// contacts, which waits for whoever is making a delivery for them that is due, and looks for deliveries again. One that
// somebody makes meanwhile for a later instant meets the suppression at its own intent.
func (s *Store) Suppress(
	ctx context.Context, ws subject.WorkspaceID, now time.Time, id string, others func(ContactRow) []string,
	decide func(SuppressState) (SuppressChange, error), once *Once[SuppressChange],
) error {
	err := s.write(ctx, func(t *session) error {
		_, err := once.do(ctx, t, ws, func() (SuppressChange, error) { return t.suppress(ctx, ws, now, id, others, decide) })
		return err
	})
	if err != nil {
		return fmt.Errorf("suppress: %w", err)
	}
	return nil
}

func (t *session) suppress(
	ctx context.Context, ws subject.WorkspaceID, now time.Time, id string, others func(ContactRow) []string,
	decide func(SuppressState) (SuppressChange, error),
) (none SuppressChange, err error) {
	found, err := query(ctx, t, scanContactRow, contactRow, int64(ws), id)
	if err != nil {
		return none, fmt.Errorf("read contact: %w", err)
	}
	if len(found) == 0 {
		return none, fmt.Errorf("contact: %w", ErrNotFound)
	}
	ids := []string{id}
	for _, other := range others(found[0]) {
		if other != id {
			ids = append(ids, other)
		}
	}
	if _, err := t.lockDeliveriesOf(ctx, ws, found); err != nil {
		return none, err
	}
	known, err := t.lockContacts(ctx, ws, ids)
	if err != nil {
		return none, err
	}
	state := SuppressState{Contact: known[id]}
	if strings.Join(others(state.Contact), "\n") != strings.Join(others(found[0]), "\n") {
		return none, errAgain // its addresses were changed meanwhile
	}
	for _, other := range ids[1:] {
		if c, ok := known[other]; ok {
			state.Others = append(state.Others, c)
		}
	}
	if state.Deliveries, err = t.lockDeliveriesOf(ctx, ws, append([]ContactRow{state.Contact}, state.Others...)); err != nil {
		return none, err
	}
	theirs := state
	theirs.Deliveries = slices.Clone(state.Deliveries) // decide may change them in place
	change, err := decide(theirs)
	if err != nil || len(change.Contacts) == 0 {
		return change, err
	}
	if err := t.updateDeliveries(ctx, now, state.Deliveries, change.Deliveries); err != nil {
		return none, err
	}
	writes := make([]ContactWrite, len(change.Contacts))
	for i, c := range change.Contacts {
		writes[i].ContactRow = c
	}
	if err := t.writeContacts(ctx, ws, now, writes); err != nil {
		return none, err
	}
	return change, t.audit(ctx, ws, now, change.Audit)
}

func (t *session) lockDeliveriesOf(ctx context.Context, ws subject.WorkspaceID, contacts []ContactRow) ([]delivery.Row, error) {
	contacts = slices.SortedFunc(slices.Values(contacts), func(a, b ContactRow) int { return cmp.Compare(a.ID, b.ID) })
	var all []delivery.Row
	for _, c := range contacts {
		rows, err := query(ctx, t, scanDelivery, lockDeliveriesOf, int64(ws), int64(c.ID))
		if err != nil {
			return nil, fmt.Errorf("lock deliveries: %w", err)
		}
		all = append(all, rows...)
	}
	return all, nil
}
