package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/schedule"
)

func date(tb testing.TB, s string) civil.Date {
	tb.Helper()
	d, err := civil.ParseDate(s)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func dates(tb testing.TB, r schedule.Recurrence, first, from string, n int) string {
	tb.Helper()
	var all []string
	for d := range r.Dates(date(tb, first), date(tb, from)) {
		if all = append(all, d.String()); len(all) == n {
			break
		}
	}
	return strings.Join(all, " ")
}

// Shows: D21.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, first, from, want string }{
		{"FREQ=DAILY", "2026-01-01", "2026-02-27", "2026-02-27 2026-02-28 2026-03-01"},
		{"FREQ=DAILY;INTERVAL=3", "2026-01-01", "2026-01-02", "2026-01-04 2026-01-07 2026-01-10"},
		{"FREQ=DAILY;BYMONTHDAY=-1", "2026-01-01", "2026-01-01", "2026-01-31 2026-02-28 2026-03-31"},
		{"FREQ=WEEKLY", "2026-01-01", "2026-01-01", "2026-01-01 2026-01-08 2026-01-15"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR", "2026-01-01", "2026-01-01", "2026-01-02 2026-01-12 2026-01-16"},
		// The example of RFC 5545 in which the first day of the week has an effect.
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=MO", "1997-08-05", "1997-08-05", "1997-08-05 1997-08-10 1997-08-19"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", "1997-08-05", "1997-08-05", "1997-08-05 1997-08-17 1997-08-19"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2026-01-01", "2026-01-01", "2026-01-31 2026-03-31 2026-05-31"},
		{"FREQ=MONTHLY;BYDAY=-1FR", "2026-01-01", "2026-01-01", "2026-01-30 2026-02-27 2026-03-27"},
		{"FREQ=MONTHLY;INTERVAL=3;BYDAY=1MO", "2001-01-01", "2026-05-01", "2026-07-06 2026-10-05 2027-01-04"},
		{"FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "2026-01-01", "2026-01-01", "2026-02-13 2026-03-13 2026-11-13"},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "2026-01-01", "2026-01-01", "2026-01-30 2026-02-27 2026-03-31"},
		{"FREQ=YEARLY", "2024-02-29", "2024-01-01", "2024-02-29 2028-02-29 2032-02-29"},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU", "2001-01-01", "2026-01-01", "2032-02-29 2060-02-29 2088-02-29"},
		{"FREQ=YEARLY;BYDAY=20MO", "1997-05-19", "1997-05-19", "1997-05-19 1998-05-18 1999-05-17"},
		{"FREQ=YEARLY;BYMONTH=3;BYDAY=1SU,-1SU", "2026-01-01", "2026-01-01", "2026-03-01 2026-03-29 2027-03-07"},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "2026-01-01", "2026-01-01", ""},
	} {
		r, _, err := schedule.ParseRule(c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if got := dates(t, r, c.first, c.from, 3); got != c.want {
			t.Errorf("%s from %s: got %s, want %s", c.rule, c.from, got, c.want)
		}
	}
}

func TestBoundsOfARule(t *testing.T) {
	t.Parallel()
	_, b, err := schedule.ParseRule("RRULE:FREQ=DAILY;COUNT=12")
	if err != nil || b.Count != 12 {
		t.Errorf("got %+v, %v", b, err)
	}
	_, b, err = schedule.ParseRule("FREQ=DAILY;UNTIL=20260630")
	if want := date(t, "2026-07-01"); err != nil || b.Until != want {
		t.Errorf("got %+v, %v, want %v", b, err, want)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"":                                  "is not a part of a rule",
		"BYDAY=MO":                          "no FREQ",
		"FREQ=HOURLY":                       "is not for schedules",
		"FREQ=FORTNIGHTLY":                  "is not a frequency",
		"FREQ=DAILY;FREQ=DAILY":             "is listed twice",
		"FREQ=DAILY;INTERVAL=0":             "not a number from 1",
		"FREQ=DAILY;BYHOUR=9":               "the days",
		"FREQ=DAILY;BYMONTH=-1":             "not a number from 1",
		"FREQ=MONTHLY;BYMONTHDAY=0":         "is no day",
		"FREQ=WEEKLY;BYDAY=1MO":             "only in a month or a year",
		"FREQ=WEEKLY;BYMONTHDAY=3":          "does not go with",
		"FREQ=YEARLY;BYWEEKNO=3":            "not supported",
		"FREQ=DAILY;BYDAY=MON":              "not a weekday",
		"FREQ=DAILY;UNTIL=20260630T0900":    "not a date",
		"FREQ=DAILY;COUNT=2;UNTIL=20260630": "exclude each other",
		"FREQ=MONTHLY;BYSETPOS=1":           "picks from other parts",
		"FREQ=DAILY;BYEASTER=1":             "not a part of a rule",
		"FREQ=DAILY;WKST=1MO":               "not a weekday",
	} {
		if _, _, err := schedule.ParseRule(rule); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", rule, err, want)
		}
	}
}

