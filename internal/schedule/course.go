package schedule

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Course is a series of messages to one subject: a round of messages that repeats, counted from a start. Every position is computed from
// the start, never from the last send, so no delay moves what follows. Check refuses a course that cannot occur.
type Course struct {
	Messages  []CourseMessage // of a round, in the order of sending; at least one
	Offset    civil.Duration  // from the start to the first round; months and days, or an exact length if the messages have no time of day
	StartOn   []time.Weekday  // the first round begins on the first such day on or after start and offset; none: any day
	Every     civil.Duration  // the length of a round: days, or months; zero: there is one round
	Weekdays  []time.Weekday  // the only message of the round goes out on each of these days of the round's first week; none: once
	Rounds    int             // the number of rounds; 0: no bound
	AllRounds bool            // Rounds counts months that lack the days of all messages too (`count: all`)
	Until     time.Time       // nothing is due at this instant or after it; zero: no bound
	Missing   civil.MissingDay
	Rule      civil.Rule
	// Draw returns the minute of a random time: from 0 to minutes - 1, the same one each time for a message of a round. It is set if a message has a
	// window.
	Draw func(round civil.Date, message Dated, minutes int) int
}

// CourseMessage is when one message of a round is due.
type CourseMessage struct {
	// Day is the day of the round: days after its first day, 0 being that day; in a round of months the day of the month, negative
	// ones counting from its end (-1 is the last), 0 being the day on which the course began.
	Day    int
	Timed  bool            // At is its time of day; if false, the course's start gives the time
	At     civil.TimeOfDay // with Timed
	Window time.Duration   // it is due at a random minute from At on, before the end of the window; 0: at At
	// Follows is whether After counts from the message before it, and not from Day and At. The first message of a round follows none: After
	// counts from Day and At.
	Follows bool
	After   civil.Duration // an exact length, from when the message before was due
}

// Start is where a course begins.
type Start struct {
	Date civil.Date // the day from which rounds count
	// Moment is the instant at which the course was triggered, or the instant from which it counts. Nothing is due before it unless the
	// offset is negative, and messages without a time of day count from it. Zero: the course counts from a date, and nothing is due before it or before the first day of the first round, whichever is
	// earlier.
	Moment time.Time
}

// Position is the place of a message in a course.
type Position struct {
	Round   int // from 0
	Message int // of the round, from 0
}

// Compare returns -1 if p comes before o, 0 if they are the same, and 1 if p comes after o.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Round, o.Round), cmp.Compare(p.Message, o.Message))
}

// Dated says which message of its round a message is, whatever else the list of messages has: an edit that puts others in or takes others out does
// not change it. Date is its day of the round, and that of the message that it follows; no time of day, random minute or zone changes it.
type Dated struct {
	Date   civil.Date
	Number int // on that date, from 1
}

// CourseOccurrence is one message of a course.
type CourseOccurrence struct {
	Position
	Dated     Dated
	Date      civil.Date // the date of the round: the start's date, moved by the rounds before
	Iteration int        // the number of the round among those that Rounds counts, from 1
	Due       time.Time
}

// StartedCourse is a course with its start, in one zone.
//
// Its occurrences strictly ascend. A message is left out if its month has no such day (Missing), if a change of clocks skips its time
// (Rule), if it follows a message that is left out for one of these reasons, if it would be due before the start, and if it would not be
// due after every message before it. What a position is does not depend on the position from which it is reached.
//
// A course that has begun (Resume) keeps its rounds: another time of day or zone changes neither which one is the first nor how many there are. Only
// First leaves out what would be due before the start.
type StartedCourse struct {
	*Course
	start  Start
	loc    *time.Location
	first  civil.Date // of the first round
	moment time.Time  // of the first round, for messages without a time of day
	days   []int      // Weekdays as days after the first of a round, ascending
	floor  time.Time  // nothing is due before it
	begun  bool       // it had begun already
	opens  int        // the first round with a message; -1: there is none
	reach  int        // days after the first of a round by which its last message is due
	gaps   bool       // some rounds may have no message, and do not count
}

// Begins returns the day from which its rounds count, before the offset.
func (s *StartedCourse) Begins() civil.Date { return s.start.Date }

// Never reports whether the course has no message at all, such as one on 31 April of every year, or one that ends before it begins.
func (s *StartedCourse) Never() bool {
	_, ok := s.First(time.Time{})
	return !ok
}

// Starting returns the course that begins at a start, in a zone.
func (c *Course) Starting(start Start, loc *time.Location) *StartedCourse {
	return c.started(start, loc, false)
}

