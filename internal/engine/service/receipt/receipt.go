// Package receipt takes in what is reported of messages after their provider had accepted them.
//
//	report ─▶ a receipt of the delivery
//	        bounced    ─▶ the address is stopped, and all subscriptions of who has it end
//	        complained ─▶ all subscriptions of who has the address end
//
// A receipt moves no status: a delivery that was sent stays sent. A report of an address that nobody has changes nothing, and is no error.
package receipt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/feedback"
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
type Writer struct{ store Store }

// New makes a Writer.
func New(s Store) *Writer { return &Writer{s} }

// Report is what is reported of one message, or of an address.
type Report struct {
	Status   feedback.Status
	Address  string      // empty: the one to which the delivery was sent
	Delivery delivery.ID // 0: not known
	Detail   string      // in the words of who reports it
	Actor    string      // name of the API key
}

// Taken is what a report has changed.
type Taken struct {
	Known   bool // the delivery exists, or somebody has the address
	Stopped bool // the address takes messages no more
	Ended   int  // subscriptions
}

// Take takes reports in. The results are in their order.
func (w *Writer) Take(ctx context.Context, ws store.Workspace, list []Report, now time.Time, once *store.Idempotent[[]Taken]) (taken []Taken, err error) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		if taken, err = steps(tx, ws.ID, list, hashes, now); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, taken)
	})
	if err != nil {
		return nil, fmt.Errorf("take in what is reported of messages: %w", err)
	}
	return taken, nil
}

// steps ends the subscriptions of all reports at once, since their contacts are locked together.
func steps(tx *store.Tx, ws subject.WorkspaceID, list []Report, hashes key.Keyed, now time.Time) ([]Taken, error) {
	taken, to := make([]Taken, len(list)), make([]recipient, len(list))
	var refs []store.RecipientIn
	for i, r := range list {
		var err error
		if to[i], err = r.recipient(tx, ws, hashes, now); err != nil {
			return nil, err
		}
		refs = append(refs, store.RecipientIn{Workspace: ws, RecipientRef: store.RecipientRef{Address: to[i].address, AddressHash: to[i].hash}})
	}
	owners, err := tx.Contacts(refs)
	if err != nil {
		return nil, err
	}
	for _, status := range []feedback.Status{feedback.Bounced, feedback.Complained} {
		if err := end(tx, ws, status, list, owners, taken, now); err != nil {
			return nil, err
		}
	}
	for i, r := range list {
		taken[i].Known = to[i].known || owners[i].ExtID != ""
		if r.Status == feedback.Bounced && to[i].hash != "" && taken[i].Known {
			if taken[i].Stopped, err = tx.StopAddress(ws, store.StoppedAddress{Hash: to[i].hash, Reason: string(feedback.Bounced), Detail: r.Detail, At: now}); err != nil {
				return nil, err
			}
		}
		if err := r.audit(tx, ws, owners[i].ExtID, taken[i], now); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// recipient is whom a report is about.
type recipient struct {
	address, hash string
	known         bool // by a delivery
}

// recipient finds whom a report is about, and adds the receipt of its delivery.
func (r Report) recipient(tx *store.Tx, ws subject.WorkspaceID, hashes key.Keyed, now time.Time) (to recipient, err error) {
	to.address = strings.TrimSpace(r.Address)
	if r.Delivery != 0 {
		row, err := tx.DeliveryByID(ws, r.Delivery)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return to, err
		default:
			if to.known = true; to.address == "" {
				to.address = row.Address
			}
			if err := tx.AddReceipt(ws, row.ID, store.Receipt{At: now, Status: string(r.Status), Detail: r.Detail}); err != nil {
				return to, err
			}
		}
	}
	if to.address != "" {
		to.hash = hashes.Hash(subject.NormalizeAddress(to.address))
	}
	return to, nil
}

// end ends the subscriptions of those of whom a status is reported.
func end(tx *store.Tx, ws subject.WorkspaceID, status feedback.Status, list []Report, owners []subject.Contact, taken []Taken, now time.Time) error {
	at := map[subject.ContactID]int{}
	var names []string
	for i, r := range list {
		if _, seen := at[owners[i].ID]; r.Status == status && owners[i].ID != 0 && !seen {
			at[owners[i].ID], names = i, append(names, owners[i].ExtID)
		}
	}
	if len(names) == 0 {
		return nil
	}
	why := map[feedback.Status]topic.EndReason{feedback.Bounced: topic.EndBounced, feedback.Complained: topic.EndComplained}[status]
	ended, err := topics.EndAll(tx, ws, names, why, now)
	for _, s := range ended {
		taken[at[s.Contact]].Ended++
	}
	return err
}

// audit notes what a report has changed.
func (r Report) audit(tx *store.Tx, ws subject.WorkspaceID, owner string, t Taken, now time.Time) error {
	if !t.Stopped && t.Ended == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]any{"subscriptions": t.Ended, "stopped": t.Stopped, "detail": r.Detail})
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	return tx.Audit(ws, now, store.Audit{At: now, Actor: r.Actor, Action: string(r.Status), Target: owner, Detail: detail})
}

// Allow lets messages go to an address again that was stopped. changed is false if it was not.
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
