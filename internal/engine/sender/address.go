package sender

import (
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// A message goes to the address that its contact has when it is sent. An address that the contact has lost since the message was made may belong to
// somebody else by now, so the message goes to the address that would be chosen today. An address that came from the event and was never the
// contact's stays. If it belongs to a suppressed contact, the message stops (P5).

// present returns the address to which a claim goes now; empty if its contact has none on its channel.
func present(c store.Claim) string {
	if !c.OwnAddress {
		return c.Address
	}
	now := c.Person.AddressOn(admission.Kind(c.Channel))
	if c.Address == now || c.Person.Has(c.Address) {
		return c.Address
	}
	return now
}

// readdressed writes the new address into the row of a claim that goes on.
func (r *admitting) readdressed(c store.Claim, v store.IntentVerdict) store.IntentVerdict {
	switch {
	case v.Needs():
		return v
	case v.Move == nil:
		v.Move = &store.IntentMove{
			Send: true, Status: c.Status, SendAt: c.SendAt, Slot: c.Slot, DeferredBy: c.DeferredBy, Reason: c.Reason, AttemptNo: c.AttemptNo,
			Step: c.Step, Remaining: c.RemindersRemaining, Trace: c.Trace, LeaseUntil: r.leaseUntil, UnknownSince: c.UnknownSince, DueAt: c.DueAt,
			EligibleAt: c.EligibleAt, FoldedInto: c.FoldedInto,
		}
	}
	if v.Move.Send {
		v.Move.Address = c.Address
	}
	return v
}

// others returns the hash of an address that does not belong to the claim's contact, until its owner has been read.
func (r *admitting) others(c store.Claim) (string, error) {
	if c.AddressRead || c.Address == c.Person.AddressOn(admission.Kind(c.Channel)) || c.Person.Has(c.Address) {
		return "", nil
	}
	ws, err := r.Catalog.Workspace(c.Workspace)
	if err != nil {
		return "", err
	}
	return ws.Addresses.Hash(subject.NormalizeAddress(c.Address)), nil
}
