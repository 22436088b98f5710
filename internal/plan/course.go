package plan

import (
	"fmt"
	"iter"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/trace"
)

// A course has one row that waits, that of its next message. The transaction that ends the row, puts it on hold, or makes its first
// deliveries also makes the next one, and an evaluation of the record makes the first: so a course ends only by its own rule.

// Course is the series of messages of a trigger about one record.
type Course struct {
	Workflow *definition.Workflow
	Trigger  *definition.Trigger
	Zone     string

	rule    *definition.Course
	rules   schedule.Course // with what the record says, but no Draw
	started *schedule.StartedCourse
	loc     *time.Location
	offset  civil.Duration
	name    func(date civil.Date, offset civil.Duration) key.Instance // of a round
	reset   int                                                       // how many times the course has begun again
	inputs  string
	print   string // of the start, the rule and the zone
	person  Person // whose own course it is; none: it is of everybody
	today   civil.Date
	since   civil.Date // no message that may be planned now has an earlier date
	had     map[hadDate]key.Instance
}

// course plans the course of a record.
func (v *view) course(a *Ahead) error {
	w, t, rule := v.trigger.Workflow, v.trigger.Trigger, v.plan.Course
	zone, loc, err := v.zone()
	if err != nil {
		a.Field = "timing.timezone"
		return fmt.Errorf("timing: timezone: %w", err)
	}
	c := &Course{
		Workflow: w, Trigger: t, Zone: zone, rule: rule, loc: loc, offset: v.plan.Dates.Offsets[0], inputs: t.Inputs(),
		name: func(date civil.Date, offset civil.Duration) key.Instance {
			return key.Date(w.Type, w.Name, v.typ, v.id, t.ID, date, offset)
		},
	}
	before := a.State.Course
	defer func() {
		if a.Course == nil { // no number is used up
			a.State.Course = before
		}
	}()
	begins, err := v.begins(a)
	if err != nil || a.Reason != "" {
		return err
	}
	start, exact, err := v.start(a)
	if err != nil || a.Reason != "" {
		return err
	}
	rules := v.plan.CourseRule(t.Anchor != nil && !exact)
	if a.Field, err = v.times(&rules); err != nil {
		return err
	}
	if rules.Until, err = v.until(); err != nil {
		a.Field = "timing.repeat.until"
		return fmt.Errorf("timing: repeat: until: %w", err)
	}
	if t.Anchor == nil {
		if begins {
			start = rules.Begin(v.in.Now, loc, rule.Whole)
		}
		if rules.Every.IsZero() {
			c.name = func(civil.Date, civil.Duration) key.Instance { return key.Once(w.Type, w.Name, v.typ, v.id, t.ID) }
		}
	}
	a.State.Course.Date, a.State.Course.Moment = start.Date, start.Moment
	a.moved = before.Begun() && before.Date != start.Date && before.Resets == a.State.Course.Resets
	c.reset, c.since = a.State.Course.Resets, v.firstDate(rules)
	c.today, _ = civil.DateOf(v.in.Now, loc)
	c.print = fmt.Sprintf("%d %v %d %s %+v %v", c.reset, start.Date, start.Moment.UnixMicro(), zone, rules, rules.Until.UnixMicro())
	if rule.ByMember() {
		c.print += " " + string(rule.LateJoiner)
	}
	c.rules = rules
	c.begin(start)
	a.Course, a.Continues = c, before.Begun()
	for i := range c.Since(v.in.Now.Add(-schedule.Punctual)) {
		a.Desired = []Desired{i}
		return nil
	}
	a.Reason = reason.CourseOver
	return nil
}

// begin sets where the course begins, or began. A start that does not come from a date of the record stays as it is.
func (c *Course) begin(start schedule.Start) {
	rules := c.rules
	rules.Draw = func(round civil.Date, message schedule.Dated, minutes int) int {
		return drawn(c.key(round, message), minutes)
	}
	if c.Trigger.Anchor == nil || c.OfPerson() {
		c.started = rules.Resume(start, c.loc)
	} else {
		c.started = rules.Starting(start, c.loc)
	}
}

// key returns the key of a message, by the date of its round.
func (c *Course) key(round civil.Date, message schedule.Dated) key.Instance {
	k := c.name(round, c.offset).OfMessage(c.reset, dateIn(round.Add(c.offset), message), message.Number)
	if c.OfPerson() {
		k = k.OfPerson(c.person.Name)
	}
	return k
}

// dateIn returns the date of a message as its key has it: none if that is the day on which its round begins without start_on.
func dateIn(begins civil.Date, message schedule.Dated) string {
	if message.Date == begins {
		return ""
	}
	return message.Date.String()
}