// Shows: D21.
func TestCron(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, times, want string }{
		{"30 8 * * mon-fri", "[08:30]", "2026-01-01 2026-01-02 2026-01-05"},
		{"0 9 31 * *", "[09:00]", "2026-01-31 2026-03-31 2026-05-31"},
		{"0 8,20 1 */6 *", "[08:00 20:00]", "2026-01-01 2026-07-01 2027-01-01"},
		{"5 */12 * * *", "[00:05 12:05]", "2026-01-01 2026-01-02 2026-01-03"},
		{"0 9 13 * FRI", "[09:00]", "2026-01-02 2026-01-09 2026-01-13"}, // either day
		{"0 9 */10 * FRI", "[09:00]", "2026-05-01 2026-07-31 2026-08-21"},
		{"0 9 * * 7", "[09:00]", "2026-01-04 2026-01-11 2026-01-18"},
		{"0 9 29 feb *", "[09:00]", "2028-02-29 2032-02-29 2036-02-29"},
	} {
		r, times, err := schedule.ParseCron(c.cron)
		if err != nil {
			t.Errorf("%s: %v", c.cron, err)
			continue
		}
		if got := fmt.Sprint(times); got != c.times {
			t.Errorf("%s: got times %s, want %s", c.cron, got, c.times)
		}
		if got := dates(t, r, "2001-01-01", "2026-01-01", 3); got != c.want {
			t.Errorf("%s: got %s, want %s", c.cron, got, c.want)
		}
	}
	for cron, want := range map[string]string{
		"* * * * *":      "more than once an hour",
		"0,30 9 * * *":   "more than once an hour",
		"0 9 * *":        "instead of five",
		"0 24 * * *":     "not a hour",
		"0 9 * * mo":     "not a weekday",
		"0 9 5-1 * *":    "not a day of the month",
		"0 9 */0 * *":    "not a day of the month",
		"0 9 +1 * *":     "not a day of the month",
		"@daily":         "instead of five",
		"0 9 * * mon#1":  "not a weekday",
		"0 9 1,,2 * *":   "not a day of the month",
		"0 9 * jan-13 *": "not a month",
	} {
		if _, _, err := schedule.ParseCron(cron); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", cron, err, want)
		}
	}
}

