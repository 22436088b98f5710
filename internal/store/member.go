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
	"github.com/carillonhq/carillon/internal/topic"
)

// MemberPage is how many people of an audience one transaction takes up.
const MemberPage = 500

// maxPeople bounds the people whom a transaction locks on behalf of several occasions; the others are left to
// the next transaction. One occasion may hold more, so that there is always progress.
const maxPeople = 4 * MemberPage

// Audience is whom an occasion concerns: people by name, and a page of those who belong to personas, groups and places, or of everybody.
type Audience struct {
	Refs     []RecipientRef
	Personas []string
	Groups   []string // by the definitions in force; one that is being computed has the page taken of everybody
	Places   []PlaceRef
	Topics   []topic.People
	Everyone bool
	After    subject.ContactID // the last one of the pages before
	// Zone narrows the pages to those who live in it, with Homeless to those without a zone too; empty: everybody.
	Zone     string
	Homeless bool
	// Occasion asks who has a message of an occasion already, from the row of any zone; empty: nobody asks.
	Occasion key.Instance
	// Instance asks who has a message of that row already; 0: nobody asks.
	Instance instance.ID
	Fold     bool // its messages may be folded: what takes others along of the people is read
	meant    bool // the places above others are named
	// Only narrows the pages to one contact, who has no further pages; 0: everybody.
	Only subject.ContactID
	// Survivor has a contact who is merged replaced by the survivor in Only.
	Survivor bool
}

// pages reports whether the audience is taken up in pages.
func (a Audience) pages() bool {
	return a.Everyone || len(a.Personas) > 0 || len(a.Groups) > 0 || len(a.Places) > 0 || len(a.Topics) > 0
}

