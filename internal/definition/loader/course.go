package loader

import (
	"cmp"
	"errors"
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

// Words of keys.
const (
	firstNext     = "next" // first
	firstWhole    = "whole"
	forever       = "forever"  // times
	countMessages = "messages" // count
	countAll      = "all"
)

// ofCourses are the keys of a timing that make a course of messages.
func ofCourses() []string { return []string{"sequence", "repeat", "start_on", "first", "reset_on"} }

func isCourse(f fields) bool {
	return slices.ContainsFunc(ofCourses(), func(name string) bool { return f.get(name) != nil })
}

// course reads the course of a trigger that plans ahead, or of one on events. The problems from before on are those of its dates.
func (r *reader) course(f fields, scope expr.Scope, t *definition.Trigger, before int) {
	plan, missing := t.Timetable(), f.get("missing_day")
	if !hasCourse(f, t) {
		r.onlyInMonths(missing)
		r.noJoiners(f)
		return
	}
	scope.Now = false // every evaluation must give the same result
	c := &definition.Course{
		Backlog:    r.word(f.get("backlog"), "backlog", schedule.BacklogLatest, backlogs()),
		MissingDay: civil.MissingDay(r.word(missing, "missing_day", string(civil.MissingDayLast), []string{string(civil.MissingDayLast), string(civil.MissingDaySkip)})),
	}
	if plan.Course = c; t.OnEvent() == nil {
		c.ResetOn = r.expression(f.get("reset_on"), scope, expr.Any)
		r.lateJoiner(f, c)
	}
	if n := f.get("start_on"); n != nil {
		c.StartOn = r.weekdays([]*portable.Node{n})
	}
	sequence, repeat := f.get("sequence"), f.get("repeat")
	at := r.sequence(sequence, scope, c)
	at.course = f.node.Pos
	if repeat != nil {
		at.course = repeat.Pos
		r.repeat(repeat, sequence, scope, c, &at)
	}
	for _, item := range r.items(sequence) {
		if day := item.Get("day"); c.Every.Months > 0 && day != nil && day.Text == "0" {
			r.invalid(day.Pos, "no month has the day 0", "write a day from 1 to 31, or from -1 (the last day) to -28")
		}
	}
	if len(c.Messages) == 0 {
		c.Messages = []definition.CourseMessage{{}}
	}
	if c.Every.Months == 0 {
		r.onlyInMonths(missing)
	}
	r.firstOf(f, t)
	r.oneCourse(f, scope, t)
	if !f.node.Partial && !slices.ContainsFunc(f.block.names(), func(name string) bool { return damaged(f.get(name)) }) &&
		!definition.HasErrors(r.problems[before:]) {
		r.courseOccurs(f, t, at)
	}
}

// damaged reports whether a part of a node could not be read.
func damaged(n *portable.Node) bool {
	return n != nil && (n.Kind == portable.Broken || n.Partial || slices.ContainsFunc(n.Items, damaged) ||
		slices.ContainsFunc(n.Fields, func(f portable.Field) bool { return damaged(f.Value) }))
}

func (r *reader) onlyInMonths(missing *portable.Node) {
	if missing != nil && missing.Kind != portable.Broken {
		r.invalid(missing.Pos, "missing_day is for a course in rounds of months: a day that a month does not have", "remove it")
	}
}

// coursePlaces are where the parts of a course are written.
type coursePlaces struct {
	course   portable.Pos
	messages []portable.Pos // none: they are not written one by one
}

// sequence reads the messages of a round.
func (r *reader) sequence(n *portable.Node, scope expr.Scope, c *definition.Course) (at coursePlaces) {
	items := r.items(n)
	if n != nil && n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, "a sequence needs at least one message", "- day: 0")
	}
	for i, item := range items {
		f, ok := r.fields(item, "sequence")
		if !ok {
			continue
		}
		c.Messages, at.messages = append(c.Messages, r.sequenceEntry(f, i, scope)), append(at.messages, item.Pos)
	}
	return at
}

func (r *reader) sequenceEntry(f fields, i int, scope expr.Scope) (m definition.CourseMessage) {
	day, after, clock := f.get("day"), f.get("after"), f.get("at")
	switch {
	case day != nil && after != nil:
		r.invalid(f.node.Pos, "day and after exclude each other", "keep one of them")
	case day != nil:
		m.Day = r.day(day)
	case after != nil:
		m.Follows = i > 0
		if text, ok := r.text(after); ok {
			var err error
			if m.After, err = civil.ParseDuration(text); err != nil {
				r.refuse(after, err)
			}
		}
	case !f.node.Partial:
		r.report(definition.CodeMissing, f.node.Pos, "an entry of the sequence needs day or after", "day: 0 is the first day of the round, after: 1h counts from the message before it")
	}
	if clock == nil {
		return m
	}
	if m.Follows && clock.Kind != portable.Broken {
		r.invalid(clock.Pos, "a message that follows another one has no time of day of its own", "remove at, or write day in place of after")
	}
	m.At = r.at(clock, scope)
	return m
}

