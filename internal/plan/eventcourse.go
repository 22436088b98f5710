package plan

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// A course after an event follows from the stored event and its definition alone, so it is computed again whenever a message of it is planned,
// and no state is kept beside the rows. Ingest makes the row of its first message, under the key of the event, and that of the message after
// it. From then on the transaction that ends a row, puts it on hold or makes its first deliveries makes the next one.

// EventCourse is the series of messages of a trigger after one event. CourseOf computes it, and CourseAt puts it in its zone.
type EventCourse struct {
	Workflow *definition.Workflow
	Trigger  *definition.Trigger
	// ByContact is set if the messages are due by the zone of the event's recipient, and by Elsewhere if that contact has none. Otherwise all
	// of it is due by Elsewhere.
	ByContact bool
	Elsewhere string
	Zone      string

	set       *definition.Set
	event     subject.EventID
	key       key.Instance // of the event
	rule      schedule.Course
	whole     bool
	date      civil.Date // that it counts from; none: it counts from at
	at        time.Time
	onTheDay  bool // it counts from the day of at
	begins    bool // it begins at the moment of the event: at
	untilDate civil.Date
	untilZone string
	row       instance.Row // by whose instant it is found where the course began; none: it begins now

	loc     *time.Location
	start   schedule.Start
	started *schedule.StartedCourse
	first   schedule.CourseOccurrence
	opening int // the iteration of its first message, as the rule counts
}

// CourseOf returns the course of an event's trigger, in no zone yet. k is the key of the event, or its retry. why is set if the event gives no
// course, with the expression that gives no value.
func CourseOf(set *definition.Set, m definition.Match, ev subject.Event, k key.Instance) (c *EventCourse, why reason.Reason, field string) {
	table, t := m.Trigger.Timetable(), m.Trigger
	in := Input(set, m.Workflow, EventFields(ev), ev.ReceivedAt)
	c = &EventCourse{
		Workflow: m.Workflow, Trigger: t, ByContact: table.Dates.ByContact, set: set, event: ev.ID, key: k, whole: table.Course.Whole,
		untilZone: set.Workspace.Timezone, untilDate: table.Course.UntilDate,
	}
	if why, field = c.count(in, ev); why != "" {
		return nil, why, field
	}
	c.rule = table.CourseRule(!c.begins && (c.onTheDay || c.date != civil.Date{}))
	base, _ := k.Base() // a retry is due at the same minutes
	c.rule.Draw = func(round civil.Date, message schedule.Dated, minutes int) int {
		return drawn(base.AfterEvent(1, dateIn(round.Add(c.rule.Offset), message), message.Number)+key.Instance(":"+round.String()), minutes)
	}
	failed := func(p *expr.Program) (*EventCourse, reason.Reason, string) {
		return nil, reason.ExpressionFailed, p.Source()
	}
	for i, m := range table.Course.Messages {
		at := m.At
		if !at.Given {
			at = table.Dates.At
		}
		if at.From == nil || m.Follows {
			continue
		}
		clock, err := clockOf(at, in)
		if err != nil {
			return failed(at.From)
		}
		c.rule.Messages[i].At = clock.time
	}
	if p := table.Course.Until; p != nil {
		value, err := p.Eval(in)
		switch day := value.(type) {
		case nil:
		case civil.Date:
			c.untilDate = day
		case time.Time:
			c.rule.Until = day.UTC()
		default:
			return failed(p)
		}
		if err != nil {
			return failed(p)
		}
	}
	for _, z := range table.Dates.Zones {
		if c.Elsewhere = z.Name; z.From != nil {
			value, err := z.From.Eval(in)
			if err == nil {
				c.Elsewhere, err = textOr(value, "the name of a zone")
			}
			if err != nil {
				return failed(z.From)
			}
		}
		if c.Elsewhere != "" {
			break
		}
	}
	c.Elsewhere = cmp.Or(c.Elsewhere, set.Workspace.Timezone)
	return c, "", ""
}