// The dates of a rule are the days for which on returns true.
func TestDatesAreThoseOfEachDay(t *testing.T) {
	t.Parallel()
	weekdays := []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
	rapid.Check(t, func(t *rapid.T) {
		r := schedule.Recurrence{
			Frequency: rapid.SampledFrom([]schedule.Frequency{schedule.Daily, schedule.Weekly, schedule.Monthly, schedule.Yearly, schedule.Yearly}).Draw(t, "frequency"),
			Interval:  rapid.IntRange(1, 4).Draw(t, "interval"),
			WeekStart: time.Weekday(rapid.IntRange(0, 6).Draw(t, "week start")),
			Missing:   civil.MissingDaySkip,
		}
		for _, m := range rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, rapid.SampledFrom([]int{0, 3}).Draw(t, "some months"), rapid.ID[int]).Draw(t, "months") {
			r.Months = append(r.Months, time.Month(m))
		}
		if r.Frequency != schedule.Weekly {
			r.MonthDays = rapid.SliceOfNDistinct(rapid.SampledFrom([]int{1, 2, 13, 28, 29, 30, 31, -1, -2, -30}), 0, 3, rapid.ID[int]).Draw(t, "days")
		}
		for _, w := range rapid.SliceOfNDistinct(rapid.SampledFrom(weekdays), 0, 3, rapid.ID[string]).Draw(t, "weekdays") {
			n := 0
			switch counted := rapid.Bool().Draw(t, "counted"); {
			case counted && r.Frequency == schedule.Yearly && len(r.Months) == 0:
				n = rapid.SampledFrom([]int{-53, -30, -2, -1, 1, 2, 5, 20, 45, 53}).Draw(t, "n")
			case counted && r.Frequency >= schedule.Monthly:
				n = rapid.SampledFrom([]int{-2, -1, 1, 2, 5}).Draw(t, "n")
			}
			r.Weekdays = append(r.Weekdays, schedule.Weekday{Day: time.Weekday(slices.Index(weekdays, w)), N: n})
		}
		if len(r.Months)+len(r.MonthDays)+len(r.Weekdays) > 0 {
			r.Positions = rapid.SliceOfNDistinct(rapid.SampledFrom([]int{1, 2, 3, 20, -1, -2, -11}), 0, 2, rapid.ID[int]).Draw(t, "positions")
		}
		first := civil.Date{Year: 2023, Month: 11, Day: 20}.AddDays(rapid.IntRange(0, 500).Draw(t, "first"))
		from := first.AddDays(rapid.IntRange(-400, 800).Draw(t, "from"))
		const days = 1500
		var want, got []civil.Date
		for i := range days {
			if d := from.AddDays(i); on(r, first, d) && picked(r, first, d) {
				want = append(want, d)
			}
		}
		for d := range r.Dates(first, from) {
			if from.DaysUntil(d) >= days {
				break
			}
			got = append(got, d)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v from %s: got %v, want %v", r, first, got, want)
		}
	})
}

// on reports whether a rule matches a day, without regard to other days.
func on(r schedule.Recurrence, first, d civil.Date) bool {
	if len(r.Months) > 0 && !slices.Contains(r.Months, d.Month) {
		return false
	}
	left := 0 // days of the month after this one
	for d.AddDays(left+1).Month == d.Month {
		left++
	}
	before, after := d.Day-1, left // in the month, or in the year without months, in which weekdays are numbered (RFC 5545, 3.3.10)
	if r.Frequency == schedule.Yearly && len(r.Months) == 0 {
		before, after = civil.Date{Year: d.Year, Month: 1, Day: 1}.DaysUntil(d), d.DaysUntil(civil.Date{Year: d.Year, Month: 12, Day: 31})
	}
	weekday := slices.ContainsFunc(r.Weekdays, func(w schedule.Weekday) bool {
		return w.Day == d.Weekday() && (w.N == 0 || w.N == before/7+1 || w.N == -(after/7+1))
	})
	monthDay := slices.Contains(r.MonthDays, d.Day) || slices.Contains(r.MonthDays, -left-1)
	named := (len(r.Weekdays) == 0 || weekday) && (len(r.MonthDays) == 0 || monthDay)
	none := len(r.Weekdays)+len(r.MonthDays) == 0
	var turns int
	switch r.Frequency {
	case schedule.Daily:
		turns = first.DaysUntil(d)
	case schedule.Weekly:
		monday := func(d civil.Date) civil.Date {
			for d.Weekday() != r.WeekStart {
				d = d.AddDays(-1)
			}
			return d
		}
		turns = monday(first).DaysUntil(monday(d)) / 7
		named = weekday || none && d.Weekday() == first.Weekday()
	case schedule.Monthly:
		turns = (d.Year-first.Year)*12 + int(d.Month) - int(first.Month)
		named = named && (!none || d.Day == first.Day)
	case schedule.Yearly:
		turns = d.Year - first.Year
		if none {
			named = d.Day == first.Day && (len(r.Months) > 0 || d.Month == first.Month)
		}
	}
	return named && turns%r.Interval == 0
}