// ofEachMessage reports whether each message of a sequence has a block of its own, so that the trigger needs none.
func (b blocks) ofEachMessage(block string) bool {
	if b.timing == nil {
		return false
	}
	sequence := b.timing.Get("sequence")
	return sequence != nil && len(sequence.Items) > 0 && !slices.ContainsFunc(sequence.Items, func(n *portable.Node) bool { return n.Get(block) == nil })
}

// forms reads the blocks of single messages of a sequence. The trigger is complete otherwise.
func (r *reader) forms(b blocks, scope expr.Scope, set *definition.Set, t *definition.Trigger) {
	course := t.Course()
	if course == nil {
		return
	}
	items := r.items(b.timing.Get("sequence"))
	if len(items) != len(course.Messages) { // reported
		return
	}
	for i, n := range items {
		audience, channel, message := n.Get("audience"), n.Get("channel"), n.Get("message")
		if present(audience, channel, message) == 0 {
			continue
		}
		own := *t
		if audience != nil {
			own.Audience = r.audience(audience, scope, set)
		}
		if channel != nil {
			own.Channel, _ = r.channelRef(channel, set)
			own.Fallback = nil
		}
		channels := append([]string{own.Channel}, own.Fallback...)
		switch {
		case message != nil:
			own.Message = r.message(message, set, channels...)
			r.reminded(b.timing, &own)
		case channel != nil && b.message != nil:
			r.speaks(n, own.Message, own.Channel, false)
		}
		r.addressed(&own, channels)
		if b.limits != nil {
			r.foldable(b.limits.Get("at_send"), &own, own.Limits)
		}
		course.Messages[i].Own = &own
	}
}

// day reads a day of a round.
func (r *reader) day(n *portable.Node) int {
	if n.Kind == portable.Broken {
		return 0
	}
	value, err := strconv.Atoi(n.Text)
	if err != nil || !n.IsNumber() {
		r.wrong(n, "a whole number", withoutQuotes(n, err == nil))
	}
	return value
}

// repeat reads how the rounds of a course follow each other.
func (r *reader) repeat(n, sequence *portable.Node, scope expr.Scope, c *definition.Course, at *coursePlaces) {
	f, ok := r.fields(n, "repeat")
	if !ok {
		return
	}
	r.need(f)
	c.Every, _ = r.duration(f.get("every"))
	if times := f.get("times"); times != nil && times.Text != forever {
		c.Rounds = r.rounds(times)
	}
	c.AllRounds = r.word(f.get("count"), "count", countMessages, []string{countMessages, countAll}) == countAll
	if until := f.get("until"); until != nil {
		c.UntilDate, c.Until = r.until(until, scope)
	}
	if days := f.get("days"); days != nil && days.Kind != portable.Broken {
		r.courseDays(days, f.get("every"), sequence, c, at)
	}
}

// mostTimes is how many rounds a course has, or occasions a schedule, if it says a number.
const mostTimes = 1_000_000

// rounds reads how many rounds there are; 0 when it is wrong.
func (r *reader) rounds(n *portable.Node) int {
	before := len(r.problems)
	value := r.countTo(n, mostTimes)
	for i := range r.problems[before:] {
		if p := &r.problems[before+i]; p.Hint == "" {
			p.Hint = fmt.Sprintf("write a whole number from 1 to %d, or forever", mostTimes)
		}
	}
	return value
}

// until reads a date, or an expression; what begins like a date must be one.
func (r *reader) until(n *portable.Node, scope expr.Scope) (civil.Date, *expr.Program) {
	text, ok := r.text(n)
	switch {
	case !ok:
	case text[0] >= '0' && text[0] <= '9':
		return r.date(n), nil
	case !r.dateField(n, text, scope.RecordType):
		return civil.Date{}, r.expression(n, scope, expr.Time)
	}
	return civil.Date{}, nil
}

// courseDays reads the days of a round without a sequence: weekdays of its first week, or days of its month.
func (r *reader) courseDays(n, every, sequence *portable.Node, c *definition.Course, at *coursePlaces) {
	days := r.items(n)
	switch {
	case sequence != nil:
		r.invalid(n.Pos, "days are for a course without a sequence", "remove days, and write day into each entry of the sequence")
	case len(days) == 0:
		r.invalid(n.Pos, "this list of days is empty", "name a day, or remove the line")
	case every == nil || c.Every.IsZero(): // reported
	case c.Every.Months > 0:
		all := r.monthDays(days)
		slices.SortFunc(all, func(a, b monthDay) int { return cmp.Compare(a.inLongMonth(), b.inLongMonth()) })
		for _, day := range all {
			c.Messages, at.messages = append(c.Messages, definition.CourseMessage{Day: day.number}), append(at.messages, day.at)
		}
	case strings.HasSuffix(every.Text, "w"):
		c.Weekdays = r.weekdays(days)
	default:
		r.invalid(n.Pos, "days are for weeks and months", "write every: 1w with days: [mon, thu], or every: 1mo with days: [1, 15]")
	}
}

