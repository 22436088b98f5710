package store

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

const contactRowColumns = contactColumns + `,
  COALESCE((SELECT h.ext_id FROM contact AS h WHERE c.merged_into > 0 AND h.ws = c.ws AND h.id = c.merged_into), ''), p.suppress_reason, p.suppressed_at, p.created_at, p.updated_at`

func scanContactRow(rows *sql.Rows) (r subject.ContactRow, err error) {
	var addresses, attributes string
	err = rows.Scan(&r.ID, &r.ExtID, &r.Address, &r.Name, &r.Locale, &r.Timezone, &addresses, &attributes, &r.Persona, &r.Cadence, &r.Suppressed, &r.MergedInto,
		&r.Claimant, &r.SuppressReason, instant{&r.SuppressedAt}, instant{&r.CreatedAt}, instant{&r.UpdatedAt})
	if err != nil {
		return r, err
	}
	if r.Cadence != "" && !json.Valid([]byte(r.Cadence)) {
		return r, fmt.Errorf("limits of contact %d are not JSON", r.ID)
	}
	return r, readDetails(&r.Contact, addresses, attributes)
}

// readDetails parses the JSON columns. Most contacts have none.
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
	d.UseNumber() // a number keeps the text it was written with
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

// ContactRow returns the contact with that id of the caller, else ErrNotFound.
func (s *Store) ContactRow(ctx context.Context, ws subject.WorkspaceID, id string) (subject.ContactRow, error) {
	return one(ctx, s, "read contact", scanContactRow, contactRow, int64(ws), id)
}

const listContacts = `
SELECT ` + contactRowColumns + `
FROM contact AS p JOIN cadence AS c ON c.ws = p.ws AND c.contact_id = p.id`

// ContactFilter narrows a list of contacts; empty fields do not filter.
type ContactFilter struct {
	Persona string
}

// Contacts lists contacts, the newest first.
func (s *Store) Contacts(ctx context.Context, ws subject.WorkspaceID, f ContactFilter, p Page) ([]subject.ContactRow, error) {
	l := list(listContacts, "p", int64(ws), p)
	if f.Persona != "" {
		l.and("p.persona = ? AND p.persona <> ''", f.Persona) // the second condition matches the partial index
	}
	text, args := l.end("p", p)
	return all(ctx, s, "list contacts", scanContactRow, text, args...)
}

// ContactWrite is a contact with its new values; without an ID it is inserted.
type ContactWrite struct {
	subject.ContactRow
	// Hashes are the hashes of its addresses. An event that names only an address reaches the contact that had it first. A
	// contact that was made for the address is merged into this one.
	Hashes []string
	// Dropped are hashes of addresses that it no longer has.
	Dropped []string
}

// Together with the contacts merged into them.
const lockContacts = `
SELECT c.contact_id
FROM cadence AS c
WHERE (c.ws, c.contact_id) IN (
  SELECT p.ws, p.id
  FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p
  WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id
  UNION ALL
  SELECT m.ws, m.contact_id
  FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS m
  WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id AND m.ws = p.ws AND m.merged_into = p.id AND m.merged_into > 0)
ORDER BY c.contact_id
/*LOCK c*/`

const contactsByExtID = `
SELECT ` + contactRowColumns + `
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE p.ws = r.ws AND p.ext_id = r.ext_id
  AND c.ws = p.ws AND c.contact_id = p.id`

const insertFullContactsSpec = `ws bigint, id bigint, ext_id text, address text, name text, locale text, timezone text, addresses text, attributes text,
  persona text, cadence text, suppress_reason text, suppressed_at bigint, created_at bigint, find_name text, find_id text`

const insertFullContacts = `
INSERT INTO contact (/*NAMES (` + insertFullContactsSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + insertFullContactsSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const updateContacts = `
UPDATE contact SET name = r.name, locale = r.locale, timezone = r.timezone, addresses = r.addresses, attributes = r.attributes,
  persona = r.persona, cadence = r.cadence, suppress_reason = r.suppress_reason, suppressed_at = r.suppressed_at, find_name = r.find_name, updated_at = $1
FROM /*ROWS $2 (ws bigint, id bigint, name text, locale text, timezone text, addresses text, attributes text, persona text,
  cadence text, suppress_reason text, suppressed_at bigint, find_name text)*/ AS r
WHERE contact.ws = r.ws AND contact.id = r.id`

const setSuppressed = `
UPDATE cadence SET suppressed = r.suppressed
FROM /*ROWS $1 (ws bigint, id bigint, suppressed bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id AND cadence.suppressed <> r.suppressed`

