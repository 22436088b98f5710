package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// slotHistory is how far back the slots of a person are kept, and loaded without a Floor: the longest window of a limit is a
// calendar month in any zone, and a cooldown may be as long again.
const slotHistory = 62 * 24 * time.Hour

// Ids only: the persons are read after they were locked. An id names the survivor of its contact. A contact that was made for an address and merged into
// another one, which does not have the address, is found by the address as the negative of its id.
const findRecipients = `
SELECT r.n, COALESCE(
  (SELECT CASE WHEN m.merged_into > 0 THEN m.merged_into ELSE x.id END FROM contact AS x CROSS JOIN cadence AS m
   WHERE /*BY NAME*/x.ws = r.ws AND x.ext_id = r.ext_id AND r.ext_id <> '' AND m.ws = x.ws AND m.contact_id = x.id),
  (SELECT a.contact_id FROM address AS a WHERE a.ws = r.ws AND a.hash = r.hash AND r.hash <> ''),
  (SELECT CASE WHEN m.merged_into > 0 THEN -x.id ELSE x.id END FROM contact AS x CROSS JOIN cadence AS m
   WHERE /*BY NAME*/x.ws = r.ws AND x.ext_id = r.new_ext_id AND r.new_ext_id <> '' AND m.ws = x.ws AND m.contact_id = x.id), 0)
FROM /*ROWS $1 (n bigint, ws bigint, ext_id text, hash text, new_ext_id text)*/ AS r`