func (c *Course) started(start Start, loc *time.Location, begun bool) *StartedCourse {
	s := &StartedCourse{Course: c, start: start, loc: loc, first: start.Date.Add(c.Offset), begun: begun}
	if len(c.StartOn) > 0 {
		for !slices.Contains(c.StartOn, s.first.Weekday()) {
			s.first = s.first.AddDays(1)
		}
	}
	for _, w := range c.Weekdays {
		s.days = append(s.days, (int(w-s.first.Weekday())+7)%7)
	}
	slices.Sort(s.days)
	s.days = slices.Compact(s.days)
	if start.Moment.IsZero() {
		s.moment, _ = civil.Resolve(s.first, 0, loc, civil.Rule{})
		s.floor = s.moment
		if start.Date.Compare(s.first) < 0 {
			s.floor, _ = civil.Resolve(start.Date, 0, loc, civil.Rule{})
		}
	} else {
		s.floor = start.Moment.Truncate(time.Second) // times of day are whole seconds
		s.moment = start.Moment.Add(time.Duration(start.Date.DaysUntil(s.first))*24*time.Hour + c.Offset.Clock)
		if s.moment.Before(s.floor) { // it counts from an instant after it
			s.floor = s.moment
		}
	}
	s.gaps = c.Every.Months > 0 && c.Missing == civil.MissingDaySkip && !c.AllRounds
	s.reach = c.reach()
	if begun {
		s.opens = s.firstOfBegun()
	} else {
		s.opens = s.firstWithMessage()
	}
	return s
}

// reach returns the days after the first of a round, or after the first of its month, by which the round's last message is due. It is an
// upper bound: an offset from UTC, a change of clocks and a random minute take less than the three days added.
func (c *Course) reach() int {
	far, after := 7, time.Duration(0)
	if c.Every.Months > 0 {
		far = 31
	}
	for _, m := range c.Messages {
		far = max(far, m.Day)
		after += m.After.Exact() + m.Window
	}
	return far + int(after/(24*time.Hour)) + 3
}

// patience is the number of rounds after which a course without a message never has one: the Gregorian calendar repeats after 400 years,
// which are 4,800 months. A time of day that a change of clocks skips exists on the next day.
const patience = 12 * span

func (s *StartedCourse) firstWithMessage() int {
	for k := 0; k < patience && s.exists(k); k++ {
		r := s.round(k, time.Time{})
		for range s.count() {
			if due, ok := r.raw(); ok && !due.Before(s.floor) {
				return k
			}
		}
	}
	return -1
}

// exists reports whether there is a round k, without regard to Rounds and Until.
func (s *StartedCourse) exists(k int) bool {
	return k >= 0 && (k == 0 || !s.Every.IsZero()) && s.date(k).Year <= maxYear
}

// count returns the number of messages of a round.
func (s *StartedCourse) count() int { return max(len(s.days), len(s.Messages)) }

// date returns the first day of a round.
func (s *StartedCourse) date(k int) civil.Date { return s.moved(s.first, k) }

// moved returns a date k rounds later.
func (c *Course) moved(d civil.Date, k int) civil.Date {
	return d.Add(civil.Duration{Months: k * c.Every.Months, Days: k * c.Every.Days})
}

// At returns the message of a position, also of one after the end of the course. ok is false if the message is left out.
func (s *StartedCourse) At(p Position) (o CourseOccurrence, ok bool) {
	if !s.exists(p.Round) || p.Message < 0 || p.Message >= s.count() || s.opens < 0 {
		return CourseOccurrence{}, false
	}
	r := s.round(p.Round, s.latestBefore(p.Round))
	for range p.Message {
		r.next()
	}
	due, ok := r.next()
	if !ok {
		return CourseOccurrence{}, false
	}
	return s.occurrence(p, r.dates[p.Message], due, s.counted(p.Round, 0)), true
}

// Find returns the message of a round that is known by its date. ok is false if the round has it no longer, or leaves it out.
func (s *StartedCourse) Find(round int, message Dated) (o CourseOccurrence, ok bool) {
	if !s.exists(round) || s.opens < 0 {
		return CourseOccurrence{}, false
	}
	r := s.round(round, time.Time{})
	for i := range s.count() {
		if r.next(); r.dates[i] == message {
			return s.At(Position{Round: round, Message: i})
		}
	}
	return CourseOccurrence{}, false
}

