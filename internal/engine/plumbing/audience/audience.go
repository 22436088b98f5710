// Package audience computes the audience of an occasion when it is due.
//
// A trigger's audience names contacts one by one, or as the members of personas, or everybody; the latter two are read in pages. A Plan first says
// which contacts to read. When they are read and locked, it selects the recipients among them. The recipient of an event is part of this for the later
// messages of a course; ingest made the delivery of the first one.
package audience

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Plan is what a trigger's audience requests.
type Plan struct {
	store.Audience
	input   expr.Input
	named   []named               // for each of Refs
	members []definition.Audience // the entries for personas and for everybody
}

// named is a contact that an entry names.
type named struct {
	entry  definition.Audience
	target plan.Target
	event  *subject.Recipient // of the event; nil: it is another contact
}

// Of evaluates the audience of a trigger on the input of its expressions. after is the last contact of the pages that are done: contacts that are
// named one by one belong to the first page. recipient is the event's recipient; nil: ingest made their delivery, or there is none.
func Of(t *definition.Trigger, in expr.Input, addresses key.Keyed, after subject.ContactID, recipient *subject.Recipient) (Plan, error) {
	p := Plan{input: in}
	p.After, p.Fold = after, admission.Folds(t.Limits)
	for _, entry := range t.Audience {
		switch {
		case entry.EventRecipient && (recipient == nil || after != 0):
			continue
		case entry.EventRecipient:
			ref := Recipient(addresses, *recipient)
			ref.Create, ref.Lock = true, true
			p.Refs, p.named = append(p.Refs, ref), append(p.named, named{entry: entry, event: recipient})
			continue
		case entry.Persona != "" || entry.Everyone:
			p.members = append(p.members, entry)
			p.Everyone = p.Everyone || entry.Everyone
			if entry.Persona != "" {
				p.Personas = append(p.Personas, entry.Persona)
			}
			continue
		case after != 0:
			continue
		}
		targets, err := plan.Targets(entry, append([]string{t.Channel}, t.Fallback...), in)
		if err != nil {
			return p, err
		}
		for _, target := range targets {
			p.Refs, p.named = append(p.Refs, refOf(addresses, target)), append(p.named, named{entry: entry, target: target})
		}
	}
	return p, nil
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

// Narrow leaves the others than one contact out, where they are known to be others without reading them. The caller leaves the rest out.
func (p *Plan) Narrow(id subject.ContactID, extID string) {
	p.Only = id
	var refs []store.RecipientRef
	var of []named
	for i, ref := range p.Refs {
		made := strings.HasPrefix(extID, subject.MadePrefix) // the contact may have been merged into one with another id
		if made || ref.ExtID == extID || ref.AddressHash != "" {
			refs, of = append(refs, ref), append(of, p.named[i])
		}
	}
	p.Refs, p.named = refs, of
}

// Recipients selects the recipients among the contacts, each once: a contact gets one delivery of an occasion. If the evaluation costs more than one
// transaction may do, the page ends early: after is its last contact, and people.After otherwise. Named contacts belong to the first page, so too
// many costly ones of them are an error.
func (p *Plan) Recipients(people store.People) (list []admission.Recipient, after subject.ContactID, err error) {
	seen := map[subject.ContactID]bool{}
	add := func(person delivery.Person, by plan.Target, kind string) {
		seen[person.ID] = true
		if by.Later || by.ID == person.ExtID { // a contact of their own, who gets the message at their own address
			by.Address = ""
		}
		list = append(list, admission.Recipient{Person: person, Address: by.Address, Kind: kind, Locale: cmp.Or(person.Locale, by.Locale), CustomerRef: person.ExtID})
	}
	for i, person := range people.Persons {
		if p.input.Meter.Full() && p.named[i].entry.Where != nil {
			return nil, 0, errTooMuch
		}
		switch of := p.named[i]; {
		case !person.Found || seen[person.ID] || !p.holds(of.entry, person):
		case of.event != nil:
			seen[person.ID] = true
			list = append(list, OfRecipient(person, *of.event))
		default:
			add(person, of.target, cmp.Or(of.target.Kind, of.entry.AddressKind))
		}
	}
	for i, person := range people.Members {
		if i > 0 && p.input.Meter.Full() {
			return list, people.Members[i-1].ID, nil
		}
		means := func(entry definition.Audience) bool {
			return (entry.Everyone || entry.Persona == person.Persona) && p.holds(entry, person)
		}
		if person.Found && !seen[person.ID] && slices.ContainsFunc(p.members, means) {
			add(person, plan.Target{}, "")
		}
	}
	return list, people.After, nil
}

var errTooMuch = &expr.Failure{
	Reason: reason.CostExceeded, Detail: fmt.Sprintf("the where of the people who are named takes more than %d steps in all", uint64(expr.PageLimit)),
}

// holds evaluates the where of an entry for a contact.
func (p *Plan) holds(entry definition.Audience, person delivery.Person) bool {
	if entry.Where == nil {
		return true
	}
	p.input.Contact = plan.ContactFields(person.Contact)
	return entry.Where.Holds(p.input)
}

// OfEvent reports whether the audience includes the recipient of the event.
func OfEvent(t *definition.Trigger) bool {
	return slices.ContainsFunc(t.Audience, func(entry definition.Audience) bool { return entry.EventRecipient })
}