// count finds what the course counts from: a date, an instant, or the moment of the event.
func (c *EventCourse) count(in expr.Input, ev subject.Event) (why reason.Reason, field string) {
	anchor := c.Trigger.Anchor
	switch {
	case anchor == nil:
		c.at, c.begins = ev.OccurredAt, true
		return "", ""
	case anchor.Source() == definition.AnchorNow:
		c.at, c.begins = ev.ReceivedAt, true
		return "", ""
	}
	value, err := anchor.Eval(in)
	if err != nil {
		return reason.ExpressionFailed, anchor.Source()
	}
	switch day := value.(type) {
	case civil.Date:
		c.date = day
	case time.Time:
		c.at, c.onTheDay = day.UTC().Truncate(time.Microsecond), c.Trigger.Timetable().Dates.At.Given
	case nil:
		return reason.ValueMissing, anchor.Source()
	default:
		return reason.ExpressionFailed, anchor.Source()
	}
	return "", ""
}

// in returns the course with its messages due in a zone. why is set if there is no such zone, or if the course has no message.
func (c *EventCourse) in(zone string, zones *civil.Zones) (in *EventCourse, why reason.Reason, field string) {
	copied := *c
	c = &copied
	c.Zone = zone
	var err error
	if c.loc, err = zones.Load(zone); err != nil {
		return nil, reason.ExpressionFailed, "timing.timezone"
	}
	if c.untilDate != (civil.Date{}) && c.rule.Until.IsZero() {
		loc, err := zones.Load(c.untilZone)
		if err != nil {
			return nil, reason.ExpressionFailed, "timing.repeat.until"
		}
		c.rule.Until, _ = civil.Resolve(c.untilDate, 0, loc, civil.Rule{}) // a gap moves it forward, so there is an instant
	}
	var start schedule.Start
	switch {
	case c.begins:
		start = c.began(zones)
	case c.date != civil.Date{}:
		start.Date = c.date
	default:
		if start.Date, _ = civil.DateOf(c.at, c.loc); !c.onTheDay {
			start.Moment = c.at
		}
	}
	field = "timing.offset"
	if c.Trigger.Anchor != nil {
		field = c.Trigger.Anchor.Source()
	}
	if year := start.Date.Add(c.rule.Offset).Year; year < 0 || year > maxYear { // such an instant has no form in JSON (RFC 3339)
		return nil, reason.ExpressionFailed, field
	}
	if c.start = start; c.begins {
		c.started = c.rule.Resume(start, c.loc)
	} else {
		c.started = c.rule.Starting(start, c.loc)
	}
	first, ok := c.started.First(time.Time{})
	c.first, c.opening = first, first.Iteration
	if c.begins {
		c.opening = c.started.Opening()
	}
	if _, has := c.occurrenceOf(c.row); has { // in this zone it may be due before the event
		return c, "", ""
	}
	switch {
	case !ok:
		return nil, reason.CourseOver, ""
	case first.Due.Year() < 0 || first.Due.Year() > maxYear:
		return nil, reason.ExpressionFailed, field
	}
	return c, "", ""
}

// began returns where a course began that begins at the moment of its event: the row that waits says on which day. Neither a contact's zone nor a rule
// that has changed since then moves it. A row from before that was stored says so by its position and its instant in the zone in which it was planned.
func (c *EventCourse) began(zones *civil.Zones) schedule.Start {
	if date, err := civil.ParseDate(c.row.StartDate); err == nil {
		return schedule.Start{Date: date, Moment: c.at}
	}
	loc, err := zones.Load(c.row.Timezone)
	if err != nil || c.row.Timezone == "" { // its instant depends on no zone
		return c.rule.Begin(c.at, c.loc, c.whole)
	}
	likely := c.rule.Begin(c.at, loc, c.whole)
	if c.row.WorkflowVersion != c.Workflow.Version { // its instant is that of another rule
		return likely
	}
	// Zones are at most a day apart, and a course that misses a day begins at the next one, at the next weekday or in the next month.
	const farthest = 31
	for days := range farthest + 1 {
		for _, days := range []int{days, -days} {
			start := schedule.Start{Date: likely.Date.AddDays(days), Moment: likely.Moment}
			if o, ok := c.rule.Resume(start, loc).At(positionOf(c.row)); ok && o.Due.Equal(c.row.DueAt) {
				return start
			}
		}
	}
	return likely
}

