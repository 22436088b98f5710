package admission

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Ledger keeps the slots that one transaction has reserved, on top of those that were loaded, so that the decisions of a batch see each other.
type Ledger struct {
	zones    *civil.Zones
	now      time.Time
	slots    map[holder]*cadence.History // of contacts whose slots were requested
	kinds    map[personID][]string       // of those histories
	changes  map[personID][]change       // slots that were reserved or released, in order: which of two like ones is released depends on it
	policies map[source]cadence.Policy
	own      map[string]ownRules
	unread   map[unreadable]bool // contacts whose own rules cannot be read
	passed   []journal.Entry     // entries about these contacts
	ended    []delivery.Row
	gone     map[delivery.ID]bool
	heads    map[personID][]delivery.Row
	stops    Stops
}

// holder names the slots of a contact on a kind of channel.
type holder struct {
	personID
	kind string
}

// unreadable names a contact whose own rules cannot be read, by the set of the workspace.
type unreadable struct {
	set *definition.Set
	id  subject.ContactID
}

// place is a slot on a kind of channel.
type place struct {
	kind string
	cadence.Slot
}

// change is a slot that was reserved, or a loaded or reserved one that was released.
type change struct {
	place
	released bool
}

// seenFrom converts the place to a slot in the history of a kind of channel.
func (p place) seenFrom(kind string) cadence.Slot {
	p.Elsewhere = p.kind != kind
	return p.Slot
}

// ownRules are the rules of a contact's own, as far as they can be read.
type ownRules struct {
	cadence.Rules
	err error
}

// source names what a policy is computed from.
type source struct {
	set                *definition.Set
	persona, own, kind string
}

// NewLedger makes an empty ledger for one call of a decision at now.
func NewLedger(zones *civil.Zones, now time.Time) *Ledger {
	return &Ledger{
		zones: zones, now: now, slots: map[holder]*cadence.History{}, kinds: map[personID][]string{}, changes: map[personID][]change{},
		policies: map[source]cadence.Policy{}, own: map[string]ownRules{}, unread: map[unreadable]bool{},
		gone: map[delivery.ID]bool{}, heads: map[personID][]delivery.Row{},
	}
}

// Forget forgets the loaded slots of a contact, which have been read again. What was reserved and released is remembered.
func (b *Ledger) Forget(ws subject.WorkspaceID, id subject.ContactID) {
	of := personID{ws, id}
	for _, kind := range b.kinds[of] {
		delete(b.slots, holder{of, kind})
	}
	delete(b.kinds, of)
}

// Kind is the kind of a channel, by which limits are counted (A41): sms for every provider.
func Kind(channel string) string {
	kind, _, _ := strings.Cut(channel, ":")
	return kind
}

// PolicyOf returns the limits of a contact on a kind of channel: the contact's own override those of the persona, and these override those of the
// workspace (product decision 11).
func PolicyOf(set *definition.Set, c subject.Contact, kind string) cadence.Policy {
	return NewLedger(nil, time.Time{}).Policy(set, c, kind)
}

// Policy is PolicyOf, cached for all contacts with the same rules.
func (b *Ledger) Policy(set *definition.Set, c subject.Contact, kind string) cadence.Policy {
	from := source{set, c.Persona, c.Cadence, kind}
	p, ok := b.policies[from]
	if !ok || b.own[c.Cadence].err != nil { // each contact whose rules cannot be read is reported
		own, persona := b.rules(set, c)
		p = cadence.EffectiveOn(kind, own, persona, set.Workspace.Cadence)
		b.policies[from] = p
	}
	return p
}

// PassedOver returns an entry for each contact whose own limits this version of the program cannot read, as after a downgrade, once since the last
// call. The limits were valid when they were written. Messages to these contacts follow the persona's and the workspace's limits, so that one contact
// does not stop a whole batch.
func (b *Ledger) PassedOver(now time.Time) []journal.Entry {
	passed := b.passed
	b.passed = nil
	for i := range passed {
		passed[i].At = now
	}
	return passed
}

// rules returns the rules of the contact and of their persona. A persona that is not defined has no rules, and own rules that cannot be read count as
// none.
func (b *Ledger) rules(set *definition.Set, c subject.Contact) (own, persona cadence.Rules) {
	if c.Cadence != "" {
		known, ok := b.own[c.Cadence]
		if !ok {
			known.Rules, known.err = cadence.ParseRules(c.Cadence)
			b.own[c.Cadence] = known
		}
		if own = known.Rules; known.err != nil && !b.unread[unreadable{set, c.ID}] {
			b.unread[unreadable{set, c.ID}] = true
			b.passed = append(b.passed, journal.Entry{
				What: journal.PassedOver, Contact: c.ExtID, Reason: reason.LimitsUnreadable, Error: "contact " + c.ExtID + ": " + known.err.Error(),
			})
		}
	}
	if p := set.Persona(c.Persona); p != nil {
		persona = p.Cadence
	}
	return own, persona
}

