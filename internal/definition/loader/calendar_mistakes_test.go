package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// scheduled is a workflow with a schedule of these keys; rest are further lines of the workflow.
func scheduled(keys, rest string) string {
	return "workflow: w\ntype: report\ntriggers:\n  - id: t\n    schedule: {" + keys + "}\n" + rest + `audience:
  - everyone: true
channel: sms
message:
  sms:
    text: Hello
---
channel: sms
provider: memory
`
}

// TestMistakesOfSchedules shows what is said of a schedule that cannot be meant.
//
// Shows: D21, B46.
func TestMistakesOfSchedules(t *testing.T) {
	t.Parallel()
	const nine = `, at: "09:00"`
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"right", scheduled("every: 1d"+nine, ""), nil},
		{"without a name", strings.Replace(scheduled("every: 1d"+nine, ""), "  - id: t\n    schedule", "  - schedule", 1), nil},
		{"nothing", scheduled("timezone: UTC", ""), []string{
			`5:15 missing: a schedule needs every, rrule or cron | such as every: 1d, with at: "09:00"`,
			`5:15 missing: a schedule needs at, the time of day | at: "09:00"`,
		}},
		{"several", scheduled("every: 1d, rrule: FREQ=DAILY"+nine, ""), []string{"5:15 invalid: every, rrule and cron exclude each other | keep one of them"}},
		{"at with cron", scheduled(`cron: "0 9 * * *"`+nine, ""), []string{"5:39 invalid: a cron expression says itself at what time | remove at"}},
		{"too often", scheduled(`cron: "*/5 * * * *"`, ""), []string{`5:22 invalid: "*/5 * * * *" is due more than once an hour | write one minute, such as 0; what is due more often hangs on events or records`}},
		{"every hour", scheduled("every: 1h"+nine, ""), []string{`5:23 invalid: every: 1h is not a whole number of days | write cron: "0 */4 * * *" for several times a day; more often than once an hour is refused`}},
		{"which day", scheduled("every: 2w"+nine, ""), []string{"5:23 missing: every: 2w does not say on which day | write days: [mon], or from: the first day"}},
		{"weekdays", scheduled("every: 1w, days: [Mon, mon, mon]"+nine, ""), []string{
			`5:34 invalid: "Mon" is not a weekday | did you mean mon?`, "5:44 invalid: mon is listed twice",
		}},
		{"days of a month", scheduled("every: 1mo, days: [0, 32, -29, mon, 1]"+nine, ""), []string{
			`5:35 invalid: "0" is not a day of a month | days of a month are 1 to 31, and -1 (the last one) to -28`,
			`5:38 invalid: "32" is not a day of a month | days of a month are 1 to 31, and -1 (the last one) to -28`,
			`5:42 invalid: "-29" is not a day of a month | days of a month are 1 to 31, and -1 (the last one) to -28`,
			`5:47 invalid: "mon" is not a day of a month | days of a month are 1 to 31, and -1 (the last one) to -28`,
		}},
		{"days of a day", scheduled("every: 1d, days: [mon]"+nine, ""), []string{"5:33 invalid: days are for weeks and months | write every: 1w with days: [mon, thu], or every: 1mo with days: [1, 15]"}},
		{"days of a rule", scheduled("rrule: FREQ=DAILY, missing_day: skip"+nine, ""), []string{"5:48 invalid: missing_day is for every | an rrule or a cron expression says itself which days"}},
		{"30 February", scheduled("rrule: FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"+nine, ""), []string{"5:15 invalid: this schedule never occurs | no date of the calendar fits it, such as 30 February"}},
		{"30 February of cron", scheduled(`cron: "0 9 30 2 *"`, ""), []string{"5:15 invalid: this schedule never occurs | no date of the calendar fits it, such as 30 February"}},
		{"until before from", scheduled("every: 1d, from: 2026-05-01, until: 2026-05-01"+nine, ""), []string{"5:52 invalid: this schedule never occurs: it ends at the beginning of 2026-05-01, and begins on 2026-05-01 | until is the first day that no longer counts"}},
		{"until too soon", scheduled("every: 1w, days: [sun], from: 2026-05-11, until: 2026-05-13"+nine, ""), []string{"5:65 invalid: this schedule never occurs: it ends at the beginning of 2026-05-13 | until is the first day that no longer counts: no day of the schedule comes before it"}},
		{"until long ago", scheduled("every: 1d, until: 2001-01-01"+nine, ""), []string{"5:34 invalid: this schedule never occurs: it ends at the beginning of 2001-01-01 | write a later until, or remove it"}},
		{"times from when", scheduled("every: 1d, times: 3"+nine, ""), []string{"5:34 missing: times are counted from the first day, and there is none | write from: the first day"}},
		{"twice bounded", scheduled("rrule: FREQ=DAILY;COUNT=2, from: 2026-05-01, times: 3"+nine, ""), []string{"5:68 invalid: the rule has a COUNT already | remove one of them"}},
		{"the zone of a contact", strings.Replace(scheduled("every: 1d, timezone: contact.timezone"+nine, ""), "type: report", "type: broadcast", 1), nil},
		{"a field of the contact", scheduled("every: 1d, timezone: contact.home"+nine, ""), []string{`5:37 not_supported_yet: "contact.home" is not supported yet | the zone of a contact is contact.timezone`}},
		{"two zones", scheduled("every: 1d, timezone: [UTC, Europe/Berlin]"+nine, ""), []string{"5:43 invalid: a schedule has one zone | write one, or [contact.timezone, Europe/Berlin]: the second one is for people without a zone"}},
		{"the contact last", scheduled("every: 1d, timezone: [UTC, contact]"+nine, ""), []string{"5:43 invalid: the zone of the contact stands first | [contact.timezone, Europe/Berlin]: the second one is for people without a zone"}},
		{"a report in many zones", scheduled("every: 1d, timezone: contact"+nine, ""), []string{"5:37 invalid: trigger t: a report is about one period, and so in one zone | write a zone, or another type such as broadcast"}},
		{"a zone", scheduled("every: 1d, timezone: Europe/Berln"+nine, ""), []string{`5:37 invalid: "Europe/Berln" is not a zone | use a name of the tz database, such as Europe/Berlin, or UTC`}},
		{"a random time", scheduled("every: 1d, at: random 09:00-10:00", ""), nil},
		{"a random time that is none", scheduled("every: 1d, at: random 9-10", ""), []string{`5:31 invalid: "9-10" is not a span of the day | a span of the day is written "22:00-07:00"; it may cross midnight`}},
		{"a date", scheduled("every: 1d, from: 2026-5-1"+nine, ""), []string{`5:33 invalid: "2026-5-1" is not a date | a date is written 2026-06-01`}},
		{"the end of no period", scheduled(`every: 1d, period_end: "08:00"`+nine, ""), []string{"5:39 invalid: there is no period that could end | write period: its length, such as 1w"}},
		{"a period that is not over", scheduled(`every: 1d, period: 1d, period_end: "10:00"`+nine, ""), []string{"5:51 invalid: the period ends at 10:00, after 09:00, when it is reported on | let it end no later than that"}},
		{"timing", scheduled("every: 1d"+nine, "timing: {anchor: now, at: \"10:00\", backlog: none}\n"), []string{
			"6:18 invalid: trigger t: anchor is not for a schedule | remove it: its days and times stand below schedule",
			"6:27 invalid: trigger t: at is not for a schedule | write it below schedule",
			`6:45 invalid: "none" is not a value of backlog | it is latest, first or all`,
		}},
		{"keys of records and events", strings.Replace(scheduled("every: 1d"+nine, ""), "    schedule", "    for: 5m\n    dedup: [id]\n    schedule", 1), []string{
			"5:10 invalid: trigger t: for is for triggers with records or events | remove it",
			"6:12 invalid: trigger t: dedup is for triggers with records or events | remove it",
		}},
		{"pin", scheduled("every: 1d"+nine, "pin: true\n"), []string{"4:5 invalid: trigger t: pin: true is for events: what a schedule makes follows its definition | remove pin"}},
		{"revalidate", scheduled("every: 1d"+nine, "limits: {revalidate: true}\n"), []string{"6:22 invalid: trigger t: a day of the calendar does not change, so there is nothing to evaluate again | revalidate is for triggers with a record"}},
		{"no event", strings.Replace(scheduled("every: 1d"+nine, ""), "everyone: true", "to: event.recipient", 1), []string{"7:9 expression: undefined name 'event' | in: event.recipient\nthe names here are now, vars, workspace"}},
		{"texts", strings.Replace(scheduled("every: 1d"+nine, ""), "Hello", `"{{ period.start }} {{ iteration }} {{ event.x }}"`, 1), []string{
			"11:15 template: there is no period here: the schedule has none",
			"11:34 template: there is no iteration here: the schedule has no from, the day from which they are counted",
			"11:50 template: there is no event here: the trigger has a schedule",
		}},
		{"backlog of an event", strings.Replace(scheduled("x", "timing: {backlog: all}\n"), "schedule: {x}", "event: e", 1), []string{"6:19 invalid: trigger t: backlog is for a schedule or a course | remove it"}},
		{"a period of an event", strings.NewReplacer("schedule: {x}", "event: e", "Hello", `"{{ period.end }}"`).Replace(scheduled("x", "")), []string{"11:15 template: there is no period here: the trigger has no schedule"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(tc.text)}}, loader.Options{})
			got := said(problems)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