func positionOf(row instance.Row) schedule.Position {
	return schedule.Position{Round: row.Round - 1, Message: row.Message}
}

// occurrenceOf returns the occurrence of a row; ok is false if the course has it no longer.
func (c *EventCourse) occurrenceOf(row instance.Row) (o schedule.CourseOccurrence, ok bool) {
	if row.Round == 0 {
		return o, false
	}
	o, ok = messageOf(c.started, row.Round-1, row, c.loc)
	return o, ok && c.started.Has(o)
}

const maxYear = 9999

// Under returns the course with the key of a retry of its event.
func (c *EventCourse) Under(k key.Instance) *EventCourse {
	copied := *c
	copied.key = k
	return &copied
}

// First returns the first message. It has the key of the event, whatever its position.
func (c *EventCourse) First() Desired {
	i := c.desired(c.first)
	i.Key = c.key
	return i
}

func (c *EventCourse) desired(o schedule.CourseOccurrence) Desired {
	iteration := o.Iteration - c.opening + 1
	k := c.key.AfterEvent(iteration, dateIn(o.Date.Add(c.rule.Offset), o.Dated), o.Dated.Number)
	i := Desired{Due: o.Due, Key: k, Iteration: iteration, Course: true, Position: o.Position, Dated: o.Dated}
	if m := c.rule.Messages[min(o.Message, len(c.rule.Messages)-1)]; m.Timed && !m.Follows {
		i.Zone = c.Zone
		i.Date, _ = civil.DateOf(o.Due, c.loc)
	}
	return i
}

// Find returns the message of a row as the course has it; ok is false if the course has it no longer, because another definition counts by
// now.
func (c *EventCourse) Find(row instance.Row) (i Desired, ok bool) {
	o, ok := c.occurrenceOf(row)
	if !ok {
		return c.planned(row), false
	}
	i = c.desired(o)
	i.Key = key.Instance(row.Key)
	return i, true
}

// planned returns a message that the course has no longer as it was planned. What follows it is what is due later, but for what the date of the message has
// had before it.
func (c *EventCourse) planned(row instance.Row) Desired {
	_, iteration := key.Instance(row.Key).OfEvent()
	i := Desired{
		Key: key.Instance(row.Key), Due: row.DueAt, Zone: row.Timezone, Iteration: iteration, Course: true,
		Position: positionOf(row),
	}
	date, _ := civil.ParseDate(row.MessageDate) // none: the row is from before dates were stored
	had := func(d schedule.Dated) bool {
		return cmp.Or(d.Date.Compare(date), cmp.Compare(d.Number, row.MessageNumber)) < 0
	}
	for next, ok := c.started.First(row.DueAt.Add(time.Microsecond)); ok; next, ok = c.started.Next(next.Position) {
		if i.Position = (schedule.Position{Round: next.Round, Message: next.Message - 1}); !had(next.Dated) {
			return i
		}
		i.Position = next.Position
	}
	return i
}

// Row returns the pending row of a message. The caller sets its id and its workspace.
func (c *EventCourse) Row(i Desired, now time.Time) instance.Row {
	planned := trace.Planned{DueAt: i.Due, Iteration: &i.Iteration, Zone: i.Zone}
	return c.Placed(i, instance.Row{
		Key: string(i.Key), Workflow: c.Workflow.Name, WorkflowVersion: c.Workflow.Version, Definitions: c.set.Number, Type: c.Workflow.Type,
		Trigger: c.Trigger.ID, Source: instance.FromEvent, Event: c.event, Status: instance.Pending, DueAt: i.Due, Timezone: i.Zone,
		InputHash: c.Trigger.Inputs(), Trace: trace.Trace{Planned: &planned}.String(), CreatedAt: now,
	})
}

