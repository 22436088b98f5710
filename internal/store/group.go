package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// The table group_member says which contacts may belong to a group, so that they are found without reading all contacts. Whether a contact does belong
// is decided by the definition of the group, when the contact is locked.
//
// The rows of a contact are written in each transaction that writes the contact, by the definitions that it holds, and those of all contacts by a job
// when groups are new or have changed. Until the job is done, a group has no row in contact_group, and its members are looked for among all contacts.

// Grouping returns the names of the groups to which a contact belongs by the definitions in force.
type Grouping func(subject.WorkspaceID, subject.Contact) []string

// GroupBy says to which groups the contacts belong that the transaction makes. Without it they belong to none.
func (t *Tx) GroupBy(grouping Grouping) { t.grouping = grouping }

// Membership is a contact with all groups to which it belongs.
type Membership struct {
	Contact subject.ContactID
	Groups  []string
	New     bool // the transaction makes the contact
}

const insertMembers = `
INSERT INTO group_member (ws, name, contact_id)
SELECT r.ws, r.name, r.contact_id FROM /*ROWS $1 (ws bigint, name text, contact_id bigint)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const deleteGroupMembers = `
DELETE FROM group_member
WHERE (ws, name, contact_id) IN (SELECT r.ws, r.name, r.contact_id FROM /*ROWS $1 (ws bigint, name text, contact_id bigint)*/ AS r)`

const membershipsOfContacts = `
SELECT m.contact_id, m.name
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN group_member AS m
WHERE m.ws = r.ws AND m.contact_id = r.id`

// KeepGroups writes which groups locked or new contacts belong to.
func (t *Tx) KeepGroups(ws subject.WorkspaceID, list []Membership) error {
	var known []subject.ContactID
	for _, m := range list {
		if !m.New {
			known = append(known, m.Contact)
		}
	}
	before, err := t.memberships(ws, known)
	if err != nil {
		return err
	}
	var joins, leaves rowset
	for _, m := range slices.SortedFunc(slices.Values(list), func(a, b Membership) int { return cmp.Compare(a.Contact, b.Contact) }) {
		for _, name := range m.Groups {
			if !slices.Contains(before[m.Contact], name) {
				joins.row().int(int64(ws)).text(name).int(int64(m.Contact))
			}
		}
		for _, name := range before[m.Contact] {
			if !slices.Contains(m.Groups, name) {
				leaves.row().int(int64(ws)).text(name).int(int64(m.Contact))
			}
		}
	}
	if _, err := t.exec(deleteGroupMembers, &leaves); err != nil {
		return fmt.Errorf("leave groups: %w", err)
	}
	return t.insertNew("join groups", insertMembers, &joins)
}

func (t *Tx) memberships(ws subject.WorkspaceID, ids []subject.ContactID) (map[subject.ContactID][]string, error) {
	var wanted rowset
	for _, id := range ids {
		wanted.row().int(int64(ws)).int(int64(id))
	}
	found := map[subject.ContactID][]string{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var id subject.ContactID
		var name string
		err := rows.Scan(&id, &name)
		found[id] = append(found[id], name)
		return struct{}{}, err
	}, membershipsOfContacts, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read the groups of contacts: %w", err)
	}
	return found, nil
}

// groupRef names a group.
type groupRef struct {
	ws   subject.WorkspaceID
	name string
}

const computedGroups = `
SELECT g.ws, g.name
FROM /*ROWS $1 (ws bigint, name text)*/ AS r CROSS JOIN contact_group AS g
WHERE g.ws = r.ws AND g.name = r.name`

// computedGroups returns those of some groups whose members are all in group_member.
func (t *Tx) computedGroups(refs map[groupRef]bool) (map[groupRef]bool, error) {
	var wanted rowset
	for _, ref := range slices.SortedFunc(maps.Keys(refs), func(a, b groupRef) int {
		return cmp.Or(cmp.Compare(a.ws, b.ws), strings.Compare(a.name, b.name))
	}) {
		wanted.row().int(int64(ref.ws)).text(ref.name)
	}
	computed := map[groupRef]bool{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ref groupRef
		err := rows.Scan(&ref.ws, &ref.name)
		computed[ref] = true
		return struct{}{}, err
	}, computedGroups, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read which groups are computed: %w", err)
	}
	return computed, nil
}

const forgetGroups = `
DELETE FROM contact_group
WHERE (ws, name) IN (SELECT r.ws, r.name FROM /*ROWS $1 (ws bigint, name text)*/ AS r)`

// RecomputeGroups says that the members of groups have to be computed: an edit has changed or removed the groups.
func (t *Tx) RecomputeGroups(ws subject.WorkspaceID, names []string) error {
	if _, err := t.exec(forgetGroups, groupRows(ws, names)); err != nil {
		return fmt.Errorf("forget the members of groups: %w", err)
	}
	return nil
}

const insertGroups = `
INSERT INTO contact_group (ws, name)
SELECT r.ws, r.name FROM /*ROWS $1 (ws bigint, name text)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// GroupsComputed says that all members of groups are in group_member.
func (t *Tx) GroupsComputed(ws subject.WorkspaceID, names []string) error {
	if _, err := t.exec(insertGroups, groupRows(ws, names)); err != nil {
		return fmt.Errorf("keep which groups are computed: %w", err)
	}
	return nil
}

func groupRows(ws subject.WorkspaceID, names []string) *rowset {
	var rows rowset
	for _, name := range slices.Sorted(slices.Values(names)) {
		rows.row().int(int64(ws)).text(name)
	}
	return &rows
}

// Grouped is a contact with the groups that group_member has of it.
type Grouped struct {
	subject.Contact
	Groups []string // in no order
}

const contactsAfter = `
SELECT ` + personNames + `
FROM contact AS p CROSS JOIN cadence AS c
WHERE p.ws = $1 AND p.id > $2 AND c.ws = p.ws AND c.contact_id = p.id
ORDER BY p.id
LIMIT $3`

// GroupedAfter returns the contacts after one, up to a limit, with their groups, without a lock.
func (t *Tx) GroupedAfter(ws subject.WorkspaceID, after subject.ContactID, limit int) ([]Grouped, error) {
	contacts, err := query(t, func(rows *sql.Rows) (subject.Contact, error) { return personColumns.scan(rows) }, contactsAfter, int64(ws), int64(after), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read contacts: %w", err)
	}
	ids := make([]subject.ContactID, len(contacts))
	for i, c := range contacts {
		ids[i] = c.ID
	}
	groups, err := t.memberships(ws, ids)
	if err != nil {
		return nil, err
	}
	list := make([]Grouped, len(contacts))
	for i, c := range contacts {
		list[i] = Grouped{c, groups[c.ID]}
	}
	return list, nil
}

// LockContactsByID locks contacts and returns them as they are then, in the order of their ids.
func (t *Tx) LockContactsByID(ws subject.WorkspaceID, ids []subject.ContactID) ([]subject.Contact, error) {
	refs := make([]delivery.PersonRef, len(ids))
	for i, id := range ids {
		refs[i] = delivery.PersonRef{Workspace: ws, ID: id}
	}
	if _, err := t.personsBy(lockPersonsByID, personRows(refs), true); err != nil {
		return nil, fmt.Errorf("lock contacts: %w", err)
	}
	persons, err := t.readPersons(refs) // the statement that locks sees the rows as they were before it began to wait
	if err != nil {
		return nil, err
	}
	contacts := make([]subject.Contact, 0, len(persons))
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if p, ok := persons[delivery.PersonRef{Workspace: ws, ID: id}]; ok {
			contacts = append(contacts, p.Contact)
		}
	}
	return contacts, nil
}

// GroupState is what is known of a group.
type GroupState struct {
	Computed bool  // false: it is being computed, and the rest is not all of it
	Members  int64 // contacts that belong to it
}

// A merged contact keeps its rows, in case its address is given up again.
const groupStates = `
SELECT r.name, EXISTS (SELECT 1 FROM contact_group AS g WHERE g.ws = r.ws AND g.name = r.name),
  (SELECT COUNT(*) FROM group_member AS m WHERE m.ws = r.ws AND m.name = r.name)
  - (SELECT COUNT(*) FROM cadence AS c CROSS JOIN group_member AS m
     WHERE c.ws = r.ws AND c.merged_into > 0 AND m.ws = c.ws AND m.name = r.name AND m.contact_id = c.contact_id)
FROM /*ROWS $1 (ws bigint, name text)*/ AS r`

// GroupStates returns the states of groups.
func (s *Store) GroupStates(ctx context.Context, ws subject.WorkspaceID, names []string) (map[string]GroupState, error) {
	states := make(map[string]GroupState, len(names))
	err := s.Read(ctx, func(t *Tx) error {
		_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
			var name string
			var state GroupState
			err := rows.Scan(&name, &state.Computed, &state.Members)
			states[name] = state
			return struct{}{}, err
		}, groupStates, groupRows(ws, names))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the states of groups: %w", err)
	}
	return states, nil
}

const groupMembers = `
SELECT ` + contactNames + `
FROM group_member AS m CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE m.ws = $1 AND m.name = $2 AND m.contact_id < $3
  AND p.ws = m.ws AND p.id = m.contact_id AND c.ws = m.ws AND c.contact_id = m.contact_id AND c.merged_into = 0
ORDER BY m.contact_id DESC
LIMIT $4`

// GroupMembers lists the contacts of a group, the newest first.
func (s *Store) GroupMembers(ctx context.Context, ws subject.WorkspaceID, name string, p Page) ([]subject.ContactRow, error) {
	before, limit := int64(math.MaxInt64), int64(defaultPage)
	if p.Before > 0 {
		before = p.Before
	}
	if p.Limit > 0 {
		limit = int64(p.Limit)
	}
	return all(ctx, s, "list the members of a group", scanContact, groupMembers, int64(ws), name, before, limit)
}
