// Package receipt takes in what is reported of messages after their provider had accepted them.
//
//	report ─▶ whom it is about: who has the address that it names, in any spelling, and the one to which the delivery was sent
//	       ─▶ a receipt of the delivery, on the attempt that it is about
//	        any        ─▶ a delivery whose outcome was unknown is settled: its provider has the message
//	        delivered, read ─▶ its fallback is cancelled, if that has not left (R19)
//	        bounced    ─▶ nothing is sent to the address any more; by mail, the subscriptions of who has it end
//	        complained ─▶ all subscriptions of who has the address end
//
// A receipt never moves a status back: a delivery that was sent stays sent, and one that has failed stays failed. A report of an address that nobody has
// changes nothing, and is no error; so does one of a delivery that left by another channel than the one that calls back.
package receipt

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Store is what the package needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
}

// Writer takes reports in.
type Writer struct {
	store   Store
	catalog *catalog.Catalog
	journal journal.Writer
}

// New makes a Writer.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Writer { return &Writer{s, c, w} }

// Report is what is reported of one message, or of an address.
type Report struct {
	Status   feedback.Status
	Soft     bool        // of a bounced message: its cause may pass, so that the address takes further ones
	Address  string      // in any spelling; empty: the one to which the delivery was sent
	Channel  string      // as kind:name, the one that called back, which knows its own deliveries alone; else the kind, or empty: that of the delivery
	Delivery delivery.ID // 0: not known
	Step     int         // of the delivery; 0: not known
	Message  string      // the provider's id of the message; may be empty
	Detail   string      // in the words of who reports it
	Actor    string      // name of the API key
}

// Taken is what a report has changed.
type Taken struct {
	Known     bool // the delivery exists, or somebody has the address
	Settled   bool // the outcome of the delivery was unknown: its provider has the message
	Cancelled int  // deliveries that were to stand in for it
	Stopped   bool // the address takes messages no more
	Ended     int  // subscriptions
}

// Take takes reports in. The results are in their order.
func (w *Writer) Take(ctx context.Context, ws store.Workspace, list []Report, now time.Time, once *store.Idempotent[[]Taken]) ([]Taken, error) {
	set, err := w.inForce(ctx, ws.ID, list)
	if err != nil {
		return nil, err
	}
	var c *call
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		c = &call{tx: tx, ws: ws.ID, set: set, list: list, hashes: key.NewKeyed(ws.Secret, key.PurposeAddress), now: now, taken: make([]Taken, len(list))}
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		if err := c.step(); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, c.taken)
	})
	if err != nil {
		return nil, fmt.Errorf("take in what is reported of messages: %w", err)
	}
	for _, entry := range c.entries {
		w.journal.Write(entry)
	}
	return c.taken, nil
}

// call is what one call changes, in one transaction.
type call struct {
	tx     *store.Tx
	ws     subject.WorkspaceID
	set    *definition.Set // in force; nil: nothing was reported by a channel of a delivery
	list   []Report
	hashes key.Keyed
	now    time.Time

	rows    map[delivery.ID]delivery.Row // that are reported on, locked
	of      []delivery.ID                // of the reports, in their order; 0: of no delivery that is known
	to      []recipient                  // of the reports, in their order
	taken   []Taken
	entries []journal.Entry // to write after the commit
}

// step locks deliveries before contacts. It ends the subscriptions of all reports at once, since their contacts are locked together.
func (c *call) step() error {
	if err := c.deliveries(); err != nil {
		return err
	}
	if err := c.recipients(); err != nil {
		return err
	}
	for _, status := range []feedback.Status{feedback.Bounced, feedback.Complained} {
		if err := c.end(status); err != nil {
			return err
		}
	}
	if err := c.stop(); err != nil {
		return err
	}
	for i := range c.list {
		if err := c.audit(i); err != nil {
			return err
		}
	}
	return nil
}

// stop has nothing sent to addresses any more whose messages bounce, on the kind of channel that the report is about, however they are written.
func (c *call) stop() error {
	var list []store.StoppedAddress
	var of []int // the reports
	for i, r := range c.list {
		if r.Status != feedback.Bounced || r.Soft {
			continue
		}
		for _, a := range c.to[i].addresses {
			if !a.counts() {
				continue
			}
			for _, hash := range a.hashes {
				list, of = append(list, store.StoppedAddress{HashOn: store.HashOn{Hash: hash, Kind: c.to[i].kind}, Reason: string(feedback.Bounced), Detail: r.Detail, At: c.now}), append(of, i)
			}
		}
	}
	stopped, err := c.tx.StopAddresses(c.ws, list)
	for n, a := range list {
		if stopped[a.HashOn] {
			c.taken[of[n]].Stopped = true
			delete(stopped, a.HashOn) // by the first report of it
		}
	}
	return err
}

// end ends the subscriptions of those of whom a status is reported.
func (c *call) end(status feedback.Status) error {
	at := map[subject.ContactID]int{}
	var names []string
	for i, r := range c.list {
		if r.Status != status || r.Soft || status == feedback.Bounced && !c.to[i].mail() {
			continue
		}
		for _, owner := range c.to[i].people() {
			if _, seen := at[owner.ID]; !seen {
				at[owner.ID], names = i, append(names, owner.ExtID)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	why := map[feedback.Status]topic.EndReason{feedback.Bounced: topic.EndBounced, feedback.Complained: topic.EndComplained}[status]
	ended, err := topics.EndAll(c.tx, c.ws, names, why, c.now)
	for _, s := range ended {
		c.taken[at[s.Contact]].Ended++
	}
	return err
}

// audit notes what a report has changed.
func (c *call) audit(i int) error {
	r, t := c.list[i], c.taken[i]
	if !t.Stopped && t.Ended == 0 && !t.Settled && t.Cancelled == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]any{"subscriptions": t.Ended, "stopped": t.Stopped, "settled": t.Settled, "deliveries": t.Cancelled, "detail": r.Detail})
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	var owner string
	if people := c.to[i].people(); len(people) > 0 {
		owner = people[0].ExtID
	}
	return c.tx.Audit(c.ws, c.now, store.Audit{At: c.now, Actor: r.Actor, Action: string(r.Status), Target: owner, Detail: detail})
}

// Allow lets messages go to an address again that was stopped, on all kinds of channels. changed is false if it was not.
func (w *Writer) Allow(ctx context.Context, ws store.Workspace, address, actor string, now time.Time, once *store.Idempotent[bool]) (changed bool, err error) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		changed = false
		for _, spelling := range subject.Spellings(address) {
			is, err := tx.AllowAddress(ws.ID, hashes.Hash(spelling))
			if err != nil {
				return err
			}
			changed = changed || is
		}
		if err := once.Keep(tx, ws.ID, changed); err != nil || !changed {
			return err
		}
		return tx.Audit(ws.ID, now, store.Audit{At: now, Actor: actor, Action: "allow address", Target: subject.MadePrefix + hashes.Hash(subject.NormalizeAddress(address))})
	})
	if err != nil {
		return false, fmt.Errorf("allow an address: %w", err)
	}
	return changed, nil
}
