package plan

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
)

// EventFacts is what waits after one event. The event is zero if retention has deleted it.
type EventFacts struct {
	subject.Event
	Contact subject.Contact           // whom the event names, as the contact is now; zero: nobody, or a recipient without a contact
	Rows    []instance.Row            // of the workflow, pending
	Sets    map[int64]*definition.Set // with which the rows were made, by number
}

// MostSeries is how many events an outlook for one contact takes up.
const MostSeries = 100

// TriggerAfterEvent returns the trigger of a row after an event in the version that counts: that of the row if it is pinned, else the one in force. ok
// is false if there is no such trigger any more. own is the set that the row was made with.
func TriggerAfterEvent(own, live *definition.Set, row instance.Row) (set *definition.Set, m definition.Match, ok bool) {
	if live.Workflow(row.Workflow) == nil {
		return nil, m, false
	}
	for _, set := range []*definition.Set{own, live} {
		if m.Workflow = set.Workflow(row.Workflow); m.Workflow == nil {
			break
		}
		if m.Trigger = m.Workflow.TriggerOf(row.Trigger, row.Message); m.Trigger == nil {
			break
		}
		if set == live || m.Trigger.Pin {
			return set, m, true
		}
	}
	return nil, definition.Match{}, false
}

// byEvents finds what waits after events. With a contact it also finds what follows in each series.
func (l *outlookLine) byEvents() {
	events := l.facts.Events
	for n, e := range events {
		one := &outlookLine{
			TriggerOutlook: TriggerOutlook{Trigger: l.Trigger}, facts: l.facts, seen: map[key.Instance]bool{},
			room: l.facts.Limit + lookAhead/len(events) + 1,
		}
		one.afterEvent(e)
		for _, c := range one.found {
			c.Event, c.Recipient = e.ID, e.Contact.ExtID
		}
		l.found = append(l.found, one.found...)
		l.Endless = l.Endless || one.Endless || n >= MostSeries
		if one.LeftOut > 0 {
			l.leaves(one.LeftOut, one.LostWhy)
		}
	}
	if len(l.found) > 0 {
		l.Reason = ""
	}
}

// afterEvent finds what waits after one event. The row that comes last in the course is followed by the others.
func (l *outlookLine) afterEvent(e EventFacts) {
	var head instance.Row
	for _, row := range e.Rows {
		if row.Trigger != l.Trigger.ID || underWay(row) {
			continue
		}
		later := cmp.Or(cmp.Compare(row.Round, head.Round), cmp.Compare(row.Message, head.Message))
		if !row.FollowsEvent() || !row.InCourse() || row.Held() && !row.Parked() || head.ID != 0 && later < 0 {
			l.byItself(e, row)
			continue
		}
		if head.ID != 0 {
			l.byItself(e, head)
		}
		head = row
	}
	if head.ID == 0 {
		return
	}
	set, m, ok := TriggerAfterEvent(e.Sets[head.Definitions], l.facts.Set, head)
	switch {
	case !ok:
		l.leaves(1, reason.WorkflowInactive)
		return
	case e.ID == 0: // what is not known is tried when it is due
		l.waiting(planOf(head), head)
		return
	}
	pinned := m.Trigger.Pin
	if m.Trigger = m.Workflow.TriggerByID(head.Trigger); m.Trigger.OnEvent() == nil || m.Trigger.Course() == nil {
		l.leaves(1, reason.RuleChanged)
		return
	}
	c, why, _ := CourseAt(set, m, e.Event, head, e.Contact, l.facts.Zones)
	switch {
	case why == reason.CourseOver || why == reason.ValueMissing:
		l.leaves(1, why)
	case why != "":
		l.waiting(planOf(head), head)
	default:
		l.follow(c, head, pinned)
	}
}