// People are those of an Audience: the persons of its Refs, in their order, and then the page, in the order of ids.
type People struct {
	Persons []delivery.Person
	Members []delivery.Person
	// Places are those of the audience, with the names of the places that are meant by places above others; nil: it has no such places.
	Places []PlaceRef
	// Topics are those that are meant by each of the Topics of the audience, and Subscriptions what the members subscribe to; nil: it has no topics.
	Topics        []topic.Meant
	Subscriptions map[subject.ContactID][]topic.Subscription
	// After is the last one of the page, when there may be more; else 0.
	After subject.ContactID
	// Notified are those who have a message of the Occasion or the Instance that the audience names, and Zones what has become of its rows of zones.
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

const membersOfGroup = `
SELECT m.contact_id FROM group_member AS m
WHERE m.ws = $2 AND m.name = $1 AND m.contact_id > $3
ORDER BY m.contact_id
LIMIT $4`

const membersOfGroupIn = `
SELECT m.contact_id FROM group_member AS m CROSS JOIN contact AS p
WHERE m.ws = $2 AND m.name = $1 AND m.contact_id > $3 AND p.ws = m.ws AND p.id = m.contact_id AND p.timezone || '' IN ($5, $6)
ORDER BY m.contact_id
LIMIT $4`

// page is what a source of members is asked for: the next ones of a persona, of a group, of a place or of everybody, in the order of their ids. Many
// occasions of a batch ask for the same.
type page struct {
	ws        subject.WorkspaceID
	persona   string // empty, and no group or place: everybody
	group     string
	place     string
	below     bool            // with the places below it
	kind      string          // with below: the type of their own place; empty: any
	topic     subject.TopicID // 0: any, with anyTopic
	anyTopic  bool
	frequency string // of subscriptions; empty: any
	moved     int64  // those that a run has ended since then, in µs; 0: those that go on
	after     subject.ContactID
	zone      string // empty: any
	other     string // another one, which may be that of nobody
}

// members reads the ids of one page. Of a place with those below it, it may be longer than MemberPage.
func (t *Tx) members(p page) ([]subject.ContactID, error) {
	if p.below {
		return t.membersBelow(p)
	}
	if p.topic != 0 || p.anyTopic {
		return t.subscribers(p)
	}
	text, in, name := membersOfAll, membersOfAllIn, ""
	switch {
	case p.group != "":
		text, in, name = membersOfGroup, membersOfGroupIn, p.group
	case p.place != "":
		text, in, name = membersOfPlace, membersOfPlaceIn, p.place
	case p.persona != "":
		text, in, name = membersOfPersona, membersOfPersonaIn, p.persona
	}
	args := []any{name, int64(p.ws), int64(p.after), int64(MemberPage)}
	if p.zone != "" {
		text, args = in, append(args, p.zone, p.other)
	}
	if name == "" {
		args = args[1:]
	}
	return t.memberIDs(text, args...)
}

func (t *Tx) memberIDs(text string, args ...any) ([]subject.ContactID, error) {
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

// sources are those of an audience whose members one page merges. computed are the groups that can be read.
func (a Audience) sources(ws subject.WorkspaceID, computed map[groupRef]bool, meant meanings) []page {
	from := page{ws: ws, after: a.After, zone: a.Zone, other: a.Zone}
	if a.Homeless {
		from.other = ""
	}
	if a.Everyone || slices.ContainsFunc(a.Groups, func(name string) bool { return !computed[groupRef{ws, name}] }) {
		return []page{from} // it has all others
	}
	var all []page
	for _, persona := range slices.Compact(slices.Sorted(slices.Values(a.Personas))) {
		one := from
		one.persona = persona
		all = append(all, one)
	}
	for _, group := range slices.Compact(slices.Sorted(slices.Values(a.Groups))) {
		one := from
		one.group = group
		all = append(all, one)
	}
	for _, place := range a.Places {
		if place.Name == "" { // there is no place above
			continue
		}
		one := from
		one.place, one.below = place.Name, place.Below
		all = append(all, one.ofTypes(place.Types)...)
	}
	for _, people := range a.Topics {
		all = append(all, topicPages(from, people, meant.of(ws, people))...)
	}
	return all
}

// memberPage returns the next members of the sources of an audience, in the order of their ids, each once.
func (t *Tx) memberPage(sources []page, known map[page][]subject.ContactID) (ids []subject.ContactID, after subject.ContactID, err error) {
	pages := make([][]subject.ContactID, len(sources))
	for i, source := range sources {
		found, ok := known[source]
		if !ok {
			if found, err = t.members(source); err != nil {
				return nil, 0, err
			}
			known[source] = found
		}
		pages[i] = found
	}
	ids, after = merge(pages, MemberPage)
	return ids, after, nil
}

// merge merges pages of ids, each in ascending order, into one of at most size ids. Each page holds the next ids of its source, and has size of them if
// there may be more, so that no id before the last one is left out. after is the last one, if there may be more; else 0.
func merge(pages [][]subject.ContactID, size int) (ids []subject.ContactID, after subject.ContactID) {
	ids = slices.Concat(pages...)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) >= size { // always if a source may have more: its page alone has so many
		ids = ids[:size]
		after = ids[size-1]
	}
	return ids, after
}

// People finds and locks the people of groups of audiences, each of one workspace. It returns the people of the
// first groups that fit, at least of one; the next transaction reads the others. If ofContext is set, it also reads the
// deliveries that wait for them.
func (t *Tx) People(now time.Time, groups [][]Audience, workspace func(group int) subject.WorkspaceID, floor Floor, ofContext bool) ([][]People, error) {
	groups, err := t.meantPlaces(groups, workspace)
	if err != nil {
		return nil, err
	}
	known, wanted := map[page][]subject.ContactID{}, map[groupRef]bool{}
	for g, group := range groups {
		for _, a := range group {
			for _, name := range a.Groups {
				wanted[groupRef{workspace(g), name}] = true
			}
		}
	}
	computed, err := t.computedGroups(wanted)
	if err != nil {
		return nil, err
	}
	meant, err := t.meantTopics(groups, workspace)
	if err != nil {
		return nil, err
	}
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
			switch {
			case a.Survivor:
				if ids, err = t.survivor(ws, a.Only); err != nil {
					return nil, err
				}
			case a.Only == 0:
				if ids, after, err = t.memberPage(a.sources(ws, computed, meant), known); err != nil {
					return nil, err
				}
			}
			found[i] = People{Members: make([]delivery.Person, len(ids)), After: after}
			if a.meant {
				found[i].Places = a.Places
			}
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
			if err := t.readTopics(workspace(g), groups[g][i], meant, p); err != nil {
				return nil, err
			}
			if err := t.notifiedContacts(workspace(g), groups[g][i].Occasion, p); err != nil {
				return nil, err
			}
		}
	}
	return fit, t.notifiedBefore(groups[:len(fit)], fit)
}

