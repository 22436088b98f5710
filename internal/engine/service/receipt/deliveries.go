package receipt

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// inForce returns the definitions that say which channels there are, if a report has to be held against them.
func (w *Writer) inForce(ctx context.Context, ws subject.WorkspaceID, list []Report) (*definition.Set, error) {
	if !slices.ContainsFunc(list, func(r Report) bool { return r.Delivery != 0 && r.calledBack() }) {
		return nil, nil
	}
	return w.catalog.Current(ctx, ws)
}

// deliveries locks what is reported on, settles it, and adds the receipts.
func (c *call) deliveries() (err error) {
	c.of = make([]delivery.ID, len(c.list))
	var named []delivery.ID
	for _, r := range c.list {
		if r.Delivery != 0 {
			named = append(named, r.Delivery)
		}
	}
	if len(named) == 0 {
		return nil
	}
	if c.rows, err = c.tx.LockDeliveries(c.ws, named); err != nil {
		return err
	}
	for i, r := range c.list {
		if row, ok := c.rows[r.Delivery]; ok && c.own(r, row) {
			c.of[i] = row.ID
		}
	}
	if err := c.settle(); err != nil {
		return err
	}
	if err := c.receipts(); err != nil {
		return err
	}
	for i, r := range c.list {
		if row, ok := c.rows[c.of[i]]; ok && row.Status == delivery.Failed && row.Asks == "" && arrived(r.Status) { // the conversation of one that asks is over, so that its fallback has to ask
			if err := c.cancel(i, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrived reports whether a status says that the person has the message.
func arrived(s feedback.Status) bool { return s == feedback.Delivered || s == feedback.Read }

// settle settles the deliveries whose outcome was unknown: who reports on a message has it. A report that does not say which message it is about is about
// the first one.
func (c *call) settle() error {
	changed := map[delivery.ID]delivery.Row{}
	for i, r := range c.list {
		row, ok := c.rows[c.of[i]]
		if next, is := changed[c.of[i]]; is {
			row = next
		}
		if !ok {
			continue
		}
		if next, settles := row.ReportedOn(max(r.Step, 1), c.now); settles {
			changed[row.ID], c.taken[i].Settled = next, true
		}
	}
	var old, list []delivery.Row
	for id, next := range changed {
		old, list = append(old, c.rows[id]), append(list, next)
	}
	return c.tx.UpdateDeliveries(c.now, old, list)
}

func (c *call) receipts() error {
	var list []store.NewReceipt
	for i, r := range c.list {
		row, ok := c.rows[c.of[i]]
		if !ok || r.Status == feedback.Accepted { // of that there is an attempt
			continue
		}
		list = append(list, store.NewReceipt{
			Receipt:  store.Receipt{At: c.now, Status: string(r.Status), Soft: r.Soft, Detail: r.Detail, Attempt: row.AttemptNo, ProviderID: r.Message},
			Delivery: row.ID, Step: r.Step,
		})
	}
	return c.tx.AddReceipts(c.ws, list)
}

// cancel cancels what was to stand in for a message that has arrived after all, if it has not left (R19).
func (c *call) cancel(i int, primary delivery.Row) error {
	fallbacks, err := c.fallbacks(primary)
	if err != nil || len(fallbacks) == 0 {
		return err
	}
	ids := make([]delivery.ID, len(fallbacks))
	for n, row := range fallbacks {
		ids[n] = row.ID
	}
	locked, err := c.tx.LockDeliveries(c.ws, ids)
	if err != nil {
		return err
	}
	if again, err := c.fallbacks(primary); err != nil || len(again) > len(ids) { // one has failed before it was locked, and made the next one
		return cmp.Or(err, store.ErrAgain)
	}
	ref := delivery.PersonOf(primary)
	contacts, err := c.tx.ContactsByID([]delivery.PersonRef{ref})
	if err != nil {
		return err
	}
	var old, changed []delivery.Row
	for _, row := range locked {
		next, stopped := row.StoppedFor(reason.PrimaryDelivered, c.now)
		if !stopped || row.Step > 0 || row.OutcomeUnknown() {
			continue
		}
		old, changed = append(old, row), append(changed, next)
		c.entries = append(c.entries, journal.Stopped(next, reason.PrimaryDelivered, contacts[ref].ExtID, c.now))
	}
	c.taken[i].Cancelled += len(changed)
	return c.tx.UpdateDeliveries(c.now, old, changed)
}

func (c *call) fallbacks(primary delivery.Row) ([]delivery.Row, error) {
	all, err := c.tx.DeliveriesOfContact(c.ws, primary.Instance, primary.Contact)
	return delivery.Fallbacks(primary.ID, all), err
}