// Contact returns the contact with that id of the caller, without a lock, else ErrNotFound.
func (t *Tx) Contact(ws subject.WorkspaceID, id string) (subject.ContactRow, error) {
	found, err := query(t, scanContactRow, contactRow, int64(ws), id)
	switch {
	case err != nil:
		return subject.ContactRow{}, fmt.Errorf("read contact: %w", err)
	case len(found) == 0:
		return subject.ContactRow{}, fmt.Errorf("contact: %w", ErrNotFound)
	}
	return found[0], nil
}

// LockContacts locks and returns the contacts that exist, by their ids of the caller. They are read in a second statement: a
// statement that waited for a lock sees the contacts as they were before, and a write based on that would undo the change it
// waited for.
//
// If the transaction runs again, it first waits for the deliveries of contacts that were made for addresses, because
// another transaction may have held one that moves to the survivor.
func (t *Tx) LockContacts(ws subject.WorkspaceID, ids []string) (map[string]subject.ContactRow, error) {
	if t.try > 1 {
		if _, err := t.LockDeliveriesOf(ws, made(ids)); err != nil {
			return nil, err
		}
	}
	var wanted rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		wanted.row().int(int64(ws)).text(id)
	}
	var locked []int64
	var err error
	if t.s.dialect.lock != "" {
		if locked, err = query(t, scanInt, lockContacts, &wanted); err != nil {
			return nil, fmt.Errorf("lock contacts: %w", err)
		}
	}
	found, err := query(t, scanContactRow, contactsByExtID, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read contacts: %w", err)
	}
	mine := make(map[int64]bool, len(locked))
	for _, id := range locked {
		mine[id] = true
	}
	known := make(map[string]subject.ContactRow, len(found))
	for _, c := range found {
		if t.s.dialect.lock != "" && !mine[int64(c.ID)] {
			return nil, ErrAgain // it was made between the two statements, and is not locked
		}
		known[c.ExtID] = c
	}
	return known, nil
}

// WriteContacts writes contacts, each at most once, and merges into them the contacts that were made for their addresses.
// known are the contacts that are locked. It returns the survivors of merges. missing are the ids of further contacts that
// must be locked when the transaction runs again.
func (t *Tx) WriteContacts(ws subject.WorkspaceID, now time.Time, known map[string]subject.ContactRow, writes []ContactWrite) (survivors []delivery.PersonRef, missing []string, err error) {
	claims, err := t.writeContacts(ws, now, writes)
	if err != nil {
		return nil, nil, err
	}
	return t.mergeInto(ws, now, claims, known)
}

// writeContacts writes locked contacts, and returns which of them claims which address.
func (t *Tx) writeContacts(ws subject.WorkspaceID, now time.Time, writes []ContactWrite) (map[string]subject.ContactID, error) {
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
			return nil, err
		}
		if w.ID == 0 {
			w.ID = subject.ContactID(t.s.NewID(now))
			made.row().int(int64(ws)).int(int64(w.ID)).text(w.ExtID).text(w.Address).text(w.Name).text(w.Locale).text(w.Timezone).text(addresses).text(attributes).text(w.Persona).text(w.Cadence).
				text(w.SuppressReason).time(w.SuppressedAt).time(now).text(folded(w.Name)).text(findID(w.ExtID))
			cadences.row().int(int64(ws)).int(int64(w.ID))
		} else {
			changed.row().int(int64(ws)).int(int64(w.ID)).text(w.Name).text(w.Locale).text(w.Timezone).text(addresses).text(attributes).text(w.Persona).text(w.Cadence).
				text(w.SuppressReason).time(w.SuppressedAt).text(folded(w.Name))
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
		if n, err := t.insert("insert contacts", insert.text, insert.rows); err != nil {
			return nil, err
		} else if n < int64(insert.rows.n) {
			return nil, ErrAgain
		}
	}
	if n, err := t.exec(updateContacts, micros(now), &changed); err != nil {
		return nil, fmt.Errorf("update contacts: %w", err)
	} else if n < int64(changed.n) {
		return nil, fmt.Errorf("update contacts: %w", ErrConflict)
	}
	if _, err := t.exec(setSuppressed, &suppressed); err != nil {
		return nil, fmt.Errorf("suppress contacts: %w", err)
	}
	var drop rowset
	// Several contacts may have had an address that only one of them owns.
	slices.SortFunc(dropped, func(a, b held) int { return cmp.Or(strings.Compare(a.hash, b.hash), cmp.Compare(a.id, b.id)) })
	for _, d := range dropped {
		drop.row().int(int64(ws)).text(d.hash).int(int64(d.id))
	}
	for _, text := range []string{dropAddresses, unmerge} {
		if _, err := t.exec(text, &drop); err != nil {
			return nil, fmt.Errorf("drop addresses of contacts: %w", err)
		}
	}
	return claims, nil
}
