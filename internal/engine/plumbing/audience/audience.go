// Package audience computes the audience of an occasion when it is due.
//
// A trigger's audience is a merge of sources: people who are named one by one, the members of personas, groups and
// places, those who subscribe to topics, or everybody. It is taken up in
// pages, each in a transaction of its own. A Plan first says which contacts to read. When they are read and locked, it selects the recipients among
// them. The recipient of an event is part of this for the later messages of a course; ingest made the delivery of the first one.
//
//	named people, in the order of their ranks ──▶ personas, groups, places, topics, everybody: one merge, in the order of contacts
//	cursor: 0 … −rank of the last one                 … id of the last contact
//
// A cursor names a place in an order that does not move. Who joins before the cursor meanwhile gets nothing from the occasion (R16), and who joins
// after it gets its message. A person gets one delivery of an occasion, by whichever sources and pages they are found.
package audience

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Plan is what a page of a trigger's audience requests.
type Plan struct {
	store.Audience
	input   expr.Input
	set     *definition.Set
	named   []named           // for each of Refs
	ranked  bool              // they are in the order of their ranks
	from    subject.ContactID // the cursor before the page
	next    subject.ContactID // the cursor after the named people of this page, when more are named; else 0
	names   bool              // the audience names people one by one
	members []entry           // the entries for personas, groups, places and everybody
	except  []string          // who gets nothing for what they follow
}

// Sets are the definitions by which an audience is computed.
type Sets struct {
	Own     *definition.Set // to which the occasion belongs
	InForce *definition.Set // by which the store keeps the members of groups
	Item    subject.EventID // of the occasion; 0: it is about no item
	Since   time.Time       // of a digest: since when subscriptions that runs have ended count; zero: it is none
	Except  []string        // ids of contacts whom the item is not for, whatever they follow
	Stops   bool            // a page may end before its last person, as at a brake: those who are named come in the order of their ranks
}

// entry is an entry of the audience.
type entry struct {
	definition.Audience
	groups bool             // its where reads the groups of the contact
	places []store.PlaceRef // whose people it has
	first  int              // of the places: its index among those of the page; of topics: that of its people
}

// named is a contact that an entry names.
type named struct {
	entry
	target plan.Target
	rank   subject.ContactID
	event  *subject.Recipient // of the event; nil: it is another contact
}

// Of evaluates the audience of a trigger on the input of its expressions, for the page after a cursor. 0 begins. recipient is the event's recipient;
// nil: ingest made their delivery, or there is none. The error may be that of an expression, or say that there is no such group.
func Of(t *definition.Trigger, sets Sets, in expr.Input, addresses key.Keyed, after subject.ContactID, recipient *subject.Recipient) (Plan, error) {
	p := Plan{input: in, set: sets.Own, from: after, ranked: sets.Stops, except: sets.Except}
	p.After, p.Fold = max(after, 0), admission.Folds(t.Limits)
	var all []named
	for _, of := range t.Audience {
		e := entry{Audience: of, groups: definition.ReadsGroups(of.Where.Paths())}
		switch {
		case e.EventRecipient && recipient == nil:
			continue
		case e.EventRecipient:
			p.names = true
			if rank := rankOf(plan.Target{ID: recipient.CustomerRef, Address: recipient.Address}); after <= 0 && rank > -after {
				all = append(all, named{entry: e, rank: rank, event: recipient})
			}
			continue
		case e.Above:
			if err := p.above(e); err != nil {
				return p, err
			}
			continue
		case e.To == nil && e.Address == nil && e.Function == nil:
			if err := p.member(e, sets); err != nil {
				return p, err
			}
			continue
		}
		p.names = true
		if after > 0 && !plan.NamesOwners(of) {
			continue
		}
		targets, err := plan.Targets(of, append([]string{t.Channel}, t.Fallback...), in)
		if err != nil {
			return p, err
		}
		for _, target := range targets {
			if target.Group != "" || target.Place != "" {
				if err := p.owner(e, target, sets); err != nil {
					return p, err
				}
				continue
			}
			if after > 0 {
				continue
			}
			if rank := rankOf(target); rank > -after {
				all = append(all, named{entry: e, target: target, rank: rank})
			}
		}
	}
	p.name(addresses, all, store.MemberPage)
	return p, nil
}

// owner adds the people of a group or a place that owns a record. A group that is not defined has nobody, and so has a place that no record has. The places
// below an owner are others (commcare.md §1).
func (p *Plan) owner(e entry, target plan.Target, sets Sets) error {
	e.To = nil
	switch {
	case target.Place != "":
		e.places = []store.PlaceRef{{Name: target.Place}}
		p.place(e)
		return nil
	case sets.Own.Group(target.Group) == nil:
		return nil
	}
	e.Group = target.Group
	return p.member(e, sets)
}