// inLongMonth returns the day of a month of 31 days.
func (d monthDay) inLongMonth() int {
	if d.number < 0 {
		return d.number + 32
	}
	return d.number
}

// firstOf reads where a course begins that begins with its condition or its event.
func (r *reader) firstOf(f fields, t *definition.Trigger) {
	n, plan, beginning := f.get("first"), t.Timetable(), "when its condition is met"
	if n == nil || n.Kind == portable.Broken {
		return
	}
	plan.Course.Whole = r.word(n, "first", firstNext, []string{firstNext, firstWhole}) == firstWhole
	if t.OnEvent() != nil {
		beginning = "at the moment of its event"
	}
	switch {
	case dated(f):
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: first is for a course that begins %s", t.ID, beginning), "remove it: this course begins by its date")
	case plan.Course.Whole && !plan.CourseRule(false).Messages[0].Timed:
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: first: whole is for messages with a time of day", t.ID), `write at: "09:00", or remove it: the course begins at once`)
	}
}

// oneCourse refuses what would make several courses of an occasion.
func (r *reader) oneCourse(f fields, scope expr.Scope, t *definition.Trigger) {
	plan := t.Timetable()
	offset := f.get("offset")
	if len(plan.Dates.Offsets) > 1 {
		r.invalid(offset.Pos, fmt.Sprintf("trigger %s: a course has one offset", t.ID), "write a sequence, with a day for each message")
	}
	if plan.Dates.Offsets[0].Clock != 0 && (plan.Dates.At.Given || isDate(f.get("anchor"), scope.RecordType) || slices.ContainsFunc(plan.Course.Messages, func(m definition.CourseMessage) bool { return m.At.Given })) {
		r.invalid(offset.Pos, fmt.Sprintf("trigger %s: an offset with hours or minutes is for messages without a time of day", t.ID), "write it in days, or as after of the first entry of a sequence")
	}
}

// isDate reports whether an anchor is certainly a date, with a time of day, and not an instant.
func isDate(anchor *portable.Node, typ *expr.RecordType) bool {
	if anchor == nil {
		return false
	}
	_, err := civil.ParseDate(anchor.Text)
	field, ofRecord := strings.CutPrefix(anchor.Text, "record.")
	return err == nil || ofRecord && typ != nil && typ.Declared[field] == "date"
}

// courseOccurs refuses a course that cannot occur.
func (r *reader) courseOccurs(f fields, t *definition.Trigger, at coursePlaces) {
	plan := t.Timetable()
	rule := plan.CourseRule(dated(f))
	var wrong *schedule.CourseError
	if err := rule.Check(unknownTimes(plan, &rule)); errors.As(err, &wrong) {
		place := at.course
		if wrong.Message >= 0 && wrong.Message < len(at.messages) {
			place = at.messages[wrong.Message]
		}
		r.invalid(place, wrong.Text, wrong.Hint)
		return
	}
	anchor := f.get("anchor")
	if anchor == nil {
		return
	}
	start, err := civil.ParseDate(anchor.Text)
	if err != nil {
		return // it is read from the record or the event
	}
	const never = "this course never occurs"
	begun := schedule.Start{Date: start}
	if rule.Starting(begun, time.UTC).Never() {
		r.invalid(at.course, never, "no date of the calendar fits it, such as 31 April")
		return
	}
	if c := plan.Course; c.UntilDate != (civil.Date{}) {
		// The midnight is one of the workspace's zone, and times of day may be those of another one.
		const zones = 26 * time.Hour
		midnight, _ := civil.Resolve(c.UntilDate, 0, time.UTC, civil.Rule{})
		rule.Until = midnight.Add(zones)
		if rule.Starting(begun, time.UTC).Never() {
			r.invalid(f.get("repeat").Get("until").Pos, fmt.Sprintf("%s: it ends at the beginning of %s", never, c.UntilDate), "until is the first day that no longer counts")
		}
	}
}

// unknownTimes returns for each message whether its time of day is known only when the course begins: it is read from the record or the event, or it is
// the moment at which the condition is met, and other messages have a time of day.
func unknownTimes(plan *definition.Timetable, rule *schedule.Course) []bool {
	unknown := make([]bool, len(rule.Messages))
	timed := false // the dated message before it
	for i, m := range rule.Messages {
		if m.Follows {
			continue
		}
		clock := plan.Course.Messages[i].At
		if !clock.Given {
			clock = plan.Dates.At
		}
		unknown[i] = clock.From != nil || !m.Timed && i > 0 && timed
		timed = m.Timed
	}
	return unknown
}
