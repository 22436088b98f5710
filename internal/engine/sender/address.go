package sender

import (
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// A message goes where its person is when it is sent. An address that was theirs when it was made and is not any more may
// be another one's by now: then it goes to the one that would be chosen today. An address that its event named, and that
// was never theirs, stays; somebody else whose it is may have been suppressed, which stops it (P5).

// present is the address to which a claim goes now; empty: its person has none on its channel.
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

// readdressed has the row of a claim that goes on take the address that it has now.
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

// others is the hash of an address that is not that of the claim's person, while nobody has looked whose it is.
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
