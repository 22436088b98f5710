package sender

import (
	"github.com/carillonhq/carillon/internal/admission"
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

// foreign returns the address of a claim if it is not known to be its contact's.
func (r *admitting) foreign(c *candidate) (ref store.AddressRef, err error) {
	if c.Address == c.Person.AddressOn(admission.Kind(c.Channel)) || c.Person.Has(c.Address) {
		return ref, nil
	}
	ws, err := r.Catalog.Workspace(c.Workspace)
	if err != nil {
		return ref, err
	}
	return store.AddressRef{Workspace: c.Workspace, Hash: ws.Addresses.Hash(subject.NormalizeAddress(c.Address))}, nil
}