const insertCadences = `
INSERT INTO cadence (ws, contact_id)
SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const insertAddresses = `
INSERT INTO address (ws, hash, contact_id)
SELECT r.ws, r.hash, r.contact_id FROM /*ROWS $1 (ws bigint, hash text, contact_id bigint)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// recipient is a reference with its workspace.
type recipient struct {
	ws subject.WorkspaceID
	RecipientRef
}

type extID struct {
	ws subject.WorkspaceID
	id string
}

// persons finds the recipients, makes missing ones that may be made, and locks those whose slots may be taken. The result is
// in the order of refs. A reference finds a contact that an earlier one of the same call made.
func (t *Tx) persons(now time.Time, refs []recipient, floor Floor) ([]delivery.Person, error) {
	persons, apart, err := t.findPersons(refs)
	if err != nil {
		return nil, err
	}
	if err := t.makeContacts(now, refs, persons); err != nil {
		return nil, err
	}
	var lock, read []delivery.PersonRef
	for i, r := range refs {
		switch {
		case persons[i].Found && r.Lock:
			lock = append(lock, delivery.PersonRef{Workspace: r.ws, ID: persons[i].ID})
		case persons[i].Found:
			read = append(read, delivery.PersonRef{Workspace: r.ws, ID: persons[i].ID})
		}
	}
	known, err := t.lockPersons(now, lock, floor)
	if err != nil {
		return nil, err
	}
	if len(read) > 0 {
		others, err := t.readPersons(read)
		if err != nil {
			return nil, err
		}
		maps.Copy(others, known) // a person locked for one reference is locked for all
		known = others
	}
	if err := t.part(apart); err != nil {
		return nil, err
	}
	onTheirOwn(apart, known)
	for i, r := range refs {
		if !persons[i].Found {
			continue
		}
		if persons[i] = known[delivery.PersonRef{Workspace: r.ws, ID: persons[i].ID}]; persons[i].MergedInto == 0 {
			continue
		}
		if r.ID == 0 {
			return nil, ErrAgain // claimed meanwhile: the next try finds the survivor
		}
		persons[i].Found = false // of a page that has the survivor too
	}
	return persons, t.restoreAddresses(refs, persons)
}

// findPersons finds the recipients that have contacts. Of those it reads the ids. apart are merged contacts whose addresses are named: their survivors
// have given them up.
func (t *Tx) findPersons(refs []recipient) (persons []delivery.Person, apart []partedContact, err error) {
	persons = make([]delivery.Person, len(refs))
	var wanted rowset
	for i, r := range refs {
		if r.ID != 0 {
			persons[i] = delivery.Person{Contact: subject.Contact{ID: r.ID}, Found: true}
			continue
		}
		made := r.NewExtID
		if !r.Create {
			made = ""
		}
		wanted.row().int(int64(i)).int(int64(r.ws)).text(r.ExtID).text(r.AddressHash).text(made)
	}
	_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
		var n int
		var id subject.ContactID
		err := rows.Scan(&n, &id)
		if err == nil && id < 0 {
			id = -id
			apart = append(apart, partedContact{delivery.PersonRef{Workspace: refs[n].ws, ID: id}, refs[n].AddressHash})
		}
		if err == nil && id != 0 {
			persons[n] = delivery.Person{Contact: subject.Contact{ID: id}, Found: true}
		}
		return struct{}{}, err
	}, findRecipients, &wanted)
	if err != nil {
		return nil, nil, fmt.Errorf("find recipients: %w", err)
	}
	return persons, apart, nil
}

// partedContact is a merged contact whose address is of nobody.
type partedContact struct {
	delivery.PersonRef
	hash string
}

const partContacts = `
UPDATE cadence SET merged_into = 0
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id`

// onTheirOwn has merged contacts count as contacts of their own among the known.
func onTheirOwn(apart []partedContact, known map[delivery.PersonRef]delivery.Person) {
	for _, c := range apart {
		if person, ok := known[c.PersonRef]; ok {
			person.MergedInto = 0
			known[c.PersonRef] = person
		}
	}
}

// part makes merged contacts contacts of their own again.
func (t *Tx) part(apart []partedContact) error {
	if len(apart) == 0 {
		return nil
	}
	slices.SortFunc(apart, func(a, b partedContact) int { return comparePersonRef(a.PersonRef, b.PersonRef) })
	var contacts, addresses rowset
	for _, c := range slices.Compact(apart) {
		contacts.row().int(int64(c.Workspace)).int(int64(c.ID))
		addresses.row().int(int64(c.Workspace)).text(c.hash).int(int64(c.ID))
	}
	if _, err := t.exec(partContacts, &contacts); err != nil {
		return fmt.Errorf("part contacts: %w", err)
	}
	return t.insertNew("part contacts", insertAddresses, &addresses)
}

// RecipientIn refers to a recipient in a workspace.
type RecipientIn struct {
	Workspace subject.WorkspaceID
	RecipientRef
}

// Contacts returns the contacts of recipients, in their order, without a lock. It makes none: the contact of an unknown recipient is zero.
func (t *Tx) Contacts(of []RecipientIn) ([]subject.Contact, error) {
	refs := make([]recipient, len(of))
	for i, r := range of {
		refs[i] = recipient{r.Workspace, r.RecipientRef}
	}
	persons, _, err := t.findPersons(refs)
	if err != nil {
		return nil, err
	}
	var read []delivery.PersonRef
	for i, p := range persons {
		if p.Found {
			read = append(read, delivery.PersonRef{Workspace: refs[i].ws, ID: p.ID})
		}
	}
	known, err := t.readPersons(read)
	if err != nil {
		return nil, err
	}
	contacts := make([]subject.Contact, len(of))
	for i, p := range persons {
		contacts[i] = known[delivery.PersonRef{Workspace: refs[i].ws, ID: p.ID}].Contact
	}
	return contacts, nil
}

// makeContacts makes the missing contacts of persons. If another transaction makes the same one meanwhile, this one runs
// again and finds it.
func (t *Tx) makeContacts(now time.Time, refs []recipient, persons []delivery.Person) error {
	byExtID, byHash := map[extID]int{}, map[extID]int{} // index of the reference that made it
	for i, r := range refs {
		if persons[i].Found {
			continue
		}
		ext, hash, made := extID{r.ws, r.ExtID}, extID{r.ws, r.AddressHash}, extID{r.ws, r.NewExtID}
		if n, ok := byExtID[ext]; ok && r.ExtID != "" {
			persons[i] = persons[n]
		} else if n, ok := byHash[hash]; ok && r.AddressHash != "" {
			persons[i] = persons[n]
		} else if n, ok := byExtID[made]; ok && r.Create {
			persons[i] = persons[n]
		} else if r.Create {
			if r.NewExtID == "" {
				return fmt.Errorf("%w: a contact needs an ext_id", ErrInvalid)
			}
			persons[i] = delivery.Person{Found: true, Contact: subject.Contact{
				ID: subject.ContactID(t.s.NewID(now)), ExtID: r.NewExtID, Address: r.Address, Locale: r.Locale, Timezone: r.Timezone,
			}}
			byExtID[made] = i
			if r.AddressHash != "" {
				byHash[hash] = i
			}
		}
	}
	if len(byExtID) == 0 {
		return nil
	}
	var contacts, cadences, addresses, members rowset
	for _, made := range slices.SortedFunc(maps.Keys(byExtID), compareExtID) { // one order everywhere: no deadlock
		c := persons[byExtID[made]].Contact
		newContactColumns.put(&contacts, &subject.ContactRow{Contact: c, CreatedAt: now}, int64(made.ws))
		cadences.row().int(int64(made.ws)).int(int64(c.ID))
		if t.grouping != nil {
			for _, name := range t.grouping(made.ws, c) {
				members.row().int(int64(made.ws)).text(name).int(int64(c.ID))
			}
		}
	}
	for _, hash := range slices.SortedFunc(maps.Keys(byHash), compareExtID) {
		addresses.row().int(int64(hash.ws)).text(hash.id).int(int64(persons[byHash[hash]].ID))
	}
	for _, insert := range []struct {
		text string
		rows *rowset
	}{{insertContacts, &contacts}, {insertCadences, &cadences}, {insertAddresses, &addresses}, {insertMembers, &members}} {
		if err := t.insertNew("insert contacts", insert.text, insert.rows); err != nil {
			return err
		}
	}
	return nil
}

func compareExtID(a, b extID) int {
	return cmp.Or(cmp.Compare(a.ws, b.ws), strings.Compare(a.id, b.id))
}

const personsByID = `
SELECT ` + personNames + `, p.ws
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN cadence AS c CROSS JOIN contact AS p
WHERE c.ws = r.ws AND c.contact_id = r.id
  AND p.ws = r.ws AND p.id = r.id`

// Always in the order of ids, so that no two transactions wait for each other.
const lockPersonsByID = personsByID + `
ORDER BY c.contact_id, c.ws
/*LOCK c*/`

// A separate statement after the lock: the statement that locks sees the rows as they were before it began to wait.
//
// Waiting deliveries are marked. A delivery with an open intent is in flight, unless this transaction has claimed it; then
// it waits too. If the intent was open before that claim, unknown_since is set.
const slotsOfPersons = `
SELECT r.ws, r.id, COALESCE((
  SELECT string_agg(CAST(d.slot AS text) || ' ' || d.type || ' ' || d.channel || CASE
    WHEN d.send_at = 0 OR d.unknown_since > 0 OR (d.step > 0 AND d.slot <= d.last_sent_at) THEN ''
    WHEN d.intent_at = 0 THEN ' 0'
    ELSE ' ' || CAST(d.id AS text) END, ';') FROM delivery AS d
  WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot >= r.since), ''), COALESCE((
  SELECT string_agg(CAST(d.slot AS text) || ' ' || d.type || ' ' || d.channel, ';') FROM past_slot AS d
  WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot >= r.since), '')