// Place returns where the list has the message of a round that is known by its date, whether or not it is due, in a course that counts from a date. ok
// is false if the list does not have it.
func (c *Course) Place(start civil.Date, round int, message Dated) (place int, ok bool) {
	undrawn := *c
	undrawn.Draw = nil // a random minute changes no date
	s := undrawn.Resume(Start{Date: start}, time.UTC)
	if !s.exists(round) {
		return 0, false
	}
	r := s.round(round, time.Time{})
	for place := range s.count() {
		if r.next(); r.dates[place] == message {
			return place, true
		}
	}
	return 0, false
}

// Round yields the messages of a round that are not left out, whether or not the course has ended before.
func (s *StartedCourse) Round(round int) iter.Seq[CourseOccurrence] {
	return func(yield func(CourseOccurrence) bool) {
		for i := range s.count() {
			if o, ok := s.At(Position{Round: round, Message: i}); ok && !yield(o) {
				return
			}
		}
	}
}

// Has reports whether an occurrence that At returned belongs to the course: it has not ended before.
func (s *StartedCourse) Has(o CourseOccurrence) bool {
	first, ok := s.search(s.near(o.Due), Position{Round: -1}, o.Due)
	return ok && first.Position == o.Position
}

// First returns the first message that is due at an instant or after it, and not before the start. ok is false if the course has ended before.
func (s *StartedCourse) First(at time.Time) (o CourseOccurrence, ok bool) {
	if s.begun && at.Before(s.floor) {
		at = s.floor
	}
	return s.search(s.near(at), Position{Round: -1}, at)
}

// Next returns the message after a position. ok is false if it was the last.
func (s *StartedCourse) Next(p Position) (o CourseOccurrence, ok bool) {
	return s.search(p.Round, p, time.Time{})
}

// RoundOf returns the round that has a date; ok is false if there is none.
func (s *StartedCourse) RoundOf(date civil.Date) (k int, ok bool) {
	switch {
	case s.Every.Months > 0:
		k = (12*(date.Year-s.start.Date.Year) + int(date.Month-s.start.Date.Month)) / s.Every.Months
	case s.Every.Days > 0:
		k = s.start.Date.DaysUntil(date) / s.Every.Days
	}
	return k, k >= 0 && s.exists(k) && s.moved(s.start.Date, k) == date
}

// near returns a round before which every message is due before an instant.
func (s *StartedCourse) near(at time.Time) int {
	date, _ := civil.DateOf(at, s.loc)
	date = date.AddDays(-s.reach)
	switch {
	case s.Every.Months > 0:
		return (12*(date.Year-s.first.Year) + int(date.Month-s.first.Month)) / s.Every.Months
	case s.Every.Days > 0:
		return s.first.DaysUntil(date) / s.Every.Days
	}
	return 0
}

// After yields the messages after a position.
func (s *StartedCourse) After(p Position) iter.Seq[CourseOccurrence] {
	return s.from(p.Round, p, time.Time{})
}

// search returns the first message from a round on that comes after a position and is due at an instant or after it.
func (s *StartedCourse) search(from int, after Position, at time.Time) (CourseOccurrence, bool) {
	for o := range s.from(from, after, at) {
		return o, true
	}
	return CourseOccurrence{}, false
}

// from yields the messages from a round on that come after a position and are due at an instant or after it.
func (s *StartedCourse) from(round int, after Position, at time.Time) iter.Seq[CourseOccurrence] {
	return func(yield func(CourseOccurrence) bool) {
		round := max(round, s.opens)
		if s.opens < 0 || !s.exists(round) {
			return
		}
		counted := s.counted(round, s.Rounds)
		before := s.latestBefore(round)
		for k := round; s.exists(k) && (s.Rounds == 0 || counted < s.Rounds); k++ {
			r := s.round(k, before)
			for m := range s.count() {
				due, ok := r.next()
				p := Position{Round: k, Message: m}
				switch {
				case !ok || p.Compare(after) <= 0 || due.Before(at):
					continue
				case !s.Until.IsZero() && !due.Before(s.Until):
					return
				}
				if !yield(s.occurrence(p, r.dates[m], due, counted)) {
					return
				}
			}
			if before = r.latest; s.counts(k) {
				counted++
			}
		}
	}
}

func (s *StartedCourse) occurrence(p Position, dated Dated, due time.Time, counted int) CourseOccurrence {
	return CourseOccurrence{Position: p, Dated: dated, Date: s.moved(s.start.Date, p.Round), Iteration: counted + 1, Due: due}
}

// counted returns how many rounds before round k count towards Rounds; with a limit, it may stop there.
func (s *StartedCourse) counted(k, limit int) (n int) {
	switch {
	case s.AllRounds:
		return k
	case !s.gaps:
		return max(k-s.opens, 0)
	}
	for j := s.opens; j < k && (limit == 0 || n < limit); j++ {
		if s.counts(j) {
			n++
		}
	}
	return n
}

