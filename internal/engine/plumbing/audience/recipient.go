package audience

import (
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
