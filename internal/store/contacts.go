package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// The names of the sets of columns of a contact.
const (
	contactSpec        = "contact"
	personSpec         = "person"
	cadenceSpec        = "cadence"
	newContactSpec     = "new_contact"
	changedContactSpec = "changed_contact"
)

var (
	// personColumns are the columns of a contact that decisions use: those of its own table, and then of the table cadence.
	personColumns = slices.Concat(
		named(personSpec, columnsOf[subject.Contact]{
			{"id", func(c *subject.Contact) field { return integer(&c.ID) }},
			{"ext_id", func(c *subject.Contact) field { return text(&c.ExtID) }},
			{"address", func(c *subject.Contact) field { return text(&c.Address) }},
			{"name", func(c *subject.Contact) field { return text(&c.Name) }},
			{"locale", func(c *subject.Contact) field { return text(&c.Locale) }},
			{"timezone", func(c *subject.Contact) field { return text(&c.Timezone) }},
			{"addresses", func(c *subject.Contact) field { return document[string]{p: &c.Addresses} }},
			{"attributes", func(c *subject.Contact) field { return document[any]{p: &c.Attributes} }},
			{"persona", func(c *subject.Contact) field { return text(&c.Persona) }},
			{"place", func(c *subject.Contact) field { return text(&c.Place) }},
			{"cadence", func(c *subject.Contact) field { return text(&c.Cadence) }},
		}),
		named(cadenceSpec, columnsOf[subject.Contact]{
			{"suppressed", func(c *subject.Contact) field { return boolean{&c.Suppressed} }},
			{"merged_into", func(c *subject.Contact) field { return integer(&c.MergedInto) }},
		}))
	// contactRowColumns have in addition the id of the contact into which it is merged, and the columns that only people read.
	contactRowColumns = append(ofPart(personColumns, func(r *subject.ContactRow) *subject.Contact { return &r.Contact }),
		append(columnsOf[subject.ContactRow]{{"claimant", func(r *subject.ContactRow) field { return text(&r.Claimant) }}},
			named(contactSpec, columnsOf[subject.ContactRow]{
				{"suppress_reason", func(r *subject.ContactRow) field { return text(&r.SuppressReason) }},
				{"suppressed_at", func(r *subject.ContactRow) field { return moment{&r.SuppressedAt} }},
				{"created_at", func(r *subject.ContactRow) field { return moment{&r.CreatedAt} }},
				{"updated_at", func(r *subject.ContactRow) field { return moment{&r.UpdatedAt} }},
			})...)...)
	// changedContactColumns are those that callers can change, and the one by which the name is found.
	changedContactColumns = named(changedContactSpec, append(
		contactRowColumns.only("name", "locale", "timezone", "addresses", "attributes", "persona", "place", "cadence", "suppress_reason", "suppressed_at"),
		columnOf[subject.ContactRow]{"find_name", func(r *subject.ContactRow) field { name := folded(r.Name); return computed{text(&name)} }}))
	newContactColumns = named(newContactSpec, slices.Concat(
		contactRowColumns.only("id", "ext_id", "address", "created_at"), changedContactColumns,
		columnsOf[subject.ContactRow]{{"find_id", func(r *subject.ContactRow) field { id := findID(r.ExtID); return computed{text(&id)} }}}))
)

const (
	// personNames are personColumns of a contact p with its cadence c.
	personNames = `/*NAMES p (` + personSpec + `)*/, /*NAMES c (` + cadenceSpec + `)*/`
	// contactNames are contactRowColumns.
	contactNames = personNames + `,
  COALESCE((SELECT h.ext_id FROM contact AS h WHERE c.merged_into > 0 AND h.ws = c.ws AND h.id = c.merged_into), ''),
  /*NAMES p (` + contactSpec + `)*/`
)

func scanContact(rows *sql.Rows) (subject.ContactRow, error) {
	r, err := contactRowColumns.scan(rows)
	if err == nil && r.Cadence != "" && !json.Valid([]byte(r.Cadence)) {
		err = errors.New("its limits are not JSON")
	}
	if err != nil {
		return r, fmt.Errorf("contact %d: %w", r.ID, err)
	}
	return r, nil
}

const contactRow = `
SELECT ` + contactNames + `
FROM contact AS p CROSS JOIN cadence AS c
WHERE /*BY NAME*/p.ws = $1 AND p.ext_id = $2
  AND c.ws = p.ws AND c.contact_id = p.id`

// ContactRow returns the contact with that id of the caller, else ErrNotFound.
func (s *Store) ContactRow(ctx context.Context, ws subject.WorkspaceID, id string) (subject.ContactRow, error) {
	return one(ctx, s, "read contact", scanContact, contactRow, int64(ws), id)
}

const listContacts = `
SELECT ` + contactNames + `
FROM contact AS p JOIN cadence AS c ON c.ws = p.ws AND c.contact_id = p.id`

// ContactFilter narrows a list of contacts; empty fields do not filter.
type ContactFilter struct {
	Persona string
	Place   string // without those below it
}

// Contacts lists contacts, the newest first.
func (s *Store) Contacts(ctx context.Context, ws subject.WorkspaceID, f ContactFilter, p Page) ([]subject.ContactRow, error) {
	l := list(listContacts, "p", int64(ws), p)
	if f.Persona != "" {
		l.and("p.persona = ? AND p.persona <> ''", f.Persona) // the second condition matches the partial index
	}
	if f.Place != "" {
		l.and("p.place = ? AND p.place <> ''", f.Place)
	}
	text, args := l.end("p", p)
	return all(ctx, s, "list contacts", scanContact, text, args...)
}