// counts reports whether a round counts towards Rounds: it has a message, unless rounds without one count too.
func (s *StartedCourse) counts(k int) bool {
	if !s.gaps {
		return s.AllRounds || k >= s.opens
	}
	month := s.date(k)
	for _, m := range s.Messages {
		if _, ok := s.dayOf(month, m); ok && !m.Follows {
			return true
		}
	}
	return false
}

// latestBefore returns when the last message of the round before round k is due.
func (s *StartedCourse) latestBefore(k int) time.Time {
	if k == 0 {
		return time.Time{}
	}
	r := s.round(k-1, time.Time{})
	for range s.count() {
		r.next()
	}
	return r.latest
}

// courseRound yields the messages of one round.
type courseRound struct {
	*StartedCourse
	k       int
	first   civil.Date
	message int       // the next one
	dates   []Dated   // of the messages before it
	due     time.Time // of the message before it
	missing bool      // the message before it has no day or time
	before  time.Time // when the last message of the round before is due
	latest  time.Time // when the latest message before it is due, of this round
}

func (s *StartedCourse) round(k int, before time.Time) courseRound {
	return courseRound{StartedCourse: s, k: k, first: s.date(k), before: before}
}

// next returns when the next message of the round is due; ok is false if it is left out.
func (r *courseRound) next() (due time.Time, ok bool) {
	if due, ok = r.raw(); !ok || !due.After(r.latest) {
		return time.Time{}, false
	}
	r.latest = due
	return due, due.After(r.before) && (r.begun || !due.Before(r.floor))
}

// raw returns when the next message of the round is due, whether or not messages before it are due later.
func (r *courseRound) raw() (time.Time, bool) {
	m := r.Messages[min(r.message, len(r.Messages)-1)]
	if len(r.days) > 0 {
		m.Day = r.days[r.message]
	}
	if !m.Follows || r.message == 0 {
		date, ok := r.dayOf(r.first, m)
		if r.dates = append(r.dates, r.numbered(date)); ok {
			r.due, ok = r.dated(m, date)
		}
		r.missing = !ok
	} else {
		r.dates = append(r.dates, r.numbered(r.dates[r.message-1].Date))
	}
	r.due = r.due.Add(m.After.Exact())
	r.message++
	return r.due, !r.missing
}

// numbered returns which message of a date the next one is.
func (r *courseRound) numbered(date civil.Date) Dated {
	d := Dated{Date: date, Number: 1}
	for _, before := range r.dates {
		if before.Date == date {
			d.Number++
		}
	}
	return d
}

// dated returns when a message of a date is due; ok is false if the date has no such time.
func (r *courseRound) dated(m CourseMessage, date civil.Date) (due time.Time, ok bool) {
	clock := m.At
	if !m.Timed {
		if r.Every.Months == 0 {
			return r.moment.Add(time.Duration(r.k*r.Every.Days+m.Day) * 24 * time.Hour), true
		}
		_, clock = civil.DateOf(r.moment, r.loc)
	}
	if m.Window > 0 {
		const day = civil.TimeOfDay(24 * 60 * 60)
		clock += civil.TimeOfDay(r.drawn(m) / time.Second)
		date, clock = date.AddDays(int(clock/day)), clock%day
	}
	return civil.Resolve(date, clock, r.loc, r.Rule)
}

// drawn returns the random part of a message's time.
func (r *courseRound) drawn(m CourseMessage) time.Duration {
	minutes := int(m.Window / time.Minute)
	if r.Draw == nil || minutes < 1 {
		return 0
	}
	return time.Duration(r.Draw(r.moved(r.start.Date, r.k), r.dates[r.message], minutes)) * time.Minute
}

// dayOf returns the day of a message in the round that begins on a day.
func (s *StartedCourse) dayOf(first civil.Date, m CourseMessage) (civil.Date, bool) {
	if s.Every.Months == 0 {
		return first.AddDays(m.Day), true
	}
	return dayOfMonth(first, cmp.Or(m.Day, s.first.Day), s.Missing)
}

// dayOfMonth returns a day of a date's month; negative ones count from its end. ok is false if the month has no such day, and missing
// does not choose another one.
func dayOfMonth(month civil.Date, day int, missing civil.MissingDay) (d civil.Date, ok bool) {
	const always = 28 // every month has this day
	if day > always || day < 0 {
		last := monthLength(month)
		switch {
		case day < 0:
			day += last + 1
		case day > last && missing == civil.MissingDaySkip:
			return civil.Date{}, false
		}
		day = min(day, last)
	}
	month.Day = day
	return month, true
}
