package outlook

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// arriving is an event of the kind that is asked for, as if it arrived now, without a payload.
func arriving(u *Answer) *subject.Event {
	ev := &subject.Event{Kind: u.Event, OccurredAt: u.At, ReceivedAt: u.At}
	if u.Contact != nil {
		ev.Recipient = &subject.Recipient{CustomerRef: u.Contact.ExtID, Address: u.Contact.AddressOn(""), Locale: u.Contact.Locale}
	}
	return ev
}

// events reads what waits after events: those that name the contact, and those whose messages go to others than their recipients; without a contact all.
func (r *reading) events(u *Answer) ([]plan.EventFacts, error) {
	onlyRecipient, any := map[string]bool{}, false
	for _, t := range u.Workflow.Trigger {
		if t.OnEvent() != nil {
			any = true
			onlyRecipient[t.ID] = !slices.ContainsFunc(t.Forms(), func(form *definition.Trigger) bool {
				return slices.ContainsFunc(form.Audience, func(entry definition.Audience) bool { return !entry.EventRecipient })
			})
		}
	}
	if !any || u.Record != nil || r.query.Event != "" {
		return nil, nil
	}
	rows, err := r.tx.WaitingAfterEvents(r.ws, u.Workflow.Name, plan.MostWaiting)
	if err != nil {
		return nil, err
	}
	if u.Contact != nil && len(rows) == plan.MostWaiting { // those of the contact may be others
		own, err := r.tx.WaitingOfRecipient(r.ws, u.Contact.ID, u.Workflow.Name, plan.MostWaiting)
		if err != nil {
			return nil, err
		}
		rows = append(rows, own...)
		slices.SortFunc(rows, func(a, b instance.Row) int { return cmp.Compare(a.ID, b.ID) })
		rows = slices.CompactFunc(rows, func(a, b instance.Row) bool { return a.ID == b.ID })
		slices.SortStableFunc(rows, func(a, b instance.Row) int { return a.DueAt.Compare(b.DueAt) })
	}
	list, err := r.afterEvents(rows)
	if err != nil || u.Contact == nil {
		return list, err
	}
	for n := range list {
		e := &list[n]
		e.Rows = slices.DeleteFunc(e.Rows, func(row instance.Row) bool { return onlyRecipient[row.Trigger] && e.Contact.ID != u.Contact.ID })
	}
	return slices.DeleteFunc(list, func(e plan.EventFacts) bool { return len(e.Rows) == 0 }), nil
}

// afterEvents gathers rows by their events, in the order of the first row of each, with what decides about them.
func (r *reading) afterEvents(rows []instance.Row) ([]plan.EventFacts, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var list []plan.EventFacts
	var refs []store.EventRef
	at, sets := map[subject.EventID]int{}, map[int64]*definition.Set{}
	for _, row := range rows {
		if sets[row.Definitions] == nil {
			set, err := r.catalog.Loaded(r.ws, row.Definitions)
			if err != nil {
				return nil, err
			}
			sets[row.Definitions] = set
		}
		n, ok := at[row.Event]
		if !ok {
			n = len(list)
			at[row.Event] = n
			list, refs = append(list, plan.EventFacts{Sets: sets}), append(refs, store.EventRef{Workspace: r.ws, ID: row.Event})
		}
		list[n].Rows = append(list[n].Rows, row)
	}
	events, err := r.tx.EventsByID(refs)
	if err != nil {
		return nil, err
	}
	ws, err := r.catalog.Workspace(r.ws)
	if err != nil {
		return nil, err
	}
	var named []int
	var recipients []store.RecipientIn
	for n, ref := range refs {
		if list[n].Event = events[ref].Event; list[n].Recipient != nil {
			named = append(named, n)
			recipients = append(recipients, store.RecipientIn{Workspace: r.ws, RecipientRef: audience.Recipient(ws.Addresses, *list[n].Recipient)})
		}
	}
	if len(recipients) == 0 {
		return list, nil
	}
	contacts, err := r.tx.Contacts(recipients)
	for i, c := range contacts {
		list[named[i]].Contact = c
	}
	return list, err
}
