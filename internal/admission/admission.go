// Package admission makes the deliveries of occasions, and decides when their recipients may get a message (gate 2).
//
// It has two entries. Ledger makes the deliveries of an occasion for one recipient at a time, for ingest and fan-out, and knows the slots of each
// contact. Batch decides about many claimed deliveries at once, for the sender, and asks a Ledger. So suppression and limits mean the same everywhere.
//
// The package is pure. The caller of Ledger has locked the contacts and loaded their slots. Batch first gets slots that were read without a lock, and
// says which contacts its caller has to lock.
package admission

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// Occasion is what a delivery is made for.
type Occasion struct {
	Instance instance.Row // DueAt is not_before
	Trigger  *definition.Trigger
	Set      *definition.Set // in force: limits of contacts are never pinned
	Now      time.Time
	Begun    bool // it takes several steps: its whole audience gets the version with which it began (R17)
	Late     bool // of a course that the recipient joined late, so that they get nothing of it
	About    About
}

// About is the topic that a message is about alone; zero: it is about all topics of its person, or about none.
type About struct {
	Topic subject.TopicID
	Name  string
}

// ownAt returns the time of day that the timing gives the messages of an occasion, as a delivery stores it: the time of a schedule or of a date, and
// none for an instant.
func (o Occasion) ownAt(zones *civil.Zones) string {
	in, t := o.Instance, o.Trigger
	if in.Timezone == "" {
		return ""
	}
	byContact := false
	switch s := t.Source.(type) {
	case *definition.OnSchedule:
		if in.LocalDate == "" {
			return ""
		}
		byContact = s.ByContact
	case *definition.OnPlan:
		switch {
		case in.LocalDate == "":
			return ""
		case in.Round > 0:
			if !s.HasTime(in.Message, t.Anchor != nil && key.Instance(in.Key).OfDate()) {
				return ""
			}
		case t.Anchor == nil || !s.Dates.At.Given && !key.Instance(in.Key).OfDate():
			return ""
		}
		byContact = s.Dates.ByContact
	case *definition.OnEvent: // the row has a zone if its message has a time of day
		byContact = s.Dates.ByContact
	default:
		return ""
	}
	loc, err := zones.Load(in.Timezone)
	if err != nil {
		return ""
	}
	_, clock := civil.DateOf(in.DueAt, loc)
	if byContact {
		return clock.String()
	}
	return clock.String() + " " + in.Timezone
}

// OwnClock returns the time of day of a row's present message, if its timing sets one; a reminder has none.
func OwnClock(row delivery.Row, zones *civil.Zones) Clock {
	if row.OwnAt == "" || row.Step > 0 {
		return Clock{}
	}
	text, name, zoned := strings.Cut(row.OwnAt, " ")
	clock, err := civil.ParseTimeOfDay(text)
	if err != nil { // of another version of the program
		return Clock{}
	}
	if !zoned {
		return Clock{At: clock}
	}
	loc, err := zones.Load(name)
	if err != nil {
		return Clock{}
	}
	return Clock{At: clock, Zone: loc}
}

// Recipient is the contact for whom a delivery is made. The delivery keeps Address and Locale (C16); an address of the contact's own is kept for as
// long as it belongs to them.
type Recipient struct {
	Person      delivery.Person
	Address     string // empty: the contact's own address for the channel
	Kind        string // the kind of channel that Address is for; empty: the first one's, whatever its kind
	Locale      string
	CustomerRef string
}

// on returns the address of the recipient on a channel. If the audience named an address of another kind, it is the contact's own address, unless
// that is the same one.
func (r Recipient) on(channel string) string {
	kind := Kind(channel)
	if r.Address != "" && (r.Kind == "" || r.Kind == kind || !slices.Contains(subject.AddressKinds(), kind)) {
		return r.Address
	}
	own := r.Person.AddressOn(kind)
	if r.Address != "" && subject.NormalizeAddress(own) == subject.NormalizeAddress(r.Address) {
		return ""
	}
	return own
}

