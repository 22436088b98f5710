package loader_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/schedule"
)

// program is an expression as bySource compares it.
func program(t *testing.T, source string) *expr.Program {
	t.Helper()
	c, err := expr.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Compile(source, expr.Scope{Record: true}, expr.Any)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCourses shows what each key of a course means.
func TestCourses(t *testing.T) {
	t.Parallel()
	const ten = civil.TimeOfDay(10 * 3600)
	minutes := func(n int) civil.Duration { return civil.Duration{Clock: time.Duration(n) * time.Minute} }
	clock := func(t civil.TimeOfDay) definition.At { return definition.At{Given: true, Time: t} }
	one := []definition.CourseMessage{{}}
	for name, tc := range map[string]struct {
		keys string
		want *definition.Course
	}{
		"no course":        {"anchor: record.d, at: \"10:00\"", nil},
		"one message":      {"anchor: record.d, repeat: {every: 1d}", &definition.Course{Messages: one, Every: civil.Duration{Days: 1}}},
		"a first day":      {"anchor: record.d, start_on: sun", &definition.Course{Messages: one, StartOn: []time.Weekday{time.Sunday}}},
		"next":             {"first: next", &definition.Course{Messages: one}},
		"whole":            {"first: whole, at: \"10:00\"", &definition.Course{Messages: one, Whole: true}},
		"a reset":          {"reset_on: record.visits", &definition.Course{Messages: one, ResetOn: program(t, "record.visits")}},
		"the first of all": {"anchor: record.d, reset_on: record.visits, backlog: first", &definition.Course{Messages: one, ResetOn: program(t, "record.visits"), Backlog: schedule.BacklogFirst}},
		"weekdays":         {"repeat: {every: 2w, days: [fri, mon], times: 4}", &definition.Course{Messages: one, Every: civil.Duration{Days: 14}, Weekdays: []time.Weekday{time.Friday, time.Monday}, Rounds: 4}},
		"one weekday":      {"repeat: {every: 1w, days: tue, times: forever}", &definition.Course{Messages: one, Every: civil.Duration{Days: 7}, Weekdays: []time.Weekday{time.Tuesday}}},
		"days of months": {"repeat: {every: 1mo, days: [30, -1, -28, 3], count: all}, missing_day: skip", &definition.Course{
			Messages: []definition.CourseMessage{{Day: 3}, {Day: -28}, {Day: 30}, {Day: -1}}, Every: civil.Duration{Months: 1}, AllRounds: true, MissingDay: civil.MissingDaySkip,
		}},
		"months": {"repeat: {every: 1y, count: messages}, missing_day: last", &definition.Course{Messages: one, Every: civil.Duration{Months: 12}}},
		"until a date": {"repeat: {every: 1d, until: 2026-06-01}", &definition.Course{
			Messages: one, Every: civil.Duration{Days: 1}, UntilDate: civil.Date{Year: 2026, Month: time.June, Day: 1},
		}},
		"until a date of the record": {"repeat: {every: 1d, until: record.ends_on}", &definition.Course{Messages: one, Every: civil.Duration{Days: 1}, Until: program(t, "record.ends_on")}},
		"a sequence": {`anchor: record.d, sequence: [{after: 0m}, {after: 90m}, {day: 2, at: "10:00"}, {day: 3, at: random 08:00-09:30}, {day: 4, at: record.clock}]`, &definition.Course{
			Messages: []definition.CourseMessage{
				{},
				{Follows: true, After: minutes(90)},
				{Day: 2, At: clock(ten)},
				{Day: 3, At: definition.At{Given: true, Random: civil.Span{From: 8 * 3600, To: 9*3600 + 1800}}},
				{Day: 4, At: definition.At{Given: true, From: program(t, "record.clock")}},
			},
		}},
		"a sequence that begins later":     {"sequence: {after: 15m}", &definition.Course{Messages: []definition.CourseMessage{{After: minutes(15)}}}},
		"a sequence that begins at a time": {`sequence: [{after: 15m, at: "10:00"}]`, &definition.Course{Messages: []definition.CourseMessage{{After: minutes(15), At: clock(ten)}}}},
	} {
		set := bundleOf(t, yaml(onRecord("    when: record.a == 1\n    timing: {"+tc.keys+"}\n"))).Set
		if tc.want != nil {
			tc.want.Backlog, tc.want.MissingDay = orElse(tc.want.Backlog, schedule.BacklogLatest), orElse(tc.want.MissingDay, civil.MissingDayLast)
			tc.want.LateJoiner = orElse(tc.want.LateJoiner, definition.LateJoin)
		}
		if diff := cmp.Diff(tc.want, set.Workflow("w").Trigger[0].OnPlan().Course, bySource()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func orElse[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

// TestCourseRule shows the rule by which a course is computed.
func TestCourseRule(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, read(t, "testdata/everything.yaml")...).Set
	visits, payments := set.Workflow("courses").TriggerByID("visits").OnPlan(), set.Workflow("courses").TriggerByID("payments").OnPlan()
	const hour = 3600
	for name, tc := range map[string]struct{ got, want schedule.Course }{
		"by a date": {visits.CourseRule(true), schedule.Course{
			Messages: []schedule.CourseMessage{
				{Timed: true, At: 8 * hour, Window: 90 * time.Minute},
				{Timed: true, At: 9 * hour, Follows: true, After: civil.Duration{Clock: 2 * time.Hour}},
				{Timed: true, At: 9 * hour, Day: 2},
			},
			Offset: civil.Duration{Days: -7}, StartOn: []time.Weekday{time.Monday}, Every: civil.Duration{Days: 14}, Rounds: 6, Missing: civil.MissingDayLast,
		}},
		"by an instant": {visits.CourseRule(false), schedule.Course{
			Messages: []schedule.CourseMessage{
				{Timed: true, At: 8 * hour, Window: 90 * time.Minute},
				{Follows: true, After: civil.Duration{Clock: 2 * time.Hour}},
				{Day: 2},
			},
			Offset: civil.Duration{Days: -7}, StartOn: []time.Weekday{time.Monday}, Every: civil.Duration{Days: 14}, Rounds: 6, Missing: civil.MissingDayLast,
		}},
		"by a condition": {payments.CourseRule(false), schedule.Course{
			Messages: []schedule.CourseMessage{{Day: 15, Timed: true, At: 10 * hour}, {Day: 31, Timed: true, At: 10 * hour}},
			Every:    civil.Duration{Months: 1}, Rounds: 3, AllRounds: true, Missing: civil.MissingDaySkip,
		}},
	} {
		if diff := cmp.Diff(tc.want, tc.got, bySource()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if zones := payments.Dates.Zones; len(zones) != 1 || zones[0].Name != "Europe/Berlin" {
		t.Errorf("without a date the zones are %+v", zones)
	}
}

// TestCoursesReadRelatives shows that what a course reads of related records is loaded with the record.
func TestCoursesReadRelatives(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, yaml(onRecord(`    timing:
      anchor: record.d
      sequence: [{day: 0, at: record.site.clock}]
      repeat: {every: 1d, until: record.contract.ends_on}
      reset_on: record.last_visit.id
`)+"---\nrecord_type: kiosk\nfields: {d: date, site: record(place), contract: record(contract), last_visit: record(visit)}\n"+
		"---\nrecord_type: place\nfields: {clock: text}\n---\nrecord_type: contract\nfields: {ends_on: date}\n---\nrecord_type: visit\nfields: {place: text}\n")).Set
	var got []string
	for _, r := range set.Relations("kiosk") {
		got = append(got, r.Field)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"contract", "last_visit", "site"}, got); diff != "" {
		t.Errorf("relations (-want +got):\n%s", diff)
	}
}
