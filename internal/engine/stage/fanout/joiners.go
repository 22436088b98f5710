package fanout

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/joiner"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// members are the people of a course in which it counts when people came into its audience (late_joiner: skip or fresh). Until the first message
// is expanded as a whole, everybody who is found is there from the beginning; after that, who is not known joins late.
type members struct {
	of    store.CourseRef
	fresh bool         // late_joiner
	begin *plan.Course // the course that people join; nil: nobody joins with this message
	known map[subject.ContactID]store.CourseMember
}

// joiners finds out whether it counts for a message of a course when people came. The version with which the message began says so.
func (r *run) joiners(p *planned, in due) error {
	rule := p.trigger.OnPlan()
	if rule == nil || rule.Course == nil || !rule.Course.ByMember() || in.Round == 0 || in.OfPerson() {
		return nil
	}
	p.members = &members{of: store.CourseOf(in.Row), fresh: rule.Course.LateJoiner == definition.LateFresh}
	if !p.members.fresh || in.RetryOf != 0 { // a message that a person asked for again begins nobody's course
		return nil
	}
	course := p.course
	if course == nil && in.About != nil {
		var err error
		if course, err = r.present(p, in); err != nil {
			return err
		}
	}
	if course != nil && course.Fresh() && course.Resets() == p.members.of.Resets {
		p.members.begin = course
	}
	return nil
}

// present returns the course of the record as it is now, for a message whose first deliveries are made; nil: there is none.
func (r *run) present(p *planned, in due) (*plan.Course, error) {
	w := p.live.Workflow(in.Workflow)
	if w == nil || w.TriggerByID(in.Trigger) == nil || in.About.Unreadable != nil {
		return nil, nil
	}
	states, err := condition.Parse(in.About.State)
	if err != nil {
		return nil, err
	}
	seen := plan.Observation{Now: r.now, EvaluateAt: in.About.EvaluateAt, EvaluatedAt: in.About.EvaluatedAt, Meter: &r.meter}
	eval := plan.Due(p.live, definition.Match{Workflow: w, Trigger: w.TriggerByID(in.Trigger)}, in.About.Record, r.related[in.Workspace], states, seen, r.zones)
	if eval.Ahead == nil {
		return nil, nil
	}
	return eval.Ahead.Course, nil
}

// readMembers reads which of the people are in the courses that the messages are of.
func (r *run) readMembers(tx *store.Tx, people [][]store.People) error {
	wanted := map[store.CourseRef][]subject.ContactID{}
	for i, of := range people {
		p := &r.planned[i]
		if p.members == nil || p.over != nil || p.err != nil || p.lease > 0 {
			continue
		}
		ids := wanted[p.members.of]
		for _, person := range slices.Concat(of[0].Persons, of[0].Members) {
			if person.Found {
				ids = append(ids, person.ID)
			}
		}
		wanted[p.members.of] = ids
	}
	if len(wanted) == 0 {
		return nil
	}
	found, err := tx.CourseMembers(wanted)
	if err != nil {
		return err
	}
	for i := range people {
		if p := &r.planned[i]; p.members != nil {
			p.members.known = found[p.members.of]
		}
	}
	return nil
}

// expanded reports whether the first message of the course is expanded.
func (m *members) expanded() bool {
	_, ok := m.known[0]
	return ok
}

// late reports whether a person gets nothing of the course because they joined it late.
func (m *members) late(id subject.ContactID) bool {
	member, known := m.known[id]
	if m.fresh {
		return !known && m.expanded() && m.begin == nil
	}
	return known && member.Own() || !known && m.expanded()
}

// mark is the mark that the first message is expanded, unless there is one.
func (m *members) mark(now time.Time) []store.CourseMember {
	if m.expanded() {
		return nil
	}
	return []store.CourseMember{joiner.Mark(m.of, now)}
}

// founds adds a person of the first message to the course.
func (m *members) founds(result *outcome, id subject.ContactID, now time.Time) {
	if _, known := m.known[id]; !known && !m.expanded() {
		result.members = append(result.members, joiner.Founder(m.of, id, now))
	}
}

// elsewhere reports whether a person has their messages from a course of their own. It begins that course for a person who joins now.
func (r *run) elsewhere(result *outcome, p planned, in due, person delivery.Person) bool {
	m := p.members
	member, known := m.known[person.ID]
	switch {
	case known:
		result.apart = result.apart || m.fresh && member.Own()
		return m.fresh && member.Own()
	case m.expanded() && m.begin != nil:
		joins := m.begin.Join(person.ID, person.ExtID, r.now)
		result.members = append(result.members, joiner.Member(m.of, joins, r.now))
		result.successors = append(result.successors, r.successor(in, p.trigger.ID, m.begin.Of(joins).All(r.now), 0))
		result.apart = true
		return true
	}
	return false
}

// nobody is why an occasion made no deliveries.
func nobody(in due, result outcome) reason.Reason {
	switch {
	case in.OfPerson():
		return reason.LeftAudience
	case result.apart:
		return result.Reason
	}
	return reason.NoRecipient
}