// begins reports whether the course begins with this evaluation: it is the first, reset_on has another value, or the condition has become
// true again. A course that may not begin at all has a reason.
func (v *view) begins(a *Ahead) (bool, error) {
	c := &a.State.Course
	value, crossing := "", c.Crossing // without the policy it stays, so that an edit that adds the policy again does not count
	if on := v.plan.Course.ResetOn; on != nil {
		read, err := on.Eval(v.in)
		if err != nil {
			a.Field = on.Source()
			return false, fmt.Errorf("timing: reset_on: %w", err)
		}
		text, err := key.ContextText("", []any{read})
		if err != nil {
			a.Field = on.Source()
			return false, fmt.Errorf("timing: reset_on: %w", err)
		}
		const enough = 16 // digits
		value = key.Hash(text)[:enough]
	}
	if v.trigger.Trigger.Crosses() {
		if crossing = a.State.Over[""]; crossing == 0 {
			a.Reason = reason.Baseline
			return false, nil
		}
	}
	// An edit that adds or removes reset_on changes no value, and one that adds or removes the policy is no crossing.
	again := c.Value != "" && value != "" && c.Value != value || c.Crossing != crossing
	if begun := c.Begun() && !again; begun {
		c.Value, c.Crossing = value, crossing
		return false, nil
	}
	*c = c.Again(value, crossing)
	return true, nil
}

// start returns where the course begins, if it began before or counts from a date. exact is set if it counts from an instant of the record.
func (v *view) start(a *Ahead) (start schedule.Start, exact bool, err error) {
	anchor := v.trigger.Trigger.Anchor
	if anchor == nil {
		return schedule.Start{Date: a.State.Course.Date, Moment: a.State.Course.Moment}, false, nil
	}
	value, err := anchor.Eval(v.in)
	if err != nil {
		a.Field = anchor.Source()
		return start, false, fmt.Errorf("timing: anchor: %w", err)
	}
	switch day := value.(type) {
	case nil:
		a.Reason, a.Field = reason.ValueMissing, anchor.Source()
	case civil.Date:
		start.Date = day
	case time.Time:
		instant := day.UTC().Truncate(time.Microsecond)
		loc := time.UTC // the date of its keys must not depend on a zone
		if exact = !v.plan.Dates.At.Given; exact {
			start.Moment = instant
		} else if _, loc, err = v.home(); err != nil {
			a.Field = "timing.timezone"
			return start, false, fmt.Errorf("timing: timezone: %w", err)
		}
		start.Date, _ = civil.DateOf(instant, loc)
	default:
		a.Field = anchor.Source()
		return start, false, fmt.Errorf("timing: anchor: %s is neither a date nor an instant", anchor.Source())
	}
	return start, exact, nil
}

// times reads the times of day that the record gives. The field is the one that cannot be read.
func (v *view) times(rules *schedule.Course) (field string, err error) {
	for i, m := range v.plan.Course.Messages {
		at := m.At
		if !at.Given {
			at = v.plan.Dates.At
		}
		if at.From == nil || m.Follows && i > 0 {
			continue
		}
		c, err := v.clockOf(at)
		if err != nil {
			return "timing.at", fmt.Errorf("timing: at: %w", err)
		}
		rules.Messages[i].At = c.time
	}
	return "", nil
}

// until returns the instant from which on nothing is due; zero: there is none.
func (v *view) until() (at time.Time, err error) {
	date := v.plan.Course.UntilDate
	if until := v.plan.Course.Until; until != nil {
		value, err := until.Eval(v.in)
		if err != nil {
			return at, err
		}
		switch day := value.(type) {
		case nil:
		case civil.Date:
			date = day
		case time.Time:
			return day.UTC(), nil
		default:
			return at, fmt.Errorf("%s is neither a date nor an instant", until.Source())
		}
	}
	if date == (civil.Date{}) {
		return at, nil
	}
	loc, err := v.zones.Load(v.set.Workspace.Timezone)
	if err != nil {
		return at, err
	}
	at, _ = civil.Resolve(date, 0, loc, civil.Rule{}) // a gap moves it forward, so there is an instant
	return at, nil
}

// desired returns the occasion of an occurrence.
func (c *Course) desired(o schedule.CourseOccurrence) Desired {
	i := Desired{
		Key: c.key(o.Date, o.Dated), Due: o.Due, Zone: c.Zone, Target: o.Date.String(), Offset: c.offset,
		Iteration: o.Iteration, Course: true, Position: o.Position, Dated: o.Dated,
	}
	i.Date, _ = civil.DateOf(o.Due, c.loc)
	return i
}

// Since yields the occasions that are due at an instant or later.
func (c *Course) Since(at time.Time) iter.Seq[Desired] {
	return c.from(c.started.First(at))
}

func (c *Course) from(o schedule.CourseOccurrence, ok bool) iter.Seq[Desired] {
	return func(yield func(Desired) bool) {
		for ; ok; o, ok = c.started.Next(o.Position) {
			if i := c.desired(o); !c.hadAs(i) && !yield(i) {
				return
			}
		}
	}
}

// After yields the occasions that follow one.
func (c *Course) After(i Desired) iter.Seq[Desired] {
	return c.from(c.started.Next(i.Position))
}

