package plan

import (
	"iter"
	"slices"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// changesPlan reports whether an evaluation of the record would change what is planned.
func (l *outlookLine) changesPlan() bool {
	a := l.eval.Ahead
	return a != nil && a.Known && a.State.Fingerprint != l.before.Ahead.Fingerprint
}

// byRecord finds the occasions of a trigger for the record.
func (l *outlookLine) byRecord(stored StoredRows) {
	l.says(stored)
	rows, first := l.rows(stored)
	a := l.eval.Ahead
	if a == nil || a.Course == nil {
		for _, row := range rows {
			l.byDate(rows, row)
		}
		if l.Trigger.Anchor != nil && (l.Reason == "" || len(l.found) > 0) {
			l.End = EndDates
		}
		return
	}
	l.byCourse(rows, first)
}

// says takes over why the record has nothing to come.
func (l *outlookLine) says(stored StoredRows) {
	r, eval := l.facts.Record, l.eval
	if l.Reason != "" {
		return
	}
	x := Explain(*eval, l.before, r.Record, r.Observation, stored.Fired)
	if x.Reason != reason.Matched {
		l.Reason, l.Until = x.Reason, x.Until
	}
	if x.Err != nil {
		l.Error = x.Err.Error()
	}
	if eval.Ahead != nil {
		l.Field = eval.Ahead.Field
		if !eval.Ahead.Known && l.before.Ahead.Fingerprint == "" {
			l.Reason, l.Until = reason.AwaitsTick, condition.TickAfter(l.facts.Now, eval.Rule.Every)
		}
	}
	if l.Reason == "" {
		l.Field = ""
		return
	}
	if l.Field == "" {
		l.Field = unmet(eval)
	}
	if l.Until.IsZero() {
		l.Until = eval.Outcome.EvaluateAt
	}
}

// unmet returns the first line of a condition that is not met: the missing field, else its source.
func unmet(l *Evaluation) string {
	for _, j := range l.Judged {
		for _, c := range j.Clauses {
			switch {
			case c.Met:
			case c.Reason == reason.ValueMissing && c.Field != "":
				return c.Field
			default:
				return c.Source
			}
		}
	}
	return ""
}

// rows returns the pending rows of the trigger as the next evaluation leaves them, and the message of a course that it makes; no key: none.
func (l *outlookLine) rows(stored StoredRows) (rows []instance.Row, first Desired) {
	for _, row := range l.facts.Record.Waiting {
		if row.Trigger == l.Trigger.ID {
			rows = append(rows, row)
		}
	}
	if !l.changesPlan() {
		return rows, first
	}
	known := stored.Rows
	if len(stored.Freed) > 0 {
		known = slices.DeleteFunc(slices.Clone(known), func(row instance.Row) bool {
			base, n := key.Instance(row.Key).Everywhere().Base()
			return n < stored.Freed[base]
		})
	}
	after := map[instance.ID]instance.Row{}
	l.after, l.eval.Ahead.People = after, stored.People
	l.eval.Ahead.Had(stored.Dated...)
	for _, c := range l.eval.Diff(known, BySource, l.facts.Now) {
		switch {
		case c.Effect != Inserted:
			after[c.Row.ID] = c.Row
			if c.Effect == Reactivated {
				rows = append(rows, c.Row)
			}
		case c.Desired.Course:
			if c.Instead.ID != 0 {
				after[c.Instead.ID] = c.Instead
			}
			if c.Course.OfPerson() {
				l.apart(c.Desired, instance.Row{})
			} else {
				first = c.Desired
			}
		case stored.Spent[c.Desired.Key] || c.Row.Status != instance.Pending:
			if c.Row.Status == instance.Skipped {
				l.leaves(1, c.Row.Reason)
			}
		default:
			c.Row.Trigger = l.Trigger.ID
			rows = append(rows, c.Row)
		}
	}
	for i, row := range rows {
		if changed, ok := after[row.ID]; ok && row.ID != 0 {
			rows[i] = changed
		}
	}
	return slices.DeleteFunc(rows, func(row instance.Row) bool { return row.Status != instance.Pending }), first
}

// byDate adds the occasion of a row that is no message of a course. A row of an occasion that is due by the zone of each contact has been
// replaced by the rows of zones once these exist.
func (l *outlookLine) byDate(rows []instance.Row, row instance.Row) {
	now := l.facts.Now
	i := Desired{Key: key.Instance(row.Key), Due: row.DueAt, Zone: row.Timezone}
	if a := l.eval.Ahead; a != nil {
		found, ok := a.Find(row)
		if ok {
			i = found
		}
		if i.Elsewhere != "" {
			if slices.ContainsFunc(rows, func(z instance.Row) bool { return z.Head != 0 && z.Head == row.ID }) {
				return
			}
			l.ByContact = true
			if in, ok := a.In(i, i.Elsewhere); ok {
				i = in
				if !row.Held() {
					row.DueAt = in.Due
				}
			}
		}
		i.Key, i.Due = key.Instance(row.Key), row.DueAt
		if late := !row.HeldUp() && !Begun(row) && !row.DueAt.After(now); late && l.Trigger.Timing.Stale(now, i.Ends(row.DueAt)) {
			l.leaves(1, reason.Stale)
			return
		}
		if !l.stands(i, row) {
			return
		}
	}
	l.waiting(i, row)
}

// stands reports whether an occasion is still desired when it is due. An evaluation gives the same result until the instant that it names.
func (l *outlookLine) stands(i Desired, row instance.Row) bool {
	at, f := l.eval.Outcome.EvaluateAt, l.facts
	if at.IsZero() || at.After(i.Due) || !i.Due.After(f.Now) || row.RetryOf != 0 {
		return true
	}
	r := f.Record
	states := r.States.Clone()
	if states == nil {
		states = condition.States{}
	}
	states[condition.Name(f.Workflow.Name, l.Trigger.ID)] = l.eval.State
	then := Due(f.Set, definition.Match{Workflow: f.Workflow, Trigger: l.Trigger}, r.Record, r.Related, states, Observation{Now: i.Due, EvaluateAt: at, EvaluatedAt: f.Now}, f.Zones)
	if then.Ahead == nil || !then.Ahead.Known {
		return true
	}
	row.Key = string(i.Key)
	if _, ok := then.Ahead.Find(row); ok {
		return true
	}
	why := then.Ahead.Reason
	if why == "" {
		why = reason.SourceGone
	}
	l.leaves(1, why)
	return false
}

// byCourse adds the messages of a course.
func (l *outlookLine) byCourse(rows []instance.Row, first Desired) {
	course, now := l.eval.Ahead.Course, l.facts.Now
	var row instance.Row
	var i Desired
	for _, r := range rows {
		d, ok := course.find(r)
		switch {
		case r.OfPerson():
			l.apart(Desired{
				Key: key.Instance(r.Key), Due: r.DueAt, Zone: r.Timezone, Iteration: r.Round, Course: true,
				Position: schedule.Position{Round: r.Round - 1, Message: r.Message},
			}, r)
		case Begun(r) && !r.HeldUp():
		case ok && r.InCourse() && (!r.Held() || r.Parked()) && row.ID == 0:
			row, i = r, d
		default:
			if !ok {
				d = Desired{Key: key.Instance(r.Key), Due: r.DueAt, Zone: r.Timezone}
			}
			l.waiting(d, r)
		}
	}
	c := chain{
		find:    course.find,
		catchUp: course.CatchUp,
		row:     func(i Desired) instance.Row { return course.Row(i, now) },
		after:   func(i Desired) iter.Seq[Desired] { return course.After(i) },
	}
	switch {
	case first.Course:
		l.next(c, first)
	case row.ID != 0:
		i.Due = row.DueAt
		l.walkCourse(c, i, row)
	default:
		for _, i := range l.eval.Ahead.Desired { // the next one, unless its date has had its message
			for i := range course.Since(i.Due) {
				l.next(c, i)
				return
			}
		}
		l.over()
	}
}

// candidate is the message of a course that may be the next one: it has no row that is known to wait, and it may have been sent.
type candidate struct {
	chain chain
	i     Desired
	key   key.Instance // under which it would be stored
}

// next goes on from a message, or from the first one behind it that has not ended, as an evaluation does. What is due later is looked up with the others.
func (l *outlookLine) next(c chain, i Desired) {
	if l.candidate = nil; i.Due.After(l.facts.Now) {
		l.walkCourse(c, i, c.row(i))
		return
	}
	l.candidate = &candidate{chain: c, i: i, key: i.Key}
}

// tried continues with what is stored under the key of the candidate.
func (l *outlookLine) tried(at instance.Stored) {
	n := l.candidate
	if at.Forgotten > 0 {
		n.key = n.key.Retry(at.Forgotten)
		return
	}
	if row, gone := l.ended(at); !gone && !row.Passed() {
		l.candidate = nil
		l.walkCourse(n.chain, n.i, n.chain.row(n.i))
		return
	}
	for i := range n.chain.after(n.i) {
		l.next(n.chain, i)
		return
	}
	l.candidate = nil
	l.over()
}

// walkCourse adds a message of a course, and what follows it.
func (l *outlookLine) walkCourse(c chain, i Desired, row instance.Row) {
	course, now := l.eval.Ahead.Course, l.facts.Now
	l.Endless = l.walk(c, i, row, func(_, i Desired) verdict {
		if !l.stands(i, course.Row(i, now)) {
			return left
		}
		return kept
	})
	l.over()
}

// apart adds the message of one person's own course that waits, or is made by the next evaluation. Those behind it are not computed: the people
// may be many.
func (l *outlookLine) apart(i Desired, row instance.Row) {
	if l.own = true; row.ID == 0 {
		l.planned(i)
		return
	}
	l.waiting(i, row)
}

// over says why a course has no further message. The courses of single people end by the same rule.
func (l *outlookLine) over() {
	s := l.eval.Ahead.Course.started
	for _, c := range l.found {
		if c.Course {
			c.Of = s.PerRound()
		}
	}
	if l.Endless = l.Endless || l.own && s.End() == schedule.EndNone; l.Endless {
		if l.own && l.Reason == reason.CourseOver {
			l.Reason = ""
		}
		return
	}
	if l.Reason != "" && l.Reason != reason.CourseOver || l.End != "" {
		return
	}
	if l.End = s.End(); l.End == schedule.EndTimes {
		l.Times = s.Rounds
	}
	l.Reason = ""
}
