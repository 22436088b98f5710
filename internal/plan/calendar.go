package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
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

// A trigger with a schedule has one pending occasion at any time, the next one. The transaction that ends it or puts it on hold also
// creates its successor, and an apply creates the first: so a series ends only by its own rule.

// Series is the sequence of occasions of a trigger with a schedule.
type Series struct {
	Workflow *definition.Workflow
	Trigger  *definition.Trigger
	Zone     string

	source *definition.OnSchedule // of the trigger
	dates  schedule.Calendar      // its calendar, with the random minutes of this trigger
	set    *definition.Set
	loc    *time.Location
	lag    time.Duration // from the first instant at which an occasion is due in some zone to the instant at which it is due in all
}

// Place is a position in a series: its latest occasion. The zero Place is before the first.
type Place struct {
	Due  time.Time
	Date string // local
}

// PlaceOf returns the place of a row.
func PlaceOf(row instance.Row) Place { return Place{Due: row.DueAt, Date: row.LocalDate} }

// SeriesOf returns the series of a trigger with a schedule.
func SeriesOf(set *definition.Set, m definition.Match, zones *civil.Zones) (*Series, error) {
	source := m.Trigger.OnSchedule()
	s := &Series{Workflow: m.Workflow, Trigger: m.Trigger, Zone: cmp.Or(source.Timezone, set.Workspace.Timezone), source: source, set: set}
	s.dates = source.Calendar
	s.dates.Draw = func(date civil.Date, minutes int) int {
		w := m.Workflow
		return drawn(key.Day(w.Type, w.Name, m.Trigger.ID, date, false, 0), minutes)
	}
	if source.ByContact {
		s.Zone, s.lag = firstZone, everywhere
	}
	var err error
	if s.loc, err = zones.Load(s.Zone); err != nil {
		return nil, fmt.Errorf("schedule of workflow %s: %w", m.Workflow.Name, err)
	}
	return s, nil
}

// desired returns the occasion of an occurrence.
func (s *Series) desired(o schedule.Occurrence) Desired {
	w, t, c := s.Workflow, s.Trigger, &s.dates
	i := Desired{Due: o.Due, Date: o.Date, Zone: s.Zone, Target: o.Date.String(), Iteration: o.N}
	if w.Type != "report" {
		i.Key = key.Day(w.Type, w.Name, t.ID, o.Date, c.SeveralADay(), o.Time)
		return i
	}
	at := o.Due
	if start, _, ok := c.PeriodOf(o.Date, s.loc); ok && !c.SeveralADay() {
		at = start
	}
	i.Key = key.Scheduled(w.Type, w.Name, t.ID, at)
	return i
}

// Since yields the occasions that are due at an instant or later, in order.
func (s *Series) Since(at time.Time) iter.Seq[Desired] {
	return func(yield func(Desired) bool) {
		for o := range s.dates.Since(at, s.loc) {
			if !yield(s.desired(o)) {
				return
			}
		}
	}
}

// After yields the occasions that follow a place. A series that is due once a day has one occasion for each date, even when an edit
// changes the time of day.
func (s *Series) After(p Place) iter.Seq[Desired] {
	several := s.dates.SeveralADay()
	return func(yield func(Desired) bool) {
		for i := range s.Since(p.Due) {
			if !i.Due.After(p.Due) || !several && i.Target <= p.Date {
				continue
			}
			if !yield(i) {
				return
			}
		}
	}
}

// find returns the occasion of a row as the schedule has it now.
func (s *Series) find(row instance.Row) (Desired, bool) {
	date, err := civil.ParseDate(row.LocalDate)
	if err != nil {
		return Desired{}, false
	}
	base, _ := key.Instance(row.Key).Base()
	for o := range s.dates.Occurrences(date, s.loc) {
		if o.Date != date {
			break
		}
		if i := s.desired(o); i.Key == base {
			return i, true
		}
	}
	return Desired{}, false
}

