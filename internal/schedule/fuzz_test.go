package schedule_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/schedule"
)

// FuzzParseRule: a rule that is taken has the dates for which on returns true, each once and in their order, and the same ones from any of them on.
func FuzzParseRule(f *testing.F) {
	for _, rule := range []string{
		"FREQ=MONTHLY;BYDAY=1MO,-1FR", "FREQ=YEARLY;BYDAY=20MO,-53SU;INTERVAL=2", "FREQ=WEEKLY;WKST=SU;INTERVAL=3;BYDAY=MO,MO;BYMONTH=2", "FREQ=DAILY;BYMONTHDAY=-31,29;BYMONTH=2",
		"FREQ=MONTHLY;BYMONTHDAY=31,-1;BYSETPOS=-1,1", "FREQ=YEARLY;BYMONTH=1,12;BYDAY=5WE;BYSETPOS=366;COUNT=3", "RRULE:FREQ=DAILY;UNTIL=20260630;INTERVAL=1000",
	} {
		f.Add(rule, 17, 400)
	}
	f.Fuzz(func(t *testing.T, text string, first, from int) {
		r, b, err := schedule.ParseRule(text)
		if err != nil || len(text) > 200 {
			return
		}
		if b.Count < 0 || b.Count > 0 && b.Until != (civil.Date{}) {
			t.Errorf("%q has the bounds %+v", text, b)
		}
		agrees(t, r, first, from)
	})
}

// FuzzParseCron is FuzzParseRule for the days of a cron expression, and its times ascend.
func FuzzParseCron(f *testing.F) {
	for _, cron := range []string{"30 8 * * mon-fri", "0 */5 1,31 jan,2 7", "5 1-20/3 */10 * FRI", "0 9 29 feb *"} {
		f.Add(cron, 400)
	}
	f.Fuzz(func(t *testing.T, text string, from int) {
		r, times, err := schedule.ParseCron(text)
		if err != nil || len(text) > 200 {
			return
		}
		if len(times) == 0 || !slices.IsSorted(times) || len(slices.Compact(slices.Clone(times))) != len(times) {
			t.Errorf("%q has the times %v", text, times)
		}
		if !r.Either {
			agrees(t, r, 0, from)
		}
	})
}

// agrees demands that the dates of a rule are those that a look at each day finds.
func agrees(t *testing.T, r schedule.Recurrence, first, from int) {
	t.Helper()
	const days = 800
	begin := civil.Date{Year: 2023, Month: 11, Day: 20}.AddDays(first % 500)
	start := begin.AddDays(from % 800)
	r.Interval = max(r.Interval, 1)
	var want, got []civil.Date
	for i := range days {
		if d := start.AddDays(i); on(r, begin, d) && picked(r, begin, d) {
			want = append(want, d)
		}
	}
	for d := range r.Dates(begin, start) {
		if start.DaysUntil(d) >= days {
			break
		}
		got = append(got, d)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v from %s, since %s: got %v, want %v", r, begin, start, got, want)
	}
	if len(got) < 2 {
		return
	}
	later := got[len(got)/2]
	for d := range r.Dates(begin, later) {
		if d != later {
			t.Errorf("%+v from %s: %s is not among the dates since itself", r, begin, later)
		}
		break
	}
}
