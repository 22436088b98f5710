package operator

import (
	"iter"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// followEvent returns what follows a later message of the course after an event that a person has ended. What follows the first message exists
// since the event was taken in.
func (o *Operator) followEvent(tx *store.Tx, a *action, s state) (iter.Seq[instance.Row], error) {
	in := s.Instance
	if !in.FollowsEvent() {
		return nil, nil
	}
	set, m, err := o.courseOf(s)
	if err != nil || set == nil {
		return nil, err
	}
	events, err := tx.EventsByID([]store.EventRef{{Workspace: in.Workspace, ID: in.Event}})
	if err != nil {
		return nil, err
	}
	ev := events[store.EventRef{Workspace: in.Workspace, ID: in.Event}].Event
	var contact subject.Contact
	if m.Trigger.OnEvent().Dates.ByContact && ev.Recipient != nil {
		ws, err := o.catalog.Workspace(in.Workspace)
		if err != nil {
			return nil, err
		}
		contacts, err := tx.Contacts([]store.RecipientIn{{Workspace: in.Workspace, RecipientRef: audience.Recipient(ws.Addresses, *ev.Recipient)}})
		if err != nil {
			return nil, err
		}
		contact = contacts[0]
	}
	c, why, _ := plan.CourseAt(set, m, ev, in, contact, &o.catalog.Zones)
	if why != "" { // by another definition: the course is over
		return nil, nil
	}
	present, _ := c.Find(in)
	return func(yield func(instance.Row) bool) {
		for row := range c.Next(present, a.now) {
			if row.Workspace, row.ID = in.Workspace, instance.ID(a.ids(a.now)); !yield(row) {
				return
			}
		}
	}, nil
}

// courseOf returns the trigger of a course after an event in the version that counts: that of the event if it is pinned, else the one in
// force. The set is nil if there is no course any more.
func (o *Operator) courseOf(s state) (set *definition.Set, m definition.Match, err error) {
	in := s.Instance
	if set, err = o.catalog.Loaded(in.Workspace, s.InForce); err != nil || set.Workflow(in.Workflow) == nil {
		return nil, m, err
	}
	own, err := o.catalog.Loaded(in.Workspace, in.Definitions)
	if err != nil {
		return nil, m, err
	}
	of, m, ok := plan.TriggerAfterEvent(own, set, in)
	if !ok {
		return nil, m, nil
	}
	if m.Trigger = m.Workflow.TriggerByID(in.Trigger); m.Trigger.OnEvent() == nil || m.Trigger.Course() == nil {
		return nil, m, nil
	}
	return of, m, nil
}
