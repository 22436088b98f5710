package fanout

import (
	"fmt"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// afterEvent decides about a later message of the course after an event, and finds the message that follows it. The first message belongs to
// the event, and ingest has made what follows it.
func (r *run) afterEvent(p *planned, in due, m definition.Match) error {
	if !in.FollowsEvent() || !in.InCourse() || in.ExpandCursor != 0 {
		return nil
	}
	end := func(why reason.Reason) {
		p.over = &outcome{Patch: instance.Patch{Status: instance.Deactivated, Reason: why}}
	}
	if m.Trigger = m.Workflow.TriggerByID(in.Trigger); m.Trigger.OnEvent() == nil || m.Trigger.Course() == nil {
		end(reason.RuleChanged)
		return nil
	}
	c, why, field := plan.CourseAt(p.set, m, in.EventRow.Event, in.Row, in.Contact, r.zones)
	switch {
	case why == reason.CourseOver || why == reason.ValueMissing: // by another definition
		end(why)
		return nil
	case why != "":
		return fmt.Errorf("timing: %s: %s", field, why.Sentence())
	}
	i, ok := c.Find(in.Row)
	if ok && !p.trigger.Pin {
		p.at(i.Position, m.Workflow, in)
	}
	row := in.Row
	if !p.trigger.Pin && i.Due.After(in.DueAt) && !in.HeldUp() { // an edit has put it off; it is late from then on
		row.DueAt, row.Attempts, p.due = i.Due, 0, i.Due
	}
	switch {
	case !ok && !p.trigger.Pin:
		p.successors = []successor{r.successor(in, in.Trigger, c.Next(i, r.now), 0)}
		end(reason.RuleChanged)
		return nil
	case p.due.After(r.now):
		p.over = &outcome{Patch: instance.Patch{Status: instance.Pending, Delay: in.Delay, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: i.Due}}
		return nil
	}
	backlog := c.CatchUp(row, i, r.comesAt(in))
	if p.begins = true; !in.Beside() { // else what follows it exists
		p.successors = r.follow(in, in.Trigger, backlog)
	}
	if !backlog.Send {
		p.count = backlog.Skipped.Count
		p.over = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: backlog.Reason, Trace: trace.Trace{Skipped: backlog.Skipped}.String()}}
	}
	return nil
}

// recipient returns the event's recipient if a row has to make their delivery: that of the first message was made by ingest.
func (in *due) recipient() *subject.Recipient {
	if in.FollowsEvent() || in.Row.Source == instance.FromEvent && in.RetryOf != 0 {
		return in.EventRow.Event.Recipient
	}
	return nil
}

// locate reads the recipients of the events whose courses follow their zones.
func (r *run) locate(tx *store.Tx, list []due) error {
	var refs []store.RecipientIn
	var of []int
	for i := range list {
		in := &list[i]
		if !in.FollowsEvent() || in.EventRow.Event.Recipient == nil || !in.byContact() {
			continue
		}
		refs = append(refs, store.RecipientIn{Workspace: in.Workspace, RecipientRef: audience.Recipient(r.addresses[in.Workspace], *in.EventRow.Event.Recipient)})
		of = append(of, i)
	}
	if len(refs) == 0 {
		return nil
	}
	contacts, err := tx.Contacts(refs)
	for n, c := range contacts {
		list[of[n]].Contact = c
	}
	return err
}

// byContact reports whether a course follows the zone of its recipient, by its own definition or by the one in force.
func (in *due) byContact() bool {
	for _, set := range []*definition.Set{in.own, in.live} {
		if set == nil || set.Workflow(in.Workflow) == nil {
			continue
		}
		if t := set.Workflow(in.Workflow).TriggerByID(in.Trigger); t != nil && t.OnEvent() != nil && t.OnEvent().Dates.ByContact {
			return true
		}
	}
	return false
}
