package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// LimitUse is one limit of a person, and where it comes from.
type LimitUse struct {
	cadence.Use
	From cadence.Layer
}

// LimitStatus is where a person stands with the limits of one kind of channel (A41).
type LimitStatus struct {
	Kind    string
	Limits  []LimitUse // in the order in which they are asked (A36)
	Waiting []delivery.Row
}

// Limits is where a person stands with all of them.
type Limits struct {
	Contact store.ContactRow
	Lost    bool           // the person has a persona that is not defined any more: it has no rules
	Unread  error          // why the person's own limits cannot be read; nil: they can
	Zone    *time.Location // in which days begin and end
	At      time.Time
	Kinds   []LimitStatus
}

// LimitsOf says how far a person's limits are used up at now, for each kind of channel that may reach them or has
// messages for them. It decides nothing: it is what people look at.
func LimitsOf(set *definition.Set, s store.Standing, zones *civil.Zones, now time.Time) Limits {
	out := Limits{Contact: s.Contact, Zone: Zone(zones, set, s.Person), At: now}
	out.Lost = s.Person.Persona != "" && set.Persona(s.Person.Persona) == nil
	book := NewLedger(zones, now)
	own, persona := book.rules(set, s.Person.Contact)
	out.Unread = book.own[s.Person.Cadence].err
	for _, kind := range kindsOf(set, s) {
		history := book.history(SlotRequest{Set: set, Person: s.Person, Channel: kind, Now: now})
		one := LimitStatus{Kind: kind}
		for _, u := range history.Standing(book.Policy(set, s.Person.Contact, kind), out.Zone, now) {
			one.Limits = append(one.Limits, LimitUse{Use: u, From: cadence.LayerOn(kind, u.Limit, own, persona, set.Workspace.Limits)})
		}
		for _, d := range s.Waiting {
			if Kind(d.Channel) == kind {
				one.Waiting = append(one.Waiting, d)
			}
		}
		out.Kinds = append(out.Kinds, one)
	}
	return out
}

// kindsOf are the kinds of the defined channels that have an address of the person, of their slots and of what waits.
func kindsOf(set *definition.Set, s store.Standing) []string {
	kinds := map[string]bool{}
	for _, c := range set.Channels() {
		if s.Person.AddressOn(c.Kind) != "" && (s.Person.Addresses[c.Kind] != "" || !slices.Contains(subject.AddressKinds(), c.Kind)) {
			kinds[c.Kind] = true
		}
	}
	for _, slot := range s.Person.Slots {
		kinds[Kind(slot.Channel)] = true
	}
	for _, d := range s.Waiting {
		kinds[Kind(d.Channel)] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}
