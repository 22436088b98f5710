package admission

import (
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Address is an address on a kind of channel, normalized.
type Address struct {
	Workspace subject.WorkspaceID
	Kind      string
	Address   string
}

// Stops are addresses to which nothing is sent on a kind of channel, and why: address_stopped or opted_out. They count when a message
// is made that is due, so that it goes to a fallback at once, and at the intent of each (P5).
type Stops map[Address]reason.Reason

// Addresses returns where a message of a trigger could go to a recipient, but for the inbox, which is ours.
func (r Recipient) Addresses(ws subject.WorkspaceID, t *definition.Trigger) (list []Address) {
	for n := -1; n < len(t.Fallback); n++ {
		channel := t.Channel
		if n >= 0 {
			channel = t.Fallback[n]
		}
		if a := r.address(ws, channel); a.Address != "" {
			list = append(list, a)
		}
		if n < 0 {
			r = r.instead()
		}
	}
	return list
}

// address is where a message on a channel would go; zero: nowhere, or to the inbox.
func (r Recipient) address(ws subject.WorkspaceID, channel string) (a Address) {
	kind := Kind(channel)
	if kind == kindInbox {
		return a
	}
	return Address{ws, kind, subject.NormalizeAddress(r.on(channel))}
}

// Heed has the ledger make no message to addresses that are stopped.
func (b *Ledger) Heed(stops Stops) { b.stops = stops }

// stop returns why nothing is sent to a recipient on a channel; empty: it may be. One who has just replied STOP, or HELP, gets the answer to that.
func (b *Ledger) stop(o Occasion, r Recipient, channel string) reason.Reason {
	if len(b.stops) == 0 {
		return ""
	}
	why := b.stops[r.address(o.Instance.Workspace, channel)]
	if on := o.Trigger.OnEvent(); why == reason.OptedOut && on != nil && on.Kind == definition.ReplyReceived {
		return ""
	}
	return why
}
