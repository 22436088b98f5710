package schedule_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/schedule"
)

func timeOfDay(text string) civil.TimeOfDay {
	at, err := civil.ParseTimeOfDay(text)
	if err != nil {
		panic(err)
	}
	return at
}

func dayAt(day int, at string) schedule.CourseMessage {
	return schedule.CourseMessage{Day: day, Timed: true, At: timeOfDay(at)}
}

func follows(after time.Duration) schedule.CourseMessage {
	return schedule.CourseMessage{Follows: true, After: civil.Duration{Clock: after}}
}

func dayOn(text string) civil.Date {
	d, err := civil.ParseDate(text)
	if err != nil {
		panic(err)
	}
	return d
}

func instant(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}

// walk returns the occurrences from First on, at most n.
func walk(s *schedule.StartedCourse, at time.Time, n int) (all []schedule.CourseOccurrence) {
	o, ok := s.First(at)
	for ; ok && len(all) < n; o, ok = s.Next(o.Position) {
		all = append(all, o)
	}
	return all
}

// Courses and what they come to, in local time. An entry is "round.message date time".
//
// Shows: D15, D20, D21.
func TestCourse(t *testing.T) {
	t.Parallel()
	weekly, monthly, daily := civil.Duration{Days: 7}, civil.Duration{Months: 1}, civil.Duration{Days: 1}
	for _, c := range []struct {
		name   string
		course schedule.Course
		start  schedule.Start
		from   string // instant; empty: from the beginning
		zone   string
		want   string
	}{
		{
			"ten weeks from the first Monday, over a change of clocks",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "08:00"), dayAt(3, "18:00")}, StartOn: []time.Weekday{time.Monday}, Every: weekly, Rounds: 2},
			schedule.Start{Date: dayOn("2026-10-15")},
			"", "Europe/Berlin",
			"0.0 2026-10-19 08:00 +0200; 0.1 2026-10-22 18:00 +0200; 1.0 2026-10-26 08:00 +0100; 1.1 2026-10-29 18:00 +0100",
		}, {
			"a chain: each message counts from the one before it",
			schedule.Course{Messages: []schedule.CourseMessage{{}, follows(15 * time.Minute), follows(2 * time.Hour)}},
			schedule.Start{Date: dayOn("2026-05-14"), Moment: instant("2026-05-14T10:00:00Z")},
			"", "UTC",
			"0.0 2026-05-14 10:00 +0000; 0.1 2026-05-14 10:15 +0000; 0.2 2026-05-14 12:15 +0000",
		}, {
			"days after a moment have 24 hours",
			schedule.Course{Messages: []schedule.CourseMessage{{}, {Day: 3}}},
			schedule.Start{Date: dayOn("2026-03-27"), Moment: instant("2026-03-27T10:00:00Z")},
			"", "Europe/Berlin",
			"0.0 2026-03-27 11:00 +0100; 0.1 2026-03-30 12:00 +0200",
		}, {
			"the last day of the month",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(-1, "09:00")}, Every: monthly, Rounds: 3},
			schedule.Start{Date: dayOn("2026-01-31")},
			"", "UTC",
			"0.0 2026-01-31 09:00 +0000; 1.0 2026-02-28 09:00 +0000; 2.0 2026-03-31 09:00 +0000",
		}, {
			"day 31: the last day in a short month",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}, Every: monthly, Rounds: 3},
			schedule.Start{Date: dayOn("2026-01-31")},
			"", "UTC",
			"0.0 2026-01-31 09:00 +0000; 1.0 2026-02-28 09:00 +0000; 2.0 2026-03-31 09:00 +0000",
		}, {
			"day 31, short months left out: three messages all the same",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(31, "09:00")}, Every: monthly, Rounds: 3, Missing: civil.MissingDaySkip},
			schedule.Start{Date: dayOn("2026-01-01")},
			"", "UTC",
			"0.0 2026-01-31 09:00 +0000; 2.0 2026-03-31 09:00 +0000; 4.0 2026-05-31 09:00 +0000",
		}, {
			"day 31 of the start, short months left out",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}, Every: monthly, Rounds: 2, Missing: civil.MissingDaySkip},
			schedule.Start{Date: dayOn("2026-01-31")},
			"", "UTC",
			"0.0 2026-01-31 09:00 +0000; 2.0 2026-03-31 09:00 +0000",
		}, {
			"count: all counts the short months too",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(31, "09:00")}, Every: monthly, Rounds: 3, AllRounds: true, Missing: civil.MissingDaySkip},
			schedule.Start{Date: dayOn("2026-01-01")},
			"", "UTC",
			"0.0 2026-01-31 09:00 +0000; 2.0 2026-03-31 09:00 +0000",
		}, {
			"nothing before the start; the month of the start has no message and does not count",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(10, "09:00")}, Every: monthly, Rounds: 2},
			schedule.Start{Date: dayOn("2026-01-20")},
			"", "UTC",
			"1.0 2026-02-10 09:00 +0000; 2.0 2026-03-10 09:00 +0000",
		}, {
			"on two days of the week; the first one is the next of them",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "10:00")}, Weekdays: []time.Weekday{time.Monday, time.Thursday}, Every: weekly, Rounds: 2},
			schedule.Start{Date: dayOn("2026-10-21")},
			"", "UTC",
			"0.0 2026-10-22 10:00 +0000; 0.1 2026-10-26 10:00 +0000; 1.0 2026-10-29 10:00 +0000; 1.1 2026-11-02 10:00 +0000",
		}, {
			"until: nothing at that instant or after it",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}, Every: daily, Until: instant("2026-05-03T09:00:00Z")},
			schedule.Start{Date: dayOn("2026-05-01")},
			"", "UTC",
			"0.0 2026-05-01 09:00 +0000; 1.0 2026-05-02 09:00 +0000",
		}, {
			"far away",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}, Every: daily, Until: instant("2726-05-02T09:00:01Z")},
			schedule.Start{Date: dayOn("2026-05-01")},
			"2726-05-01T00:00:00Z", "America/New_York",
			"255669.0 2726-05-01 09:00 -0400",
		}, {
			"a time that the change of clocks skips",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "02:30")}, Every: daily, Rounds: 3, Rule: civil.Rule{Gap: civil.GapSkip}},
			schedule.Start{Date: dayOn("2026-03-28")},
			"", "Europe/Berlin",
			"0.0 2026-03-28 02:30 +0100; 2.0 2026-03-30 02:30 +0200",
		}, {
			"two times that the change of clocks puts in the wrong order: the second one is left out",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "02:45"), dayAt(0, "03:15")}, Every: daily, Rounds: 2},
			schedule.Start{Date: dayOn("2026-03-29")},
			"", "Europe/Berlin",
			"0.0 2026-03-29 03:45 +0200; 1.0 2026-03-30 02:45 +0200; 1.1 2026-03-30 03:15 +0200",
		}, {
			"what follows a message that is left out is left out",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(1, "09:00"), dayAt(30, "09:00"), follows(time.Hour)}, Every: monthly, Rounds: 2, Missing: civil.MissingDaySkip},
			schedule.Start{Date: dayOn("2026-01-01")},
			"", "UTC",
			"0.0 2026-01-01 09:00 +0000; 0.1 2026-01-30 09:00 +0000; 0.2 2026-01-30 10:00 +0000; 1.0 2026-02-01 09:00 +0000",
		}, {
			"a message of the round before is due later, on a day of 23 hours: the first one of the round is left out",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "00:30"), follows(23*time.Hour + 45*time.Minute)}, Every: daily, Rounds: 3},
			schedule.Start{Date: dayOn("2026-03-28")},
			"", "Europe/Berlin",
			"0.0 2026-03-28 00:30 +0100; 0.1 2026-03-29 00:15 +0100; 1.0 2026-03-29 00:30 +0100; 1.1 2026-03-30 01:15 +0200; 2.1 2026-03-31 00:15 +0200",
		}, {
			"a month whose day is before the start does not count, as a month without it",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(29, "09:00")}, Every: monthly, Rounds: 2, Missing: civil.MissingDaySkip},
			schedule.Start{Date: dayOn("2026-01-30")},
			"", "UTC",
			"2.0 2026-03-29 09:00 +0000; 3.0 2026-04-29 09:00 +0000",
		}, {
			"a chain that is repeated every second day, some time after the first Friday",
			schedule.Course{
				Messages: []schedule.CourseMessage{{}, follows(time.Hour)}, Every: civil.Duration{Days: 2}, Rounds: 2,
				StartOn: []time.Weekday{time.Friday}, Offset: civil.Duration{Clock: 30 * time.Minute},
			},
			schedule.Start{Date: dayOn("2026-05-14"), Moment: instant("2026-05-14T10:00:00Z")},
			"", "UTC",
			"0.0 2026-05-15 10:30 +0000; 0.1 2026-05-15 11:30 +0000; 1.0 2026-05-17 10:30 +0000; 1.1 2026-05-17 11:30 +0000",
		}, {
			"a day before an instant",
			schedule.Course{Messages: []schedule.CourseMessage{{}, follows(time.Hour)}, Offset: civil.Duration{Days: -1}},
			schedule.Start{Date: dayOn("2026-05-14"), Moment: instant("2026-05-14T10:00:00Z")},
			"", "UTC",
			"0.0 2026-05-13 10:00 +0000; 0.1 2026-05-13 11:00 +0000",
		}, {
			"weeks before a date",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}, Offset: civil.Duration{Days: -14}, Every: weekly, Rounds: 2},
			schedule.Start{Date: dayOn("2026-06-15")},
			"", "UTC",
			"0.0 2026-06-01 09:00 +0000; 1.0 2026-06-08 09:00 +0000",
		}, {
			"a random minute of a night belongs to the evening's date",
			schedule.Course{
				Messages: []schedule.CourseMessage{{Timed: true, At: timeOfDay("23:00"), Window: 2 * time.Hour}}, Every: daily, Rounds: 2,
				Draw: func(round civil.Date, _ schedule.Dated, minutes int) int { return minutes - 1 - round.Day%2 },
			},
			schedule.Start{Date: dayOn("2026-06-14")},
			"", "UTC",
			"0.0 2026-06-15 00:59 +0000; 1.0 2026-06-16 00:58 +0000",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			loc := zone(t, c.zone)
			if err := c.course.Check(nil); err != nil {
				t.Fatal(err)
			}
			var at time.Time
			if c.from != "" {
				at = instant(c.from)
			}
			var got []string
			for i, o := range walk(c.course.Starting(c.start, loc), at, 10) {
				got = append(got, string(rune('0'+o.Round%10))+"."+string(rune('0'+o.Message))+o.Due.In(loc).Format(" 2006-01-02 15:04 -0700"))
				if c.course.Rounds > 0 && !c.course.AllRounds && len(c.course.Messages)+len(c.course.Weekdays) == 1 && c.course.Rule.Gap == "" && o.Iteration != i+1 {
					t.Errorf("%v: iteration %d, expected %d", o.Due, o.Iteration, i+1)
				}
			}
			want := strings.ReplaceAll(c.want, "255669.0", "9.0")
			if text := strings.Join(got, "; "); text != want {
				t.Errorf("got  %s\nwant %s", text, want)
			}
		})
	}
}

