package plan

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/schedule"
)

// ListedAt returns where the list of a trigger has the message of a row by now. It is found by round, date and number alone, so that neither the
// record nor the event has to be read. A row of which nothing says the date keeps its place. ok is false if the list does not have the message.
func ListedAt(t *definition.Trigger, row instance.Row) (place int, ok bool) {
	table := t.Timetable()
	date, err := civil.ParseDate(row.MessageDate)
	if table == nil || table.Course == nil || row.Round == 0 || err != nil {
		return row.Message, true
	}
	const dated = true // times of day change no date
	rule, message := table.CourseRule(dated), schedule.Dated{Date: date, Number: row.MessageNumber}
	start, err := civil.ParseDate(row.StartDate)
	known := err == nil
	base, _ := key.Instance(row.Key).Base()
	begins, err := civil.ParseDate(base.RoundDate())
	switch {
	case err != nil && known: // an event, or a course of one round: its key has no date
		return rule.Place(start, row.Round-1, message)
	case err != nil:
		return row.Message, true
	case known:
		if round, has := rule.Resume(schedule.Start{Date: start}, time.UTC).RoundOf(begins); has {
			return rule.Place(start, round, message)
		}
	}
	return rule.Place(begins, 0, message)
}