// above adds the people of the places above those that an entry gives. Which places these are is read with the people.
func (p *Plan) above(e entry) error {
	from, err := plan.PlacesOf(e.Audience, p.input)
	if err != nil || len(from) == 0 {
		return err
	}
	for _, t := range from {
		e.places = append(e.places, store.PlaceRef{Name: t.Place, Contact: t.ID, Above: true, Types: e.PlaceTypes})
	}
	p.place(e)
	return nil
}

// member adds an entry whose people are read in pages.
func (p *Plan) member(e entry, sets Sets) error {
	if len(e.Places) > 0 {
		for _, name := range e.Places {
			e.places = append(e.places, store.PlaceRef{Name: name, Below: e.Below, Types: e.PlaceTypes})
		}
		p.place(e)
		return nil
	}
	if e.Topics != "" {
		e.first = len(p.Topics)
		people := plan.Followers(e.Audience, sets.Item)
		people.Since = sets.Since
		p.Topics = append(p.Topics, people)
	}
	p.members = append(p.members, e)
	switch {
	case e.Everyone:
		p.Everyone = true
	case e.Persona != "":
		p.Personas = append(p.Personas, e.Persona)
	case e.Group != "":
		g := sets.Own.Group(e.Group)
		if g == nil {
			return fmt.Errorf("audience: no group named %q", e.Group)
		}
		if now := sets.InForce.Group(e.Group); now != nil && now.Hash == g.Hash {
			p.Groups = append(p.Groups, e.Group)
		} else {
			p.Everyone = true // the store keeps the members of another version, or of none
		}
	}
	return nil
}

// place adds an entry for the people of its places, who are read in pages.
func (p *Plan) place(e entry) {
	e.first = len(p.Places)
	p.members, p.Places = append(p.members, e), append(p.Places, e.places...)
}

// name puts the next ones of those who are named on the page, about size of them. The others, and the members, are left to the next page.
func (p *Plan) name(addresses key.Keyed, all []named, size int) {
	p.ranked = p.ranked || len(all) > size || slices.ContainsFunc(all, func(n named) bool { return n.Where != nil })
	if p.ranked { // the page may end among them
		slices.SortStableFunc(all, func(a, b named) int { return cmp.Compare(a.rank, b.rank) })
	}
	if len(all) > size {
		last := all[size-1].rank // those of the same rank belong to the page
		n, _ := slices.BinarySearchFunc(all, last+1, func(n named, rank subject.ContactID) int { return cmp.Compare(n.rank, rank) })
		if n < len(all) {
			all, p.next = all[:n], -last
			p.Personas, p.Groups, p.Places, p.Topics, p.Everyone = nil, nil, nil, nil, false
		}
	}
	for _, n := range all {
		ref := refOf(addresses, n.target)
		if n.event != nil {
			ref = Recipient(addresses, *n.event)
			ref.Create, ref.Lock = true, true
		}
		p.Refs, p.named = append(p.Refs, ref), append(p.named, n)
	}
}

// ranks is the greatest rank.
const ranks = 1 << 62

// rankOf is the place of a target in the order in which named people are taken up, from 1 to ranks. It depends on the target alone, so that a list that
// changes between two pages is neither repeated nor passed over.
func rankOf(t plan.Target) subject.ContactID {
	const offset, prime = 14695981039346656037, 1099511628211 // of FNV-1a
	h := uint64(offset)
	for _, part := range []string{t.ID, t.Address} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * prime
		}
		h *= prime // ends the part
	}
	return subject.ContactID(h>>2) + 1
}

// refOf is the reference of a target: by its id, else by its address. An address without a contact gets a new one (R20).
func refOf(addresses key.Keyed, t plan.Target) store.RecipientRef {
	if t.Address == "" {
		return store.RecipientRef{ExtID: t.ID, Lock: true}
	}
	ref := Recipient(addresses, subject.Recipient{Address: t.Address, Locale: t.Locale})
	ref.ExtID, ref.Timezone = t.ID, t.Timezone
	ref.Create, ref.Lock = true, true
	return ref
}

// Add names one more contact.
func (p *Plan) Add(ref store.RecipientRef) {
	p.Refs, p.named = append(p.Refs, ref), append(p.named, named{})
}

// Narrow leaves the others than one contact out, where they are known by the names of the contact to be others without reading them. The caller leaves
// the rest out.
func (p *Plan) Narrow(id subject.ContactID, names ...string) {
	p.Only = id
	var refs []store.RecipientRef
	var of []named
	for i, ref := range p.Refs {
		if slices.Contains(names, ref.ExtID) || ref.AddressHash != "" {
			refs, of = append(refs, ref), append(of, p.named[i])
		}
	}
	p.Refs, p.named = refs, of
}

