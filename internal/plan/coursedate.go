package plan

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/schedule"
)

// A date of a course has its messages once, whatever an edit does to the course. A key names a message by its round and its date, and so it says this as
// long as an edit leaves the rounds where they are. If it gives them another length, a date may be that of another round: then the stored rows say
// which dates have had their messages, up to today. A later date whose message has ended was cancelled, and is another message then.

// hadDate is a date of a course that has had a message.
type hadDate struct {
	person string // whose own course it is; empty: it is of everybody
	resets int
	schedule.Dated
}

// Had tells the course which messages have ended or begun, by their keys and dates. The caller does so before it asks what is next, if the rule of the
// course may have changed.
func (a *Ahead) Had(rows ...instance.Row) {
	if a.Course == nil || a.moved || len(rows) == 0 { // another date of the record is another course
		return
	}
	a.Course.had = make(map[hadDate]key.Instance, len(rows))
	for _, row := range rows {
		date, err := civil.ParseDate(row.MessageDate)
		if err != nil || a.Course.today.Compare(date) < 0 { // it is from before dates were stored, or lies ahead
			continue
		}
		base, _ := key.Instance(row.Key).Everywhere().Base()
		a.Course.had[hadDate{base.Person(), base.Resets(), schedule.Dated{Date: date, Number: row.MessageNumber}}] = base
	}
}

// hadAs reports whether a message was sent, or is under way, as one of another round.
func (c *Course) hadAs(i Desired) bool {
	k, ok := c.had[hadDate{c.person.Name, c.reset, i.Dated}]
	return ok && k != i.Key
}

// DatesFrom returns the date from which on the course has to know what it had, as the column message_date has it.
func (c *Course) DatesFrom() string { return c.since.String() }

// firstDate returns a date before which no message is dated that is due now or later: the date of one that follows others is theirs.
func (v *view) firstDate(rules schedule.Course) civil.Date {
	at := v.in.Now.Add(-schedule.Punctual)
	for _, m := range rules.Messages {
		if m.Follows {
			at = at.Add(-m.After.Exact())
		}
	}
	const zone = 1 // no zone is a day behind UTC, or more
	date, _ := civil.DateOf(at, time.UTC)
	return date.AddDays(-zone)
}