// ContactWrite is a contact with its new values; without an ID it is inserted.
type ContactWrite struct {
	subject.ContactRow
	// Hashes are the hashes of its addresses. An event that names only an address reaches the contact that had it first. A
	// contact that was made for the address is merged into this one.
	Hashes []string
	// Dropped are hashes of addresses that it no longer has.
	Dropped []string
	// Groups are the groups to which it belongs, if Grouped is set; else its groups stay as they are.
	Groups  []string
	Grouped bool
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
SELECT ` + contactNames + `
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE p.ws = r.ws AND p.ext_id = r.ext_id
  AND c.ws = p.ws AND c.contact_id = p.id`

const insertContacts = `
INSERT INTO contact (ws, /*NAMES (` + newContactSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (ws bigint, ` + newContactSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const updateContacts = `
UPDATE contact SET /*SET r (` + changedContactSpec + `)*/, updated_at = $1
FROM /*ROWS $2 (ws bigint, id bigint, ` + changedContactSpec + `)*/ AS r
WHERE contact.ws = r.ws AND contact.id = r.id`

var upsertContacts = upsert[string, subject.ContactRow, subject.ContactID]{
	what: "contacts", lock: lockContacts, read: contactsByExtID, insert: insertContacts, update: updateContacts,
	made: newContactColumns, changed: changedContactColumns, scan: scanContact,
	name: func(r *subject.ContactRow) string { return r.ExtID },
	id:   func(r *subject.ContactRow) *subject.ContactID { return &r.ID },
}

const setSuppressed = `
UPDATE cadence SET suppressed = r.suppressed
FROM /*ROWS $1 (ws bigint, id bigint, suppressed bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id AND cadence.suppressed <> r.suppressed`

// Contact returns the contact with that id of the caller, without a lock, else ErrNotFound.
func (t *Tx) Contact(ws subject.WorkspaceID, id string) (subject.ContactRow, error) {
	found, err := query(t, scanContact, contactRow, int64(ws), id)
	switch {
	case err != nil:
		return subject.ContactRow{}, fmt.Errorf("read contact: %w", err)
	case len(found) == 0:
		return subject.ContactRow{}, fmt.Errorf("contact: %w", ErrNotFound)
	}
	return found[0], t.placeOf(ws, &found[0].Contact)
}

// LockContacts locks and returns the contacts that exist, by their ids of the caller.
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
	return upsertContacts.locked(t, &wanted)
}

// WriteContacts writes contacts, each at most once, and merges into them the contacts that were made for their addresses.
// known are the contacts that are locked. missing are the ids of further contacts that
// must be locked when the transaction runs again.
func (t *Tx) WriteContacts(ws subject.WorkspaceID, now time.Time, known map[string]subject.ContactRow, writes []ContactWrite) (merged Merges, missing []string, err error) {
	claims, err := t.writeContacts(ws, now, writes)
	if err != nil {
		return merged, nil, err
	}
	return t.mergeInto(ws, now, claims, known)
}

// writeContacts writes locked contacts, and returns which of them claims which address.
func (t *Tx) writeContacts(ws subject.WorkspaceID, now time.Time, writes []ContactWrite) (map[string]subject.ContactID, error) {
	// One order everywhere: no deadlock.
	writes = slices.SortedFunc(slices.Values(writes), func(a, b ContactWrite) int { return strings.Compare(a.ExtID, b.ExtID) })
	rows := make([]*subject.ContactRow, len(writes))
	made := make([]bool, len(writes))
	for i := range writes {
		rows[i], made[i] = &writes[i].ContactRow, writes[i].ID == 0
		if made[i] {
			rows[i].CreatedAt = now
		}
	}
	if err := upsertContacts.write(t, ws, now, rows); err != nil {
		return nil, err
	}
	type held struct {
		hash string
		id   subject.ContactID
	}
	var cadences, suppressed rowset
	claims, dropped := map[string]subject.ContactID{}, []held{}
	for i, w := range writes {
		if made[i] {
			cadences.row().int(int64(ws)).int(int64(w.ID))
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
	if err := t.insertNew("insert contacts", insertCadences, &cadences); err != nil {
		return nil, err
	}
	if _, err := t.exec(setSuppressed, &suppressed); err != nil {
		return nil, fmt.Errorf("suppress contacts: %w", err)
	}
	var grouped []Membership
	for i, w := range writes {
		if w.Grouped {
			grouped = append(grouped, Membership{Contact: w.ID, Groups: w.Groups, New: made[i]})
		}
	}
	if err := t.KeepGroups(ws, grouped); err != nil {
		return nil, err
	}
	var drop rowset
	// Several contacts may have had an address that only one of them owns.
	slices.SortFunc(dropped, func(a, b held) int { return cmp.Or(strings.Compare(a.hash, b.hash), cmp.Compare(a.id, b.id)) })
	for _, d := range dropped {
		drop.row().int(int64(ws)).text(d.hash).int(int64(d.id))
	}
	if err := t.dropAddresses(&drop); err != nil {
		return nil, fmt.Errorf("drop addresses of contacts: %w", err)
	}
	return claims, nil
}