// Where a course begins that a moment triggers: at that moment, or at the first message that is not past.
func TestCourseBegins(t *testing.T) {
	t.Parallel()
	twice := []schedule.CourseMessage{dayAt(0, "08:00"), dayAt(0, "20:00")}
	for _, c := range []struct {
		name   string
		course schedule.Course
		now    string
		whole  bool
		date   string
		first  string
	}{
		{"the next message is today's second", schedule.Course{Messages: twice, Every: civil.Duration{Days: 1}}, "2026-05-14T10:00:00Z", false, "2026-05-14", "2026-05-14T20:00:00Z"},
		{"a whole day is tomorrow", schedule.Course{Messages: twice, Every: civil.Duration{Days: 1}}, "2026-05-14T10:00:00Z", true, "2026-05-15", "2026-05-15T08:00:00Z"},
		{"exactly now is not past", schedule.Course{Messages: twice}, "2026-05-14T08:00:00Z", true, "2026-05-14", "2026-05-14T08:00:00Z"},
		{"one message that is past today", schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}}, "2026-05-14T10:00:00Z", false, "2026-05-15", "2026-05-15T09:00:00Z"},
		{
			"the rest of the week",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00"), dayAt(4, "09:00")}, StartOn: []time.Weekday{time.Thursday}, Every: civil.Duration{Days: 7}},
			"2026-05-14T10:00:00Z", false, "2026-05-14", "2026-05-18T09:00:00Z",
		},
		{
			"a whole week",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00"), dayAt(4, "09:00")}, StartOn: []time.Weekday{time.Thursday}, Every: civil.Duration{Days: 7}},
			"2026-05-14T10:00:00Z", true, "2026-05-21", "2026-05-21T09:00:00Z",
		},
		{
			"the next month",
			schedule.Course{Messages: []schedule.CourseMessage{dayAt(10, "09:00")}, Every: civil.Duration{Months: 1}},
			"2026-05-14T10:00:00Z", false, "2026-06-01", "2026-06-10T09:00:00Z",
		},
		{"without a time of day: now", schedule.Course{Messages: []schedule.CourseMessage{{}}}, "2026-05-14T10:00:00.5Z", true, "2026-05-14", "2026-05-14T10:00:00.5Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := instant(c.now)
			start := c.course.Begin(now, time.UTC, c.whole)
			if start.Date != dayOn(c.date) || !start.Moment.Equal(now) {
				t.Errorf("begins on %v at %v", start.Date, start.Moment)
			}
			if o, ok := c.course.Starting(start, time.UTC).First(time.Time{}); !ok || !o.Due.Equal(instant(c.first)) {
				t.Errorf("the first message is due at %v (%v)", o.Due, ok)
			}
		})
	}
}

