package store

import (
	"context"
	"strings"

	"github.com/carillonhq/carillon/internal/subject"
)

// ContactQuery is a search for a person by the caller's id, by an address, or by the whole name.
type ContactQuery struct {
	Text string
	Hash string // of Text as an address, by the workspace's key; empty: addresses are not searched
}

const (
	// manyPersons bounds how many persons one text may match, because each takes a lookup of its own.
	manyPersons = 100
	// lastText is appended to a prefix: the result sorts after every text that begins with the prefix.
	lastText = "\U0010FFFF"
)

// folded returns a text in the form in which it is searched: trimmed and in small letters.
func folded(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

// findID returns the caller's id in the form in which it is searched; empty for an id that was made from an address, which is
// not searched.
func findID(id string) string {
	if strings.HasPrefix(id, subject.MadePrefix) {
		return ""
	}
	return folded(id)
}

// The contacts with exactly this id, address or name, and the contacts that were merged into them.
const personsNamed = `
WITH named AS (
  SELECT p.id FROM contact AS p WHERE /*BY NAME*/p.ws = $1 AND p.ext_id = $2
  UNION SELECT a.contact_id FROM address AS a WHERE a.ws = $1 AND a.hash = $3 AND a.hash <> ''
  UNION SELECT p.id FROM contact AS p WHERE p.find_name = $4 AND p.find_name <> '' AND +p.ws = $1
)
SELECT n.id FROM named AS n
UNION SELECT m.contact_id FROM named AS n CROSS JOIN cadence AS m WHERE m.ws = $1 AND m.merged_into = n.id AND m.merged_into > 0
LIMIT $5`

// personsNamed returns the contacts whose id, address or name is the text, up to manyPersons.
func (s *Store) personsNamed(ctx context.Context, ws subject.WorkspaceID, w ContactQuery) ([]subject.ContactID, error) {
	ids, err := all(ctx, s, "find persons", scanInt, personsNamed, int64(ws), w.Text, w.Hash, folded(w.Text), int64(manyPersons))
	out := make([]subject.ContactID, len(ids))
	for i, id := range ids {
		out[i] = subject.ContactID(id)
	}
	return out, err
}

// to narrows a list of deliveries to a person. If no contact matches, the text is compared with the address of each delivery.
func (s *Store) to(ctx context.Context, ws subject.WorkspaceID, l *listing, w ContactQuery) error {
	ids, err := s.personsNamed(ctx, ws, w)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		l.and("d.address IN (?", w.Text)
		l.bind(", ?)", subject.NormalizeAddress(w.Text))
		return nil
	}
	l.toPersons(ids, w.Text)
	return nil
}

// toPersons narrows a list to the deliveries of the persons, and to deliveries to the address that are not at an address of
// their contact. These are index lookups, which read fewer rows than the list.
func (l *listing) toPersons(ids []subject.ContactID, address string) {
	l.and("d.id IN (\n    SELECT y.id FROM delivery AS y WHERE y.own_address = 0 AND y.address <> '' AND +y.ws = $1 AND y.address IN (?", address)
	l.bind(", ?)", subject.NormalizeAddress(address))
	for _, id := range ids { // one by one: for several at once SQLite reads the whole workspace
		l.bind("\n    UNION ALL SELECT x.id FROM delivery AS x WHERE x.ws = $1 AND x.contact_id = ?", int64(id))
	}
	l.text.WriteString(")")
}

// ofPerson narrows a list to one person, by an index lookup. In the order of the list, SQLite would read every delivery.
func (l *listing) ofPerson(id subject.ContactID) {
	l.and("d.id IN (SELECT x.id FROM delivery AS x WHERE x.ws = $1 AND x.contact_id = ?)", int64(id))
}

// The sign before ws keeps the planner from using the primary key, by which it would read the whole workspace.
const findContacts = `
WITH found AS (
  SELECT 0 AS rank, p.id FROM contact AS p WHERE /*BY NAME*/p.ws = $1 AND p.ext_id = $2
  UNION SELECT 0, a.contact_id FROM address AS a WHERE a.ws = $1 AND a.hash = $3 AND a.hash <> ''
  UNION SELECT 1, id FROM (SELECT p.id, p.find_name FROM contact AS p
    WHERE p.find_name >= $4 AND p.find_name < $5 AND p.find_name <> '' AND +p.ws = $1 ORDER BY p.find_name, p.ws, p.id LIMIT $6) AS n
  UNION SELECT 1, id FROM (SELECT p.id, p.find_id FROM contact AS p
    WHERE p.find_id >= $4 AND p.find_id < $5 AND p.find_id <> '' AND +p.ws = $1 ORDER BY p.find_id, p.ws, p.id LIMIT $6) AS n
), best AS (SELECT id, MIN(rank) AS rank FROM found GROUP BY id)
SELECT ` + contactNames + `
FROM best AS b CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE p.ws = $1 AND p.id = b.id
  AND c.ws = $1 AND c.contact_id = b.id
ORDER BY b.rank, CASE WHEN p.find_name = '' THEN p.find_id ELSE p.find_name END, p.id
LIMIT $6`

// FindContacts returns up to limit contacts: first those whose id or address is the text, then those whose name or id begins
// with the text, in small or capital letters.
func (s *Store) FindContacts(ctx context.Context, ws subject.WorkspaceID, w ContactQuery, limit int) ([]subject.ContactRow, error) {
	begin := folded(w.Text)
	if begin == "" {
		return nil, nil
	}
	return all(ctx, s, "find contacts", scanContact, findContacts, int64(ws), strings.TrimSpace(w.Text), w.Hash, begin, begin+lastText, int64(limit))
}

const recordsNamed = `
SELECT /*NAMES rec (` + recordSpec + `)*/
FROM record AS rec
WHERE rec.ext_id = $2 AND /*BY NAME*/rec.ws = $1 AND rec.deleted = 0
ORDER BY rec.type
LIMIT $3`

// RecordsNamed returns up to limit records of any type that have the id.
func (s *Store) RecordsNamed(ctx context.Context, ws subject.WorkspaceID, id string, limit int) ([]RecordRow, error) {
	return all(ctx, s, "find records", scanRecord, recordsNamed, int64(ws), id, int64(limit))
}