FROM /*ROWS $1 (ws bigint, id bigint, since bigint)*/ AS r`

func personRows(refs []delivery.PersonRef) *rowset {
	refs = slices.SortedFunc(slices.Values(refs), comparePersonRef)
	var rows rowset
	for _, r := range slices.Compact(refs) {
		rows.row().int(int64(r.Workspace)).int(int64(r.ID))
	}
	return &rows
}

// comparePersonRef is the order in which persons are locked.
func comparePersonRef(a, b delivery.PersonRef) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Workspace, b.Workspace))
}

// readPersons loads persons without lock and without slots.
func (t *Tx) readPersons(refs []delivery.PersonRef) (map[delivery.PersonRef]delivery.Person, error) {
	persons, err := t.personsBy(personsByID, personRows(refs), false)
	if err != nil {
		return nil, fmt.Errorf("read persons: %w", err)
	}
	return persons, nil
}

// lockPersons locks persons until the transaction ends and loads their slots.
func (t *Tx) lockPersons(now time.Time, refs []delivery.PersonRef, floor Floor) (map[delivery.PersonRef]delivery.Person, error) {
	persons, err := t.personsBy(lockPersonsByID, personRows(refs), true)
	if err != nil {
		return nil, fmt.Errorf("lock persons: %w", err)
	}
	return persons, t.readSlots(now, persons, floor)
}

// readSlots loads the slots of persons since their Floor.
func (t *Tx) readSlots(now time.Time, persons map[delivery.PersonRef]delivery.Person, floor Floor) error {
	if floor == nil {
		floor = func(subject.WorkspaceID, subject.Contact) time.Time { return now.Add(-slotHistory) }
	}
	var wanted rowset
	for _, ref := range slices.SortedFunc(maps.Keys(persons), comparePersonRef) {
		p := persons[ref]
		p.SlotsRead = true
		persons[ref] = p
		if since := floor(ref.Workspace, p.Contact); !since.IsZero() {
			wanted.row().int(int64(ref.Workspace)).int(int64(ref.ID)).int(max(micros(since), 1))
		}
	}
	type taken struct {
		ref         delivery.PersonRef
		last, first string
	}
	lists, err := query(t, func(rows *sql.Rows) (v taken, err error) {
		return v, rows.Scan(integer(&v.ref.Workspace), integer(&v.ref.ID), &v.last, &v.first)
	}, slotsOfPersons, &wanted)
	if err != nil {
		return fmt.Errorf("load slots: %w", err)
	}
	for _, l := range lists {
		p := persons[l.ref]
		if p.Slots, err = parseSlots(l.last, l.first, func(id delivery.ID) bool { return t.claimed[deliveryRef{l.ref.Workspace, id}] }); err != nil {
			return fmt.Errorf("load slots: %w", err)
		}
		persons[l.ref] = p
	}
	return nil
}

func (t *Tx) personsBy(text string, rows *rowset, locked bool) (map[delivery.PersonRef]delivery.Person, error) {
	persons := make(map[delivery.PersonRef]delivery.Person, rows.n)
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ref delivery.PersonRef
		c, err := personColumns.scan(rows, integer(&ref.Workspace))
		ref.ID = c.ID
		persons[ref] = delivery.Person{Contact: c, Found: true, Locked: locked}
		return struct{}{}, err
	}, text, rows)
	if err != nil {
		return nil, err
	}
	return persons, t.placesOf(persons)
}

// parseSlots reads "µs type channel;…" into slots ordered by instant, type and channel, with equal ones counted. A fourth
// word marks a waiting delivery: 0, or its id if it is one of the claimed.
func parseSlots(list, more string, claimed func(delivery.ID) bool) ([]delivery.Slot, error) {
	if more != "" && list != "" {
		list += ";"
	}
	if list += more; list == "" {
		return nil, nil
	}
	parts := strings.Split(list, ";")
	slots := make([]delivery.Slot, 0, len(parts))
	for _, part := range parts {
		at, rest, _ := strings.Cut(part, " ")
		kind, rest, ok := strings.Cut(rest, " ")
		channel, of, marked := strings.Cut(rest, " ")
		µ, err := strconv.ParseInt(at, 10, 64)
		var id int64
		if marked && err == nil {
			id, err = strconv.ParseInt(of, 10, 64)
		}
		if err != nil || !ok {
			return nil, fmt.Errorf("slot %q is not readable", part)
		}
		waits := marked && (id == 0 || claimed(delivery.ID(id)))
		slots = append(slots, delivery.Slot{At: fromMicros(µ), Type: kind, Channel: channel, N: 1, Waits: waits})
	}
	slices.SortFunc(slots, func(a, b delivery.Slot) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Type, b.Type), strings.Compare(a.Channel, b.Channel), compareBool(a.Waits, b.Waits))
	})
	last := 0
	for _, s := range slots[1:] {
		if p := &slots[last]; p.At.Equal(s.At) && p.Type == s.Type && p.Channel == s.Channel && p.Waits == s.Waits {
			p.N++
			continue
		}
		last++
		slots[last] = s
	}
	return slots[:last+1], nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

const contactByExtID = `
SELECT ` + personNames + `
FROM contact AS p CROSS JOIN cadence AS c
WHERE /*BY NAME*/p.ws = $1 AND p.ext_id = $2
  AND c.ws = p.ws AND c.contact_id = p.id`

// ContactByExtID returns the contact with that id of the caller.
func (s *Store) ContactByExtID(ctx context.Context, ws subject.WorkspaceID, id string) (subject.Contact, bool, error) {
	var c subject.Contact
	found := false
	err := s.Read(ctx, func(t *Tx) error {
		list, err := query(t, func(rows *sql.Rows) (subject.Contact, error) { return personColumns.scan(rows) }, contactByExtID, int64(ws), id)
		if found = len(list) > 0; err != nil || !found {
			return err
		}
		c = list[0]
		return t.placeOf(ws, &c)
	})
	if err != nil {
		return c, false, fmt.Errorf("read contact: %w", err)
	}
	return c, found, nil
}

// ContactByID returns one contact.
func (s *Store) ContactByID(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID) (subject.Contact, bool, error) {
	contacts, err := s.contactsByID(ctx, ws, []subject.ContactID{id})
	c, ok := contacts[id]
	return c, ok, err
}

// ContactsByID returns the contacts that exist.
func (t *Tx) ContactsByID(refs []delivery.PersonRef) (map[delivery.PersonRef]subject.Contact, error) {
	persons, err := t.readPersons(refs)
	contacts := make(map[delivery.PersonRef]subject.Contact, len(persons))
	for ref, p := range persons {
		contacts[ref] = p.Contact
	}
	return contacts, err
}

// contactsByID returns the contacts that exist.
func (s *Store) contactsByID(ctx context.Context, ws subject.WorkspaceID, ids []subject.ContactID) (map[subject.ContactID]subject.Contact, error) {
	refs := make([]delivery.PersonRef, len(ids))
	for i, id := range ids {
		refs[i] = delivery.PersonRef{Workspace: ws, ID: id}
	}
	contacts := make(map[subject.ContactID]subject.Contact, len(ids))
	err := s.Read(ctx, func(t *Tx) error {
		persons, err := t.readPersons(refs)
		for ref, p := range persons {
			contacts[ref.ID] = p.Contact
		}
		return err
	})
	return contacts, err
}