// Courses that cannot be.
func TestCourseIsRefused(t *testing.T) {
	t.Parallel()
	day := civil.Duration{Days: 1}
	two := func(a, b schedule.CourseMessage) []schedule.CourseMessage { return []schedule.CourseMessage{a, b} }
	window := func(at string, minutes int) schedule.CourseMessage {
		return schedule.CourseMessage{Timed: true, At: timeOfDay(at), Window: time.Duration(minutes) * time.Minute}
	}
	for _, c := range []struct {
		name    string
		course  schedule.Course
		message int
		want    string
	}{
		{"no length of a round", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(1, "09:00")), Rounds: 3}, -1, "how long each of 3 rounds"},
		{"hours", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(1, "09:00")), Every: civil.Duration{Clock: time.Hour}}, -1, "days or months, not 1h"},
		{"months and days", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(1, "09:00")), Every: civil.Duration{Months: 1, Days: 1}}, -1, "days or months, not 1mo1d"},
		{"an offset beyond the calendar", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(1, "09:00")), Offset: civil.Duration{Days: -4_000_000}}, -1, "outside of the calendar"},
		{"a round beyond the calendar", schedule.Course{Messages: two(dayAt(1, "09:00"), dayAt(2, "09:00")), Every: civil.Duration{Months: 12_000}}, -1, "longer than the calendar"},
		{"a round shorter than its messages", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(7, "09:00")), Every: civil.Duration{Days: 7}}, 1, "has no day 7"},
		{"messages that follow go on in the next round", schedule.Course{Messages: two(dayAt(0, "09:00"), follows(24*time.Hour)), Every: day}, 1, "after the next round has begun"},
		{"a random time that ends in the next round", schedule.Course{Messages: two(dayAt(0, "01:00"), window("23:00", 180)), Every: day}, 1, "after the next round has begun"},
		{"random times that overlap", schedule.Course{Messages: two(window("09:00", 60), window("09:30", 60)), Every: day}, 1, "never due after the message before it"},
		{"the wrong order", schedule.Course{Messages: two(dayAt(15, "09:00"), dayAt(1, "09:00")), Every: civil.Duration{Months: 1}}, 1, "never due after the message before it"},
		{"the same time", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(0, "09:00")), Every: day}, 1, "never due after the message before it"},
		{"the last day twice", schedule.Course{Messages: two(dayAt(-1, "09:00"), dayAt(31, "08:00")), Every: civil.Duration{Months: 1}}, 1, "never due after the message before it"},
		{"a day beyond the calendar", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(4_000_000, "09:00"))}, 1, "outside of the calendar"},
		{"day 32", schedule.Course{Messages: two(dayAt(1, "09:00"), dayAt(32, "09:00")), Every: civil.Duration{Months: 1}}, 1, "no month has the day 32"},
		{"day -29", schedule.Course{Messages: two(dayAt(-29, "09:00"), dayAt(-1, "09:00")), Every: civil.Duration{Months: 1}}, 0, "no month has the day -29"},
		{"day 0 of a month among several", schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(20, "09:00")), Every: civil.Duration{Months: 1}}, 0, "not known on which day"},
		{"a day before the round", schedule.Course{Messages: two(dayAt(-1, "09:00"), dayAt(1, "09:00")), Every: civil.Duration{Days: 7}}, 0, "before the round"},
		{"at the same time as the message before", schedule.Course{Messages: two(dayAt(0, "09:00"), follows(0))}, 1, "at the same time"},
		{"before the message before", schedule.Course{Messages: two(dayAt(0, "09:00"), follows(-time.Hour))}, 1, "cannot precede"},
		{"weekdays of days", schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}, Weekdays: []time.Weekday{time.Monday}, Every: civil.Duration{Days: 10}}, -1, "rounds of weeks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.course.Check(nil)
			var wrong *schedule.CourseError
			if !errors.As(err, &wrong) || wrong.Message != c.message || !strings.Contains(wrong.Text, c.want) || wrong.Hint == "" {
				t.Errorf("got %+v, want message %d: %s", err, c.message, c.want)
			}
		})
	}
	short := schedule.Course{Messages: two(dayAt(-2, "09:00"), dayAt(29, "09:00")), Every: civil.Duration{Months: 1}}
	if err := short.Check(nil); err != nil {
		t.Errorf("in February the 29th is the last day, after the last but one: %v", err)
	}
	behind := schedule.Course{Messages: two(window("08:00", 60), follows(30*time.Minute)), Every: day}
	if err := behind.Check(nil); err != nil {
		t.Errorf("what follows a random time is later than that: %v", err)
	}
	unknown := schedule.Course{Messages: two(dayAt(0, "09:00"), dayAt(0, "09:00")), Every: day}
	if err := unknown.Check([]bool{false, true}); err != nil {
		t.Errorf("a time that is read from a record may be later: %v", err)
	}
}

