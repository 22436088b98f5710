package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

const kioskType = "---\nrecord_type: kiosk\nfields: {battery: number, name: text}\n"

// TestMistakesOnRecords shows what is said of triggers on records. The lines of the trigger begin in line 6.
func TestMistakesOnRecords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"sound", onRecord("    issues: {LOW: record.battery < 20}\n") + kioskType, nil},
		{"neither when nor issues", onRecord("    cooldown: {length: 1h}\n"), []string{"4:5 missing: trigger t has neither when nor issues | when: record.battery_level < 20"}},
		{"when and issues", onRecord("    when: record.a == 1\n    issues: {A: record.a == 1}\n"), []string{"6:11 invalid: trigger t: when and issues exclude each other | write what must hold for all of them into each issue"}},
		{"name of the type", strings.Replace(onRecord("    issues: {A: record.a == 1}\n"), "record: kiosk", "record: a kiosk", 1), []string{`5:13 invalid: "a kiosk" is not a name: letters, digits, - _ and . only | write a-kiosk`}},
		{"dedup", onRecord("    issues: {A: record.a == 1}\n    dedup: [id]\n    dedup_scope: workspace\n"), []string{
			"7:12 invalid: trigger t: dedup is for triggers with an event | remove it", "8:18 invalid: trigger t: dedup_scope is for triggers with an event | remove it",
		}},
		{"issues", onRecord("    issues:\n      A,B: record.a == 1\n      \"C:D\": record.a == 1\n      E: record.batery < 20\n") + kioskType, []string{
			`7:7 invalid: "A,B" is not the name of an issue | a name has letters, digits, - _ and dots, such as LOW_BATTERY`,
			`8:7 invalid: "C:D" is not the name of an issue | a name has letters, digits, - _ and dots, such as LOW_BATTERY`,
			"9:16 expression: undefined field 'batery' | in: record.batery < 20\ndid you mean battery?",
		}},
		{"no issues", onRecord("    issues: {}\n"), []string{"6:13 invalid: this map is empty | write a value, or remove the line"}},
		{"issues in a list", onRecord("    issues: [record.a == 1]\n"), []string{"6:13 invalid: this must be a map from an issue to its value, and is a list | write NAME: VALUE, without dashes and brackets"}},
		{"an event's names", onRecord("    issues: {A: event.a == 1, B: contact.id == record.id}\n"), []string{
			"6:17 expression: undefined name 'event' | in: event.a == 1\nthe names here are now, record, vars, workspace", "6:34 expression: undefined name 'contact' | in: contact.id == record.id\nthe names here are now, record, vars, workspace",
		}},
		{"for", onRecord("    issues: {A: record.a == 1}\n    for: 5\n"), []string{`7:10 invalid: "5" is not a duration | a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`}},
		{"check", onRecord("    issues: {A: record.a == 1}\n    check: [5m, change, 1h, change, 2d, soon]\n"), []string{
			"7:25 invalid: a trigger has one interval | keep one of them", `7:29 invalid: "change" is listed twice`,
			"7:37 invalid: a trigger has one interval | keep one of them",
			`7:41 invalid: "soon" is not a duration | write change, or an interval such as 5m`,
		}},
		{"time in a shape of its own", onRecord("    issues:\n      A: [record.a == 1, days_since(record.b) % 7 == 0]\n      B: age(record.b) > days(1)\n"), []string{
			"7:10 invalid: it cannot be computed when time alone changes this: days_since(record.b) % 7 == 0 | write check: [change, 5m], so that it is also evaluated every 5 minutes",
		}},
		{"time in a shape of its own, evaluated at intervals", onRecord("    when: days_since(record.b) % 7 == 0\n    cooldown: {length: 1d}\n    check: [change, 5m]\n"), nil},
		{"check never", onRecord("    issues: {A: record.a == 1}\n    check: []\n"), []string{"7:12 invalid: this trigger is never evaluated | write change, an interval such as 5m, or both"}},
		{"check rarely", onRecord("    issues: {A: record.a == 1}\n    check: 2d\n"), []string{"7:12 invalid: an interval is at most 24h"}},
		{"cooldown", onRecord("    issues: {LOW: record.a == 1}\n    cooldown:\n      length: long\n      per: [record.id, now, isues]\n      issues: {LOWW: 5m, OTHER: 1h, LOW: -5m}\n"), []string{
			`8:15 invalid: "long" is not a duration | write a duration such as 2h, or persona: the shortest of the audience's personas`,
			"9:24 expression: there is no now here | in: now", "9:29 expression: undefined name 'isues' | did you mean issues?",
			`10:16 reference: trigger t has no issue "LOWW" | did you mean LOW?`, `10:26 reference: trigger t has no issue "OTHER" | issues are written below issues: of the trigger`,
			`10:42 invalid: "-5m" is not a duration | a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`,
		}},
		{"issues of a cooldown with when", onRecord("    when: record.a == 1\n    cooldown: {per: [issues], issues: {A: 1h}}\n"), []string{
			"7:22 expression: undefined name 'issues' | in: issues\nthe names here are record, vars, workspace", `7:40 reference: trigger t has no issue "A" | issues are written below issues: of the trigger`,
		}},
		{"a reset that others share", onRecord("    issues: {A: record.a == 1}\n    cooldown: {per: [issues], reset_on_clear: true}\n"), []string{
			"7:47 invalid: several records may share this cooldown: one that is well again would end it for those that are not | add record.id to per, or remove it",
		}},
		{"a reset of a record", onRecord("    issues: {A: record.a == 1}\n    cooldown: {per: [record.id], reset_on_clear: true}\n"), nil},
		{"keys of records with an event", head + "  - id: t\n    event: e\n    for: 5m\n    check: 5m\n    cooldown: {length: 1h}\n    issues: {A: event.a == 1}\n    resolved: {sms: {text: x}}\n" + tail, []string{
			"6:10 invalid: trigger t: for is for triggers with a record | remove it", "7:12 invalid: trigger t: check is for triggers with a record | remove it",
			"8:15 invalid: trigger t: cooldown is for triggers with a record | remove it", "9:13 invalid: trigger t: issues is for triggers with a record | remove it",
			"10:15 invalid: trigger t: resolved is for triggers with a record | remove it",
		}},
		{"the engine's own events", head + "  - {id: t, event: condition.met}\n" + tail, []string{`4:20 not_supported_yet: "condition.met" is not supported yet | this product does not emit events of its own yet`}},
		{"resolved of a workflow of events", head + "  - {id: t, event: e}\nresolved: {sms: {text: x}}\n" + tail, []string{"5:11 invalid: workflow w: resolved is for triggers on records with issues or a cooldown | remove it: an event is never over, and a reminder is withdrawn where it no longer holds"}},
		{"revalidate with an event", head + "  - {id: t, event: e}\nlimits: {revalidate: true}\n" + tail, []string{"5:22 invalid: trigger t: an event does not change, so there is nothing to evaluate again | revalidate is for triggers with a record"}},
		{"limits by kind of channel", "persona: P\ncadence:\n  channels:\n    emial: {max_per_day: 1}\n    pigeon: {max_per_day: 2}\n    parrot: {max_per_day: 3}\n    sms: {max_per_day: 4}\n---\nchannel: parrot:grey\nprovider: memory\n" +
			"---\nworkspace: default\ncadence: {channels: {smss: {cooldown: 1h}}}\n", []string{
			`4:5 reference: there are no channels of kind "emial" | did you mean email?`,
			`5:5 reference: there are no channels of kind "pigeon" | kinds are email, sms, whatsapp, push, inbox, webhook and parrot, and those of your own: channel: pigeon`,
			`13:22 reference: there are no channels of kind "smss" | did you mean sms?`,
		}},
		{"nothing to fall back to", head + "  - {id: t, event: e}\nlimits: {at_create: fallback}\n" + tail, []string{
			"5:21 invalid: trigger t has no fallback, so that its messages could only wait | name the channels below fallback:, or leave at_create out",
		}},
		{"fold", head + "  - {id: t, event: e}\ntiming: {reminders: [1d]}\nlimits: {at_send: fold, counts: false}\n" + tail, []string{
			"6:19 invalid: trigger t: at_send: fold does not go with counts: false | several messages become one to use up fewer limits, and this one uses up none",
			"6:19 invalid: trigger t: at_send: fold does not go with reminders | the reminders of a message that left with another one would never come: write at_send: defer, or leave the reminders out",
		}},
		{"fold of what is critical", head + "  - {id: t, event: e}\nlimits: {critical: true, at_send: fold}\n" + tail, []string{
			"5:35 invalid: trigger t: at_send: fold does not go with critical: true | what is critical waits for nothing, so that there is nothing to fold",
		}},
		{"fold of surveys and webhooks", head + "  - {id: t, event: e}\nlimits: {at_send: fold}\naudience:\n  - to: event.recipient\nchannel: webhook\nmessage:\n  survey: s\n---\nchannel: webhook\nprovider: memory\n---\nsurvey: s\ntitle: T\ninvitation: {text: \"{{ survey.link }}\"}\nquestions: [{id: q, type: text, text: q}]\n", []string{
			"5:19 invalid: trigger t: at_send: fold does not go with webhook | programs get each message by itself: write at_send: defer",
			"5:19 invalid: trigger t: at_send: fold does not go with a survey | each is answered by itself: write at_send: defer",
		}},
		{"timing", onRecord("    issues: {A: record.a == 1}\n    timing: {anchor: record.b, offset: -5m, reminders: 1d}\n"), []string{
			"7:22 invalid: trigger t: a cooldown and a date exclude each other | leave cooldown out: by a date it fires once; or the anchor: a message counts from the moment at which the condition is met",
			"7:40 invalid: nothing can leave before the condition is met | write an offset such as 10m, or for: how long it must have held",
		}},
		{"event.recipient", strings.Replace(onRecord("    issues: {A: record.a == 1}\n"), "everyone: true", "to: event.recipient", 1), []string{"8:9 expression: undefined name 'event' | in: event.recipient\nthe names here are now, record, vars, workspace"}},
		{"audience", strings.Replace(onRecord("    issues: {A: record.a == 1}\n"), "  - everyone: true\n", "  - persona: Manger\n  - everyone: false\n  - {persona: Manager, everyone: true}\n  - where: contact.id == record.id\n", 1) + "---\npersona: Manager\n", []string{
			`8:14 reference: no persona named "Manger" | did you mean Manager?`, "9:15 invalid: everyone is true, or it is not written | name somebody: persona: NAME, or to: and an expression",
			"10:5 invalid: to, address, persona, group, place, place_above, topics, function and everyone exclude each other | write an entry for each",
			"11:5 missing: an entry of the audience needs to, address, persona, group, place, place_above, topics, function or everyone | such as persona: NAME",
		}},
		{"fallback", onRecord("    issues: {A: record.a == 1}\n    fallback: [sms, inbox, inbox, email, smss]\n") + "---\nchannel: inbox\nprovider: memory\n", []string{
			"7:16 invalid: sms is the channel already | name another one, or remove it", "7:28 invalid: inbox is listed twice",
			`7:35 reference: no channel named "email" | define it with channel: email:default`, `7:42 reference: no channel named "smss" | did you mean sms:default?`,
			"12:3 missing: this message has no texts for inbox, to which it falls back | write inbox: below it",
			"12:3 missing: this message has no texts for email, to which it falls back | write email: below it",
		}},
		{"limits", onRecord("    issues: {A: record.a == 1}\n    limits:\n      critical: maybe\n      at_create: fail\n      at_send: wait\n      send_window: \"8:00-20:00\"\n      max_sends_per_hour: 5\n"), []string{
			"8:17 invalid: this must be true or false, and is a text", `9:18 invalid: "fail" is not a value of at_create | it is defer, skip or fallback`,
			`10:16 invalid: "wait" is not a value of at_send | did you mean fail?`, `11:20 invalid: "8:00-20:00" is not a span of the day | a span of the day is written "22:00-07:00"; it may cross midnight`,
			`12:27 invalid: max_sends_per_hour is of the whole workflow, whose triggers are counted together | write it below limits: of the workflow`,
		}},
		{"brakes that let nobody through", strings.Replace(onRecord("    issues: {A: record.a == 1}\n    limits: {max_recipients_per_run: 0}\n"), "\naudience:", "\nlimits: {max_recipients_per_run: -3, max_sends_per_hour: 0}\naudience:", 1), []string{
			"7:38 invalid: this must be a whole number from 1 to 1000000000, and is 0", "8:34 invalid: this must be a whole number from 1 to 1000000000, and is -3", "8:58 invalid: this must be a whole number from 1 to 1000000000, and is 0",
		}},
		{"brakes that are no numbers", strings.Replace(onRecord("    issues: {A: record.a == 1}\n    limits: {max_recipients_per_run: \"5\"}\n"), "\naudience:", "\nlimits: {max_recipients_per_run: many, max_sends_per_hour: 1.5}\naudience:", 1), []string{
			"7:38 invalid: this must be a whole number from 1 to 1000000000, and is a text | write 5 without quotes", "8:34 invalid: this must be a whole number from 1 to 1000000000, and is a text", "8:60 invalid: this must be a whole number from 1 to 1000000000, and is 1.5",
		}},
		{"brakes beyond any number", strings.Replace(onRecord("    issues: {A: record.a == 1}\n"), "\naudience:", "\nlimits: {max_recipients_per_run: 1000000001, max_sends_per_hour: -1}\naudience:", 1), []string{
			"7:34 invalid: this must be a whole number from 1 to 1000000000, and is 1000000001", "7:66 invalid: this must be a whole number from 1 to 1000000000, and is -1",
		}},
		{"texts", strings.Replace(onRecord("    issues: {A: record.battery < 1}\n"), "Hello", `"{{ record.nam }} {{ event.x }} {{ recrd.name }} {{ battery }} {{ issues | join: ', ' }} {{ detected_at }} {{ record.id }}"`, 1) + kioskType, []string{
			`12:15 template: record has no field "nam" | did you mean name?`, "12:32 template: there is no event here: the trigger is on records",
			`12:46 template: there is no variable "recrd" | did you mean record?`,
			`12:63 template: there is no variable "battery" | a field of the record is record.battery; besides record there are attempt, contact, detected_at, due_at, issues, now, step, survey, trigger, vars and workspace`,
		}},
		{"a record's names with an event", strings.Replace(head+"  - {id: t, event: e}\n"+tail, "Hello", `"{{ record.name }} {{ issues | size }}"`, 1), []string{
			"10:15 template: there is no record here: the trigger listens to an event", "10:33 template: there are no issues here: the trigger listens to an event",
		}},
		{"a template of the other kind", strings.Replace(head+"  - {id: t, event: e}\n"+tail, "  sms:\n    text: Hello\n", "  template: tt\n", 1) + "---\ntemplate: tt\nsms:\n  text: \"{{ record.name }}\"\n", []string{
			"9:13 template: template tt writes record.name, and there is no record here: the trigger listens to an event",
		}},
		{"an invitation of the other kind", strings.Replace(onRecord("    issues: {A: record.a == 1}\n"), "  sms:\n    text: Hello\n", "  survey: s\n", 1) +
			"---\nsurvey: s\ntitle: S\ninvitation:\n  text: \"{{ event.name }} {{ survey.link }}\"\nquestions: {id: q, type: text, text: Q}\n", []string{
			"11:11 template: the invitation of survey s writes event.name, and there is no event here: the trigger is on records",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, said(load(tc.text))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMistakesOfPeople shows what is said of limits, and of record types.
func TestMistakesOfPeople(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"no limits", "persona: Guest\n", nil},
		{"0 is none", "persona: Guest\ncadence: {cooldown: 0, max_per_day: 0, type_limits: {alert: 0}}\n", []string{
			"warning 2:10 lint: persona Guest sets no limit, so its people have those of the workspace | leave cadence out; or write a limit that nobody reaches, such as max_per_day: 1000, if they shall have none",
		}},
		{"a name", "persona: a guest\n", []string{`1:10 invalid: "a guest" is not a name | write a-guest`}},
		{"negative", "persona: P\ncadence:\n  cooldown: -1h\n  max_per_day: -1\n  max_per_week: 1.5\n  max_per_month: many\n  type_limits: {alert: -2}\n", []string{
			`3:13 invalid: "-1h" is not a duration | a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`,
			"4:16 invalid: max_per_day is negative | 0 or nothing means no limit", "5:17 invalid: this must be a whole number from 0 to 1000000, and is a number",
			"6:18 invalid: this must be a whole number from 0 to 1000000, and is a text", "7:24 invalid: type_limits: alert is negative | 0 or nothing means no limit",
		}},
		{"spellings", "persona: P\ncadence:\n  quiet_hours: 22:00\n  resume_at: \"25:00\"\n  window: moving\n  count: all\n  types: [alrt, alert, alert]\n  type_limits: {remindr: 1}\n  channels: {\"sms:twilio\": {max_per_day: 1}, email: 5}\n", []string{
			`3:16 invalid: "22:00" is not a span of the day | a span of the day is written "22:00-07:00"; it may cross midnight`,
			`4:14 invalid: "25:00" is not a time of day | a time of day is written "09:00", from "00:00" to "23:59"`,
			`5:11 invalid: "moving" is not a value of window | it is calendar or rolling`, `6:10 invalid: "all" is not a value of count | it is committed or sent`,
			`7:11 invalid: "alrt" is not a type of workflow | did you mean alert?`, `7:24 invalid: "alert" is listed twice`,
			`8:17 invalid: "remindr" is not a type of workflow | did you mean reminder?`,
			`9:14 invalid: "sms:twilio" is not a kind of channel | limits are counted by kind: sms is all of sms:NAME`,
			"9:53 invalid: this must be the cadence of a kind of channel with its keys, and is a number | its keys are cooldown, max_per_day, max_per_week, max_per_month, max_per_slot, type_limits, quiet_hours, resume_at, types, window, count and slot_grace",
		}},
		{"a persona without a limit", "persona: P\ncadence: {max_per_day: 0}\n---\npersona: Q\ncadence: {channels: {sms: {max_per_day: 0}}}\n---\npersona: R\n", []string{
			"warning 2:10 lint: persona P sets no limit, so its people have those of the workspace | leave cadence out; or write a limit that nobody reaches, such as max_per_day: 1000, if they shall have none",
			"warning 5:10 lint: persona Q sets no limit, so its people have those of the workspace | leave cadence out; or write a limit that nobody reaches, such as max_per_day: 1000, if they shall have none",
		}},
		{"total", "persona: P\ncadence:\n  total: 3\n---\npersona: Q\ncadence:\n  total: {max_per_day: -1, max_per_weak: 2}\n---\npersona: R\ncadence:\n  channels: {email: {total: {max_per_day: 1}}}\n", []string{
			"3:10 invalid: this must be a total with its keys, and is a number | its keys are max_per_day, max_per_week and max_per_month",
			"7:24 invalid: total: max_per_day is negative | 0 or nothing means no limit", `7:28 unknown_key: unknown key "max_per_weak" | did you mean max_per_week?`,
			`11:22 unknown_key: unknown key "total" | it is a key of cadence`,
		}},
		{"a total never reached", "persona: P\ncadence:\n  max_per_day: 5\n  max_per_month: 9\n  total: {max_per_day: 4, max_per_week: 3, max_per_month: 8}\n", []string{
			"warning 3:16 lint: max_per_day 5 is never reached: total: max_per_day is 4", "warning 4:18 lint: max_per_month 9 is never reached: total: max_per_month is 8",
			"warning 5:24 lint: total: max_per_day 4 is never reached: total: max_per_week is 3",
		}},
		{"quiet all day", "persona: P\ncadence: {quiet_hours: \"08:00-08:00\"}\n", []string{`2:24 invalid: "08:00-08:00" ends where it begins | write two different times of day`}},
		{"never reached", "workspace: default\ncadence:\n  cooldown: 1h\n  max_per_day: 9\n  max_per_week: 2\n  max_per_month: 1\n  types: [alert, report]\n  type_limits: {report: 10, alert: 1, custom: 2}\n", []string{
			"warning 4:16 lint: max_per_day 9 is never reached: max_per_week is 2", "warning 5:17 lint: max_per_week 2 is never reached: max_per_month is 1",
			"warning 8:17 lint: the limit of 10 for report is never reached: max_per_day is 9",
			"warning 8:39 lint: the limit for custom is never reached: types does not name it",
		}},
		{"quiet hours over the window", strings.Replace(onRecord("    issues: {A: record.a == 1}\n    limits: {send_window: \"21:00-06:30\"}\n"), "everyone: true", "persona: P", 1) + "---\npersona: P\ncadence: {quiet_hours: \"20:00-07:00\"}\n", []string{
			"7:27 invalid: persona P has quiet hours 20:00-07:00, which cover all of the send window | nothing could ever leave: move one of them",
		}},
		{"quiet hours over a part of it", strings.Replace(onRecord("    issues: {A: record.a == 1}\n    limits: {send_window: \"19:59-06:30\"}\n"), "everyone: true", "persona: P", 1) + "---\npersona: P\ncadence: {quiet_hours: \"20:00-07:00\"}\n", nil},
		{"quiet hours of another kind of channel", strings.Replace(onRecord("    issues: {A: record.a == 1}\n    limits: {send_window: \"21:00-06:30\"}\n"), "everyone: true", "persona: P", 1) + "---\npersona: P\ncadence:\n  channels: {email: {quiet_hours: \"20:00-07:00\"}}\n", nil},
		{"record type without fields", "record_type: kiosk\n", []string{"1:1 missing: a record type needs fields | fields: what its records hold: text, number, bool, date, datetime, time, contact, place, list, object or record(TYPE)"}},
		{"record type", "record_type: kiosk\nfields:\n  name: txt\n  site: record\n  other: record(siet)\n  place name: text\n  id: number\n  load: numbers\n  self: record(kiosk)\n---\nrecord_type: site\nfields: {}\n", []string{
			`3:9 invalid: "txt" is not the type of a field | did you mean text?`, `4:9 invalid: "record" is not the type of a field | write which: record(TYPE)`,
			`5:17 reference: no record type named "siet" | did you mean site?`, `6:3 invalid: "place name" is not a name that an expression can read | it has letters, digits and _, and does not begin with a digit`,
			"warning 7:3 lint: record.id is every record's own | this field is read as record.props.id; or give it another name",
			`8:9 invalid: "numbers" is not the type of a field | did you mean number?`, "12:9 invalid: this map is empty | write a value, or remove the line",
		}},
		{"the same twice", "persona: P\n---\npersona: P\n---\nrecord_type: r\nfields: {a: text}\n---\nrecord_type: r\nfields: {a: text}\n", []string{
			"3:10 duplicate: persona P is defined twice | the other one is at a.yaml:1", "8:14 duplicate: record_type r is defined twice | the other one is at a.yaml:5",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{yaml(tc.text)}, loader.Options{})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