// follow adds the message of a row and what follows it in the course, as the fan-out decides about them.
func (l *outlookLine) follow(c *EventCourse, row instance.Row, pinned bool) {
	now := l.facts.Now
	i, ok := c.Find(row)
	switch {
	case !ok && !pinned: // the rule does not have it any more
		l.leaves(1, reason.RuleChanged)
		if row, ok = firstRow(c.Next(i, now)); !ok {
			return
		}
		i, _ = c.Find(row)
	case !pinned && i.Due.After(row.DueAt) && !row.HeldUp(): // an edit has put it off
		row.DueAt, row.Attempts = i.Due, 0
	}
	i.Due = row.DueAt
	after := c.After
	if l.facts.Contact == nil {
		after = func(Desired) iter.Seq[Desired] { return func(func(Desired) bool) {} }
	}
	l.Endless = l.walk(c.chain(now, after), i, row, func(Desired, Desired) verdict { return kept })
	for _, o := range l.found {
		if o.Course {
			o.Of = c.started.PerRound()
		}
	}
}

// chain is the course as an outlook walks along it.
func (c *EventCourse) chain(now time.Time, after func(Desired) iter.Seq[Desired]) chain {
	return chain{find: c.Find, catchUp: c.CatchUp, row: func(i Desired) instance.Row { return c.Row(i, now) }, after: after, keeps: true}
}

// After yields the messages that follow one.
func (c *EventCourse) After(i Desired) iter.Seq[Desired] {
	return func(yield func(Desired) bool) {
		for o := range c.started.After(i.Position) {
			if !yield(c.desired(o)) {
				return
			}
		}
	}
}

// byItself adds a row that nothing follows: the first message of an event, whose successor exists, one that a person has sent again, and one on hold.
func (l *outlookLine) byItself(e EventFacts, row instance.Row) {
	_, m, ok := TriggerAfterEvent(e.Sets[row.Definitions], l.facts.Set, row)
	switch late := !row.HeldUp() && !row.DueAt.After(l.facts.Now); {
	case !ok:
		l.leaves(1, reason.WorkflowInactive)
	case late && m.Trigger.Timing.Stale(l.facts.Now, row.DueAt):
		l.leaves(1, reason.Stale)
	default:
		l.waiting(planOf(row), row)
	}
}

// planOf returns the occasion of a row as it was planned.
func planOf(row instance.Row) Desired {
	i := Desired{Key: key.Instance(row.Key), Due: row.DueAt, Zone: row.Timezone}
	if row.Round > 0 {
		_, i.Iteration = i.Key.OfEvent()
		i.Course, i.Position = true, schedule.Position{Round: row.Round - 1, Message: row.Message}
	}
	return i
}

// underWay reports whether the messages of a row are being made.
func underWay(row instance.Row) bool {
	return Begun(row) && !row.HeldUp() && (row.Source != instance.FromEvent || row.ExpandCursor != 0)
}

// ifItCame finds what an event would cause that arrives now.
func (l *outlookLine) ifItCame(ev subject.Event) {
	f := l.facts
	var contact subject.Contact
	if f.Contact != nil {
		contact = *f.Contact
	}
	occasions := Placed(Event(f.Set, ev), 0, contact, f.Zones)
	n := slices.IndexFunc(occasions, func(o Occasion) bool { return o.Workflow == f.Workflow && o.Trigger.ID == l.Trigger.ID })
	if n < 0 {
		return
	}
	switch o := occasions[n]; {
	case !o.Matched():
		l.Reason, l.Field = o.Reason, o.Field
	case o.Course == nil:
		l.planned(Desired{Key: o.Key, Due: o.NotBefore, Zone: o.Zone})
	default:
		c := o.Course
		l.Zone, l.ByContact = c.Zone, c.ByContact
		l.Endless = l.walk(c.chain(f.Now, c.After), o.First, c.Row(o.First, f.Now), func(Desired, Desired) verdict { return kept })
		if l.End = c.started.End(); l.Endless {
			l.End = ""
		} else if l.End == schedule.EndTimes {
			l.Times = c.rule.Rounds
		}
		for _, i := range l.found {
			i.Of = c.started.PerRound()
		}
	}
	for _, i := range l.found { // nothing is stored of it
		i.asked, i.Status, i.Key, i.Reason = true, OccurrenceAssumed, "", ""
	}
}