// 31 April of every year, and a course that ends before it begins: they have no message, and no search for one lasts.
func TestCourseNever(t *testing.T) {
	t.Parallel()
	april := schedule.Course{Messages: []schedule.CourseMessage{dayAt(31, "09:00")}, Every: civil.Duration{Months: 12}, Missing: civil.MissingDaySkip}
	leap := schedule.Course{Messages: []schedule.CourseMessage{dayAt(29, "09:00")}, Every: civil.Duration{Months: 12}, Missing: civil.MissingDaySkip}
	ended := schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00")}, Every: civil.Duration{Days: 1}, Until: instant("2026-04-01T00:00:00Z")}
	for _, c := range []struct {
		name   string
		course schedule.Course
		start  string
		never  bool
	}{
		{"31 April", april, "2026-04-01", true},
		{"31 May", april, "2026-05-01", false},
		{"29 February", leap, "1897-02-01", false},
		{"ended", ended, "2026-04-01", true},
		{"one day", ended, "2026-03-31", false},
	} {
		s := c.course.Starting(schedule.Start{Date: dayOn(c.start)}, time.UTC)
		if got := s.Never(); got != c.never {
			t.Errorf("%s: never is %v", c.name, got)
		}
		if _, ok := s.At(schedule.Position{}); ok && c.name == "31 April" {
			t.Error("31 April has a message")
		}
	}
}

