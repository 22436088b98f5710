package plan

import (
	"iter"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// chain is a series or a course, as an outlook walks along it.
type chain struct {
	find    func(instance.Row) (Desired, bool)
	catchUp func(instance.Row, Desired, time.Time) Overdue
	row     func(Desired) instance.Row
	after   func(Desired) iter.Seq[Desired]
	// keeps is set if a row keeps its instant when an edit moves what follows it: what is due before it by then is due with it.
	keeps bool
}

// walk adds the occasion that waits, and what follows it. The stages decide about each occasion that is due with those behind it that are due too. It
// returns false if the chain ended before enough was found.
func (l *outlookLine) walk(c chain, i Desired, row instance.Row, keep func(before, i Desired) verdict) (more bool) {
	now, before := l.facts.Now, Desired{}
	if c.keeps {
		now = later(now, row.DueAt)
	}
	for !l.full() {
		late := !row.DueAt.After(now)
		o := Overdue{Send: true}
		if late {
			o = c.catchUp(row, i, now)
		}
		if o.Skipped != nil {
			l.leaves(o.Skipped.Count, o.Reason)
		}
		if o.Send {
			switch keep(before, i) {
			case ended:
				return false
			case left:
			case kept:
				if row.ID != 0 {
					l.waiting(i, row)
				} else {
					l.planned(i)
				}
				if n := len(l.found); n > 0 && now.After(l.facts.Now) && l.found[n-1].Key == i.Key {
					l.found[n-1].At = later(l.found[n-1].At, now)
				}
			}
			before = i
		}
		if !late {
			break
		}
		next, ok := firstRow(o.Next)
		if !ok {
			return false
		}
		if i, ok = c.find(next); !ok {
			return false
		}
		row = next
	}
	for i := range c.after(i) {
		if l.full() {
			return true
		}
		switch keep(before, i) {
		case ended:
			return false
		case left:
		case kept:
			l.planned(i)
		}
		if before = i; l.LeftOut > lookAhead { // it is false by then, and stays so as far as can be seen
			l.End = EndCondition
			return false
		}
	}
	return false
}

// verdict is whether an occasion comes.
type verdict int

const (
	kept  verdict = iota
	left          // it is left out
	ended         // its series has ended by then
)

func firstRow(rows iter.Seq[instance.Row]) (instance.Row, bool) {
	for row := range rows {
		return row, true
	}
	return instance.Row{}, false
}

// bySeries finds the occasions of a schedule that is the same for all contacts.
func (l *outlookLine) bySeries(stored StoredRows) {
	s, now := l.series, l.facts.Now
	var row instance.Row
	for _, r := range stored.Rows {
		switch i, ok := s.find(r); {
		case Begun(r) && !r.HeldUp():
		case ok && (!r.Held() || r.Parked()):
			if row.ID != 0 && row.DueAt.Before(r.DueAt) { // the later one is followed by the others
				l.waiting(s.Occasion(row), row)
			}
			row = r
		default:
			if !ok {
				i = s.Occasion(r)
			}
			l.waiting(i, r)
		}
	}
	c := chain{
		find:    s.find,
		catchUp: func(row instance.Row, _ Desired, now time.Time) Overdue { return s.CatchUp(row, now) },
		row:     func(i Desired) instance.Row { return s.Row(i, now) },
		after:   func(i Desired) iter.Seq[Desired] { return s.After(Place{Due: i.Due, Date: i.Target}) },
	}
	if row.ID == 0 {
		from := stored.Last
		if from.Due.Before(now) {
			from.Due = now.Add(-time.Microsecond) // what is due now is included
		}
		for i := range s.After(from) {
			l.closes(l.walk(c, i, c.row(i), l.keeps))
			return
		}
		l.closes(false)
		return
	}
	i, _ := s.find(row)
	i.Due = row.DueAt
	l.closes(l.walk(c, i, row, l.keeps))
}

// keeps decides about an occasion of a series: before is the one before it, whose end makes it.
func (l *outlookLine) keeps(before, i Desired) verdict {
	s := l.series
	at := i.Due
	if at.Before(l.facts.Now) {
		at = l.facts.Now
	}
	made := before.Due
	if made.Before(l.facts.Now) {
		made = l.facts.Now
	}
	if s.Ended(i, at) != "" || before.Key != "" && s.Ended(i, made) != "" {
		l.End = EndStopWhen
		return ended
	}
	return l.holds(s, i, at)
}

// holds reports whether the condition of a schedule is true for an occasion.
func (l *outlookLine) holds(s *Series, i Desired, at time.Time) verdict {
	if when := l.Trigger.When; when != nil && !when.Holds(s.Input(s.Payload(i), at)) {
		l.leaves(1, reason.ConditionFalse)
		return left
	}
	return kept
}

// closes says why a series ends after what was found.
func (l *outlookLine) closes(more bool) {
	switch {
	case more:
		l.Endless = true
	case l.End != "":
	default:
		if l.End = l.series.dates.End(); l.End == schedule.EndTimes {
			l.Times = l.series.dates.Count
		}
	}
}

// byZone finds the occasions of a schedule in the zone of one contact.
func (l *outlookLine) byZone(stored StoredRows) {
	now := l.facts.Now
	from := now.Add(-everywhere) // an earlier one is over, unless its row waits
	for _, row := range stored.Rows {
		if row.DueAt.Before(from) {
			from = row.DueAt
		}
		if !Begun(row) && !row.Held() && !row.DueAt.After(now) {
			l.overdue = row
		}
	}
	for i := range l.there.Since(from) {
		switch {
		case l.full():
			l.closes(true)
			return
		case l.LeftOut > lookAhead:
			l.End = EndCondition
			return
		case l.there.Ended(i, later(i.Due, now)) != "":
			l.End = EndStopWhen
			l.closes(false)
			return
		}
		if !i.Due.Before(now) && l.holds(l.there, i, i.Due) != kept {
			continue
		}
		whole, ok := l.series.find(instance.Row{Key: string(i.Key), LocalDate: i.Target})
		if !ok {
			continue
		}
		c := &occurrence{Occurrence: Occurrence{Desired: i, At: i.Due, Status: OccurrencePlanned}, key: i.Key, zoneKey: i.Key.InZone(l.Zone), first: whole.Due}
		if before, ok := l.there.Decisive(instance.Row{DueAt: i.Due}); ok && !i.Due.After(now) {
			c.beforeKey = before.Key.InZone(l.Zone)
		}
		l.add(c)
	}
	l.closes(false)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// settleZone decides about an occasion in a zone by its own row and that of the zone. Before is the row of the zone of the occasion before it.
func (l *outlookLine) settleZone(c *occurrence, whole, zone, before instance.Stored) {
	now, past := l.facts.Now, c.Due.Before(l.facts.Now)
	c.before = before.Row
	if none := whole.Row.ID == 0 || whole.Row.Status == instance.Deactivated; none && !whole.Spent && c.first.After(l.overdue.DueAt) && l.overdue.ID != 0 {
		whole.Row = l.overdue // the step that takes it up makes the next one, and so on
		if whole.Row.CreatedAt, whole.Row.Attempts = now, 0; whole.Row.Delay != instance.DelayedByPause {
			whole.Row.Delay = ""
		}
	}
	over := whole.Row.ID != 0 && whole.Row.Status != instance.Pending && whole.Row.Status != instance.Deactivated
	switch {
	case zone.Row.ID != 0 && zone.Row.Status == instance.Pending && whole.Row.Status != instance.Cancelled:
		c.Row = zone.Row
		c.gone = Begun(zone.Row) && !zone.Row.HeldUp() || !c.Row.DueAt.After(now) && !l.taken(c, whole.Row, zone.Row)
		l.place(c)
	case zone.Row.ID != 0 || over || whole.Spent || zone.Spent:
		c.gone = zone.Row.Status != instance.Deactivated || over || past
	case whole.Row.ID == 0:
		c.gone = past
	case c.Due.Before(whole.Row.EffectiveAt):
		c.gone = true // the series came into force later
	case whole.Row.Held():
		c.Row = whole.Row
		l.place(c)
		c.At = later(c.Due, c.At)
	case whole.Row.Event == 0: // it has not been over its audience yet
		if past {
			c.Status, c.Reason = OccurrenceOverdue, whole.Row.Reason
			c.gone = !l.taken(c, whole.Row, whole.Row)
		}
	case l.facts.Contact == nil:
		c.gone = past
	case int64(l.facts.Contact.ID) > int64(whole.Row.Event):
		c.gone = true // the contact came after it had begun
	default: // no row of a zone has the contact: the end of the occasion takes them
		c.Row, c.At = whole.Row, later(c.first.Add(everywhere), now)
		c.Status, c.gone = OccurrenceWaiting, l.Trigger.Timing.Stale(c.At, c.Due)
	}
}

// taken reports whether an occasion that is overdue in a zone is still sent there. Whole is its own row, and row what waits of it.
func (l *outlookLine) taken(c *occurrence, whole, row instance.Row) bool {
	now := l.facts.Now
	row.DueAt, row.LocalDate, row.EffectiveAt = c.Due, c.Target, whole.EffectiveAt
	if !l.there.CatchUp(row, now).Send {
		return false
	}
	if _, ok := l.there.Decisive(row); ok && c.beforeKey != "" && Behind(c.Due, whole, c.before) {
		return false
	}
	when := l.Trigger.When
	return when == nil || when.Holds(l.there.Input(l.there.Payload(c.Desired), now))
}
