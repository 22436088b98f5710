package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

// inBerlin is an occurrence in Berlin, at a local time with its offset.
func inBerlin(trigger, local string, o client.Occurrence) client.Occurrence {
	at, err := time.Parse(time.RFC3339, local)
	if err != nil {
		panic(err)
	}
	if o.Trigger, o.At, o.Local, o.Timezone, o.Abbreviation = trigger, at.UTC(), local, "Europe/Berlin", "CEST"; strings.HasSuffix(local, "+01:00") {
		o.Abbreviation = "CET"
	}
	if o.Status == "" {
		o.Status = "planned"
	}
	return o
}

func instantOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}

// What a preview prints: in 80 columns, in the order of what is to come.
//
// Shows: D21, B34.
func TestPreviewText(t *testing.T) {
	t.Parallel()
	back := &client.ClockChange{At: instantOf("2026-10-25T01:00:00Z"), Date: "2026-10-25", Direction: "back", Minutes: 60}
	for name, c := range map[string]struct {
		preview client.Preview
		want    string
	}{
		"a schedule for a contact": {
			client.Preview{
				Workflow: "weekly-health-tip", Contact: "berta", Timezone: "Europe/Berlin", Channels: []string{"sms:default"}, Enabled: true,
				Upcoming: []client.Occurrence{
					inBerlin("weekly", "2026-10-26T10:00:00+01:00", client.Occurrence{Iteration: 3, ClockChange: back}),
					inBerlin("weekly", "2026-10-29T10:00:00+01:00", client.Occurrence{Iteration: 4}),
					inBerlin("weekly", "2026-11-02T10:00:00+01:00", client.Occurrence{Iteration: 5}),
					inBerlin("weekly", "2026-11-05T10:00:00+01:00", client.Occurrence{Iteration: 6}),
				},
				Triggers: []client.PreviewTrigger{{Trigger: "weekly", Kind: "schedule", ByContact: true, More: 6, LastAt: instantOf("2026-11-26T09:00:00Z"), Ends: "times", Times: 12}},
			}, `
weekly-health-tip to berta, Europe/Berlin, by sms

   3  Mon 2026-10-26 10:00 CET    09:00 UTC   clocks went back on 25 Oct
   4  Thu 2026-10-29 10:00 CET    09:00 UTC
   5  Mon 2026-11-02 10:00 CET    09:00 UTC
   6  Thu 2026-11-05 10:00 CET    09:00 UTC
      6 more, the last Thu 2026-11-26. Each is decided again when due.
`,
		},
		"dates of a record, and what waits": {
			client.Preview{
				Workflow: "visit-reminder", Record: "visit/17", Timezone: "Europe/Berlin", Channels: []string{"email:default", "sms:twilio"}, Enabled: true,
				PausedAt: instantOf("2026-10-20T08:00:00Z"),
				Upcoming: []client.Occurrence{
					inBerlin("due", "2026-10-24T00:30:00+02:00", client.Occurrence{Offset: "-2d", Status: "held", Reason: "input_conflict"}),
					inBerlin("due", "2026-10-25T09:00:30+01:00", client.Occurrence{Offset: "-1d", Status: "delayed", Reason: "audience_failed", DueAt: instantOf("2026-10-25T07:00:00Z"), ClockChange: back}),
					inBerlin("due", "2026-10-26T09:00:00+01:00", client.Occurrence{Offset: "0d", Status: "waiting"}),
				},
				Triggers: []client.PreviewTrigger{{Trigger: "due", Kind: "record", Ends: "dates", LeftOut: 1, LeftOutReason: "stale", LastAt: instantOf("2026-10-26T08:00:00Z")}},
			}, `
visit-reminder of visit/17, Europe/Berlin, by email, sms:twilio
! paused since 2026-10-20 08:00 UTC: nothing leaves until carillon workflows
  resume visit-reminder

 -2d  Sat 2026-10-24 00:30 CEST      Fri 22:30 UTC   held: input_conflict
 -1d  Sun 2026-10-25 09:00:30 CET     08:00:30 UTC
      tried again: audience_failed; due 2026-10-25 07:00 UTC; clocks went back
      on 25 Oct
  0d  Mon 2026-10-26 09:00 CET           08:00 UTC
      ends: the record has no further date. Each is decided again when due.
        left out: 1, stale
`,
		},
		"a course among several triggers": {
			client.Preview{
				Workflow: "pregnancy", Record: "patient/1", Enabled: true, Channels: []string{"inbox:default"},
				Upcoming: []client.Occurrence{
					inBerlin("weekly", "2026-11-02T10:00:00+01:00", client.Occurrence{Iteration: 3, RoundMessage: 1, RoundMessages: 2, Status: "overdue"}),
					{Trigger: "welcome", At: instantOf("2026-11-02T12:00:00Z"), Local: "2026-11-02T12:00:00Z", Timezone: "UTC", Abbreviation: "UTC", Status: "planned"},
					inBerlin("weekly", "2026-11-04T10:00:00+01:00", client.Occurrence{Iteration: 3, RoundMessage: 2, RoundMessages: 2}),
				},
				Triggers: []client.PreviewTrigger{
					{Trigger: "weekly", Kind: "record", Endless: true},
					{Trigger: "welcome", Kind: "record", Ends: "sequence"},
					{Trigger: "alarm", Kind: "record", Reason: "condition_false", Message: "The trigger's condition was false.", Field: "record.pressure > 140", Waits: "record.pressure > 140"},
					{Trigger: "monthly", Kind: "schedule"},
					{Trigger: "birth", Kind: "event", Event: "birth"},
				},
			}, `
pregnancy of patient/1, by inbox

   3  weekly   Mon 2026-11-02 10:00 CET  Europe/Berlin    09:00 UTC
      round 3, message 1 of 2; overdue, taken up next
      welcome  Mon 2026-11-02 12:00 UTC  UTC              12:00 UTC
   3  weekly   Wed 2026-11-04 10:00 CET  Europe/Berlin    09:00 UTC
      round 3, message 2 of 2
      weekly: more follow, without a known end
      welcome: ends: each message is due once
      alarm: nothing to come: condition_false
        record.pressure > 140
        The trigger's condition was false.
      monthly: has a schedule: ask for it without --record
      birth: listens to events of kind birth: see with --event birth what one
      would begin
      Each is decided again when due.
`,
		},
		"a schedule without a first day": {
			client.Preview{
				Workflow: "tip", Timezone: "UTC", Enabled: true,
				Upcoming: []client.Occurrence{{Trigger: "daily", At: instantOf("2026-11-02T12:00:00Z"), Local: "2026-11-02T12:00:00Z", Timezone: "UTC", Abbreviation: "UTC", Offset: "0d", Status: "planned"}},
				Triggers: []client.PreviewTrigger{{Trigger: "daily", Kind: "schedule", Endless: true}},
			}, `
tip, UTC

      Mon 2026-11-02 12:00 UTC
      more follow, without a known end. Each is decided again when due.
`,
		},
		"courses of single people": {
			client.Preview{
				Workflow: "days", Record: "household/1", Timezone: "UTC", Enabled: true,
				Upcoming: []client.Occurrence{{Trigger: "daily", At: instantOf("2026-11-02T12:00:00Z"), Local: "2026-11-02T12:00:00Z", Timezone: "UTC", Abbreviation: "UTC", Iteration: 2, RoundMessage: 1, RoundMessages: 1, Person: "ada", Status: "waiting"}},
				Triggers: []client.PreviewTrigger{{Trigger: "daily", Kind: "record", Ends: "times", Times: 3}},
			}, `
days of household/1, UTC

   2  Mon 2026-11-02 12:00 UTC   round 2; the own course of ada
      ends: times: 3 reached; of each person's own course only the next message
      is listed. Each is decided again when due.
`,
		},
		"a series that an event would begin": {
			client.Preview{
				Workflow: "welcome", Contact: "berta", Event: "member-registered", Timezone: "Europe/Berlin", Channels: []string{"inbox:default"}, Enabled: true,
				Upcoming: []client.Occurrence{
					inBerlin("registered", "2026-10-21T15:20:00+02:00", client.Occurrence{Iteration: 1, RoundMessage: 1, RoundMessages: 3, Status: "assumed"}),
					inBerlin("registered", "2026-10-24T09:00:00+02:00", client.Occurrence{Iteration: 1, RoundMessage: 2, RoundMessages: 3, Status: "assumed"}),
					inBerlin("registered", "2026-10-28T09:00:00+01:00", client.Occurrence{Iteration: 1, RoundMessage: 3, RoundMessages: 3, Status: "assumed", ClockChange: back}),
				},
				Triggers: []client.PreviewTrigger{{Trigger: "registered", Kind: "event", Event: "member-registered", Ends: "sequence"}},
			}, `
welcome to berta, if a member-registered event came now, Europe/Berlin, by inbox

   1  Wed 2026-10-21 15:20 CEST    13:20 UTC   round 1, message 1 of 3
   1  Sat 2026-10-24 09:00 CEST    07:00 UTC   round 1, message 2 of 3
   1  Wed 2026-10-28 09:00 CET     08:00 UTC
      round 1, message 3 of 3; clocks went back on 25 Oct
      ends: each message is due once. Each is decided again when due.
`,
		},
		"what waits after events": {
			client.Preview{
				Workflow: "welcome", Timezone: "Europe/Berlin", Channels: []string{"inbox:default"}, Enabled: true,
				Upcoming: []client.Occurrence{
					inBerlin("registered", "2026-10-24T09:00:00+02:00", client.Occurrence{Iteration: 1, RoundMessage: 2, RoundMessages: 3, Status: "waiting", Contact: "berta", Event: "ev_1"}),
				},
				Triggers: []client.PreviewTrigger{{Trigger: "registered", Kind: "event", Event: "member-registered"}},
			}, `
welcome, Europe/Berlin, by inbox

   1  Sat 2026-10-24 09:00 CEST    07:00 UTC
      round 1, message 2 of 3; after an event of berta
      listens to events of kind member-registered: see with --event
      member-registered what one would begin. Each is decided again when due.
`,
		},
		"a contact who gets nothing": {
			client.Preview{
				Workflow: "welcome", Contact: "ann", Channels: []string{"email:default"}, Suppressed: true, Outside: true, Enabled: false,
				Triggers: []client.PreviewTrigger{{Trigger: "t", Kind: "event", Event: "signed-up", Reason: "workflow_inactive"}},
				Waiting: []client.Delivery{
					{ID: "d_1", Channel: "email:default"}, {ID: "d_2", Channel: "email:default", SendAt: instantOf("2026-11-02T08:00:00Z"), DeferredBy: "quiet_hours"},
				},
			}, `
welcome to ann, by email
! it is switched off: its definition says enabled: false
! suppressed: yes; ann gets no messages
! ann is not in its audience now

      nothing to come: workflow_inactive

made already, and waiting to leave
      no instant   email   d_1
      Mon 2026-11-02 08:00 UTC   email   quiet_hours   d_2
`,
		},
	} {
		got := previewLines(c.preview)
		if diff := cmp.Diff(strings.Split(strings.Trim(c.want, "\n"), "\n"), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s\n%s", name, diff, strings.Join(got, "\n"))
		}
		for _, line := range got {
			if utf8.RuneCountInString(line) > previewWidth {
				t.Errorf("%s: wider than %d columns: %s", name, previewWidth, line)
			}
		}
	}
}
