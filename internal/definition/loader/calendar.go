package loader

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/schedule"
)

// weekdayNames are the names of weekdays in definitions, by number.
func weekdayNames() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// onSchedule reads the schedule of a trigger.
func (r *reader) onSchedule(t *definition.Trigger, f fields) {
	r.onlyWith(f, append(ofRecords(), ofEvents()...), t.ID, "records or events")
	s, ok := r.fields(f.get("schedule"), "schedule")
	source := &definition.OnSchedule{}
	t.Source = source
	if !ok {
		return
	}
	before := len(r.problems)
	c := &source.Calendar
	c.From, c.Until = r.date(s.get("from")), r.date(s.get("until"))
	c.Count = r.count(s.get("times"))
	source.Timezone, source.ByContact = r.zoneOfSchedule(s.get("timezone"))
	if n := s.get("dst"); n != nil {
		c.Rule = r.dst(n)
	}
	r.recurrence(c, s)
	r.timesOfDay(c, s)
	r.period(c, s)
	if len(r.problems) == before && !s.node.Partial {
		r.occurs(c, s)
	}
}

func (r *reader) date(n *portable.Node) civil.Date {
	text, ok := r.text(n)
	if !ok {
		return civil.Date{}
	}
	d, err := civil.ParseDate(text)
	if err != nil {
		r.refuse(n, err)
	}
	return d
}

// ofContact are the two ways to write the zone of the contact.
func ofContact(text string) bool { return text == "contact" || text == "contact.timezone" }

// zoneOfSchedule reads a zone, or the zone of each contact with a zone for contacts that have none.
func (r *reader) zoneOfSchedule(n *portable.Node) (zone string, byContact bool) {
	for i, item := range r.items(n) {
		text, ok := r.text(item)
		switch {
		case !ok:
		case ofContact(text) && i == 0:
			byContact = true
		case ofContact(text):
			r.invalid(item.Pos, "the zone of the contact stands first", "[contact.timezone, Europe/Berlin]: the second one is for people without a zone")
		case strings.HasPrefix(text, "contact."):
			r.notYet(item.Pos, text, "the zone of a contact is contact.timezone")
		case i > 1 || i == 1 && !byContact:
			r.invalid(item.Pos, "a schedule has one zone", "write one, or [contact.timezone, Europe/Berlin]: the second one is for people without a zone")
		default:
			if zone = text; zone == "workspace.timezone" {
				zone = ""
				continue
			}
			if !r.zone(item) {
				zone = ""
			}
		}
	}
	return zone, byContact
}

// recurrence reads every, rrule or cron.
func (r *reader) recurrence(c *schedule.Calendar, s fields) {
	every, rule, cron := s.get("every"), s.get("rrule"), s.get("cron")
	switch given := present(every, rule, cron); {
	case given == 0 && !s.node.Partial:
		r.report(definition.CodeMissing, s.node.Pos, "a schedule needs every, rrule or cron", `such as every: 1d, with at: "09:00"`)
	case given > 1:
		r.invalid(s.node.Pos, "every, rrule and cron exclude each other", "keep one of them")
	case every != nil:
		r.every(c, every, s)
	case rule != nil:
		r.rule(c, rule, s)
	case cron != nil:
		r.cron(c, cron)
	}
	if every == nil {
		for _, name := range []string{"days", "missing_day"} {
			if n := s.get(name); n != nil && present(rule, cron) == 1 {
				r.invalid(n.Pos, name+" is for every", "an rrule or a cron expression says itself which days")
			}
		}
	}
}

func (r *reader) rule(c *schedule.Calendar, n *portable.Node, s fields) {
	text, ok := r.text(n)
	if !ok {
		return
	}
	recurrence, bounds, err := schedule.ParseRule(text)
	if err != nil {
		r.refuse(n, err)
		return
	}
	c.Recurrence = recurrence
	if given := s.get("times"); bounds.Count > 0 && given != nil {
		r.invalid(given.Pos, "the rule has a COUNT already", "remove one of them")
	}
	if given := s.get("until"); bounds.Until != (civil.Date{}) && given != nil {
		r.invalid(given.Pos, "the rule has an UNTIL already", "remove one of them")
	}
	c.Count = cmp.Or(c.Count, bounds.Count)
	c.Until = cmp.Or(c.Until, bounds.Until)
}

func (r *reader) cron(c *schedule.Calendar, n *portable.Node) {
	text, ok := r.text(n)
	if !ok {
		return
	}
	recurrence, times, err := schedule.ParseCron(text)
	if err != nil {
		r.refuse(n, err)
		return
	}
	c.Recurrence, c.Times = recurrence, times
}