// instead is the recipient on the fallback channels.
func (r Recipient) instead() Recipient {
	if r.Kind == "" {
		r.Address = ""
	}
	return r
}

// Zone is the time zone in which a contact's days begin and end: the contact's own, else the workspace's.
func Zone(zones *civil.Zones, set *definition.Set, person delivery.Person) *time.Location {
	for _, name := range []string{person.Timezone, set.Workspace.Timezone} {
		if name == "" {
			continue
		}
		if loc, err := zones.Load(name); err == nil {
			return loc
		}
	}
	return time.UTC
}

// Deliveries appends the row of one recipient to rows. If the row is skipped because the recipient has no address on its channel, or because a limit
// sends the message to a free channel (see standIn), the row of the fallback follows, and so on. A delivery that is due takes a slot. A later one
// takes its slot when it is due, never earlier.
func (b *Ledger) Deliveries(rows []delivery.Row, o Occasion, r Recipient, id func() delivery.ID) []delivery.Row {
	var of delivery.ID
	for channel := o.Trigger.Channel; channel != ""; {
		row, next := b.delivery(o, r, channel, id(), of)
		rows = append(rows, row)
		r = r.instead()
		channel, of = next, row.ID
	}
	return rows
}

// delivery makes the row for one channel; if it is skipped in favour of a fallback, next names that channel.
func (b *Ledger) delivery(o Occasion, r Recipient, channel string, id, of delivery.ID) (row delivery.Row, next string) {
	t := o.Trigger
	row = delivery.Row{
		Workspace: o.Instance.Workspace, ID: id, Instance: o.Instance.ID, Event: o.Instance.Event, Record: o.Instance.Record, Contact: r.Person.ID,
		Key: string(key.Instance(o.Instance.Key).About(r.Person.ExtID, o.About.Name, channel)), Topic: o.About.Topic,
		Workflow: o.Instance.Workflow, WorkflowVersion: o.Instance.WorkflowVersion, Type: o.Instance.Type, Trigger: t.ID, Message: o.Instance.Message,
		Channel: channel, Address: r.on(channel), Locale: r.Locale, CustomerRef: r.CustomerRef, FallbackOf: of,
		Status: delivery.Scheduled, NotBefore: o.Instance.DueAt, RemindersRemaining: reminders(o.Set, t), CreatedAt: o.Now, Priority: t.Priority,
	}
	if t.Pin || o.Begun {
		row.Definitions = o.Instance.Definitions
	}
	row.OwnAddress = row.Address == r.Person.AddressOn(Kind(channel)) || r.Person.Has(row.Address)
	row.OwnAt = o.ownAt(b.zones)
	var because trace.Limits
	stopped := b.stop(o, r, channel)
	switch due := row.NotBefore; {
	case r.Person.Suppressed:
		end(&row, delivery.Cancelled, reason.Suppressed, o.Now)
	case o.Late:
		end(&row, delivery.Skipped, reason.LateJoiner, o.Now)
	case row.Address == "":
		end(&row, delivery.Skipped, reason.NoAddress, o.Now)
		next = o.further(channel, func(name string) bool { return r.on(name) != "" })
	case stopped != "" && !due.After(o.Now): // people change their minds: of one for later it is decided when that is due
		end(&row, delivery.Skipped, stopped, o.Now)
		next = o.further(channel, func(name string) bool { return r.instead().on(name) != "" && b.stop(o, r.instead(), name) == "" })
	case !o.Instance.HeldUp() && t.Timing.Stale(o.Now, due):
		end(&row, delivery.Skipped, reason.Stale, o.Now)
	case due.After(o.Now):
		row.SendAt = due
	default:
		because, next = b.place(&row, o, r)
	}
	if why := row.Reason + row.DeferredBy; why != "" { // never both
		row.Trace = trace.Of(row, t.Timing, why, o.Now, row.SendAt, because)
	}
	return row, next
}

// further returns the first fallback channel of the trigger after channel for which ok holds; empty: there is none.
func (o Occasion) further(channel string, ok func(name string) bool) string {
	rest := o.Trigger.Fallback
	if i := slices.Index(rest, channel); i >= 0 {
		rest = rest[i+1:]
	}
	if i := slices.IndexFunc(rest, ok); i >= 0 {
		return rest[i]
	}
	return ""
}