// find returns the occasion of a row as the course has it now.
func (c *Course) find(row instance.Row) (Desired, bool) {
	base, _ := key.Instance(row.Key).Base()
	round := 0
	if date, err := civil.ParseDate(base.RoundDate()); err == nil {
		k, ok := c.started.RoundOf(date)
		if !ok {
			return Desired{}, false
		}
		round = k
	}
	o, ok := messageOf(c.started, round, row, c.loc)
	if !ok || !c.started.Has(o) {
		return Desired{}, false
	}
	i := c.desired(o)
	return i, i.Key.Round() == base.Round() && i.Key.Resets() == base.Resets() && i.Key.Person() == base.Person()
}

// messageOf returns the message of a row, in a round. A row from before dates were stored is the message at its place if that has the row's date, or
// else the first one of that date.
func messageOf(s *schedule.StartedCourse, round int, row instance.Row, loc *time.Location) (o schedule.CourseOccurrence, ok bool) {
	if date, err := civil.ParseDate(row.MessageDate); err == nil {
		return s.Find(round, schedule.Dated{Date: date, Number: row.MessageNumber})
	}
	was := row.LocalDate
	if was == "" { // it is known by its instant
		was = dateAt(row.DueAt, loc)
	}
	if o, ok = s.At(schedule.Position{Round: round, Message: row.Message}); ok && dateAt(o.Due, loc) == was {
		return o, true
	}
	for o := range s.Round(round) {
		if dateAt(o.Due, loc) == was {
			return o, true
		}
	}
	return schedule.CourseOccurrence{}, false
}

func dateAt(at time.Time, loc *time.Location) string {
	date, _ := civil.DateOf(at, loc)
	return date.String()
}

// displaced reports whether an edit of the list would make a row that waits a message that is past, although the row's instant is that of another
// message of its date: one was put in before it.
func (c *Course) displaced(row instance.Row, i Desired, now time.Time) bool {
	if row.Beside() || row.Held() || !row.DueAt.After(now) || i.Due.After(now) {
		return false
	}
	for o := range c.started.Round(i.Position.Round) {
		if o.Dated.Date == i.Dated.Date && o.Due.Equal(row.DueAt) {
			return true
		}
	}
	return false
}

// Row returns the pending row of an occasion. The caller sets its id, its workspace, its record and the number of the definition set.
func (c *Course) Row(i Desired, now time.Time) instance.Row {
	planned := trace.Planned{Iteration: &i.Iteration, Target: i.Target, Offset: i.Offset.String(), Zone: i.Zone}
	return instance.Row{
		Key: string(i.Key), Workflow: c.Workflow.Name, WorkflowVersion: c.Workflow.Version, Type: c.Workflow.Type, Trigger: c.Trigger.ID,
		Source: instance.FromPlan, Status: instance.Pending, DueAt: i.Due, LocalDate: i.Date.String(), Timezone: i.Zone, InputHash: c.inputs,
		Round: i.Position.Round + 1, Message: i.Position.Message, MessageDate: i.Dated.Date.String(), MessageNumber: i.Dated.Number,
		StartDate: c.started.Begins().String(), Contact: c.person.Contact, Trace: trace.Trace{Planned: &planned}.String(), CreatedAt: now,
	}
}

// Rows yields an occasion and those that follow it, as rows.
func (c *Course) Rows(first Desired, now time.Time) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		if yield(c.Row(first, now)) {
			c.Next(first, now)(yield)
		}
	}
}

// Next yields the occasions that follow one, as rows.
func (c *Course) Next(i Desired, now time.Time) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for later := range c.After(i) {
			if !yield(c.Row(later, now)) {
				return
			}
		}
	}
}

// Coming yields the messages that an evaluation would plan now, as rows.
func (c *Course) Coming(now time.Time) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for i := range c.Since(now.Add(-schedule.Punctual)) {
			if !yield(c.Row(i, now)) {
				return
			}
		}
	}
}

// CatchUp decides about an occasion that is due, and about the later messages of the course that are due too (R3).
func (c *Course) CatchUp(row instance.Row, i Desired, now time.Time) Overdue {
	return catchUp(backlogOf{
		row: row, first: i, later: c.After(i), timing: c.Trigger.Timing, backlog: c.rule.Backlog,
		next:  func(i Desired) iter.Seq[instance.Row] { return c.Next(i, now) },
		rowOf: func(i Desired) instance.Row { return c.Row(i, now) },
	}, now)
}

// withdrawal returns why the course has a row no longer; moved is whether the date of its start has changed.
func (c *Course) withdrawal(row instance.Row, moved bool) reason.Reason {
	_, on := c.started.First(row.DueAt)
	switch {
	case key.Instance(row.Key).Resets() != c.reset:
		return reason.CourseReset
	case moved:
		return reason.DateChanged
	case !on:
		return reason.CourseOver
	}
	return reason.RuleChanged
}