// every reads an interval in days, weeks, months or years, with the days of one.
func (r *reader) every(c *schedule.Calendar, n *portable.Node, s fields) {
	d, ok := r.duration(n)
	if !ok {
		return
	}
	days := r.items(s.get("days"))
	switch {
	case d.Clock != 0:
		r.invalid(n.Pos, fmt.Sprintf("every: %s is not a whole number of days", n.Text), `write cron: "0 */4 * * *" for several times a day; more often than once an hour is refused`)
		return
	case d.Days > 0 && d.Months > 0:
		r.invalid(n.Pos, fmt.Sprintf("every: %s mixes days and months", n.Text), "write one of them, such as 2w or 1mo")
		return
	case d.Months > 0 && d.Months%12 == 0 && len(days) == 0:
		c.Frequency, c.Interval = schedule.Yearly, d.Months/12
	case d.Months > 0:
		c.Frequency, c.Interval = schedule.Monthly, d.Months
		for _, day := range r.monthDays(days) {
			c.MonthDays = append(c.MonthDays, day.number)
		}
	case strings.HasSuffix(n.Text, "w"):
		c.Frequency, c.Interval, c.WeekStart = schedule.Weekly, d.Days/7, time.Monday
		for _, day := range r.weekdays(days) {
			c.Weekdays = append(c.Weekdays, schedule.Weekday{Day: day})
		}
	default:
		c.Frequency, c.Interval = schedule.Daily, d.Days
		if n := s.get("days"); n != nil {
			r.invalid(n.Pos, "days are for weeks and months", "write every: 1w with days: [mon, thu], or every: 1mo with days: [1, 15]")
		}
	}
	if c.Frequency != schedule.Daily && len(days) == 0 && s.get("from") == nil && s.get("days") == nil {
		hint := "write from: the first day"
		switch c.Frequency {
		case schedule.Weekly:
			hint = "write days: [mon], or from: the first day"
		case schedule.Monthly:
			hint = "write days: [1], or from: the first day"
		case schedule.Daily, schedule.Yearly:
		}
		r.report(definition.CodeMissing, n.Pos, fmt.Sprintf("every: %s does not say on which day", n.Text), hint)
	}
	c.Missing = civil.MissingDay(r.word(s.get("missing_day"), "missing_day", string(civil.MissingDayLast), []string{string(civil.MissingDayLast), string(civil.MissingDaySkip)}))
	if n := s.get("missing_day"); n != nil && c.Frequency < schedule.Monthly {
		r.invalid(n.Pos, "missing_day is for months: a day that a month does not have", "remove it")
	}
}

// monthDay is a day of a month, and where it is written. Negative ones count from the month's end.
type monthDay struct {
	number int
	at     portable.Pos
}

// monthDays reads days of a month.
func (r *reader) monthDays(days []*portable.Node) (all []monthDay) {
	for _, item := range days {
		n, err := strconv.Atoi(item.Text)
		switch {
		case item.Kind == portable.Broken:
		case err != nil || !item.IsNumber() || n == 0 || n > 31 || n < -28:
			r.invalid(item.Pos, fmt.Sprintf("%q is not a day of a month", item.Text), "days of a month are 1 to 31, and -1 (the last one) to -28")
		case slices.ContainsFunc(all, func(d monthDay) bool { return d.number == n }):
			r.invalid(item.Pos, fmt.Sprintf("%d is listed twice", n), "")
		default:
			all = append(all, monthDay{n, item.Pos})
		}
	}
	return all
}

// weekdaysInOrder are the names of weekdays in definitions, from Monday on.
func weekdaysInOrder() []string {
	names := weekdayNames()
	return append(slices.Clone(names[1:]), names[0])
}

// weekdays reads names of weekdays.
func (r *reader) weekdays(days []*portable.Node) (all []time.Weekday) {
	names, inOrder := weekdayNames(), weekdaysInOrder()
	for _, day := range days {
		text, ok := r.text(day)
		at := slices.Index(names, text)
		switch {
		case !ok:
		case at < 0:
			hint := "weekdays are " + strings.Join(inOrder, " ")
			for _, name := range inOrder {
				if strings.HasPrefix(strings.ToLower(text), name) {
					hint = "did you mean " + name + "?"
				}
			}
			r.invalid(day.Pos, fmt.Sprintf("%q is not a weekday", text), hint)
		case slices.Contains(all, time.Weekday(at)):
			r.invalid(day.Pos, text+" is listed twice", "")
		default:
			all = append(all, time.Weekday(at))
		}
	}
	return all
}

// timesOfDay reads at, which a cron expression contains itself.
func (r *reader) timesOfDay(c *schedule.Calendar, s fields) {
	n, cron := s.get("at"), s.get("cron")
	switch {
	case n != nil && cron != nil:
		r.invalid(n.Pos, "a cron expression says itself at what time", "remove at")
	case n == nil && cron == nil && !s.node.Partial:
		r.report(definition.CodeMissing, s.node.Pos, "a schedule needs at, the time of day", `at: "09:00"`)
	case n != nil && strings.HasPrefix(n.Text, "random "):
		at := r.at(n, expr.Scope{})
		c.Times, c.Window = []civil.TimeOfDay{at.Random.From}, at.Window()
	case n != nil:
		c.Times = []civil.TimeOfDay{r.timeOfDay(n)}
	}
}

func (r *reader) timeOfDay(n *portable.Node) civil.TimeOfDay {
	text, ok := r.text(n)
	if !ok {
		return 0
	}
	t, err := civil.ParseTimeOfDay(text)
	if err != nil {
		r.refuse(n, err)
	}
	return t
}