// Audience finds the people of an audience without a lock, and makes no contact. Who would be made has an id below 0 and what the reference says.
func (t *Tx) Audience(ws subject.WorkspaceID, a Audience) (people People, err error) {
	groups, err := t.meantPlaces([][]Audience{{a}}, func(int) subject.WorkspaceID { return ws })
	if err != nil {
		return people, err
	}
	if a = groups[0][0]; a.meant {
		people.Places = a.Places
	}
	meant, err := t.meantTopics([][]Audience{{a}}, func(int) subject.WorkspaceID { return ws })
	if err != nil {
		return people, err
	}
	refs := make([]recipient, 0, len(a.Refs))
	for _, ref := range a.Refs {
		refs = append(refs, recipient{ws, ref})
	}
	if a.pages() {
		wanted := map[groupRef]bool{}
		for _, name := range a.Groups {
			wanted[groupRef{ws, name}] = true
		}
		computed, err := t.computedGroups(wanted)
		if err != nil {
			return people, err
		}
		ids, after, err := t.memberPage(a.sources(ws, computed, meant), map[page][]subject.ContactID{})
		if err != nil {
			return people, err
		}
		people.After = after
		for _, id := range ids {
			refs = append(refs, recipient{ws, RecipientRef{ID: id}})
		}
	}
	persons, apart, err := t.findPersons(refs)
	if err != nil {
		return people, err
	}
	read := make([]delivery.PersonRef, 0, len(persons))
	for _, p := range persons {
		if p.Found {
			read = append(read, delivery.PersonRef{Workspace: ws, ID: p.ID})
		}
	}
	known, err := t.readPersons(read)
	if err != nil {
		return people, err
	}
	onTheirOwn(apart, known)
	made := map[string]subject.ContactID{}
	for i, p := range persons {
		switch ref := refs[i]; {
		case p.Found:
			persons[i] = known[delivery.PersonRef{Workspace: ws, ID: p.ID}]
			persons[i].Found = persons[i].ID != 0 && persons[i].MergedInto == 0
		case ref.Create:
			if made[ref.NewExtID] == 0 {
				made[ref.NewExtID] = -subject.ContactID(len(made) + 1)
			}
			persons[i] = delivery.Person{Found: true, Contact: subject.Contact{ID: made[ref.NewExtID], ExtID: ref.NewExtID, Locale: ref.Locale, Timezone: ref.Timezone}}
		}
	}
	people.Persons, people.Members = persons[:len(a.Refs)], persons[len(a.Refs):]
	return people, t.readTopics(ws, a, meant, &people)
}

// zonesEnd follows the rows of an occasion in all zones in the order of keys, as ';' follows ':'.
const zonesEnd = ":z;"

// Between them in the order of keys are rows of other occasions too, whose names begin alike.
const rowsOfOccasion = `
SELECT i.id, i.key, i.status FROM instance AS i
WHERE +i.ws = $1 AND i.key >= $2 AND i.key < $3`

const recipientsOfOccasion = `
SELECT d.instance_id, d.contact_id
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
	notified, err := t.recipientsOf(&wanted)
	people.Notified = map[subject.ContactID]bool{}
	for has := range notified {
		people.Notified[has.contact] = true
	}
	return err
}

// receipt is a contact who has a delivery of an instance.
type receipt struct {
	instance instance.ID
	contact  subject.ContactID
}

// recipientsOf returns those of the wanted pairs for which there is a delivery.
func (t *Tx) recipientsOf(wanted *rowset) (map[receipt]bool, error) {
	found := map[receipt]bool{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var has receipt
		err := rows.Scan(&has.instance, &has.contact)
		found[has] = true
		return struct{}{}, err
	}, recipientsOfOccasion, wanted)
	if err != nil {
		return nil, fmt.Errorf("find who was notified: %w", err)
	}
	return found, nil
}

// notifiedBefore finds those of the people who have a message of the instance that their audience names.
func (t *Tx) notifiedBefore(groups [][]Audience, found [][]People) error {
	var wanted rowset
	of := map[instance.ID]*People{}
	for g, group := range groups {
		for i, a := range group {
			if a.Instance == 0 {
				continue
			}
			people := &found[g][i]
			of[a.Instance] = people
			for _, person := range slices.Concat(people.Persons, people.Members) {
				if person.Found {
					wanted.row().int(int64(a.Instance)).int(int64(person.ID))
				}
			}
		}
	}
	notified, err := t.recipientsOf(&wanted)
	for has := range notified {
		people := of[has.instance]
		if people.Notified == nil {
			people.Notified = map[subject.ContactID]bool{}
		}
		people.Notified[has.contact] = true
	}
	return err
}