// Placed returns a row that says which message of the course it is.
func (c *EventCourse) Placed(i Desired, row instance.Row) instance.Row {
	row.Round, row.Message, row.StartDate = i.Position.Round+1, i.Position.Message, c.start.Date.String()
	row.MessageDate, row.MessageNumber = i.Dated.Date.String(), i.Dated.Number
	return row
}

// Next yields the messages that follow one, as rows.
func (c *EventCourse) Next(i Desired, now time.Time) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for o := range c.started.After(i.Position) {
			if !yield(c.Row(c.desired(o), now)) {
				return
			}
		}
	}
}

// CatchUp decides about a message that is due, and about the later messages that are due too (R3).
func (c *EventCourse) CatchUp(row instance.Row, i Desired, now time.Time) Overdue {
	later := func(yield func(Desired) bool) { // without keys, which few of them need
		for o := range c.started.After(i.Position) {
			if !yield(Desired{Due: o.Due, Position: o.Position}) {
				return
			}
		}
	}
	return catchUp(backlogOf{
		row: row, first: i, later: later, timing: c.Trigger.Timing, backlog: c.Trigger.Course().Backlog,
		next: func(i Desired) iter.Seq[instance.Row] { return c.Next(i, now) },
		rowOf: func(i Desired) instance.Row {
			o, _ := c.started.At(i.Position)
			return c.Row(c.desired(o), now)
		},
	}, now)
}

// placed starts the course of an occasion in its zone: that of the event's recipient if the messages are due by it. Without a course it
// returns the occasion as it is.
func (o Occasion) placed(event subject.EventID, contact subject.Contact, zones *civil.Zones) Occasion {
	if o.Course == nil || !o.Matched() {
		return o
	}
	var why reason.Reason
	if o.Course, why, o.Field = o.Course.inZoneOf(contact, zones); why != "" {
		o.Reason = why
		return o
	}
	o.Course.event = event
	first := o.Course.First()
	o.NotBefore, o.Zone, o.First = first.Due, first.Zone, first
	o.Trigger = o.Trigger.Of(first.Position.Message)
	return o
}

// Placed returns the occasions of an event with the first messages of their courses. Contact is the event's recipient, if there is one.
func Placed(occasions []Occasion, event subject.EventID, contact subject.Contact, zones *civil.Zones) []Occasion {
	if !slices.ContainsFunc(occasions, func(o Occasion) bool { return o.Course != nil }) {
		return occasions
	}
	placed := make([]Occasion, len(occasions))
	for i, o := range occasions {
		placed[i] = o.placed(event, contact, zones)
	}
	return placed
}

// CourseAt returns the course that a row is a message of as CourseOf does, with its messages due in the zone that counts: that of the event's
// recipient as the contact is now, or else that of the definition. It began where the row says.
func CourseAt(set *definition.Set, m definition.Match, ev subject.Event, row instance.Row, contact subject.Contact, zones *civil.Zones) (c *EventCourse, why reason.Reason, field string) {
	event, _ := key.Instance(row.Key).OfEvent()
	if c, why, field = CourseOf(set, m, ev, event); why != "" {
		return nil, why, field
	}
	c.row = row
	return c.inZoneOf(contact, zones)
}

// inZoneOf returns the course with its messages due in the zone that counts.
func (c *EventCourse) inZoneOf(contact subject.Contact, zones *civil.Zones) (in *EventCourse, why reason.Reason, field string) {
	zone := c.Elsewhere
	if c.ByContact {
		zone = ZoneOf(contact, zone, zones)
	}
	return c.in(zone, zones)
}