// Floors computes how far back the slots of contacts matter to decisions at an instant.
type Floors struct {
	types  []string
	ledger *Ledger
	now    time.Time
	known  map[source]time.Time // by zone instead of kind
}

// NewFloors makes floors for decisions at now about messages of some types; nil: of all types.
func NewFloors(zones *civil.Zones, now time.Time, types []string) *Floors {
	return &Floors{types: types, ledger: NewLedger(zones, now), now: now, known: map[source]time.Time{}}
}

// Of is the oldest instant whose slots can matter to a decision about a contact, on any channel; zero if none do.
func (f *Floors) Of(set *definition.Set, c subject.Contact) time.Time {
	of := source{set, c.Persona, c.Cadence, c.Timezone}
	floor, ok := f.known[of]
	if ok {
		return floor
	}
	own, persona := f.ledger.rules(set, c)
	kinds := []string{""}
	for _, r := range []cadence.Rules{own, persona, set.Workspace.Cadence} {
		for kind := range r.Channels {
			kinds = append(kinds, kind)
		}
	}
	loc := Zone(f.ledger.zones, set, delivery.Person{Contact: c})
	for _, kind := range kinds {
		p := f.ledger.Policy(set, c, kind)
		if p.Unlimited() || f.types != nil && !slices.ContainsFunc(f.types, func(typ string) bool { return !p.Of(typ).Unlimited() }) {
			continue
		}
		// Within the grace, a slot that has passed is judged by its own instant, which may be on the day before.
		if at := cadence.Floor(p, loc, f.now.Add(-p.Grace())); floor.IsZero() || at.Before(floor) {
			floor = at
		}
	}
	f.known[of] = floor
	return floor
}

// SlotRequest is one message that asks for a slot in its contact's limits.
type SlotRequest struct {
	Workspace subject.WorkspaceID
	Set       *definition.Set // in force
	Person    delivery.Person
	Channel   string
	Type      string
	Limits    definition.Limits
	Now       time.Time
	Until     time.Time // the limits defer it until then at most; a message that nothing defers leaves, however late
	Fold      bool      // it was never tried, and may leave with others as one message
	Planned   Clock     // its own time of day, if its timing sets one
}

// Clock is a time of day in a zone; the zero Clock is none.
type Clock struct {
	At   civil.TimeOfDay
	Zone *time.Location
}

// person names the contact.
func (a SlotRequest) person() personID { return personID{a.Workspace, a.Person.ID} }

// message converts the request for package cadence.
func (a SlotRequest) message() cadence.Message {
	return cadence.Message{Type: a.Type, Window: a.Limits.SendWindow, At: a.Planned.At, Zone: a.Planned.Zone}
}

// Limiting is the part of the policy that concerns the message: a critical message passes every limit, and one whose type does not count keeps only
// the quiet hours. The grace is the same for all of them.
func (b *Ledger) Limiting(a SlotRequest) cadence.Policy {
	p := b.Policy(a.Set, a.Person.Contact, Kind(a.Channel))
	if a.Limits.Critical {
		return cadence.Policy{SlotGrace: p.SlotGrace}
	}
	return p.Of(a.Type)
}

// Try finds the instant at which the message may leave, at Now or later, and reserves nothing. Unless nothing is counted, the contact's slots must be
// loaded, and the contact locked if the slot is to be reserved. Slots of the rows in without count as free.
func (b *Ledger) Try(a SlotRequest, without ...delivery.Row) cadence.Verdict {
	policy := b.Limiting(a)
	if policy.Empty() && a.Limits.SendWindow.IsZero() && len(without) == 0 {
		return cadence.Verdict{At: a.Now}
	}
	from, why := a.Now, reason.Reason("")
	for i, row := range without { // the earliest of their slots is the first that it may have
		at := row.Slot
		if row.IsFoldMember() { // it has no slot of its own
			at = row.LeavesAt()
		}
		if at.After(a.Now) && (i == 0 || at.Before(from)) {
			from, why = at, row.DeferredBy
		}
	}
	m := a.message()
	until := a.Until
	if until.Before(from) {
		until = from
	}
	loc := Zone(b.zones, a.Set, a.Person)
	var verdict cadence.Verdict
	if policy.Unlimited() {
		verdict = cadence.Decide(policy, nil, loc, from, until, m)
	} else {
		history := b.history(a)
		history.Without(places(without, Kind(a.Channel)), func() { verdict = history.Decide(policy, loc, from, until, m) })
	}
	if verdict.Reason == "" {
		verdict.Reason = why
	}
	return verdict
}