// Ended returns why a series has ended at an instant, other than by its schedule, or "" when it continues.
func (s *Series) Ended(i Desired, now time.Time) reason.Reason {
	switch {
	case !s.Workflow.Enabled:
		return reason.WorkflowInactive
	case !s.Trigger.Enabled:
		return reason.TriggerDisabled
	case s.Trigger.StopWhen != nil && s.Trigger.StopWhen.Holds(s.Input(s.Payload(i), now)):
		return reason.ConditionCleared
	}
	return ""
}

// Over reports whether stop_when has ended the series by the time at which the message of an occasion leaves. Due is when the occasion
// was due. It returns false for anything that is not an occasion of the schedule.
func (s *Series) Over(due, now time.Time) bool {
	if s.Trigger.StopWhen == nil {
		return false
	}
	for i := range s.Since(due) {
		return i.Due.Equal(due) && s.Trigger.StopWhen.Holds(s.Input(s.Payload(i), now))
	}
	return false
}

// Next yields the occasions that follow a place, as rows; none once the series has ended.
func (s *Series) Next(p Place, now time.Time) iter.Seq[instance.Row] {
	return s.rows(s.After(p), now)
}

func (s *Series) rows(all iter.Seq[Desired], now time.Time) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for i := range all {
			if s.Ended(i, now) != "" || !yield(s.Row(i, now)) {
				return
			}
		}
	}
}

// Row returns the pending row of an occasion, as the first one of its series. The caller sets its id, its workspace and the number of the definition set,
// and for a successor since when the series has been in force.
func (s *Series) Row(i Desired, now time.Time) instance.Row {
	planned := trace.Planned{DueAt: i.Due, Iteration: &i.Iteration, Target: i.Target, Zone: i.Zone}
	return instance.Row{
		Key: string(i.Key), Workflow: s.Workflow.Name, WorkflowVersion: s.Workflow.Version, Type: s.Workflow.Type, Trigger: s.Trigger.ID,
		Source: instance.FromSchedule, Status: instance.Pending, DueAt: i.Due, LocalDate: i.Target, Timezone: i.Zone, InputHash: s.Trigger.Inputs(),
		Trace: trace.Trace{Planned: &planned}.String(), CreatedAt: now, EffectiveAt: now,
	}
}

// Compare compares the desired occasions of a series with its pending rows and returns the changes to the rows. The first occasion
// of next that has not ended must exist. Last is the latest occasion that has ended or is on hold; the zero Place means none. Both an
// apply and its dry run use it.
func (s *Series) Compare(pending []instance.Row, last Place, now time.Time) (changes []Change, next iter.Seq[instance.Row]) {
	keep, overdue, begun := Desired{}, false, false
	why := reason.RuleChanged
	none := func(func(instance.Row) bool) {}
	for _, row := range pending {
		switch i, ok := s.find(row); {
		case Begun(row):
			begun = begun || s.lag == 0 // else its successor exists already
		case (!row.Held() || row.Parked()) && ok && !row.DueAt.After(now): // catch_up and backlog decide about it, not an edit
			keep, overdue = i, true
		}
	}
	if !overdue {
		from := last
		for _, row := range pending { // its successor exists already
			if s.lag > 0 && Begun(row) && row.DueAt.After(from.Due) {
				from = PlaceOf(row)
			}
		}
		if from.Due.Before(now.Add(-s.lag)) {
			from.Due = now.Add(-s.lag - time.Microsecond) // an occasion that is due now is included
		}
		for i := range s.After(from) {
			keep = i
			break
		}
	}
	if ended := s.Ended(keep, now); ended != "" {
		keep, why = Desired{}, ended
	}
	for _, row := range pending {
		base, _ := key.Instance(row.Key).Base()
		if Begun(row) || row.Held() && why == reason.RuleChanged {
			continue
		}
		c := Change{Row: row, Was: row, Effect: Withdrawn}
		if base == keep.Key {
			c.Effect = Updated
			c.Row.DueAt, c.Row.LocalDate, c.Row.Timezone = keep.Due, keep.Target, keep.Zone
			c.Row.InputHash, c.Row.WorkflowVersion = s.Trigger.Inputs(), s.Workflow.Version
			if !c.Row.DueAt.Equal(row.DueAt) {
				c.Row.NextRetryAt = time.Time{}
			}
			if !c.Row.DueAt.Equal(row.DueAt) && !overdue { // its hours are others from now on
				c.Row.EffectiveAt = now
			}
		} else {
			withdraw(&c.Row, why, now)
		}
		changes = append(changes, c)
	}
	if keep.Key == "" || begun {
		return changes, none
	}
	return changes, s.rows(func(yield func(Desired) bool) {
		if !yield(keep) {
			return
		}
		s.After(Place{Due: keep.Due, Date: keep.Target})(yield)
	}, now)
}

