// Package gate is where a person comes in: it makes the delivery of an occasion to one recipient, and decides
// when that person may be bothered (gate 2).
//
// Intake, the expander and the sender decide here and nowhere else, so that suppression and limits mean the same
// in every path. The package is pure; the caller has locked the persons and loaded their slots.
package gate

import (
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
	Set      *definition.Set
	Now      time.Time
}

// Recipient is who it is made for. Address and Locale are fixed in the delivery (C16).
type Recipient struct {
	Person      store.Person
	Address     string // empty: the person's own for the channel
	Locale      string
	CustomerRef string
}

// Book keeps the slots that one transaction has given out, on top of those that were loaded, so that the
// decisions of a batch see each other.
type Book struct {
	zones *civil.Zones
	slots map[subject.ContactID][]cadence.Slot
}

// NewBook makes an empty book for one run of a decision.
func NewBook(zones *civil.Zones) *Book {
	return &Book{zones: zones, slots: map[subject.ContactID][]cadence.Slot{}}
}

// PolicyOf returns the limits that hold for a person. No definition can set any yet, so that everybody is
// unlimited; the path through Decide and the lock is the one that limits will take.
func PolicyOf(*definition.Set, store.Person) cadence.Policy { return cadence.Policy{} }

// Admit finds the instant at which one more message of a type may go to a person, at now or later, and books it.
// The person must be locked. Until bounds the search; the reason is then deferred_too_long.
func (b *Book) Admit(set *definition.Set, person store.Person, now, until time.Time, typ string) cadence.Verdict {
	policy := PolicyOf(set, person)
	if policy.Empty() {
		return cadence.Verdict{At: now}
	}
	history, ok := b.slots[person.ID]
	if !ok {
		for _, s := range person.Slots {
			history = append(history, cadence.Slot{At: s.At, Type: s.Type, N: s.N})
		}
	}
	verdict := cadence.Decide(policy, history, Zone(b.zones, set, person), now, until, cadence.Message{Type: typ})
	if verdict.Reason != reason.DeferredTooLong {
		history = append(history, cadence.Slot{At: verdict.At, Type: typ, N: 1})
	}
	b.slots[person.ID] = history
	return verdict
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

// Delivery makes the row for one recipient, without an id. One whose time has come takes a slot; a later one
// takes it when its time comes, never ahead of it (model.md §5).
func (b *Book) Delivery(o Occasion, r Recipient) delivery.Row {
	t := o.Trigger
	row := delivery.Row{
		Workspace: o.Instance.Workspace, Instance: o.Instance.ID, Event: o.Instance.Event, Contact: r.Person.ID,
		Key:      string(key.Instance(o.Instance.Key).Delivery(r.Person.ExtID, t.Channel)),
		Workflow: o.Instance.Workflow, WorkflowVersion: o.Instance.WorkflowVersion, Type: o.Instance.Type, Trigger: t.ID,
		Channel: t.Channel, Address: r.Address, Locale: r.Locale, CustomerRef: r.CustomerRef,
		Status: delivery.Scheduled, NotBefore: o.Instance.DueAt, RemindersRemaining: len(t.Timing.Reminders), CreatedAt: o.Now,
	}
	if t.Pin {
		row.Definitions = o.Instance.Definitions
	}
	if row.Address == "" {
		kind, _, _ := strings.Cut(t.Channel, ":")
		row.Address = r.Person.AddressOn(kind)
	}
	switch due := row.NotBefore; {
	case r.Person.Suppressed:
		end(&row, delivery.Cancelled, reason.Suppressed, o.Now)
	case row.Address == "":
		end(&row, delivery.Skipped, reason.NoAddress, o.Now)
	case t.Timing.Stale(o.Now, due):
		end(&row, delivery.Skipped, reason.Stale, o.Now)
	case due.After(o.Now):
		row.SendAt = due
	default:
		verdict := b.Admit(o.Set, r.Person, o.Now, t.Timing.ExpiresAt(due, due), row.Type)
		if verdict.Reason == reason.DeferredTooLong {
			end(&row, delivery.Expired, verdict.Reason, o.Now)
			break
		}
		row.SendAt, row.Slot, row.DeferredBy = verdict.At, verdict.At, verdict.Reason
	}
	if why := row.Reason + row.DeferredBy; why != "" { // never both
		row.Trace = Trace(row, t.Timing, why, o.Now, row.SendAt)
	}
	return row
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
		Due: row.NotBefore, Until: row.SendAt, Remaining: row.RemindersRemaining,
	}
	switch {
	case row.Status == delivery.Cancelled:
		e.What = journal.Cancelled
	case row.Status == delivery.Skipped:
		e.What = journal.Skipped
	case row.Status == delivery.Expired:
		e.What = journal.Expired
	case row.DeferredBy != "":
		e.What, e.Reason = journal.Deferred, row.DeferredBy
	}
	return e
}
