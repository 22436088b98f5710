// Package admission is where a person comes in: it makes the delivery of an occasion to one recipient, and decides
// when that person may be bothered (gate 2).
//
// Intake, the expander and the sender decide here and nowhere else, so that suppression and limits mean the same
// in every path. The package is pure; the caller has locked the persons and loaded their slots.
package admission

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Occasion is what a delivery is made for.
type Occasion struct {
	Instance instance.Row // DueAt is not_before
	Trigger  *definition.Trigger
	Set      *definition.Set // in force: what limits people is pinned by nothing
	Now      time.Time
	Begun    bool // it takes more than one step: all its people get the version with which it began (R17)
}

// ownAt is the time of day that the timing gives the messages of an occasion, as a delivery keeps it: that of a schedule or of a
// date, and none for an instant.
func (o Occasion) ownAt(zones *civil.Zones) string {
	in, t := o.Instance, o.Trigger
	byContact := false
	switch {
	case in.Timezone == "":
		return ""
	case t.Schedule != nil && in.LocalDate != "":
		byContact = t.Schedule.ByContact
	case t.Dates != nil && t.Anchor != nil && in.LocalDate != "" && (t.Dates.At.Given || key.Instance(in.Key).OfDate()):
		byContact = t.Dates.ByContact
	case t.Event != "": // its anchor is a date
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

// OwnClock is the time of day of a row's present message, where its timing has given it one: a reminder has none.
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

// Recipient is who it is made for. Address and Locale are fixed in the delivery (C16), an address that is their own for as
// long as it is.
type Recipient struct {
	Person      store.Person
	Address     string // empty: the person's own for the channel
	Kind        string // of the channels that Address is for; empty: the first one, whatever its kind
	Locale      string
	CustomerRef string
}

// on is where they are reached by a channel: where an audience named an address of another kind, by their
// own, if that is not the same one.
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

// instead is the recipient on channels that stand in for the first one.
func (r Recipient) instead() Recipient {
	if r.Kind == "" {
		r.Address = ""
	}
	return r
}

// Zone is where a person's days begin and end: their own zone, else the workspace's.
func Zone(zones *civil.Zones, set *definition.Set, person store.Person) *time.Location {
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

// Deliveries appends the row of one recipient to rows. Where it is skipped because they have no address on its channel, or
// for a limit that sends the message to a channel that is free (see standIn), the row of the fallback follows it, and so on.
// A delivery whose time has come takes a slot; a later one takes it when its time comes, never ahead of it (model.md §5).
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

// delivery makes the row for one channel, and names the one that stands in for it, if it is skipped for that.
func (b *Ledger) delivery(o Occasion, r Recipient, channel string, id, of delivery.ID) (row delivery.Row, next string) {
	t := o.Trigger
	row = delivery.Row{
		Workspace: o.Instance.Workspace, ID: id, Instance: o.Instance.ID, Event: o.Instance.Event, Contact: r.Person.ID,
		Key:      string(key.Instance(o.Instance.Key).Delivery(r.Person.ExtID, channel)),
		Workflow: o.Instance.Workflow, WorkflowVersion: o.Instance.WorkflowVersion, Type: o.Instance.Type, Trigger: t.ID,
		Channel: channel, Address: r.on(channel), Locale: r.Locale, CustomerRef: r.CustomerRef, FallbackOf: of,
		Status: delivery.Scheduled, NotBefore: o.Instance.DueAt, RemindersRemaining: len(t.Timing.Reminders), CreatedAt: o.Now,
	}
	if t.Pin || o.Begun {
		row.Definitions = o.Instance.Definitions
	}
	row.OwnAddress = row.Address == r.Person.AddressOn(Kind(channel)) || r.Person.Has(row.Address)
	row.OwnAt = o.ownAt(b.zones)
	var because LimitTrace
	switch due := row.NotBefore; {
	case r.Person.Suppressed:
		end(&row, delivery.Cancelled, reason.Suppressed, o.Now)
	case row.Address == "":
		end(&row, delivery.Skipped, reason.NoAddress, o.Now)
		next = o.further(channel, func(name string) bool { return r.on(name) != "" })
	case !o.Instance.HeldUp() && t.Timing.Stale(o.Now, due):
		end(&row, delivery.Skipped, reason.Stale, o.Now)
	case due.After(o.Now):
		row.SendAt = due
	default:
		because, next = b.place(&row, o, r)
	}
	if why := row.Reason + row.DeferredBy; why != "" { // never both
		row.Trace = Trace(row, t.Timing, why, o.Now, row.SendAt, because)
	}
	return row, next
}

// further is the first channel of the trigger's fallback after one for which ok holds; empty: there is none.
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

// FallsBack reports whether a message that a limit puts off when it is made goes to a channel that is free: where its
// workflow says so, and where it would be put off for too long otherwise (R4).
func FallsBack(l definition.Limits, v cadence.Verdict) bool {
	return l.AtCreate == definition.LimitFallback || v.Reason == reason.DeferredTooLong && l.AtCreate != definition.LimitSkip
}

// standIn is the first channel that may take the message over now, with its own limits (decision 15).
func (b *Ledger) standIn(a SlotRequest, o Occasion, r Recipient) string {
	return o.further(a.Channel, func(name string) bool {
		channel, address := o.Set.Channel(name), r.on(name)
		if channel == nil || address == "" || !channel.OnlyTo.Allows(address) {
			return false
		}
		a := a
		a.Channel = name
		return b.Try(a).Reason == ""
	})
}

// place gives a message whose time has come its slot (A38), or names the channel to which it goes instead. One of the same
// context that still waits makes way for it (R6). It returns what keeps it from going at once.
func (b *Ledger) place(row *delivery.Row, o Occasion, r Recipient) (because LimitTrace, next string) {
	ask := SlotRequest{
		Set: o.Set, Person: r.Person, Channel: row.Channel, Type: row.Type, Limits: o.Trigger.Limits,
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
			b.give(ask, older) // the message that stands in tells what is newer as well
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

// Entry tells of a delivery that was just made.
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