// drawnCourse draws a course that Check accepts, and its start.
func drawnCourse(t *rapid.T) (c *schedule.Course, start schedule.Start) {
	unit := rapid.SampledFrom([]civil.Duration{{}, {Days: 1}, {Days: 3}, {Days: 14}, {Months: 1}, {Months: 5}, {Months: 12}})
	c = &schedule.Course{
		Every: unit.Draw(t, "every"), Offset: civil.Duration{Days: rapid.IntRange(-40, 40).Draw(t, "offset")},
		Missing: rapid.SampledFrom([]civil.MissingDay{civil.MissingDayLast, civil.MissingDaySkip}).Draw(t, "missing"),
		Rule: civil.Rule{
			Gap:     rapid.SampledFrom([]civil.Gap{civil.GapForward, civil.GapSkip}).Draw(t, "gap"),
			Overlap: rapid.SampledFrom([]civil.Overlap{civil.OverlapFirst, civil.OverlapSecond}).Draw(t, "overlap"),
		},
		AllRounds: rapid.Bool().Draw(t, "all rounds"),
		Draw: func(round civil.Date, message schedule.Dated, minutes int) int {
			return (round.Day*31 + message.Date.Day*7 + message.Number*7) % minutes
		},
	}
	if !c.Every.IsZero() {
		c.Rounds = rapid.IntRange(0, 6).Draw(t, "rounds")
	}
	if rapid.Bool().Draw(t, "start on") {
		c.StartOn = []time.Weekday{time.Weekday(rapid.IntRange(0, 6).Draw(t, "weekday"))}
	}
	days := rapid.IntRange(0, 13)
	if c.Every.Months > 0 {
		days = rapid.SampledFrom([]int{1, 10, 28, 29, 30, 31, -1, -5, -28})
	}
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		m := dayAt(days.Draw(t, "day"), rapid.SampledFrom([]string{"00:00", "02:30", "03:15", "09:00", "23:30"}).Draw(t, "at"))
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			m = follows(time.Duration(rapid.IntRange(1, 40).Draw(t, "after")) * time.Hour)
		case 1:
			m.Window = time.Duration(rapid.IntRange(1, 300).Draw(t, "window")) * time.Minute
		}
		if c.Messages = append(c.Messages, m); c.Check(nil) != nil {
			c.Messages = c.Messages[:len(c.Messages)-1]
		}
	}
	if len(c.Messages) == 0 || c.Messages[0].Follows {
		c.Messages = []schedule.CourseMessage{dayAt(0, "02:30")}
	}
	at := time.Unix(rapid.Int64Range(1_600_000_000, 1_900_000_000).Draw(t, "start"), 0).UTC()
	if start.Date, _ = civil.DateOf(at, time.UTC); rapid.Bool().Draw(t, "moment") {
		start.Moment = at
	}
	return c, start
}

