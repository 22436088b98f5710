package admission

import (
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/trace"
)

// Trace returns the limits that keep a message from leaving when it asks and has got a verdict. Slots of the rows in without count as free.
func (b *Ledger) Trace(a SlotRequest, v cadence.Verdict, without ...delivery.Row) trace.Limits {
	own, persona := b.rules(a.Set, a.Person.Contact)
	out := trace.Limits{Zone: Zone(b.zones, a.Set, a.Person).String(), Last: v.Last}
	for _, u := range b.blocks(a, without...) {
		l := trace.Limit{Limit: u.Limit, Type: u.Type, Used: u.Used, Max: u.Most, Rolling: u.Rolling}
		if !u.Free.IsZero() {
			l.FreeAt = &u.Free
		}
		if u.Limit != cadence.LimitSendWindow {
			l.From = cadence.LayerOn(Kind(a.Channel), u.Limit, own, persona, a.Set.Workspace.Limits)
		}
		out.Limits = append(out.Limits, l)
	}
	return out
}

// blocks returns these limits, in the order in which they apply.
func (b *Ledger) blocks(a SlotRequest, without ...delivery.Row) []cadence.Use {
	policy, loc := b.Limiting(a), Zone(b.zones, a.Set, a.Person)
	m := a.message()
	if policy.Unlimited() {
		return cadence.NewHistory(nil).Blocks(policy, loc, a.Now, m)
	}
	var blocks []cadence.Use
	history := b.history(a)
	history.Without(places(without, Kind(a.Channel)), func() { blocks = history.Blocks(policy, loc, a.Now, m) })
	return blocks
}
