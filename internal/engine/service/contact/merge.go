package contact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/engine/plumbing/groups"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Merger is a request to merge a contact into another one, the survivor.
type Merger struct {
	Contact string // its id
	Into    string // the survivor's id
	Actor   string // name of the API key
}

// Merged is what a merger did.
type Merged struct {
	Changed  bool // false: it was so already
	Contact  subject.ContactRow
	Survivor subject.ContactRow
}

// ErrNoSurvivor: there is no contact to merge into.
var ErrNoSurvivor = errors.New("there is no such survivor")

// refuseMerged is the refusal of what must not be done with a merged contact.
func refuseMerged(c subject.ContactRow) *upsert.Error {
	return invalid("id", "was merged into "+c.Claimant, "name that contact")
}

// Merge merges a contact into another one (R20). Subscriptions, waiting messages, courses and what counts in limits go to the survivor, of two
// subscriptions to a topic the more frequent one. The survivor keeps its own fields, and takes the merged contact's address for each kind of channel
// for which it has none; the other addresses are given up. If one of the two is suppressed, the survivor is (P5).
//
// From then on the merged contact's id names the survivor, and it cannot be written. store.ErrNotFound: there is no such contact to merge;
// ErrNoSurvivor: nor one to merge it into; *upsert.Error: the request cannot be done.
func (k *Writer) Merge(ctx context.Context, ws store.Workspace, m Merger, now time.Time, once *store.Idempotent[Merged]) (Merged, error) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	var result Merged
	var missing []string
	step := func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		known, err := k.lock(tx, ws.ID, m, hashes, missing)
		if err != nil {
			return err
		}
		from, into := known[m.Contact], known[m.Into]
		result = Merged{Contact: from, Survivor: into}
		if from.MergedInto == into.ID {
			return once.Keep(tx, ws.ID, result)
		}
		if err := mergeable(from, into); err != nil {
			return err
		}
		inForce, err := groups.InForce(tx, k.catalog, ws.ID)
		if err != nil {
			return err
		}
		writes := m.writes(from, into, hashes, now)
		group(inForce, writes)
		done, more, err := tx.MergeContact(ws.ID, now, known, m.Contact, m.Into, writes)
		missing = append(missing, more...)
		if err != nil {
			return err
		}
		if err := tx.MarkReschedule(now, done.Survivors); err != nil {
			return err
		}
		if err := digests.TellRest(tx, k.catalog.Loaded, ws.ID, done.Subscriptions, func() int64 { return k.store.NewID(now) }, now); err != nil {
			return err
		}
		if from.Timezone != into.Timezone { // records that name it follow the survivor's zone
			if err := move(tx, ws.ID, now, inForce, []string{m.Contact}); err != nil {
				return err
			}
		}
		detail, err := json.Marshal(map[string]any{"into": m.Into})
		if err != nil {
			return fmt.Errorf("write the audit entry: %w", err)
		}
		if err := tx.Audit(ws.ID, now, store.Audit{At: now, Actor: m.Actor, Action: "merge", Target: m.Contact, Detail: detail}); err != nil {
			return err
		}
		result.Changed = true
		if result.Contact, err = tx.Contact(ws.ID, m.Contact); err != nil {
			return err
		}
		if result.Survivor, err = tx.Contact(ws.ID, m.Into); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, result)
	}
	// A definition that comes into force after this write reads what it writes.
	err := k.catalog.Supply(ctx, 1, func(int) error { return k.store.WriteHoldingDefinitions(ctx, step) })
	if err != nil {
		return Merged{}, fmt.Errorf("merge contacts: %w", err)
	}
	return result, nil
}

// lock locks both contacts and the ones that were made for their addresses, and before them their deliveries: an intent locks a delivery first, and then
// its contact.
func (k *Writer) lock(tx *store.Tx, ws subject.WorkspaceID, m Merger, hashes key.Keyed, missing []string) (map[string]subject.ContactRow, error) {
	ids := slices.Clone(missing)
	addresses := map[string][]string{}
	for _, id := range []string{m.Contact, m.Into} {
		c, err := tx.Contact(ws, id)
		if errors.Is(err, store.ErrNotFound) && id == m.Into {
			return nil, ErrNoSurvivor
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		addresses[id] = owned(c)
		ids = append(ids, id)
		for _, address := range addresses[id] {
			ids = append(ids, subject.MadePrefix+hashes.Hash(address))
		}
	}
	if _, err := tx.LockDeliveriesOf(ws, ids); err != nil {
		return nil, err
	}
	known, err := tx.LockContacts(ws, ids)
	if err != nil {
		return nil, err
	}
	for id, before := range addresses {
		if !slices.Equal(before, owned(known[id])) {
			return nil, store.ErrAgain // its addresses were changed meanwhile
		}
	}
	return known, nil
}

// mergeable says why a contact cannot be merged into another one; nil: it can.
func mergeable(from, into subject.ContactRow) error {
	made := strings.HasPrefix(into.ExtID, subject.MadePrefix)
	switch {
	case from.ID == into.ID:
		return invalid("into", "is the contact itself", "name the other one")
	case from.MergedInto != 0:
		return invalid("id", "was merged into "+from.Claimant+" before", "merge that one")
	case into.MergedInto != 0:
		return invalid("into", "was merged into "+into.Claimant, "name that one")
	case made && !strings.HasPrefix(from.ExtID, subject.MadePrefix):
		return invalid("into", "was made for an address", "merge it into "+from.ExtID+" instead")
	}
	return nil
}

// writes returns both contacts with their new values.
func (m Merger) writes(from, into subject.ContactRow, hashes key.Keyed, now time.Time) []store.ContactWrite {
	survivor := store.ContactWrite{ContactRow: into}
	survivor.Addresses, survivor.UpdatedAt = maps.Clone(into.Addresses), now
	for _, kind := range subject.AddressKinds() {
		address := addressFor(from, kind)
		if kind == "inbox" || address == "" || addressFor(into, kind) != "" {
			continue
		}
		if survivor.Addresses == nil {
			survivor.Addresses = map[string]string{}
		}
		survivor.Addresses[kind] = address
	}
	if from.Suppressed && !into.Suppressed {
		survivor.Suppressed, survivor.SuppressReason, survivor.SuppressedAt = true, from.SuppressReason, from.SuppressedAt
	}
	for _, address := range owned(survivor.ContactRow) {
		survivor.Hashes = append(survivor.Hashes, hashes.Hash(address))
	}
	gone := store.ContactWrite{ContactRow: from}
	gone.Addresses, gone.UpdatedAt = nil, now
	for _, address := range owned(from) {
		gone.Dropped = append(gone.Dropped, hashes.Hash(address))
	}
	return []store.ContactWrite{gone, survivor}
}

// addressFor is the address of a contact that is surely one for a kind of channel, normalised; empty: there is none.
func addressFor(c subject.ContactRow, kind string) string {
	switch own := c.Addresses[kind]; {
	case own != "":
		return own
	case (kind == "email" || kind == "sms" || kind == "whatsapp") && subject.CheckAddress(kind, c.Address) == nil:
		return subject.NormalizeAddress(c.Address)
	}
	return ""
}

// owned returns the addresses of a contact, each once and normalised.
func owned(c subject.ContactRow) []string {
	all := slices.DeleteFunc(append(addressesOf(c), subject.NormalizeAddress(c.Address)), func(address string) bool { return address == "" })
	return slices.Compact(slices.Sorted(slices.Values(all)))
}