func (r *reader) period(c *schedule.Calendar, s fields) {
	c.Period.Length, _ = r.duration(s.get("period"))
	n := s.get("period_end")
	if n == nil {
		return
	}
	c.Period.End = r.timeOfDay(n)
	switch {
	case s.get("period") == nil:
		r.invalid(n.Pos, "there is no period that could end", "write period: its length, such as 1w")
	case len(c.Times) > 0 && c.Period.End > c.Times[0]:
		r.invalid(n.Pos, fmt.Sprintf("the period ends at %s, after %s, when it is reported on", c.Period.End, c.Times[0]), "let it end no later than that")
	}
}

// occurs refuses bounds that leave no occasion, and days that no month has.
func (r *reader) occurs(c *schedule.Calendar, s fields) {
	until, times := s.get("until"), s.get("times")
	switch {
	case until != nil && c.From != (civil.Date{}) && c.Until.Compare(c.From) <= 0:
		r.invalid(until.Pos, fmt.Sprintf("this schedule never occurs: it ends at the beginning of %s, and begins on %s", c.Until, c.From), "until is the first day that no longer counts")
	case c.Count > 0 && c.From == (civil.Date{}):
		at := s.node.Pos
		if times != nil {
			at = times.Pos
		}
		r.report(definition.CodeMissing, at, "times are counted from the first day, and there is none", "write from: the first day")
	case c.Never():
		endless, at := *c, s.node.Pos
		if until != nil {
			at = until.Pos
		}
		if endless.Until = (civil.Date{}); c.Until != (civil.Date{}) && !endless.Never() {
			hint := "until is the first day that no longer counts: no day of the schedule comes before it"
			if c.From == (civil.Date{}) && c.Until.Compare(schedule.Epoch()) <= 0 {
				hint = "write a later until, or remove it"
			}
			r.invalid(at, fmt.Sprintf("this schedule never occurs: it ends at the beginning of %s", c.Until), hint)
			return
		}
		r.invalid(s.node.Pos, "this schedule never occurs", "no date of the calendar fits it, such as 30 February")
	}
}

// timingOnSchedule reads the timing of a trigger with a schedule: only the keys that schedule itself does not have.
func (r *reader) timingOnSchedule(f fields, scope expr.Scope, t *definition.Trigger) {
	for _, name := range []string{"anchor", "at", "timezone", "follow_zone", "dst"} {
		n := f.get(name)
		if n == nil || n.Kind == portable.Broken {
			continue
		}
		hint := "write it below schedule"
		if name == "anchor" || name == "follow_zone" {
			hint = "remove it: its days and times stand below schedule"
		}
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: %s is not for a schedule", t.ID, name), hint)
	}
	for _, name := range append(ofCourses(), "missing_day", "late_joiner") {
		r.onSchedulesDay(f.get(name), name, t)
	}
	t.StopWhen = r.condition(f.get("stop_when"), scope)
	if s := t.OnSchedule(); s != nil {
		s.Offset = t.Timing.Offset
		s.Backlog = r.word(f.get("backlog"), "backlog", schedule.BacklogLatest, backlogs())
	}
}

func backlogs() []string {
	return []string{schedule.BacklogLatest, schedule.BacklogFirst, schedule.BacklogAll}
}

// onSchedulesDay refuses a key of courses: a schedule has some of them itself.
func (r *reader) onSchedulesDay(n *portable.Node, name string, t *definition.Trigger) {
	if n == nil || n.Kind == portable.Broken {
		return
	}
	refuse := func(hint string) {
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: %s is not for a schedule", t.ID, name), hint)
	}
	switch name {
	case "missing_day":
		refuse("write it below schedule")
	case "repeat":
		refuse("write its every, days, times and until below schedule")
	case "start_on":
		refuse("write from: the first day, below schedule")
	case "sequence":
		refuse("a schedule has one message: write a trigger for each, with a schedule of its own; or a course, which begins with a record or an event")
	case "first":
		refuse("remove it: the next day of the schedule is the first one, or from: below schedule")
	case "reset_on":
		refuse("remove it: it is for a course of a record, and a schedule follows the calendar")
	case "late_joiner":
		refuse("remove it: it is for a course of a record; each message of a schedule goes to the people who are in its audience when it is due")
	}
}

// unscheduled refuses what only a schedule and a course have.
func (r *reader) unscheduled(f fields, t *definition.Trigger) {
	if n := f.get("backlog"); n != nil && n.Kind != portable.Broken && !isCourse(f) {
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: backlog is for a schedule or a course", t.ID), "remove it")
	}
}

// nameless reports a trigger that needs a name and has none. A sole trigger with a schedule needs none (B14).
func (r *reader) nameless(n *portable.Node, f fields, sole bool) {
	if f.get("id") == nil && !f.node.Partial && (!sole || f.get("schedule") == nil) {
		r.report(definition.CodeMissing, n.Pos, "a trigger needs id", "id: a name of its own, such as first")
	}
}
