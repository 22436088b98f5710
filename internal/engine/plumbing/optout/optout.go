// Package optout notes that people want nothing more on a kind of channel, and ends what waits for them there.
package optout

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Cancelled is a delivery that ended, with the id of its contact.
type Cancelled struct {
	ID      delivery.ID
	Contact string
}

// Lock locks the deliveries of contacts, then the contacts: it waits for intents that are being committed, and one that comes later finds its delivery ended (P5).
func Lock(tx *store.Tx, ws subject.WorkspaceID, contacts []string) (map[string]subject.ContactRow, error) {
	if _, err := tx.LockDeliveriesOf(ws, contacts); err != nil {
		return nil, err
	}
	return tx.LockContacts(ws, contacts)
}

// Mark opts an address out of a kind of channel, or in, in each way in which it may be written. changed is false if it was so already.
func Mark(tx *store.Tx, ws subject.WorkspaceID, hashes key.Keyed, address, kind string, out bool, now time.Time) (changed bool, err error) {
	of := subject.Spellings(address)
	for i, spelling := range of {
		of[i] = hashes.Hash(spelling)
	}
	slices.Sort(of) // one order everywhere: no deadlock
	for _, hash := range of {
		is, err := tx.OptOut(ws, hash, kind, out, now)
		if err != nil {
			return false, err
		}
		changed = changed || is
	}
	return changed, nil
}

// Cancel ends the deliveries of locked contacts on a kind of channel that may still have something to send. It returns the entries to write after the commit.
func Cancel(tx *store.Tx, ws subject.WorkspaceID, known map[string]subject.ContactRow, kind string, now time.Time) ([]Cancelled, []journal.Entry, error) {
	names, of := make([]string, 0, len(known)), map[subject.ContactID]string{}
	for name, row := range known {
		names, of[row.ID] = append(names, name), name
	}
	waiting, err := tx.LockDeliveriesOfNow(ws, names)
	if err != nil {
		return nil, nil, err
	}
	var ended []Cancelled
	var entries []journal.Entry
	var changed []delivery.Row
	for _, d := range waiting {
		if admission.Kind(d.Channel) != kind {
			continue
		}
		if row, stopped := d.StoppedFor(reason.OptedOut, now); stopped {
			changed, ended = append(changed, row), append(ended, Cancelled{d.ID, of[d.Contact]})
			entries = append(entries, journal.Stopped(row, reason.OptedOut, of[d.Contact], now))
		}
	}
	return ended, entries, tx.UpdateDeliveries(now, waiting, changed)
}

// Stops returns those of some addresses to which nothing is sent, and why. hashes are those of a workspace's addresses.
func Stops(tx *store.Tx, hashes func(subject.WorkspaceID) (key.Keyed, error), of []admission.Address) (admission.Stops, error) {
	if len(of) == 0 {
		return nil, nil
	}
	asked := make(map[store.AddressOn]admission.Address, len(of))
	refs := make([]store.AddressOn, 0, len(of))
	for _, a := range of {
		keyed, err := hashes(a.Workspace)
		if err != nil {
			return nil, err
		}
		ref := store.AddressOn{AddressRef: delivery.AddressRef{Workspace: a.Workspace, Hash: keyed.Hash(a.Address)}, Kind: a.Kind}
		if _, known := asked[ref]; !known {
			asked[ref], refs = a, append(refs, ref)
		}
	}
	found, err := tx.StoppedAddresses(refs)
	if err != nil {
		return nil, err
	}
	stops := make(admission.Stops, len(found))
	for ref, stop := range found {
		stops[asked[ref]] = stop.Reason
	}
	return stops, nil
}