// Names reports whether the audience names people one by one, so that another page may find one of them again.
func (p *Plan) Names() bool { return p.names }

// Selected is somebody whom a page selects.
type Selected struct {
	admission.Recipient
	Before subject.ContactID // the cursor with which the next page begins with them, if Sets.Stops
}

// Recipients selects the recipients among the contacts, each once: a contact gets one delivery of an occasion. after is the cursor of the next page, 0
// if there is none. If the evaluation costs more than one transaction may do, the page ends early.
func (p *Plan) Recipients(people store.People) (list []Selected, after subject.ContactID) {
	seen := map[subject.ContactID]bool{}
	done := subject.ContactID(0) // cursor of those who are done; 0: nobody is
	take := func(r admission.Recipient) {
		seen[r.Person.ID] = true
		list = append(list, Selected{Recipient: r, Before: cmp.Or(done, p.from)})
	}
	for i, person := range people.Persons {
		of := p.named[i]
		if p.ranked && done != 0 && -of.rank < done && p.input.Meter.Full() {
			return list, done
		}
		switch {
		case !person.Found || seen[person.ID] || !p.holds(of.entry, person):
		default:
			take(of.recipient(person))
		}
		done = -of.rank
	}
	if p.next != 0 {
		return list, p.next
	}
	if len(people.Persons) > 0 {
		done = -ranks
	}
	for _, person := range people.Members {
		if done != 0 && p.input.Meter.Full() {
			return list, done
		}
		means := func(e entry) bool { return p.includes(e, person, people) && p.holds(e, person) }
		if person.Found && !seen[person.ID] && slices.ContainsFunc(p.members, means) {
			take(member(person))
		}
		done = person.ID
	}
	return list, people.After
}

// Addresses returns where messages of a trigger could go to those who were read, whether they belong to the audience or not.
func (p *Plan) Addresses(ws subject.WorkspaceID, t *definition.Trigger, people store.People) (list []admission.Address) {
	for i, person := range people.Persons {
		if person.Found {
			list = append(list, p.named[i].recipient(person).Addresses(ws, t)...)
		}
	}
	for _, person := range people.Members {
		if person.Found {
			list = append(list, member(person).Addresses(ws, t)...)
		}
	}
	return list
}

// recipient is somebody whom an entry names.
func (n named) recipient(person delivery.Person) admission.Recipient {
	if n.event != nil {
		return OfRecipient(person, *n.event)
	}
	by := n.target
	if by.Later || by.ID == person.ExtID { // a contact of their own, who gets the message at their own address
		by.Address = ""
	}
	return admission.Recipient{Person: person, Address: by.Address, Kind: cmp.Or(by.Kind, n.AddressKind), Locale: cmp.Or(person.Locale, by.Locale), CustomerRef: person.ExtID}
}

// member is somebody who belongs to a source of people.
func member(person delivery.Person) admission.Recipient {
	return admission.Recipient{Person: person, Locale: person.Locale, CustomerRef: person.ExtID}
}

// includes reports whether a contact of the page belongs to the source of an entry.
func (p *Plan) includes(e entry, person delivery.Person, people store.People) bool {
	switch {
	case e.Everyone:
		return true
	case e.Group != "":
		g := p.set.Group(e.Group)
		if g.Where != nil {
			p.input.Contact = plan.ContactFields(person.Contact)
		}
		return g.Has(person.ExtID, p.input)
	case len(e.places) > 0:
		places := e.places
		if people.Places != nil { // as they were read, not as they were asked for
			places = people.Places[e.first:][:len(places)]
		}
		return slices.ContainsFunc(places, func(at store.PlaceRef) bool { return person.In(at.Name, at.Below, at.Types) })
	}
	if e.Topics != "" {
		return !slices.Contains(p.except, person.ExtID) && len(topic.Served(people.Subscriptions[person.ID], p.Topics[e.first:e.first+1], people.Topics[e.first:e.first+1], 0)) > 0
	}
	return e.Persona == person.Persona
}

// holds evaluates the where of an entry for a contact.
func (p *Plan) holds(e entry, person delivery.Person) bool {
	if e.Where == nil {
		return true
	}
	p.input.Contact, p.input.Home = plan.ContactFields(person.Contact), person.Within
	if e.groups {
		plan.WithGroups(p.input.Contact, p.set, person.Contact, p.input.Meter)
	}
	return e.Where.Holds(p.input)
}

// OfEvent reports whether the audience includes the recipient of the event.
func OfEvent(t *definition.Trigger) bool {
	return slices.ContainsFunc(t.Audience, func(entry definition.Audience) bool { return entry.EventRecipient })
}