// FallsBack reports whether a message that a limit defers when it is made goes to a free channel instead: if its workflow says so, and if it would be
// deferred for too long otherwise (R4).
func FallsBack(l definition.Limits, v cadence.Verdict) bool {
	return l.AtCreate == definition.LimitFallback || v.Reason == reason.DeferredTooLong && l.AtCreate != definition.LimitSkip
}

// standIn returns the first channel that may take the message over now, by its own limits (product decision 15).
func (b *Ledger) standIn(a SlotRequest, o Occasion, r Recipient) string {
	return o.further(a.Channel, func(name string) bool {
		channel, address := o.Set.Channel(name), r.on(name)
		if channel == nil || address == "" || !channel.OnlyTo.Allows(address) || b.stop(o, r, name) != "" {
			return false
		}
		a := a
		a.Channel = name
		return b.Try(a).Reason == ""
	})
}

// place gives a due message its slot (A38), or names the channel to which it goes instead. A waiting message of the same context is superseded (R6).
// because holds the limits that keep the message from leaving at once.
func (b *Ledger) place(row *delivery.Row, o Occasion, r Recipient) (because trace.Limits, next string) {
	ask := SlotRequest{
		Workspace: row.Workspace, Set: o.Set, Person: r.Person, Channel: row.Channel, Type: row.Type, Limits: o.Trigger.Limits,
		Now: o.Now, Until: o.Trigger.Timing.ExpiresAt(row.NotBefore, row.NotBefore), Fold: Folds(o.Trigger.Limits),
		Planned: OwnClock(*row, b.zones),
	}
	older := b.waiting(o, r.Person, row.Channel)
	verdict := b.Try(ask, older...)
	if verdict.Reason != "" {
		because = b.Trace(ask, verdict, older...)
	}
	if verdict.Reason != "" && FallsBack(ask.Limits, verdict) {
		if next = b.standIn(ask, o, r.instead()); next != "" {
			end(row, delivery.Skipped, verdict.Reason, o.Now)
			b.give(ask, older) // the fallback replaces the older messages as well
			for _, old := range older {
				b.supersede(old, row, o)
			}
			return because, next
		}
	}
	if verdict.At.After(o.Now) && ask.Limits.AtCreate == definition.LimitSkip {
		end(row, delivery.Skipped, verdict.Reason, o.Now)
		return because, ""
	}
	placed, ok := b.Place(ask, *row, verdict, older...)
	if !ok {
		end(row, delivery.Expired, verdict.Reason, o.Now)
		return because, ""
	}
	for _, old := range older {
		b.supersede(old, &placed, o)
	}
	*row = placed
	return because, ""
}

func end(row *delivery.Row, status delivery.Status, why reason.Reason, now time.Time) {
	row.Status, row.Reason, row.CompletedAt = status, why, now
}

// Entry is the journal entry of a delivery that was just made.
func Entry(row delivery.Row, contact string, now time.Time) journal.Entry {
	e := journal.Entry{
		At: now, What: journal.Planned, Workspace: row.Workspace, Workflow: row.Workflow, WorkflowVersion: row.WorkflowVersion,
		Trigger: row.Trigger, Key: row.Key, Event: row.Event, Instance: row.Instance, Delivery: row.ID, Contact: contact,
		Address: row.Address, Channel: row.Channel, Locale: row.Locale, Step: row.Step + 1, Reason: row.Reason,
		Due: row.NotBefore, Until: row.LeavesAt(), Remaining: row.RemindersRemaining,
	}
	switch {
	case row.Status == delivery.Cancelled:
		e.What = journal.Cancelled
	case row.Status == delivery.Skipped, row.Status == delivery.Superseded:
		e.What = journal.Skipped
	case row.Status == delivery.Expired:
		e.What = journal.Expired
	case row.DeferredBy != "":
		e.What, e.Reason = journal.Deferred, row.DeferredBy
	}
	return e
}
