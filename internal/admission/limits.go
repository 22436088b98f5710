package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// LimitUse is one limit of a contact, and where it comes from.
type LimitUse struct {
	cadence.Use
	From cadence.Layer
}

// LimitStatus is how much of a contact's limits for one kind of channel is used (A41).
type LimitStatus struct {
	Kind    string
	Limits  []LimitUse // in the order in which they apply (A36)
	Waiting []delivery.Row
}

// Limits is how much of all limits of a contact is used.
type Limits struct {
	Contact subject.ContactRow
	Lost    bool           // the contact's persona is not defined any more, so its rules do not apply
	Unread  error          // why the contact's own limits cannot be read; nil: they can
	Zone    *time.Location // in which days begin and end
	At      time.Time
	Kinds   []LimitStatus
}

// LimitsOf returns how much of a contact's limits is used at now, for each kind of channel that can reach the contact or has messages for them. It
// decides nothing; people read it.
func LimitsOf(set *definition.Set, s delivery.LimitUse, zones *civil.Zones, now time.Time) Limits {
	out := Limits{Contact: s.Contact, Zone: Zone(zones, set, s.Person), At: now}
	out.Lost = s.Person.Persona != "" && set.Persona(s.Person.Persona) == nil
	ledger := NewLedger(zones, now)
	own, persona := ledger.rules(set, s.Person.Contact)
	out.Unread = ledger.own[s.Person.Cadence].err
	for _, kind := range kindsOf(set, s) {
		history := ledger.history(SlotRequest{Set: set, Person: s.Person, Channel: kind, Now: now})
		one := LimitStatus{Kind: kind}
		for _, u := range history.Usage(ledger.Policy(set, s.Person.Contact, kind), out.Zone, now) {
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

// kindsOf returns the kinds of the defined channels for which the contact has an address, a slot or a waiting message.
func kindsOf(set *definition.Set, s delivery.LimitUse) []string {
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