// Withdraw returns the changes to the rows of a series that is no longer defined.
func Withdraw(pending []instance.Row, why reason.Reason, now time.Time) (changes []Change) {
	for _, row := range pending {
		if Begun(row) {
			continue
		}
		c := Change{Row: row, Was: row, Effect: Withdrawn}
		withdraw(&c.Row, why, now)
		changes = append(changes, c)
	}
	return changes
}

func withdraw(row *instance.Row, why reason.Reason, now time.Time) {
	row.Status, row.Delay, row.Reason, row.CompletedAt, row.NextRetryAt = instance.Deactivated, "", why, now, time.Time{}
	row.Unhold()
}

// Overdue is the decision about an occasion that is due and about the later occasions of its series that are due too (R3).
type Overdue struct {
	Due     int            // how many are due, this one included
	Send    bool           // the occasion itself is sent
	Skipped *trace.Skipped // represents the occasions that are not sent; nil: all are sent
	Row     instance.Row   // the row of Skipped, when it is not the occasion's own
	Reason  reason.Reason
	// Next yields the later occasions; the first that has not ended is the successor.
	Next iter.Seq[instance.Row]
}

// maxOverdue bounds how many occasions one step handles: an hourly series after eleven years.
const maxOverdue = 100_000

// CatchUp decides about an occasion that is due at an instant and the later ones that are due too: in one step, with one row for all
// that are not sent.
func (s *Series) CatchUp(row instance.Row, now time.Time) Overdue {
	backlog := s.source.Backlog
	if s.lag > 0 { // each zone decides for itself
		backlog = schedule.BacklogAll
	}
	return catchUp(backlogOf{
		row: row, first: Desired{Key: key.Instance(row.Key), Due: row.DueAt, Target: row.LocalDate, Zone: s.Zone}, later: s.After(PlaceOf(row)),
		lag: s.lag, timing: s.Trigger.Timing, backlog: backlog,
		next:  func(i Desired) iter.Seq[instance.Row] { return s.Next(Place{Due: i.Due, Date: i.Target}, now) },
		rowOf: func(i Desired) instance.Row { return s.Row(i, now) },
	}, now)
}

// backlogOf is an occasion of a series or a course that is due, with what follows it.
type backlogOf struct {
	row     instance.Row
	first   Desired // the occasion of the row
	later   iter.Seq[Desired]
	lag     time.Duration // from the instant at which an occasion is due to the one at which it is due everywhere
	timing  schedule.Timing
	backlog string
	next    func(Desired) iter.Seq[instance.Row] // yields what follows an occasion
	rowOf   func(Desired) instance.Row
}

