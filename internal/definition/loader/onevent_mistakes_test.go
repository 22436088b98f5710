package loader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/schedule"
)

// onEvent is a workflow whose trigger on events has a timing, in line 4.
func onEvent(timing, audience, text string) string {
	return "workflow: w\ntype: custom\ntriggers: [{id: t, event: e}]\ntiming: {" + timing + "}\naudience: " + audience +
		"\nchannel: sms\nmessage: {sms: {text: \"" + text + "\"}}\n---\nchannel: sms\nprovider: memory\n---\npersona: Member\n"
}

// TestMistakesOfCoursesAfterEvents shows what is said of a course after an event that cannot be meant.
func TestMistakesOfCoursesAfterEvents(t *testing.T) {
	t.Parallel()
	const recipient = "{to: event.recipient}"
	for _, tc := range []struct {
		name, timing, audience, text string
		want                         []string
	}{
		{"a sequence", `timezone: [event.zone, Europe/Berlin], sequence: [{after: 0m}, {day: 3, at: "09:00"}, {after: 2h}, {day: 7, at: event.clock}], backlog: all`, recipient, "{{ iteration }} {{ event.x }}", nil},
		{"rounds", `anchor: now, first: whole, at: "09:00", start_on: mon, repeat: {every: 1mo, days: [1, -1], until: event.ends}, missing_day: skip`, recipient, "x", nil},
		{"a time of day", `at: "09:00"`, recipient, "x", nil},
		{"a random one", `at: random 09:00-11:00, dst: {gap: skip}, timezone: contact.timezone, offset: 1d`, recipient, "x", nil},
		{"a date of the payload", "anchor: event.born_on, offset: -2d, timezone: UTC", recipient, "x", nil},
		{"the moment as it is written by default", `anchor: event.occurred_at, first: next, at: "09:00"`, recipient, "x", nil},

		{"what follows changes", "stop_when: event.a == 1, follow_zone: false, sequence: [{day: 0}, {day: 1}], reset_on: event.a", recipient, "x", []string{
			"4:21 invalid: stop_when is for a record or a schedule: an event does not change afterwards | keep what changes in a record, with a course of its own",
			"4:48 invalid: follow_zone is for a record: each message after an event is planned once | remove it",
			"4:97 invalid: reset_on is for a record: an event begins one course | an event with another id, or other values of dedup, begins another course",
		}},
		{"late joiners", "late_joiner: fresh, sequence: [{day: 0}]", recipient, "x", []string{
			"4:23 invalid: late_joiner is for a course of a record | remove it: each message after an event goes to the people who are in its audience when it is due",
		}},
		{"several offsets", "offset: [1d, 2d]", recipient, "x", []string{"4:23 invalid: an event has one offset | write a sequence, with day or after for each message"}},
		{"several offsets of a course", "sequence: [{day: 0}], offset: [1d, 2d]", recipient, "x", []string{"4:45 invalid: an event has one offset | write a sequence, with day or after for each message"}},
		{"before the event", `at: "09:00", offset: -1d`, recipient, "x", []string{"4:31 invalid: nothing can leave before the event | write an offset such as 10m, or an anchor: a date of the payload"}},
		{"hours before a time of day", `at: "09:00", offset: 2h`, recipient, "x", []string{"4:31 invalid: trigger t: an offset with hours or minutes is for messages without a time of day | write it in days, or as after of the first entry of a sequence"}},
		{"a zone without a time of day", "timezone: UTC", recipient, "x", []string{`4:20 invalid: trigger t: timezone is for a time of day, and its messages count from the moment | write at: "09:00", or remove it`}},
		{"a rule of clocks without a time of day", "sequence: [{after: 1h}], dst: {gap: skip}", recipient, "x", []string{`4:40 invalid: trigger t: dst is for a time of day, and its messages count from the moment | write at: "09:00", or remove it`}},
		{"a zone that does not exist", `at: "09:00", timezone: Europe/Berln`, recipient, "x", []string{`4:33 invalid: "Europe/Berln" is not a zone | use a name of the tz database, such as Europe/Berlin, or UTC`}},
		{"the zone of one of many", `at: "09:00", timezone: contact.timezone`, "{persona: Member}", "x", []string{
			"4:33 invalid: trigger t: contact.timezone is that of the event's recipient, and its messages go to others too | write a zone, or a trigger for each audience",
		}},
		{"the zone of one of many, later", `at: "09:00", timezone: contact.timezone, sequence: [{day: 0}, {day: 1, audience: {persona: Member}}]`, recipient, "x", []string{
			"4:33 invalid: trigger t: contact.timezone is that of the event's recipient, and its messages go to others too | write a zone, or a trigger for each audience",
		}},
		{"another field of the contact", `at: "09:00", timezone: contact.zone`, recipient, "x", []string{`4:33 not_supported_yet: "contact.zone" is not supported yet | the zone of a contact is contact.timezone`}},
		{"by time", `at: "now.clock"`, recipient, "x", []string{"4:15 expression: there is no now here | in: now.clock"}},
		{"whole without a time of day", "first: whole", recipient, "x", []string{`4:17 invalid: trigger t: first: whole is for messages with a time of day | write at: "09:00", or remove it: the course begins at once`}},
		{"the first of a date", "anchor: event.d, first: next", recipient, "x", []string{"4:34 invalid: trigger t: first is for a course that begins at the moment of its event | remove it: this course begins by its date"}},
		{"a backlog of one message", `at: "09:00", backlog: all`, recipient, "x", []string{"4:32 invalid: trigger t: backlog is for a schedule or a course | remove it"}},
		{"a missing day without months", `at: "09:00", missing_day: last`, recipient, "x", []string{"4:36 invalid: missing_day is for a course in rounds of months: a day that a month does not have | remove it"}},
		{"a missing day of nothing", "missing_day: last", recipient, "x", []string{"4:23 invalid: missing_day is for a course in rounds of months: a day that a month does not have | remove it"}},
		{"out of order", "sequence: [{day: 2}, {day: 1}]", recipient, "x", []string{
			"4:31 invalid: it is never due after the message before it | write messages in the order in which they are due; random times must not overlap",
		}},
		{"a day that never comes", "anchor: 2026-05-14, repeat: {every: 1d, until: 2026-05-01}", recipient, "x", []string{
			"4:57 invalid: this course never occurs: it ends at the beginning of 2026-05-01 | until is the first day that no longer counts",
		}},
		{"a count without a course", "offset: 1d", recipient, "{{ iteration }}", []string{"7:27 template: there is no iteration here: the trigger has neither a schedule nor a course"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(onEvent(tc.timing, tc.audience, tc.text))}}, loader.Options{})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCoursesAfterEvents shows what a timing after an event means.
func TestCoursesAfterEvents(t *testing.T) {
	t.Parallel()
	nine := definition.At{Given: true, Time: 9 * 3600}
	one := func() *definition.Course {
		return &definition.Course{Messages: []definition.CourseMessage{{}}, Backlog: schedule.BacklogLatest, MissingDay: civil.MissingDayLast}
	}
	sequence := one()
	sequence.Messages = []definition.CourseMessage{{}, {Day: 3, At: nine}}
	none := []civil.Duration{{}}
	compiler, err := expr.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	ofPayload, err := compiler.Compile("event.zone", expr.Scope{Event: true}, expr.Any)
	if err != nil {
		t.Fatal(err)
	}
	for timing, want := range map[string]definition.Timetable{
		"offset: 1d":               {},
		"anchor: event.d":          {},
		`at: "09:00"`:              {Course: one(), Dates: definition.Dates{At: nine, Offsets: none}},
		`at: "09:00", offset: 15d`: {Course: one(), Dates: definition.Dates{At: nine, Offsets: []civil.Duration{{Days: 15}}}},
		`timezone: [contact.timezone, event.zone, UTC], sequence: [{after: 0m}, {day: 3, at: "09:00"}]`: {Course: sequence, Dates: definition.Dates{
			Offsets: none, ByContact: true, Zones: []definition.Zone{{From: ofPayload}, {Name: "UTC"}},
		}},
		`anchor: event.d, dst: {gap: skip, overlap: second}`: {Course: one(), Dates: definition.Dates{Offsets: none, Rule: civil.Rule{Gap: civil.GapSkip, Overlap: civil.OverlapSecond}}},
	} {
		trigger := bundleOf(t, yaml(onEvent(timing, "{to: event.recipient}", "x"))).Set.Workflow("w").Trigger[0]
		if diff := cmp.Diff(want, *trigger.Timetable(), bySource()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", timing, diff)
		}
		if moved := want.Course != nil && trigger.Timing.NotBefore(time.Time{}) != (time.Time{}); moved || (trigger.Course() == nil) != (want.Course == nil) {
			t.Errorf("%s: the offset counts twice", timing)
		}
		if n := len(trigger.Forms()); n != max(1, strings.Count(timing, "{after")+strings.Count(timing, "{day")) {
			t.Errorf("%s: %d messages", timing, n)
		}
	}
}