func courseZone(t *rapid.T) *time.Location {
	loc, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo"}).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// Whatever the course: Next strictly ascends, First equals walking to it, At agrees with both, and rounds and times end where they must.
func TestCoursesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, start := drawnCourse(t)
		loc := courseZone(t)
		until := c.Until
		s := c.Starting(start, loc)
		const most = 25
		all := walk(s, time.Time{}, most)
		if s.Never() != (len(all) == 0) {
			t.Fatalf("never: %v, but %d messages", s.Never(), len(all))
		}
		for i, o := range all {
			if at, ok := s.At(o.Position); !ok || at != o {
				t.Fatalf("%v: At gives %v (%v)", o, at, ok)
			}
			if i > 0 && (!o.Due.After(all[i-1].Due) || o.Compare(all[i-1].Position) <= 0 || o.Iteration < all[i-1].Iteration) {
				t.Fatalf("%v comes after %v", o, all[i-1])
			}
			if o.Due.Before(start.Moment) && !c.Offset.Negative() || c.Rounds > 0 && o.Iteration > c.Rounds {
				t.Fatalf("%v is outside of the course", o)
			}
		}
		if len(all) == 0 {
			return
		}
		var after []schedule.CourseOccurrence
		for o := range s.After(all[0].Position) {
			if after = append(after, o); len(after) == len(all)-1 {
				break
			}
		}
		if len(all) > 1 && !slices.Equal(after, all[1:]) {
			t.Fatalf("After gives %v, walking %v", after, all[1:])
		}
		last := all[len(all)-1]
		// Every position that At knows is walked over.
		seen := 0
		if k, ok := s.RoundOf(last.Date); !ok || k != last.Round {
			t.Fatalf("the round of %v is %d (%v), expected %d", last.Date, k, ok, last.Round)
		}
		for k := 0; k <= last.Round; k++ {
			for m := range 4 {
				if o, ok := s.At(schedule.Position{Round: k, Message: m}); ok && o.Compare(last.Position) <= 0 {
					if seen++; !slices.Contains(all, o) {
						t.Fatalf("%v is passed over", o)
					}
				}
			}
		}
		if seen != len(all) {
			t.Fatalf("%d positions, %d walked", seen, len(all))
		}
		for i := range all {
			for _, near := range []time.Duration{-time.Microsecond, 0, time.Microsecond} {
				at, want := all[i].Due.Add(near), i
				if near > 0 {
					want++
				}
				if o, ok := s.First(at); want < len(all) && (!ok || o != all[want]) {
					t.Fatalf("First(%v) = %v, walking gives %v", at, o, all[want])
				}
			}
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, "i")
		c.Until = all[i].Due
		if short := walk(c.Starting(start, loc), time.Time{}, most); !slices.Equal(short, all[:i]) {
			t.Fatalf("until %v: %d messages, expected %d", c.Until, len(short), i)
		}
		c.Until = until
	})
}

