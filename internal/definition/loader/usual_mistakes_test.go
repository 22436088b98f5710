package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// What newcomers write is answered with its place and with what to write instead.
func TestUsualMistakes(t *testing.T) {
	t.Parallel()
	typed := "---\nrecord_type: kiosk\nfields: {name: text}\n"
	watching := func(when string) string {
		return strings.Replace(head, "triggers:\n", "triggers:\n  - {id: t, record: kiosk, when: "+when+"}\n", 1) + strings.Replace(tail, "to: event.recipient", "everyone: true", 1) + typed
	}
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"and", head + "  - id: t\n    event: e\n    when: event.a == 1 and event.b == 2\n" + tail, []string{`6:24 expression: and is no operator | write &&`}},
		{"or in a text is a text", head + "  - id: t\n    event: e\n    when: event.a == \"x or y\" OR event.b\n" + tail, []string{`6:31 expression: OR is no operator | write ||`}},
		{"curly quotes", head + "  - id: t\n    event: e\n    when: event.a == “x”\n" + tail, []string{"6:22 expression: “ is no quote that begins or ends a text | write straight quotes: \"text\""}},
		{"a priority that is none", strings.Replace(head+"  - {id: t, event: e, priority: high}\n"+tail, "channel: sms\nmessage", "priority: 1\nchannel: sms\nmessage", 1), []string{
			`4:33 invalid: "high" is not a value of priority | it is urgent, transactional, immediate or digest`,
			`7:11 invalid: "1" is not a value of priority | it is urgent, transactional, immediate or digest`,
		}},
		{"not", head + "  - id: t\n    event: e\n    when: not event.a\n" + tail, []string{`6:11 expression: not is no operator | write == false behind the value, or the whole line in quotes with ! before it`}},
		{"a field called not", head + "  - id: t\n    event: e\n    when: event.not = 1\n" + tail, []string{`6:21 expression: a single = compares nothing | write == to compare`}},
		{"not in", head + "  - id: t\n    event: e\n    when: event.a not in [1, 2]\n" + tail, []string{`6:19 expression: not in is no operator | write the whole line in quotes: "!(VALUE in [LIST])"`}},
		{"single curly quotes", head + "  - id: t\n    event: e\n    when: event.a == ‘x’\n" + tail, []string{"6:22 expression: ‘ is no quote that begins or ends a text | write straight quotes: \"text\""}},
		{"an apostrophe in a text is a text", head + "  - id: t\n    event: e\n    when: event.a == \"it’s not\"\n" + tail, nil},
		{"the owner in a form's condition", watching(`{field: record.owner, op: is, value: x}`), []string{`4:42 expression: an object is compared with a text | in: record.owner == "x"`}},
		{"a constant in a form's condition", head + "  - id: t\n    event: e\n    when: {field: vars.limt, op: is, value: 1}\n    \n" + strings.Replace(tail, "---", "vars: {limit: 1}\n---", 1), []string{`6:19 reference: workflow w has no constant "limt" | did you mean limit?`}},
		{"an address in to", head + "  - id: t\n    event: e\n" + strings.Replace(tail, "event.recipient", "ada@example.org", 1), []string{`7:9 invalid: ada@example.org is an address, and to is an expression | write address: '"ada@example.org"' with kind: email`}},
		{"a field almost called recipient", head + "  - id: t\n    event: e\n" + strings.Replace(tail, "event.recipient", "event.recipent", 1), []string{"warning 7:9 lint: event.recipent is a field of the payload | did you mean event.recipient?"}},
		{"an unknown channel", strings.Replace(head+"  - id: t\n    event: e\n"+tail, "channel: sms\nmessage", "channel: push:nobody\nmessage", 1), []string{
			"8:10 reference: no channel named \"push:nobody\" | define it with channel: push:nobody; one that is in force is found with --server", "10:3 missing: this message has no texts for push, by which it leaves | write push: below it",
		}},
		{"an unknown record type", strings.Replace(watching("record.name == 1"), "record: kiosk,", "record: kiosks,", 1), []string{`4:21 reference: no record type named "kiosks" | did you mean kiosk?`}},
		{"the owner of a record without one", watching(`record.owner == "x"`), []string{`4:47 expression: an object is compared with a text | in: record.owner == "x"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{yaml(tc.text)}, loader.Options{Whole: true})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// dated is a reminder by a date of a record, with its type and its channel.
const dated = `workflow: visit-reminder
type: reminder
triggers:
  - id: visit
    record: visit
    when: record.status == "open"
timing:
  anchor: record.visit_date
  offset: -2d
  at: "09:00"
audience:
  - to: record.payer
channel: sms
message:
  sms:
    text: "Visit on {{ record.visit_date | date }}."
---
record_type: visit
fields:
  visit_date: date
  seen_at: datetime
  status: text
  visits: number
  payer: contact
---
channel: sms
provider: memory
`

// changed is the reminder with another text in the place of one of its lines.
func changed(t *testing.T, from, to string) string {
	t.Helper()
	if strings.Count(dated, from) != 1 {
		t.Fatalf("%q stands %d times in the definition", from, strings.Count(dated, from))
	}
	return strings.Replace(dated, from, to, 1)
}

func checked(text string) []string {
	_, problems := loader.Load([]definition.File{yaml(text)}, loader.Options{Whole: true, Providers: []definition.ProviderInfo{{Name: "memory"}}})
	return said(problems)
}

// Where a --- is missing, that alone is said, at the line above which it is missing; both definitions are read.
func TestAForgottenSeparator(t *testing.T) {
	t.Parallel()
	forgotten := func(at string) string {
		return at + " syntax: this line begins another definition | write --- on a line of its own above it"
	}
	second := strings.Replace(head+"  - {id: t, event: e}\n"+tail, "workflow: w", "workflow: v", 1)
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing is missing", dated, nil},
		{"a record type", changed(t, "---\nrecord_type", "record_type"), []string{forgotten("17:1")}},
		{"a channel after a record type", changed(t, "---\nchannel", "channel"), []string{forgotten("25:1")}},
		{"both", strings.ReplaceAll(dated, "---\n", ""), []string{forgotten("17:1"), forgotten("24:1")}},
		{"a second workflow", dated + second, []string{forgotten("28:1"), "39:10 duplicate: channel sms:default is defined twice | the other one is at a.yaml:26"}},
		{"a channel after a workflow", strings.Replace(head+"  - {id: t, event: e}\n"+tail, "---\n", "", 1), []string{forgotten("11:1")}},
		{"a channel after a workflow without one", strings.Replace(strings.Replace(head+"  - {id: t, event: e}\n"+tail, "---\n", "", 1), "channel: sms\nmessage", "message", 1), []string{
			"1:1 missing: workflow w has no channel | write it like channel: inbox", forgotten("10:1"),
		}},
		{"two channels", "channel: sms\nprovider: memory\nchannel: inbox\nrate: 5/s\nprovider: memory\n", []string{forgotten("3:1")}},
		{"a channel after a sink", "sink: s\nprovider: file\nchannel: sms\nprovider: memory\n", []string{forgotten("3:1")}},
		{"a mistake behind it", changed(t, "---\nrecord_type: visit\nfields", "record_type: visit\nfeilds"), []string{forgotten("17:1"), `18:1 unknown_key: unknown key "feilds" | did you mean fields?`}},
		{"a key twice is no definition", changed(t, "channel: sms\nmessage", "channel: sms\nchannel: sms\nmessage"), []string{`14:1 syntax: duplicate key "channel" | it stands in line 13 already`}},
		{"a template is no definition", changed(t, "message:\n  sms:\n    text: \"Visit on {{ record.visit_date | date }}.\"\n", "template: x\nmessage: {sms: {text: x}}\n"), []string{`14:1 unknown_key: unknown key "template" | write it below message`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, checked(tc.text)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// One mistake is one error: what only follows from it is left out.
func TestNothingFollowsFromAMistake(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, from, to, want string }{
		{"an unknown key of a workflow", "audience:", "wherefore:", `11:1 unknown_key: unknown key "wherefore" | the keys here are workflow, type, description, enabled, ext_id, locale, vars, triggers, timing, audience, channel, fallback, message, resolved, limits, sinks, retry, pin, priority and digest`},
		{"another word for a key", "audience:", "recipients:", `11:1 unknown_key: unknown key "recipients" | did you mean audience?`},
		{"triggers misspelt", "triggers:", "trigers:", `3:1 unknown_key: unknown key "trigers" | did you mean triggers?`},
		{"triggers without a colon", "triggers:", "triggers", "3:1 syntax: a key and a colon are missing here | write KEY: VALUE, with a space after the colon"},
		{"record misspelt", "    record:", "    recrod:", `5:5 unknown_key: unknown key "recrod" | did you mean record?`},
		{"record unknown", "    record:", "    subject:", `5:5 unknown_key: unknown key "subject" | the keys here are id, enabled, description, event, record, schedule, when, issues, for, check, cooldown, metric, fire, reconcile, dedup, dedup_scope, dedup_missing, timing, audience, channel, fallback, message, resolved, limits and priority`},
		{"record without a colon", "record: visit\n    when", "record visit\n    when", "5:5 syntax: a key and a colon are missing here | write KEY: VALUE, with a space after the colon"},
		{"record without a blank", "record: visit\n    when", "record:visit\n    when", "5:5 syntax: a blank is missing after the colon | write record: visit"},
		{"a trigger with neither", "    record: visit\n", "", "4:5 missing: trigger visit has neither event nor record nor schedule | event: the kind of event that makes an occasion, record: the type of records to evaluate, or schedule: when it recurs"},
		{"a trigger that is a text", "  - id: visit\n    record: visit\n    when: record.status == \"open\"\n", "  - visit\n", `4:5 invalid: this must be a trigger with its keys, and is a text | its keys are id, enabled, description, event, record, schedule, when, issues, for, check, cooldown, metric, fire, reconcile, dedup, dedup_scope, dedup_missing, timing, audience, channel, fallback, message, resolved, limits and priority`},
		{"the type of a field", "visit_date: date", "visit_date: day", `20:15 invalid: "day" is not the type of a field | it is text, number, bool, date, datetime, time, contact, place, list, object or record(TYPE)`},
		{"a field that cannot be read", "  visit_date: date", "  visit_date", "20:3 syntax: a key and a colon are missing here | write KEY: VALUE, with a space after the colon"},
		{"fields misspelt", "fields:", "field:", `19:1 unknown_key: unknown key "field" | did you mean fields?`},
		{"a channel without its name", "---\nchannel: sms", "---\nchannel:", `26:1 syntax: "channel" has no value | write a value, or remove the line`},
		{"a kind misspelt", "---\nchannel: sms", "---\nchanel: sms", `26:1 unknown_key: unknown kind "chanel" | did you mean channel?`},
		{"a kind in capitals", "---\nrecord_type", "---\nRecord_Type", `18:1 unknown_key: unknown kind "Record_Type" | did you mean record_type?`},
		{"a date that cannot be read", "anchor: record.visit_date", "anchor: record.visit_date ==", "8:31 expression: this expression ends too early | in: record.visit_date =="},
		{"a date that does not exist", "\n  anchor: record.visit_date", "\n  anchor: record.visits", "8:18 invalid: record.visits is no date: its type is number | the dates of visit are record.seen_at, record.visit_date, record.created_at and record.updated_at"},
		{"a key of a channel", "provider: memory", "provider memory", "27:1 syntax: a key and a colon are missing here | write KEY: VALUE, with a space after the colon"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(changed(t, tc.from, tc.to), "| date }}.", "| date }}, in {{ days_left }}.", 1)
			if diff := cmp.Diff([]string{tc.want}, checked(text)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A place without its area, an abbreviation and an offset are no zones, wherever a zone stands.
func TestZonesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, from, to, want string }{
		{"a city by a date", "  at:", "  timezone: Berlin\n  at:", `10:13 invalid: "Berlin" is not a zone | did you mean Europe/Berlin?`},
		{"a city of two words", "  at:", "  timezone: New York\n  at:", `10:13 invalid: "New York" is not a zone | did you mean America/New_York?`},
		{"in a list", "  at:", "  timezone: [record.status, berlin]\n  at:", `10:29 invalid: "berlin" is not a zone | did you mean Europe/Berlin?`},
		{"small letters", "  at:", "  timezone: europe/berlin\n  at:", `10:13 invalid: "europe/berlin" is not a zone | did you mean Europe/Berlin?`},
		{"an abbreviation", "  at:", "  timezone: PST\n  at:", `10:13 invalid: "PST" is not a zone | an abbreviation does not say when clocks change: write the zone of a place, such as America/Los_Angeles`},
		{"an abbreviation that is a zone", "  at:", "  timezone: CET\n  at:", `warning 10:13 lint: CET is an abbreviation, and some of these never change their clocks | write the zone of a place, such as Europe/Berlin`},
		{"an offset", "  at:", "  timezone: UTC+2\n  at:", `10:13 invalid: "UTC+2" is not a zone | an offset does not say when clocks change: write the zone of a place, such as Europe/Berlin`},
		{"of a workspace", "---\nchannel: sms", "---\nworkspace: default\ntimezone: Berlin\n---\nchannel: sms", `27:11 invalid: "Berlin" is not a zone | did you mean Europe/Berlin?`},
		{
			"of a calendar", "---\nchannel: sms", strings.Replace("---\n"+head+"  - {id: t, schedule: {every: 1d, at: \"09:00\", timezone: EST}}\n"+tail, "to: event.recipient", "everyone: true", 1) + "---\nchannel: sms:two",
			`warning 29:58 lint: EST is an abbreviation, and some of these never change their clocks | write the zone of a place, such as America/New_York`,
		},
		{"a name that is none", "  at:", "  timezone: visits\n  at:", `10:13 invalid: "visits" is not a zone | use a name of the tz database, such as Europe/Berlin, or UTC`},
		{"an expression", "  at:", "  timezone: recrod.zone\n  at:", "10:13 expression: undefined name 'recrod' | did you mean record?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]string{tc.want}, checked(changed(t, tc.from, tc.to))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A date is a field of the record that is one.
func TestAnchorsThatAreNoDates(t *testing.T) {
	t.Parallel()
	const dates = "the dates of visit are record.seen_at, record.visit_date, record.created_at and record.updated_at"
	for _, tc := range []struct{ anchor, want string }{
		{"record.visit_date", ""},
		{"record.seen_at", ""},
		{"record.created_at", ""},
		{"record.centre.opened", ""},
		{"record.closed_at", `8:18 invalid: records of type visit have no field "closed_at" | ` + dates},
		{"record.status", "8:18 invalid: record.status is no date: its type is text | declare status as date if it holds one\n" + dates},
		{"record.visits", "8:18 invalid: record.visits is no date: its type is number | " + dates},
		{"record.payer", "8:18 invalid: record.payer is no date: its type is contact | " + dates},
		{"record.closed", "8:18 invalid: record.closed is no date | " + dates},
		{"record", "8:11 invalid: a record is no date | " + dates},
		{"record.centre.name", "8:25 invalid: record.centre.name is no date: its type is text | declare name as date if it holds one\nthe dates of centre are record.centre.opened, record.centre.created_at and record.centre.updated_at"},
		{"record.visit_dat", `8:18 invalid: records of type visit have no field "visit_dat" | did you mean visit_date?` + "\n" + dates},
		{"visit_date", "8:11 expression: undefined name 'visit_date' | a field of the record is record.visit_date; a text stands in quotes, \"visit_date\""},
		{"2026-13-01", `8:11 invalid: 2026-13-01 does not exist | months are 01 to 12`},
	} {
		t.Run(tc.anchor, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(changed(t, "anchor: record.visit_date", "anchor: "+tc.anchor), "payer: contact\n", "payer: contact\n  centre: record(centre)\n---\nrecord_type: centre\nfields: {name: text, opened: date}\n", 1)
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			if diff := cmp.Diff(want, checked(text)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
