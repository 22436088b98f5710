package loader

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/schedule"
)

// timingOnEvent reads when the messages of an event are due. A time of day without a sequence makes a course of one message.
func (r *reader) timingOnEvent(f fields, scope expr.Scope, t *definition.Trigger) {
	before := len(r.problems)
	r.unchanging(f)
	if t.OnEvent() == nil { // the event was refused: only the mistakes of the timing count
		other := *t
		other.Source, t = &definition.OnEvent{}, &other
	}
	if !hasCourse(f, t) {
		r.onlyInMonths(f.get("missing_day"))
		return
	}
	values := scope
	values.Now = false // what a message is computed from must not change
	dates := &t.Timetable().Dates
	dates.At, dates.Offsets, t.Timing.Offset = r.at(f.get("at"), values), []civil.Duration{t.Timing.Offset}, civil.Duration{}
	dates.Zones, dates.ByContact = r.zones(f.get("timezone"), values)
	if n := f.get("dst"); n != nil {
		dates.Rule = r.dst(n)
	}
	r.course(f, scope, t, before)
	r.zoned(f, t)
	if n := f.get("offset"); n != nil && dates.Offsets[0].Negative() && !dated(f) {
		r.invalid(n.Pos, "nothing can leave before the event", "write an offset such as 10m, or an anchor: a date of the payload")
	}
}

// hasCourse reports whether a timing makes a course of the messages of a trigger.
func hasCourse(f fields, t *definition.Trigger) bool {
	timed := func(name string) bool { return f.get(name) != nil }
	return isCourse(f) || t.OnEvent() != nil && slices.ContainsFunc([]string{"at", "timezone", "dst"}, timed)
}

// unchanging refuses what follows changes: an event has none.
func (r *reader) unchanging(f fields) {
	const record = "keep what changes in a record, with a course of its own"
	for name, words := range map[string][2]string{
		"stop_when":   {"stop_when is for a record or a schedule: an event does not change afterwards", record},
		"reset_on":    {"reset_on is for a record: an event begins one course", "an event with another id, or other values of dedup, begins another course"},
		"late_joiner": {"late_joiner is for a course of a record", "remove it: each message after an event goes to the people who are in its audience when it is due"},
		"follow_zone": {"follow_zone is for a record: each message after an event is planned once", "remove it"},
	} {
		if n := f.get(name); n != nil && n.Kind != portable.Broken {
			r.invalid(n.Pos, words[0], words[1])
		}
	}
}

// zoned refuses a zone without effect: no message of the course has a time of day, and no day counts.
func (r *reader) zoned(f fields, t *definition.Trigger) {
	rule := t.Timetable().CourseRule(dated(f))
	if len(rule.StartOn) > 0 || rule.Every.Months > 0 || slices.ContainsFunc(rule.Messages, func(m schedule.CourseMessage) bool { return m.Timed }) {
		return
	}
	for _, name := range []string{"timezone", "dst"} {
		if n := f.get(name); n != nil && n.Kind != portable.Broken {
			r.invalid(n.Pos, fmt.Sprintf("trigger %s: %s is for a time of day, and its messages count from the moment", t.ID, name), `write at: "09:00", or remove it`)
		}
	}
}

// ownZone refuses the zone of the contact for a course after an event that goes to others than the event's recipient: each message has one
// zone.
func (r *reader) ownZone(n *portable.Node, t *definition.Trigger) {
	if n == nil || t.OnEvent() == nil || !t.OnEvent().Dates.ByContact {
		return
	}
	for _, form := range t.Forms() {
		if slices.ContainsFunc(form.Audience, func(a definition.Audience) bool { return !a.EventRecipient }) {
			r.invalid(r.items(n.Get("timezone"))[0].Pos, fmt.Sprintf("trigger %s: contact.timezone is that of the event's recipient, and its messages go to others too", t.ID),
				"write a zone, or a trigger for each audience")
			return
		}
	}
}