// picked reports whether BYSETPOS selects a day of the rule, by its position among the dates of its turn.
func picked(r schedule.Recurrence, first, d civil.Date) bool {
	if len(r.Positions) == 0 {
		return true
	}
	weeks := func(d civil.Date) int { // weeks since a fixed day
		return civil.Date{Year: 1989, Month: 1, Day: 1}.AddDays(int(r.WeekStart)).DaysUntil(d) / 7
	}
	same := func(o civil.Date) bool {
		switch r.Frequency {
		case schedule.Weekly:
			return weeks(o) == weeks(d)
		case schedule.Monthly:
			return o.Year == d.Year && o.Month == d.Month
		case schedule.Yearly:
			return o.Year == d.Year
		case schedule.Daily:
		}
		return o == d
	}
	earlier, later := 0, 0
	for o := d.AddDays(-1); same(o); o = o.AddDays(-1) {
		if on(r, first, o) {
			earlier++
		}
	}
	for o := d.AddDays(1); same(o); o = o.AddDays(1) {
		if on(r, first, o) {
			later++
		}
	}
	return slices.Contains(r.Positions, earlier+1) || slices.Contains(r.Positions, -later-1)
}

// The examples of RFC 5545, section 3.8.5.3, with days and without times.
//
// Shows: D21.
func TestTheExamplesOfTheStandard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, first, want string }{
		{"FREQ=DAILY;INTERVAL=2", "1997-09-02", "1997-09-02 1997-09-04 1997-09-06 1997-09-08"},
		{"FREQ=DAILY;INTERVAL=10", "1997-09-02", "1997-09-02 1997-09-12 1997-09-22 1997-10-02 1997-10-12"},
		{"FREQ=YEARLY;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA", "1998-01-01", "1998-01-01 1998-01-02 1998-01-03 1998-01-04"},
		{"FREQ=DAILY;BYMONTH=1", "1998-01-01", "1998-01-01 1998-01-02 1998-01-03 1998-01-04"},
		{"FREQ=WEEKLY", "1997-09-02", "1997-09-02 1997-09-09 1997-09-16 1997-09-23 1997-09-30 1997-10-07"},
		{"FREQ=WEEKLY;INTERVAL=2;WKST=SU", "1997-09-02", "1997-09-02 1997-09-16 1997-09-30 1997-10-14 1997-10-28"},
		{"FREQ=WEEKLY;WKST=SU;BYDAY=TU,TH", "1997-09-02", "1997-09-02 1997-09-04 1997-09-09 1997-09-11 1997-09-16"},
		{"FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=MO,WE,FR", "1997-09-01", "1997-09-01 1997-09-03 1997-09-05 1997-09-15 1997-09-17 1997-09-19 1997-09-29"},
		{"FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=TU,TH", "1997-09-02", "1997-09-02 1997-09-04 1997-09-16 1997-09-18 1997-09-30 1997-10-02 1997-10-14 1997-10-16"},
		{"FREQ=MONTHLY;BYDAY=1FR", "1997-09-05", "1997-09-05 1997-10-03 1997-11-07 1997-12-05 1998-01-02 1998-02-06 1998-03-06 1998-04-03 1998-05-01 1998-06-05"},
		{"FREQ=MONTHLY;INTERVAL=2;BYDAY=1SU,-1SU", "1997-09-07", "1997-09-07 1997-09-28 1997-11-02 1997-11-30 1998-01-04 1998-01-25 1998-03-01 1998-03-29 1998-05-03 1998-05-31"},
		{"FREQ=MONTHLY;BYDAY=-2MO", "1997-09-22", "1997-09-22 1997-10-20 1997-11-17 1997-12-22 1998-01-19 1998-02-16"},
		{"FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28", "1997-09-28 1997-10-29 1997-11-28 1997-12-29 1998-01-29 1998-02-26"},
		{"FREQ=MONTHLY;BYMONTHDAY=2,15", "1997-09-02", "1997-09-02 1997-09-15 1997-10-02 1997-10-15 1997-11-02 1997-11-15 1997-12-02 1997-12-15 1998-01-02 1998-01-15"},
		{"FREQ=MONTHLY;BYMONTHDAY=1,-1", "1997-09-30", "1997-09-30 1997-10-01 1997-10-31 1997-11-01 1997-11-30 1997-12-01 1997-12-31 1998-01-01 1998-01-31 1998-02-01"},
		{"FREQ=MONTHLY;INTERVAL=18;BYMONTHDAY=10,11,12,13,14,15", "1997-09-10", "1997-09-10 1997-09-11 1997-09-12 1997-09-13 1997-09-14 1997-09-15 1999-03-10 1999-03-11 1999-03-12 1999-03-13"},
		{"FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", "1997-09-02", "1997-09-02 1997-09-09 1997-09-16 1997-09-23 1997-09-30 1997-11-04 1997-11-11 1997-11-18 1997-11-25 1998-01-06"},
		{"FREQ=YEARLY;BYMONTH=6,7", "1997-06-10", "1997-06-10 1997-07-10 1998-06-10 1998-07-10 1999-06-10 1999-07-10 2000-06-10 2000-07-10 2001-06-10 2001-07-10"},
		{"FREQ=YEARLY;INTERVAL=2;BYMONTH=1,2,3", "1997-03-10", "1997-03-10 1999-01-10 1999-02-10 1999-03-10 2001-01-10 2001-02-10 2001-03-10 2003-01-10 2003-02-10 2003-03-10"},
		{"FREQ=YEARLY;BYDAY=20MO", "1997-05-19", "1997-05-19 1998-05-18 1999-05-17"},
		{"FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "1997-03-13", "1997-03-13 1997-03-20 1997-03-27 1998-03-05 1998-03-12 1998-03-19 1998-03-26 1999-03-04"},
		{"FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8", "1997-06-05", "1997-06-05 1997-06-12 1997-06-19 1997-06-26 1997-07-03 1997-07-10 1997-07-17 1997-07-24 1997-07-31 1997-08-07"},
		{"FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1997-09-03", "1998-02-13 1998-03-13 1998-11-13 1999-08-13 2000-10-13"},
		{"FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", "1997-09-13", "1997-09-13 1997-10-11 1997-11-08 1997-12-13 1998-01-10 1998-02-07 1998-03-07 1998-04-11 1998-05-09 1998-06-13"},
		{"FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "1996-11-05", "1996-11-05 2000-11-07 2004-11-02"},
		{"FREQ=MONTHLY;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09-04", "1997-09-04 1997-10-07 1997-11-06"},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "1997-09-29", "1997-09-29 1997-10-30 1997-11-27 1997-12-30 1998-01-29 1998-02-26 1998-03-30"},
		{"FREQ=MONTHLY;BYMONTHDAY=15,30", "2007-01-15", "2007-01-15 2007-01-30 2007-02-15 2007-03-15 2007-03-30"},
		// From the table in section 3.3.10, not from the examples: BYMONTHDAY limits BYDAY, whose numbers count in the year.
		{"FREQ=YEARLY;BYMONTHDAY=1,2,3,4,5,6,7;BYDAY=1MO", "2026-01-01", "2026-01-05 2027-01-04 2028-01-03"},
		{"FREQ=YEARLY;BYMONTHDAY=18,19;BYDAY=20MO", "1997-01-01", "1997-05-19 1998-05-18 2003-05-19"},
		{"FREQ=YEARLY;BYMONTHDAY=31;BYDAY=-1FR", "2026-01-01", "2027-12-31 2032-12-31 2038-12-31"},
		{"FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=18,19;BYDAY=3MO", "1997-01-01", "1997-05-19 1998-05-18 2003-05-19"},
	} {
		r, _, err := schedule.ParseRule(c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if got := dates(t, r, c.first, c.first, strings.Count(c.want, " ")+1); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.rule, got, c.want)
		}
	}
}
