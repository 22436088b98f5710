package topics

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// checkPerson checks who subscribes.
func (r Request) checkPerson() *upsert.Error {
	named, addressed := r.Contact != "", r.Address != ""
	switch {
	case named && addressed:
		return wrong("address", "cannot be combined with contact", "name the contact, who has addresses, or the address")
	case !named && !addressed:
		return wrong("contact", "is missing", "your own id of the person; or address, their e-mail address")
	case r.Locale != "" && !addressed:
		return wrong("locale", "is of a contact that is made for an address", "leave it out: the contact has one")
	case r.Locale != "" && !subject.ValidLocale(r.Locale):
		return wrong("locale", "is no language tag", "such as en or pt-BR")
	case addressed:
		if problem := subject.CheckSignUp(r.Address); problem != nil {
			return wrong("address", problem.Error(), "such as ann@example.org, or +44 20 000001")
		}
	}
	return nil
}

// references are the contacts of the addresses of requests, by their places in the list.
func references(ws store.Workspace, list []Request) (refs []store.RecipientIn, at []int) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	for i, r := range list {
		if r.Err == nil && r.Address != "" {
			hash := hashes.Hash(subject.NormalizeAddress(r.Address))
			refs, at = append(refs, store.RecipientIn{Workspace: ws.ID, RecipientRef: store.RecipientRef{
				Address: strings.TrimSpace(r.Address), AddressHash: hash, NewExtID: subject.MadePrefix + hash, Locale: r.Locale, Create: r.Frequency != "",
			}}), append(at, i)
		}
	}
	return refs, at
}

// found returns the requests with the contacts of their addresses. A subscription of nobody cannot end.
func found(tx *store.Tx, ws store.Workspace, list []Request) ([]Request, error) {
	refs, at := references(ws, list)
	contacts, err := tx.Contacts(refs)
	if err != nil {
		return nil, err
	}
	named := slices.Clone(list)
	for n, c := range contacts {
		if named[at[n]].Contact = c.ExtID; c.ExtID == "" && !refs[n].Create {
			named[at[n]].Err = wrong("address", "nobody has this address", "")
		}
	}
	return named, nil
}

// makeContacts makes the contacts of those who sign up by an address that nobody has any more or ever had, to a topic that offers what they want. Two sign-ups at once with one address, whatever
// its case, find one contact. It has a transaction of its own, since a new contact is locked, and the deliveries of a contact are locked before it.
func (w *Writer) makeContacts(ctx context.Context, ws store.Workspace, list []Request, now time.Time) error {
	refs, at := references(ws, list)
	if len(refs) == 0 || !refs[0].Create {
		return nil
	}
	return w.store.Write(ctx, func(tx *store.Tx) error {
		known, err := tx.Contacts(refs)
		if err != nil {
			return err
		}
		var names []string
		for n := range refs {
			names = append(names, list[at[n]].Topic)
		}
		topics, err := tx.TopicsByName(ws.ID, slices.Compact(slices.Sorted(slices.Values(names))))
		if err != nil {
			return err
		}
		var missing []store.RecipientRef
		for n, c := range known {
			row, exists := topics[names[n]]
			if _, refused := w.offered(row, exists, list[at[n]]); refused == nil && (c.ExtID == "" || c.MergedInto != 0) {
				missing = append(missing, refs[n].RecipientRef)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		_, err = tx.Recipients(ws.ID, now, missing, nil, false)
		return err
	})
}
