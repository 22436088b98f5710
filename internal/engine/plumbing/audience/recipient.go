package audience

import (
	"strings"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Recipient refers to a contact by the caller's reference, else by the address (R20).
func Recipient(addresses key.Keyed, r subject.Recipient) store.RecipientRef {
	ref := store.RecipientRef{ExtID: r.CustomerRef, Address: r.Address, Locale: r.Locale, NewExtID: r.CustomerRef}
	if r.Address != "" {
		ref.AddressHash = addresses.Hash(subject.NormalizeAddress(r.Address))
		if ref.NewExtID == "" {
			ref.NewExtID = "addr:" + ref.AddressHash
		}
	}
	return ref
}

// OfRecipient returns the recipient of a message from the recipient that an event names.
func OfRecipient(person delivery.Person, r subject.Recipient) admission.Recipient {
	return admission.Recipient{Person: person, Address: strings.TrimSpace(r.Address), Locale: r.Locale, CustomerRef: r.CustomerRef}
}
