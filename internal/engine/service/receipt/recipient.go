package receipt

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// recipient is whom a report is about.
type recipient struct {
	addresses []address        // at most two: the one that is named, and that of the delivery
	reader    *subject.Contact // of the delivery, who has complained; nil: not known
	kind      string           // of the channel; empty: not known
}

// address is one that a report is about, in all its spellings.
type address struct {
	hashes []string
	sentTo bool              // the delivery was sent to it
	owners []subject.Contact // who have it
}

// counts reports whether anything is known of the address: somebody has it, or the delivery was sent to it.
func (a address) counts() bool { return a.sentTo || len(a.owners) > 0 }

// people are the contacts that a report is about, each once.
func (to recipient) people() (list []subject.Contact) {
	add := func(one subject.Contact) {
		if !slices.ContainsFunc(list, func(c subject.Contact) bool { return c.ID == one.ID }) {
			list = append(list, one)
		}
	}
	for _, a := range to.addresses {
		for _, owner := range a.owners {
			add(owner)
		}
	}
	if to.reader != nil {
		add(*to.reader)
	}
	return list
}

// mail reports whether a report may be about a mail address. Subscriptions are to that; people who have no telephone go on reading their mail.
func (to recipient) mail() bool { return to.kind == "" || to.kind == "email" }

// recipients finds whom the reports are about.
func (c *call) recipients() error {
	c.to = make([]recipient, len(c.list))
	var refs []store.RecipientIn
	var of []*address // of refs
	for i := range c.list {
		to := &c.to[i]
		*to = c.recipient(i)
		for n := range to.addresses {
			a := &to.addresses[n]
			for _, hash := range a.hashes {
				refs, of = append(refs, store.RecipientIn{Workspace: c.ws, RecipientRef: store.RecipientRef{AddressHash: hash}}), append(of, a)
			}
		}
	}
	found, err := c.tx.Contacts(refs)
	if err != nil {
		return err
	}
	for n, contact := range found {
		if contact.ID != 0 {
			of[n].owners = append(of[n].owners, contact)
		}
	}
	for i, to := range c.to {
		c.taken[i].Known = c.of[i] != 0 || slices.ContainsFunc(to.addresses, address.counts)
	}
	return c.readers()
}

// recipient returns the addresses that a report is about, whose owners are not known yet, and the kind of the channel.
func (c *call) recipient(i int) (to recipient) {
	r := c.list[i]
	named, channel := subject.NormalizeAddress(r.Address), r.Channel
	row, known := c.rows[c.of[i]]
	if known {
		channel = row.Channel
	}
	to.kind = admission.Kind(channel)
	if named != "" {
		to.addresses = append(to.addresses, address{hashes: c.spellings(named)})
	}
	switch sent := subject.NormalizeAddress(row.Address); {
	case !known || sent == "":
	case named != "" && slices.Contains(subject.Spellings(named), sent):
		to.addresses[0].sentTo = true
	case named == "" || max(r.Step, 1) >= lastStep(row): // an earlier message may have gone to another address, and then that is named
		to.addresses = append(to.addresses, address{hashes: c.spellings(sent), sentTo: true})
	}
	return to
}

// lastStep is the step of the last message that has left, or may have.
func lastStep(row delivery.Row) int {
	if row.MayHaveArrived() {
		return row.Step + 1
	}
	return row.Step
}

// spellings returns the hashes of an address in all its spellings.
func (c *call) spellings(address string) (hashes []string) {
	for _, spelling := range subject.Spellings(address) {
		hashes = append(hashes, c.hashes.Hash(spelling))
	}
	return hashes
}

// readers finds the contacts of the deliveries whose readers complain. Their address may find nobody: they have another one by now, or were merged.
func (c *call) readers() error {
	var of []int
	var refs []delivery.PersonRef
	for i, r := range c.list {
		if row, known := c.rows[c.of[i]]; known && r.Status == feedback.Complained {
			of, refs = append(of, i), append(refs, delivery.PersonOf(row))
		}
	}
	if len(of) == 0 {
		return nil
	}
	contacts, err := c.tx.ContactsByID(refs)
	if err != nil {
		return err
	}
	named := make([]store.RecipientIn, len(of))
	for n, ref := range refs {
		named[n] = store.RecipientIn{Workspace: c.ws, RecipientRef: store.RecipientRef{ExtID: contacts[ref].ExtID}} // which is that of the survivor
	}
	found, err := c.tx.Contacts(named)
	if err != nil {
		return err
	}
	for n, i := range of {
		if found[n].ID != 0 {
			c.to[i].reader = &found[n]
		}
	}
	return nil
}

// own reports whether a delivery left by the channel that reports on it: by that one, or by one that has another name now. Who has an API key may report on every
// delivery, and so may a mail.
func (c *call) own(r Report, row delivery.Row) bool {
	if !r.calledBack() || r.Channel == row.Channel {
		return true
	}
	return c.set.Channel(row.Channel) == nil && admission.Kind(r.Channel) == row.Kind()
}

// calledBack reports whether a channel has called back.
func (r Report) calledBack() bool { return strings.Contains(r.Channel, ":") }
