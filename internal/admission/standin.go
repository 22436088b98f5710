package admission

import (
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
)

// fallback replaces a first message that a limit keeps from leaving by one on the first channel on which its contact has an address and is free now
// (A40). The delivery itself is skipped with the limit's reason.
func (b *Batch) fallback(c *candidate, why reason.Reason) (v Verdict, ok bool) {
	if c.Step > 0 {
		return v, false
	}
	for row := range StandIns(c.Claim, c.rules, b.OnlyTo) {
		a := c.ask
		a.Channel = row.Channel
		if _, away := b.Resting[delivery.PaceOf(row)]; away {
			continue
		}
		if at := b.ledger.Try(a); at.Reason != "" {
			continue
		}
		row = standIn(row, c.Claim, b.NewID())
		row.SendAt, row.Slot, row.CreatedAt = b.Now, b.ledger.Reserve(a, b.Now), b.Now
		v = b.skip(c, why)
		v.Fallback = &row
		v.entries = append(v.entries, Entry(row, c.Person.ExtID, b.Now))
		return v, true
	}
	return v, false
}

// StandIns yields the fallback rows of a delivery in the order of trying, without id, send_at and slot: one for each further channel of its trigger
// on which its contact has an address that may be written to.
func StandIns(c delivery.Claim, rules Rules, onlyTo flow.Allow) iter.Seq[delivery.Row] {
	channels := rules.Trigger.Fallback
	if tried := slices.Index(channels, c.Channel); tried >= 0 && c.FallbackOf != 0 {
		channels = channels[tried+1:]
	}
	return func(yield func(delivery.Row) bool) {
		for _, name := range channels {
			channel := rules.Live.Channel(name)
			address := c.Person.AddressOn(Kind(name))
			if channel == nil || address == "" || name == c.Channel || !channel.OnlyTo.Allows(address) || !onlyTo.Allows(address) {
				continue
			}
			row := delivery.Row{
				Workspace: c.Workspace, Key: string(key.Delivery(c.Key).On(name)), Instance: c.Instance, Event: c.Event, Record: c.Record, Topic: c.Topic,
				Contact: c.Contact, Workflow: c.Workflow, WorkflowVersion: c.WorkflowVersion, Definitions: c.Definitions,
				Type: c.Type, Trigger: c.Trigger, Message: c.Message, Channel: name, Address: address, OwnAddress: true, Locale: c.Locale, CustomerRef: c.CustomerRef, OwnAt: c.OwnAt,
				Status: delivery.Scheduled, NotBefore: c.NotBefore, RemindersRemaining: len(rules.Policy.Timing.Reminders),
				FallbackOf: c.ID, Priority: c.Priority,
			}
			if !yield(row) {
				return
			}
		}
	}
}

// standIn gives a fallback row its id. Fold members of the delivery that it replaces leave with it.
func standIn(row delivery.Row, c delivery.Claim, id delivery.ID) delivery.Row {
	row.ID = id
	if c.IsFoldHead() {
		row.SetFold(delivery.FoldHead, id)
	}
	return row
}

// AfterFailure returns the fallback of a delivery that has failed for good; nil if there is none. It takes a slot when it is sent.
func AfterFailure(c delivery.Claim, rules Rules, onlyTo flow.Allow, now time.Time, id func() delivery.ID) *delivery.Row {
	for row := range StandIns(c, rules, onlyTo) {
		row = standIn(row, c, id())
		row.SendAt, row.CreatedAt, row.EligibleAt = now, now, c.Eligible()
		return &row
	}
	return nil
}
