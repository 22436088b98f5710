package plan

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
)

// A course is of everybody in its audience. With late_joiner: fresh a person who comes into the audience after its first message has a
// course of their own beside it: the same rule from a start of its own. It has one row that waits, as the course of everybody.

// Person is somebody who has a course of their own.
type Person struct {
	Contact subject.ContactID
	Name    string // in the keys of the course: the contact's id when it began
	Start   schedule.Start
}

// Resets returns how many times the course has begun again.
func (c *Course) Resets() int { return c.reset }

// OfPerson reports whether it is one person's own course.
func (c *Course) OfPerson() bool { return c.person.Name != "" }

// Fresh reports whether people who join late get courses of their own.
func (c *Course) Fresh() bool { return c.rule.LateJoiner == definition.LateFresh }

// Join returns the person who joins the course at an instant. Their course begins then, as one does whose condition is met, but never
// with a later message than the first (R16): it waits for a day whose first message is not past.
func (c *Course) Join(id subject.ContactID, name string, now time.Time) Person {
	const whole = true
	own := c.apart()
	return Person{Contact: id, Name: name, Start: own.rules.Begin(now.UTC().Truncate(time.Microsecond), c.loc, whole)}
}

// Of returns the person's own course.
func (c *Course) Of(p Person) *Course {
	own := c.apart()
	own.person = p
	own.begin(p.Start)
	return own
}

// apart returns the course without the date of the record that it counts from. An offset counts from that date, and not from when a person
// joins.
func (c *Course) apart() *Course {
	own := *c
	if c.Trigger.Anchor != nil {
		own.offset, own.rules.Offset = civil.Duration{}, civil.Duration{}
	}
	return &own
}

// All yields the messages of the course from its first one on, as rows.
func (c *Course) All(now time.Time) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for i := range c.Since(time.Time{}) {
			if !yield(c.Row(i, now)) {
				return
			}
		}
	}
}

// CourseOf returns the course that a row is a message of: that of everybody, or one person's own. nil: the person has none.
func (a *Ahead) CourseOf(row instance.Row) *Course {
	name := key.Instance(row.Key).Person()
	if name == "" || a.Course == nil {
		return a.Course
	}
	p, ok := a.People[name]
	if !ok || !a.Course.Fresh() || key.Instance(row.Key).Resets() != a.Course.reset {
		return nil
	}
	return a.Course.Of(p)
}

// withdrawal returns why a row of a course is no longer desired.
func (a *Ahead) withdrawal(row instance.Row) reason.Reason {
	own := a.CourseOf(row)
	switch {
	case own != nil:
		return own.withdrawal(row, a.moved && row.Contact == 0)
	case key.Instance(row.Key).Resets() != a.Course.reset:
		return reason.CourseReset
	case !a.Course.Fresh():
		return reason.RuleChanged
	}
	return reason.LeftAudience
}

// diffCourse compares the course of everybody, and the courses of single people, with the rows of the record that wait.
func (l *Evaluation) diffCourse(rows []instance.Row, by Cause, now time.Time) (changes []Change) {
	a, of := l.Ahead, map[string][]instance.Row{}
	for _, row := range rows {
		name := key.Instance(row.Key).Person()
		of[name] = append(of[name], row)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if _, known := a.People[name]; name == "" || known && a.Course.Fresh() {
			continue
		}
		for _, row := range of[name] { // the person has no course any more
			if row.Status == instance.Pending && !Begun(row) && !row.Processing(now) {
				changes = append(changes, l.withdrawn(row, now))
			}
		}
	}
	changes = append(changes, l.diffSeries(a.Course, a.Desired, of[""], by, now)...)
	if !a.Course.Fresh() {
		return changes
	}
	for _, name := range slices.Sorted(maps.Keys(a.People)) {
		own, next := a.Course.Of(a.People[name]), []Desired(nil)
		for i := range own.Since(now.Add(-schedule.Punctual)) {
			next = []Desired{i}
			break
		}
		changes = append(changes, l.diffSeries(own, next, of[name], by, now)...)
	}
	return changes
}

// diffSeries compares one course with those of its rows that wait: they are withdrawn where the course no longer has them, and moved
// where it has them at another time. If none of them is left to wait, or a message comes before the one that waits, the course's next message is
// inserted; it may have a row that has ended, in which case the one after it is due. desired is the next message, or none.
func (l *Evaluation) diffSeries(course *Course, desired []Desired, rows []instance.Row, by Cause, now time.Time) (changes []Change) {
	waits := false
	var waiting Change
	held := map[schedule.Position]bool{}
	for _, row := range rows {
		i, found := course.find(row)
		switch {
		case row.Status != instance.Pending:
			continue
		case Begun(row): // what follows it exists since its first deliveries
			if found {
				held[i.Position] = true
			}
			continue
		case row.Processing(now): // what ends it makes the next one
			waits = true
			continue
		case !found || course.displaced(row, i, now) || waits && !row.Held() && !row.Beside() && row.RetryOf == 0:
			changes = append(changes, l.withdrawn(row, now))
			continue
		}
		c := l.ensure(row, i, by, now)
		if row.RetryOf != 0 { // a person asked for it, beside what the course has
			changes = append(changes, c)
			continue
		}
		c.Row.Round, c.Row.Message = i.Position.Round+1, i.Position.Message // the same date may be that of another round or place after an edit
		if changes = append(changes, c); c.Row.Beside() {
			held[i.Position] = true
		} else {
			waits, waiting = true, c
		}
	}
	if len(desired) == 0 || waits && (by == ByRepair || waiting.Effect != Updated) {
		return changes
	}
	for i := range course.Since(desired[0].Due) {
		switch {
		case waits && i.Position.Compare(waiting.Desired.Position) >= 0:
			return changes
		case !held[i.Position]:
			c := l.insert(i, now)
			c.Course, c.Row.StartDate = course, course.started.Begins().String()
			if waits {
				c.Instead, c.Until = l.withdrawn(waiting.Was, now).Row, waiting.Desired.Position
			}
			return append(changes, c)
		}
	}
	return changes
}