// Reserve reserves the slot of a waiting message and returns the slot to store in its row: zero if the message uses no limit.
func (b *Ledger) Reserve(a SlotRequest, at time.Time) time.Time {
	return b.take(a, cadence.Slot{At: at, Type: a.Type, Passed: b.over(a, at)})
}

// Send reserves the slot of a message that this transaction sends.
func (b *Ledger) Send(a SlotRequest, at time.Time) time.Time {
	return b.take(a, cadence.Slot{At: at, Type: a.Type, Sent: true})
}

func (b *Ledger) take(a SlotRequest, slot cadence.Slot) time.Time {
	if a.Limits.Uncounted {
		return time.Time{}
	}
	slot.N = 1
	p := place{Kind(a.Channel), slot}
	b.changes[a.person()] = append(b.changes[a.person()], change{place: p})
	b.histories(a.person(), func(kind string, history *cadence.History) { history.Add(p.seenFrom(kind)) })
	return slot.At
}

// histories calls f with each history of a contact that was made.
func (b *Ledger) histories(of personID, f func(kind string, history *cadence.History)) {
	for _, kind := range b.kinds[of] {
		f(kind, b.slots[holder{of, kind}])
	}
}

// over reports whether the slot of a waiting message has passed, so that it counts for no cooldown.
func (b *Ledger) over(a SlotRequest, at time.Time) bool {
	grace := b.Policy(a.Set, a.Person.Contact, Kind(a.Channel)).Grace()
	return b.now.Sub(at) > grace
}

// Release gives a slot up.
func (b *Ledger) Release(a SlotRequest, at time.Time, typ string) {
	if !at.IsZero() {
		b.free(a.person(), place{Kind(a.Channel), cadence.Slot{At: at, Type: typ}})
	}
}

// Requeue gives up the slot of a message that this transaction ends.
func (b *Ledger) Requeue(row delivery.Row) {
	if !row.Slot.IsZero() {
		b.free(personID{row.Workspace, row.Contact}, place{Kind(row.Channel), cadence.Slot{At: row.Slot, Type: row.Type}})
	}
}

func (b *Ledger) free(of personID, p place) {
	b.changes[of] = append(b.changes[of], change{place: p, released: true})
	b.histories(of, func(kind string, history *cadence.History) { history.Remove(p.seenFrom(kind)) })
}

// history returns the contact's slots on the kind of channel, as this transaction leaves them. It includes slots on other kinds if a total counts
// them.
func (b *Ledger) history(a SlotRequest) *cadence.History {
	of := holder{a.person(), Kind(a.Channel)}
	if history, known := b.slots[of]; known {
		return history
	}
	total := !b.Policy(a.Set, a.Person.Contact, of.kind).Total.Empty()
	slots := make([]cadence.Slot, 0, len(a.Person.Slots)+1)
	counts := func(s cadence.Slot) bool { return total || !s.Elsewhere }
	for _, s := range a.Person.Slots {
		p := place{Kind(s.Channel), cadence.Slot{At: s.At, Type: s.Type, N: s.N, Sent: !s.Waits, Passed: s.Waits && b.over(a, s.At)}}
		if seen := p.seenFrom(of.kind); counts(seen) {
			slots = append(slots, seen)
		}
	}
	history := cadence.NewHistory(slots)
	for _, c := range b.changes[of.personID] {
		switch seen := c.seenFrom(of.kind); {
		case c.released:
			history.Remove(seen)
		case counts(seen):
			history.Add(seen)
		}
	}
	b.slots[of] = history
	b.kinds[of.personID] = append(b.kinds[of.personID], of.kind)
	return history
}

// places returns the slots of messages for the history of a kind of channel.
func places(rows []delivery.Row, kind string) []cadence.Slot {
	slots := make([]cadence.Slot, len(rows))
	for i, row := range rows {
		slots[i] = place{Kind(row.Channel), cadence.Slot{At: row.Slot, Type: row.Type}}.seenFrom(kind)
	}
	return slots
}