// catchUp decides which occasions of a backlog are sent.
func catchUp(b backlogOf, now time.Time) Overdue {
	occasions, due := []Desired{b.first}, []time.Time{b.row.DueAt.Add(b.lag)}
	for i := range b.later {
		if i.Due.Add(b.lag).After(now) || len(due) == maxOverdue {
			break
		}
		occasions, due = append(occasions, i), append(due, i.Due.Add(b.lag))
	}
	resumed := b.row.Delay == instance.DelayedByPause
	if !resumed && (b.row.Attempts > 0 || b.row.Delay != "") { // it was on hold or tried before, which does not count as late (R2)
		return Overdue{Due: len(due), Send: true, Next: b.next(b.first)}
	}
	late := due
	if resumed { // an occasion that became due during a pause is not late, but it is part of the backlog
		late = slices.Repeat([]time.Time{now}, len(due))
	}
	split := b.timing.Overdue(b.backlog, now, late)
	o := Overdue{Due: len(due), Reason: reason.Collapsed}
	last := len(due) - 1
	if len(split.Dropped) > 0 {
		dropped := split.Dropped
		o.Skipped = &trace.Skipped{Count: len(dropped), First: due[dropped[0]], Last: due[dropped[len(dropped)-1]]}
	}
	switch {
	case len(split.Send) == 0:
		o.Reason, o.Next = reason.Stale, b.next(occasions[last])
	case split.Send[0] > 0: // this occasion is dropped too
		o.Next = b.next(occasions[split.Send[0]-1])
	default:
		o.Send = true
		o.Next = b.next(b.first)
		if o.Skipped != nil { // later occasions are dropped
			o.Row = b.rowOf(occasions[split.Dropped[0]])
			o.Next = b.next(occasions[last])
		}
	}
	if resumed {
		o.Next = notLate(o.Next, now)
	}
	return o
}

// notLate marks the occasions that are due by now as delayed by a pause.
func notLate(rows iter.Seq[instance.Row], now time.Time) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for row := range rows {
			if !row.DueAt.After(now) {
				row.Delay, row.Reason = instance.DelayedByPause, reason.WorkflowResumed
			}
			if !yield(row) {
				return
			}
		}
	}
}

// Occasion returns the occasion of a row that is due.
func (s *Series) Occasion(row instance.Row) Desired {
	i, ok := s.find(row)
	if !ok {
		i = Desired{Due: row.DueAt, Zone: s.Zone, Target: row.LocalDate}
	}
	return i
}

// ByHand returns the occasion for a run that a person starts. Its period ends on the day of the run.
func (s *Series) ByHand(now time.Time) Desired {
	today, _ := civil.DateOf(now, s.loc)
	return Desired{Due: now, Zone: s.Zone, Target: today.String()}
}

// Payload returns what texts and expressions read about an occasion of a schedule.
func (s *Series) Payload(i Desired) map[string]any {
	payload := map[string]any{"trigger": s.Trigger.ID, "timezone": s.Zone, "date": i.Target}
	if i.Iteration > 0 {
		payload["iteration"] = i.Iteration
	}
	date, err := civil.ParseDate(i.Target)
	if err != nil {
		return payload
	}
	if start, end, ok := s.source.PeriodOf(date, s.loc); ok {
		payload["period"] = map[string]any{"start": start.Format(time.RFC3339), "end": end.Format(time.RFC3339)}
	}
	return payload
}

// Input returns the input for the expressions of a trigger with a schedule.
func (s *Series) Input(payload map[string]any, now time.Time) expr.Input {
	in := Input(s.set, s.Workflow, nil, now)
	in.Period, in.Iteration, _ = CalendarFields(subject.Event{Kind: subject.CalendarDue, Payload: payload})
	return in
}

// CalendarFields returns what expressions and texts read from the event of an occasion of a schedule or of a run by hand; ok is false
// for other events.
func CalendarFields(ev subject.Event) (period map[string]any, iteration int, ok bool) {
	if ev.Kind != subject.CalendarDue {
		return nil, 0, false
	}
	switch n := ev.Payload["iteration"].(type) {
	case int:
		iteration = n
	case json.Number:
		whole, err := n.Int64()
		if err == nil {
			iteration = int(whole)
		}
	}
	span, _ := ev.Payload["period"].(map[string]any)
	for name, value := range span {
		text, _ := value.(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			if period == nil {
				period = map[string]any{}
			}
			period[name] = at
		}
	}
	return period, iteration, true
}