// A time of day stays that time, whatever the clocks do in between, unless it does not exist on a day.
func TestCoursesKeepTheWallClock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, start := drawnCourse(t)
		loc := courseZone(t)
		for _, o := range walk(c.Starting(start, loc), time.Time{}, 25) {
			m := c.Messages[o.Message]
			if m.Follows || m.Window > 0 {
				continue
			}
			_, at := civil.DateOf(o.Due, loc)
			before, _ := civil.OffsetAt(o.Due.Add(-24*time.Hour), loc)
			after, _ := civil.OffsetAt(o.Due, loc)
			if at != m.At && before == after {
				t.Fatalf("%v is at %v, not at %v", o.Due.In(loc), at, m.At)
			}
		}
	})
}

func BenchmarkCourseFarAway(b *testing.B) {
	c := schedule.Course{Messages: []schedule.CourseMessage{dayAt(0, "09:00"), dayAt(3, "18:00")}, Every: civil.Duration{Days: 7}}
	s := c.Starting(schedule.Start{Date: dayOn("2026-01-01")}, zone(b, "Europe/Berlin"))
	at := instant("2926-01-01T00:00:00Z")
	for b.Loop() {
		if _, ok := s.First(at); !ok {
			b.Fatal("the course has ended")
		}
	}
}
