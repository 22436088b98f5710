package admission

import (
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/trace"
)

// waiting returns the deliveries of the same workflow and context to the same contact on the same channel that wait for a slot and were never sent,
// the earliest first (R6).
func (b *Ledger) waiting(o Occasion, p delivery.Person, channel string) []delivery.Row {
	if o.Instance.Context == "" || o.Trigger.Limits.KeepQueued || o.Trigger.Limits.Critical {
		return nil
	}
	var rows []delivery.Row
	for _, w := range p.Waiting {
		if w.Context == o.Instance.Context && w.Row.Workflow == o.Instance.Workflow && w.Row.Channel == channel &&
			w.Row.Instance != o.Instance.ID && !b.gone[w.Row.ID] {
			rows = append(rows, w.Row)
		}
	}
	return rows
}

// supersede ends an older delivery in favour of a newer one.
func (b *Ledger) supersede(old delivery.Row, newer *delivery.Row, o Occasion) {
	b.gone[old.ID] = true
	old.Status, old.Reason, old.CompletedAt = delivery.Superseded, reason.Superseded, o.Now
	old.Trace = trace.Of(old, o.Trigger.Timing, reason.Superseded, o.Now, newer.SendAt, trace.Limits{})
	old.Unplan()
	old.Slot = time.Time{}
	old.SetFold("", 0)
	b.ended = append(b.ended, old)
}

// Ended returns the deliveries that were superseded since the last call.
func (b *Ledger) Ended() []delivery.Row {
	ended := b.ended
	b.ended = nil
	return ended
}
