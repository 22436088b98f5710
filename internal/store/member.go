package store

import (
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// MemberPage is how many people of a persona, or of everybody, one transaction takes up.
const MemberPage = 500

// maxPeople bounds the people whom a transaction locks on behalf of several occasions; the others are left to
// the next transaction. One occasion may hold more, so that there is always progress.
const maxPeople = 4 * MemberPage

// Audience is whom an occasion concerns: people by name, and a page of those who belong to personas or of everybody.
type Audience struct {
	Refs     []RecipientRef
	Personas []string
	Everyone bool
	After    subject.ContactID // the last one of the pages before
	// Zone narrows the pages to those who live in it, with Homeless to those without a zone too; empty: everybody.
	Zone     string
	Homeless bool
	// Occasion asks who has a message of an occasion already, from the row of any zone; empty: nobody asks.
	Occasion key.Instance
	Fold     bool // its messages may be folded: what takes others along of the people is read
	// Only narrows the pages to one contact, who has no further pages; 0: everybody.
	Only subject.ContactID
}

// pages reports whether the audience is taken up in pages.
func (a Audience) pages() bool { return a.Everyone || len(a.Personas) > 0 }

// People are those of an Audience: the persons of its Refs, in their order, and then the page, in the order of ids.
type People struct {
	Persons []delivery.Person
	Members []delivery.Person
	// After is the last one of the page, when there may be more; else 0.
	After subject.ContactID
	// Notified are those who have a message of the Occasion that the audience names, and Zones what has become of its rows of zones.
	Notified map[subject.ContactID]bool
	Zones    map[string]instance.Status
}

// The predicate is that of the index.
const membersOfPersona = `
SELECT p.id FROM contact AS p
WHERE p.persona = $1 AND p.persona <> '' AND p.ws = $2 AND p.id > $3
ORDER BY p.id
LIMIT $4`

// The same of those who live in one of two zones: no index is for that, so each is looked up.
const membersOfPersonaIn = `
SELECT m.id FROM contact AS m CROSS JOIN contact AS p
WHERE m.persona = $1 AND m.persona <> '' AND m.ws = $2 AND m.id > $3 AND p.ws = m.ws AND p.id = m.id AND p.timezone || '' IN ($5, $6)
ORDER BY m.id
LIMIT $4`

const membersOfAll = `
SELECT p.id FROM contact AS p
WHERE p.ws = $1 AND p.id > $2
ORDER BY p.id
LIMIT $3`

const membersOfAllIn = `
SELECT p.id FROM contact AS p
WHERE p.ws = $1 AND p.id > $2 AND p.timezone || '' IN ($4, $5)
ORDER BY p.id
LIMIT $3`

// page is what a page of members is asked for; many occasions of a batch ask for the same.
type page struct {
	ws      subject.WorkspaceID
	persona string // empty: everybody
	after   subject.ContactID
	zone    string // empty: any
	other   string // another one, which may be that of nobody
}

// members reads the ids of one page.
func (t *Tx) members(p page) ([]subject.ContactID, error) {
	text, everybody, args := membersOfPersona, membersOfAll, []any{p.persona, int64(p.ws), int64(p.after), int64(MemberPage)}
	if p.zone != "" {
		text, everybody, args = membersOfPersonaIn, membersOfAllIn, append(args, p.zone, p.other)
	}
	if p.persona == "" {
		text, args = everybody, args[1:]
	}
	ids, err := query(t, scanInt, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	page := make([]subject.ContactID, len(ids))
	for i, id := range ids {
		page[i] = subject.ContactID(id)
	}
	return page, nil
}

// Members returns the ids of the next contacts after one, up to MemberPage: those of a persona, or all of them.
func (t *Tx) Members(ws subject.WorkspaceID, persona string, after subject.ContactID) ([]subject.ContactID, error) {
	return t.members(page{ws: ws, persona: persona, after: after})
}

// memberPage merges the pages of the personas of an audience into one of at most MemberPage ids, in their order. Each page
// holds the next MemberPage of its persona, so that no id before the last one is left out.
func (t *Tx) memberPage(ws subject.WorkspaceID, a Audience, known map[page][]subject.ContactID) (ids []subject.ContactID, after subject.ContactID, err error) {
	wanted := []string{""}
	if !a.Everyone {
		wanted = slices.Compact(slices.Sorted(slices.Values(a.Personas)))
	}
	for _, persona := range wanted {
		p := page{ws: ws, persona: persona, after: a.After, zone: a.Zone, other: a.Zone}
		if a.Homeless {
			p.other = ""
		}
		found, ok := known[p]
		if !ok {
			if found, err = t.members(p); err != nil {
				return nil, 0, err
			}
			known[p] = found
		}
		ids = append(ids, found...)
	}
	slices.Sort(ids) // a contact has one persona, so no id occurs twice
	if len(ids) >= MemberPage {
		ids = ids[:MemberPage]
		after = ids[MemberPage-1]
	}
	return ids, after, nil
}

// People finds and locks the people of groups of audiences, each of one workspace. It returns the people of the
// first groups that fit, at least of one; the next transaction reads the others. If ofContext is set, it also reads the
// deliveries that wait for them.
func (t *Tx) People(now time.Time, groups [][]Audience, workspace func(group int) subject.WorkspaceID, floor Floor, ofContext bool) ([][]People, error) {
	known := map[page][]subject.ContactID{}
	var refs []recipient
	fit := make([][]People, 0, len(groups))
	for g, group := range groups {
		ws := workspace(g)
		found := make([]People, len(group))
		before := len(refs)
		for i, a := range group {
			for _, ref := range a.Refs {
				refs = append(refs, recipient{ws, ref})
			}
			if !a.pages() {
				continue
			}
			ids, after := []subject.ContactID{a.Only}, subject.ContactID(0)
			if a.Only == 0 {
				var err error
				if ids, after, err = t.memberPage(ws, a, known); err != nil {
					return nil, err
				}
			}
			found[i] = People{Members: make([]delivery.Person, len(ids)), After: after}
			for _, id := range ids {
				refs = append(refs, recipient{ws, RecipientRef{ID: id, Lock: true}})
			}
		}
		if g > 0 && len(refs) > before && len(refs) > maxPeople {
			refs = refs[:before]
			break
		}
		fit = append(fit, found)
	}
	persons, err := t.persons(now, refs, floor)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(groups[:len(fit)], func(group []Audience) bool {
		return slices.ContainsFunc(group, func(a Audience) bool { return a.Fold })
	}) {
		if err := t.foldHeadsOf(now, refs, persons); err != nil {
			return nil, err
		}
	}
	if ofContext {
		if err := t.readWaiting(now, refs, persons); err != nil {
			return nil, err
		}
	}
	for g, group := range fit {
		for i := range group {
			p, n, m := &group[i], len(groups[g][i].Refs), len(group[i].Members)
			p.Persons, p.Members, persons = persons[:n:n], persons[n:n+m:n+m], persons[n+m:]
			if m == 1 && groups[g][i].Only != 0 && p.Members[0].MergedInto != 0 {
				return nil, ErrAgain // merged since it was found whose course it is
			}
			if err := t.notifiedContacts(workspace(g), groups[g][i].Occasion, p); err != nil {
				return nil, err
			}
		}
	}
	return fit, nil
}

// zonesEnd follows the rows of an occasion in all zones in the order of keys, as ';' follows ':'.
const zonesEnd = ":z;"

// Between them in the order of keys are rows of other occasions too, whose names begin alike.
const rowsOfOccasion = `
SELECT i.id, i.key, i.status FROM instance AS i
WHERE +i.ws = $1 AND i.key >= $2 AND i.key < $3`

const recipientsOfOccasion = `
SELECT d.contact_id
FROM /*ROWS $1 (instance_id bigint, contact_id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.instance_id = r.instance_id AND d.contact_id = r.contact_id`

// notifiedContacts finds those of the people who have a message of the occasion already. They are locked: nobody makes them one meanwhile.
func (t *Tx) notifiedContacts(ws subject.WorkspaceID, occasion key.Instance, people *People) error {
	if occasion == "" {
		return nil
	}
	var ids []int64
	people.Zones = map[string]instance.Status{}
	from, _ := occasion.Base()
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var id int64
		var k key.Instance
		var status instance.Status
		err := rows.Scan(&id, &k, &status)
		whole := k.Everywhere()
		if base, _ := whole.Base(); whole == occasion || base == occasion { // of a retry it asks for that alone
			ids = append(ids, id)
		}
		if zone := k.Zone(); zone != "" && whole == occasion {
			people.Zones[zone] = status
		}
		return struct{}{}, err
	}, rowsOfOccasion, int64(ws), string(from), string(from)+zonesEnd)
	if err != nil {
		return fmt.Errorf("find the rows of an occasion: %w", err)
	}
	if len(people.Zones) == 0 { // no zone rows: members not read yet cannot have a message
		return nil
	}
	var wanted rowset
	for _, person := range slices.Concat(people.Persons, people.Members) {
		for _, id := range ids {
			wanted.row().int(id).int(int64(person.ID))
		}
	}
	people.Notified = map[subject.ContactID]bool{}
	_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
		var id subject.ContactID
		err := rows.Scan(&id)
		people.Notified[id] = true
		return struct{}{}, err
	}, recipientsOfOccasion, &wanted)
	if err != nil {
		return fmt.Errorf("find who was notified: %w", err)
	}
	return nil
}
