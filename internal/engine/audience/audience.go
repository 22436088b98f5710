// Package audience finds whom an occasion concerns when it is due.
//
// A trigger's audience names people one by one, or as the members of personas, or everybody; the latter are taken up in
// pages. What the entries ask for is said before the people are known, and who of them is meant afterwards, when they
// are locked. The recipient of an event is not looked for here: intake made their delivery.
package audience

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/ingest"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Plan is what a trigger's audience asks for.
type Plan struct {
	store.Audience
	input   expr.Input
	named   []named               // of each Ref
	members []definition.Audience // the entries of personas and of everybody
}

// named is what belongs to a reference.
type named struct {
	entry  definition.Audience
	target plan.Target
}

// Of evaluates the audience of a trigger on what its expressions may read. After is the last person of the pages that
// are done: people who are named one by one belong to the first page.
func Of(t *definition.Trigger, in expr.Input, addresses key.Keyed, after subject.ContactID) (Plan, error) {
	p := Plan{input: in}
	p.After, p.Fold = after, admission.Folds(t.Limits)
	for _, entry := range t.Audience {
		switch {
		case entry.EventRecipient:
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
			p.Refs, p.named = append(p.Refs, refOf(addresses, target)), append(p.named, named{entry, target})
		}
	}
	return p, nil
}

// refOf is how a target is looked for: by its id, else by its address, for which a contact is made where there is none (R20).
func refOf(addresses key.Keyed, t plan.Target) store.RecipientRef {
	if t.Address == "" {
		return store.RecipientRef{ExtID: t.ID, Lock: true}
	}
	ref := ingest.Recipient(addresses, subject.Recipient{Address: t.Address, Locale: t.Locale})
	ref.ExtID, ref.Timezone = t.ID, t.Timezone
	ref.Create, ref.Lock = true, true
	return ref
}

// Add names one more person.
func (p *Plan) Add(ref store.RecipientRef) {
	p.Refs, p.named = append(p.Refs, ref), append(p.named, named{})
}

// Recipients are those of the people who are meant, each once: one person gets one delivery of an occasion. Where judging
// them costs more than one transaction may, the page ends early: after is the last person of it, people.After otherwise. Named
// people belong to the first page, so that too many costly ones of them are an error.
func (p *Plan) Recipients(people store.People) (list []admission.Recipient, after subject.ContactID, err error) {
	seen := map[subject.ContactID]bool{}
	add := func(person store.Person, by plan.Target, kind string) {
		seen[person.ID] = true
		if by.Later || by.ID == person.ExtID { // the latter is a contact of their own, who is reached where they want to be
			by.Address = ""
		}
		list = append(list, admission.Recipient{Person: person, Address: by.Address, Kind: kind, Locale: cmp.Or(person.Locale, by.Locale), CustomerRef: person.ExtID})
	}
	for i, person := range people.Persons {
		if p.input.Meter.Full() && p.named[i].entry.Where != nil {
			return nil, 0, errTooMuch
		}
		if of := p.named[i]; person.Found && !seen[person.ID] && p.holds(of.entry, person) {
			add(person, of.target, of.entry.AddressKind)
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

// holds judges the where of an entry on a person.
func (p *Plan) holds(entry definition.Audience, person store.Person) bool {
	if entry.Where == nil {
		return true
	}
	p.input.Contact = plan.ContactFields(person.Contact)
	return entry.Where.Holds(p.input)
}

// OfEvent reports whether the recipient of the event, whose delivery intake made, belongs to the audience.
func OfEvent(t *definition.Trigger) bool {
	return slices.ContainsFunc(t.Audience, func(entry definition.Audience) bool { return entry.EventRecipient })
}
