package schedule_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/schedule"
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := civil.LoadZone(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

func clock(tb testing.TB, s string) civil.TimeOfDay {
	tb.Helper()
	c, err := civil.ParseTimeOfDay(s)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// daily returns a calendar of every day at these times.
func daily(tb testing.TB, times ...string) *schedule.Calendar {
	tb.Helper()
	c := &schedule.Calendar{}
	for _, s := range times {
		c.Times = append(c.Times, clock(tb, s))
	}
	return c
}

func local(due time.Time, loc *time.Location) string { return due.In(loc).Format("01-02 15:04 Z0700") }

// In every zone, on every day of two years, a time that clocks skip or show twice is due exactly once: at an instant at which the clocks
// show that time or, if they skip it, later by the length of the gap. A date that the zone skips has no occurrence.
//
// Shows: B34, D21.
func TestEachDayIsDueOnceInEveryZone(t *testing.T) {
	t.Parallel()
	names, err := zoneNames()
	if err != nil {
		t.Fatal(err)
	}
	var days, moved int
	for _, name := range names {
		loc := zone(t, name)
		for _, at := range []string{"00:00", "00:30", "01:30", "02:15", "02:30", "23:30"} {
			c, next := daily(t, at), date(t, "2025-12-31")
			for o := range c.Since(time.Date(2026, 1, 1, 0, 0, 0, 0, loc), loc) {
				if o.Date.Year > 2026 {
					break
				}
				if next.Year == 2026 && o.Date != next {
					t.Fatalf("%s %s: %s comes after %s", name, at, o.Date, next.AddDays(-1))
				}
				next = o.Date.AddDays(1)
				d, shown := civil.DateOf(o.Due, loc)
				jumped := shown != o.Time
				if d != o.Date && !(jumped && d == o.Date.AddDays(1)) { // Nuuk's clocks skip the last hour of a day
					t.Errorf("%s: %s %s is due on %s", name, o.Date, at, d)
				}
				if days++; jumped {
					moved++
				}
			}
		}
	}
	if len(names) < 400 || days < 364*6*len(names) || moved < 20 {
		t.Errorf("%d zones, %d days, %d of them moved: too few for this to show anything", len(names), days, moved)
	}
	t.Logf("%d zones, %d days, %d moved by a jump of the clocks", len(names), days, moved)
}

// zoneNames returns all zones and aliases of the tz database.
func zoneNames() ([]string, error) {
	text, err := os.ReadFile(filepath.Join("..", "civil", "testdata", "zones.txt"))
	return strings.Fields(string(text)), err
}

// Shows: B34, D21.
func TestDaysThatClocksMakeStrange(t *testing.T) {
	t.Parallel()
	skip := civil.Rule{Gap: civil.GapSkip}
	for name, c := range map[string]struct {
		zone, from string
		times      []string
		rule       civil.Rule
		want       string
	}{
		"Berlin, a gap":              {"Europe/Berlin", "2026-03-28", []string{"02:30"}, civil.Rule{}, "03-28 02:30 +0100, 03-29 03:30 +0200, 03-30 02:30 +0200"},
		"Berlin, a gap left out":     {"Europe/Berlin", "2026-03-28", []string{"02:30"}, skip, "03-28 02:30 +0100, 03-30 02:30 +0200, 03-31 02:30 +0200"},
		"Berlin, twice":              {"Europe/Berlin", "2026-10-24", []string{"02:30"}, civil.Rule{}, "10-24 02:30 +0200, 10-25 02:30 +0200, 10-26 02:30 +0100"},
		"Berlin, the second":         {"Europe/Berlin", "2026-10-24", []string{"02:30"}, civil.Rule{Overlap: civil.OverlapSecond}, "10-24 02:30 +0200, 10-25 02:30 +0100, 10-26 02:30 +0100"},
		"Berlin, every hour":         {"Europe/Berlin", "2026-03-29", []string{"01:00", "02:00", "03:00"}, civil.Rule{}, "03-29 01:00 +0100, 03-29 03:00 +0200, 03-30 01:00 +0200"},
		"Sao Paulo, no midnight":     {"America/Sao_Paulo", "2018-11-03", []string{"00:00"}, civil.Rule{}, "11-03 00:00 -0300, 11-04 01:00 -0200, 11-05 00:00 -0200"},
		"Apia, no day":               {"Pacific/Apia", "2011-12-29", []string{"09:00"}, civil.Rule{}, "12-29 09:00 -1000, 12-31 09:00 +1400, 01-01 09:00 +1400"},
		"Lord Howe, half an hour":    {"Australia/Lord_Howe", "2026-10-03", []string{"02:15"}, civil.Rule{}, "10-03 02:15 +1030, 10-04 02:45 +1100, 10-05 02:15 +1100"},
		"Lord Howe, back":            {"Australia/Lord_Howe", "2026-04-04", []string{"01:45"}, civil.Rule{}, "04-04 01:45 +1100, 04-05 01:45 +1100, 04-06 01:45 +1030"},
		"Troll, two hours, one goes": {"Antarctica/Troll", "2026-03-29", []string{"01:30", "02:30", "03:30"}, civil.Rule{}, "03-29 03:30 +0200, 03-29 04:30 +0200, 03-30 01:30 +0200"},
	} {
		loc, cal := zone(t, c.zone), daily(t, c.times...)
		cal.Rule = c.rule
		var got []string
		for o := range cal.Occurrences(date(t, c.from), loc) {
			if got = append(got, local(o.Due, loc)); len(got) == 3 {
				break
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Shows: B46.
func TestPeriods(t *testing.T) {
	t.Parallel()
	loc := zone(t, "Europe/London")
	c := daily(t, "08:30")
	if _, _, ok := c.PeriodOf(date(t, "2026-03-29"), loc); ok {
		t.Error("there is a period that nobody asked for")
	}
	c.Period = schedule.Period{Length: duration(t, "1d"), End: clock(t, "08:00")}
	for day, hours := range map[string]float64{"2026-03-28": 24, "2026-03-29": 23, "2026-10-25": 25} {
		start, end, ok := c.PeriodOf(date(t, day), loc)
		if got := end.Sub(start).Hours(); !ok || got != hours || local(end, loc)[6:11] != "08:00" {
			t.Errorf("%s: got %v hours until %v, want %v", day, got, end, hours)
		}
	}
	c.Period = schedule.Period{Length: duration(t, "1mo")}
	start, end, _ := c.PeriodOf(date(t, "2026-03-31"), loc)
	if got := local(start, loc) + " " + local(end, loc); got != "02-28 00:00 Z 03-31 00:00 +0100" {
		t.Errorf("a month: got %s", got)
	}
}

func TestBoundsOfACalendar(t *testing.T) {
	t.Parallel()
	loc := time.UTC
	at := func(day string) time.Time {
		return time.Date(2026, 6, 1, 0, 0, 0, 0, loc).AddDate(0, 0, date(t, "2026-06-01").DaysUntil(date(t, day)))
	}
	list := func(c *schedule.Calendar, since string) string {
		var all []string
		for o := range c.Since(at(since), loc) {
			if all = append(all, fmt.Sprintf("%s#%d", o.Due.Format("01-02T15"), o.N)); len(all) == 4 {
				break
			}
		}
		return strings.Join(all, " ")
	}
	c := daily(t, "08:00", "20:00")
	for _, step := range []struct {
		change      func()
		since, want string
	}{
		{func() {}, "2026-06-01", "06-01T08#0 06-01T20#0 06-02T08#0 06-02T20#0"},
		{func() { c.From = date(t, "2026-06-03") }, "2026-06-01", "06-03T08#1 06-03T20#2 06-04T08#3 06-04T20#4"},
		{func() {}, "2026-06-10", "06-10T08#15 06-10T20#16 06-11T08#17 06-11T20#18"},
		{func() { c.Until = date(t, "2026-06-11") }, "2026-06-10", "06-10T08#15 06-10T20#16"},
		{func() { c.Count = 3 }, "2026-06-01", "06-03T08#1 06-03T20#2 06-04T08#3"},
		{func() {}, "2026-06-04", "06-04T08#3"},
		{func() {}, "2026-06-10", ""},
		{func() { c.Offset = duration(t, "-2d") }, "2026-06-01", "06-01T08#1 06-01T20#2 06-02T08#3"},
		{func() { c.Offset = duration(t, "1mo2h") }, "2026-06-01", "07-03T10#1 07-03T22#2 07-04T10#3"},
		{func() {}, "2026-07-04", "07-04T10#3"},
	} {
		if step.change(); list(c, step.since) != step.want {
			t.Errorf("since %s: got %s, want %s", step.since, list(c, step.since), step.want)
		}
	}
	if never := (&schedule.Calendar{Recurrence: schedule.Recurrence{Months: []time.Month{2}, MonthDays: []int{30}, Missing: civil.MissingDaySkip}, Times: c.Times}); !never.Never() || c.Never() {
		t.Error("30 February occurs, or the others never do")
	}
}

// A random minute is drawn for each date and may lie in the next day. Nothing is left out on the way.
func TestCalendarWithRandomMinutes(t *testing.T) {
	t.Parallel()
	c := daily(t, "23:30")
	c.Window, c.Draw = time.Hour, func(date civil.Date, minutes int) int { return date.Day % 2 * (minutes - 1) }
	var got []string
	for o := range c.Since(time.Date(2026, 5, 14, 0, 15, 0, 0, time.UTC), time.UTC) {
		if got = append(got, o.Date.String()+" "+o.Due.Format("02 15:04")); len(got) == 3 {
			break
		}
	}
	if want := []string{"2026-05-13 14 00:29", "2026-05-14 14 23:30", "2026-05-15 16 00:29"}; !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// The occurrences since an instant strictly ascend, are not before it, and are found again by their date and time.
func TestOccurrencesAscend(t *testing.T) {
	t.Parallel()
	names, err := zoneNames()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		loc, err := civil.LoadZone(rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		c := &schedule.Calendar{Recurrence: schedule.Recurrence{Interval: rapid.IntRange(1, 3).Draw(t, "interval")}}
		minute := civil.TimeOfDay(60 * rapid.IntRange(0, 59).Draw(t, "minute"))
		for hour := range 24 {
			if hour == 3 || rapid.Bool().Draw(t, "hour") {
				c.Times = append(c.Times, civil.TimeOfDay(3600*hour)+minute)
			}
		}
		c.Offset = rapid.SampledFrom([]civil.Duration{{}, {Days: -2}, {Days: 3}, {Clock: -90 * time.Minute}, {Clock: 30 * time.Hour}, {Months: -1}}).Draw(t, "offset")
		if len(c.Times) == 1 {
			c.Window = time.Duration(rapid.IntRange(0, 1439).Draw(t, "window")) * time.Minute
			c.Draw = func(date civil.Date, minutes int) int { return (date.Day*7919 + int(date.Month)*31) % minutes }
		}
		since := time.Unix(rapid.Int64Range(0, 2_000_000_000).Draw(t, "since"), 0)
		var last time.Time
		n := 0
		for o := range c.Since(since, loc) {
			if o.Due.Before(since) || !last.IsZero() && !o.Due.After(last) {
				t.Fatalf("%v comes after %v, since %v", o.Due, last, since)
			}
			if found, ok := c.Find(o.Date, o.Time, loc); !ok || found != o {
				t.Fatalf("found %v %v for %v", found, ok, o)
			}
			if last = o.Due; n > 40 {
				break
			}
			n++
		}
	})
}

// Shows: D20, P7.
func TestOverdue(t *testing.T) {
	t.Parallel()
	now := day(10)
	due := []time.Time{day(6), day(7), day(8.5), day(9.5)}
	for _, c := range []struct {
		backlog, catchUp string
		send             []int
	}{
		{"", "48h", []int{3}},
		{schedule.BacklogLatest, "6h", nil},
		{schedule.BacklogLatest, "forever", []int{3}},
		{schedule.BacklogFirst, "48h", nil},
		{schedule.BacklogFirst, "5d", []int{0}},
		{schedule.BacklogAll, "48h", []int{2, 3}},
		{schedule.BacklogAll, "forever", []int{0, 1, 2, 3}},
		{schedule.BacklogAll, "never", nil},
	} {
		late, err := schedule.ParseCatchUp(c.catchUp)
		if err != nil {
			t.Fatal(err)
		}
		s := schedule.Timing{CatchUp: late}.Overdue(c.backlog, now, due)
		if !slices.Equal(s.Send, c.send) || len(s.Send)+len(s.Dropped) != len(due) {
			t.Errorf("%s %s: got %+v, want %v", c.backlog, c.catchUp, s, c.send)
		}
	}
}
