package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// TestMistakesOfCourses shows what is said of a course of messages that cannot be meant. The timing stands in line 6, behind a when in
// line 7.
func TestMistakesOfCourses(t *testing.T) {
	t.Parallel()
	met := func(keys string) string {
		return onRecord("    when: record.a == 1\n    timing: {" + keys + "}\n")
	}
	dated := func(keys string) string { return onRecord("    timing: {anchor: record.d, " + keys + "}\n") }
	fixed := func(keys string) string { return onRecord("    timing: {anchor: 2026-05-14, " + keys + "}\n") }
	one := func(audience, text string) string { return strings.Replace(text, "- everyone: true", "- "+audience, 1) }
	const onlyOne = "a course has the zone of a contact only where its whole audience is one contact, such as to: record; else write a zone, or record.timezone"
	const order = "write messages in the order in which they are due; random times must not overlap"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"days of a sequence", met("sequence: [{after: 0m}, {day: 1}, {after: 2h}]"), nil},
		{"rounds of weeks", met(`repeat: {every: 1w, days: [fri, mon], times: forever}, at: "09:00", timezone: UTC, dst: {gap: skip}, follow_zone: false, first: whole, backlog: all`), nil},
		{"rounds of months", dated("sequence: [{day: 1}, {day: -1}], repeat: {every: 1mo, until: record.e}, start_on: mon, missing_day: skip"), nil},
		{"times of records", dated("sequence: [{day: 0, at: record.evening}, {day: 0, at: \"09:00\"}]"), nil},
		{"times of records, later", dated("sequence: [{day: 0, at: \"09:00\"}, {day: 0, at: record.evening}]"), nil},
		{"the moment after a message that follows", met("sequence: [{day: 0, at: \"09:00\"}, {after: 1h}, {day: 0}]"), nil},
		{"the moment after a time of day", met("sequence: [{day: 0, at: \"09:00\"}, {day: 0}, {day: 1}]"), nil},
		{"the moment twice", met("sequence: [{day: 0}, {day: 0}]"), []string{"7:35 invalid: it is never due after the message before it | " + order}},

		{"repeat without its length", met("repeat: {times: 3}"), []string{"7:22 missing: a repeat needs every | every: how long a round is, in days, weeks, months or years: 1d, 2w, 1mo or 1y"}},
		{"repeat that is a text", met("repeat: 1d"), []string{"7:22 invalid: this must be a repeat with its keys, and is a text | write every: 1d"}},
		{"a misspelt key", met("repeat: {evry: 1d, times: 3}"), []string{`7:23 unknown_key: unknown key "evry" | did you mean every?`}},
		{"an unknown key", met("sequence: [{day: 3}, {day: 1}], qqq: 1d"), []string{`7:46 unknown_key: unknown key "qqq" | the keys here are anchor, offset, at, timezone, follow_zone, dst, stop_when, reminders, reminders_from, expire_after, accept_late, catch_up, sequence, repeat, start_on, first, missing_day, reset_on, backlog and late_joiner`}},
		{"days of a round of unknown length", met("repeat: {days: [mon]}"), []string{"7:22 missing: a repeat needs every | every: how long a round is, in days, weeks, months or years: 1d, 2w, 1mo or 1y"}},
		{"a misspelt repeat", met(`sequence: [{day: 3}, {day: 1}], repet: {every: 1d}`), []string{`7:46 unknown_key: unknown key "repet" | did you mean repeat?`}},
		{"hours", met("repeat: {every: 4h}"), []string{"7:22 invalid: a round lasts days or months, not 4h | write 1d, 2w, 1mo or 1y"}},
		{"months and days", met("repeat: {every: 1mo2d}"), []string{"7:22 invalid: a round lasts days or months, not 1mo2d | write 1d, 2w, 1mo or 1y"}},
		{"times", met("repeat: {every: 1d, times: never}"), []string{"7:41 invalid: this must be a whole number from 1 to 1000000, and is a text | write a whole number from 1 to 1000000, or forever"}},
		{"no rounds", met("repeat: {every: 1d, times: 0}"), []string{"7:41 invalid: this must be a whole number from 1 to 1000000, and is 0 | write a whole number from 1 to 1000000, or forever"}},
		{"times in quotes", met("repeat: {every: 1d, times: \"3\"}"), []string{"7:41 invalid: this must be a whole number from 1 to 1000000, and is a text | write 3 without quotes"}},
		{"count", met("repeat: {every: 1mo, times: 3, count: rounds}"), []string{`7:52 invalid: "rounds" is not a value of count | it is messages or all`}},
		{"until", dated("repeat: {every: 1d, until: 2026-5-1}"), []string{`6:59 invalid: "2026-5-1" is not a date | a date is written 2026-06-01`}},
		{"until it is true", dated("repeat: {every: 1d, until: record.a == 1}"), []string{"6:59 expression: this must be a time, and is true or false | in: record.a == 1"}},
		{"until a field of another type", dated("repeat: {every: 1d, until: record.name}") + "---\nrecord_type: kiosk\nfields: {d: date, name: text}\n", []string{
			"6:66 invalid: record.name is no date: its type is text | declare name as date if it holds one\nthe dates of kiosk are record.d, record.created_at and record.updated_at",
		}},
		{"at a date", dated("at: record.d, repeat: {every: 1d}") + "---\nrecord_type: kiosk\nfields: {d: date}\n", []string{
			`6:43 invalid: record.d is no time of day: its type is date | write anchor: record.d for the day, and at: a time such as "09:00", or a field declared as time`,
		}},
		{"at a number, of a message", dated("sequence: [{day: 0, at: record.num}]") + "---\nrecord_type: kiosk\nfields: {d: date, num: number}\n", []string{
			`6:63 invalid: record.num is no time of day: its type is number | write a time such as "09:00", or declare num as time if it holds one`,
		}},
		{"at a time, and at a text", dated("sequence: [{day: 0, at: record.num}, {day: 1, at: record.tm}]") + "---\nrecord_type: kiosk\nfields: {d: date, num: text, tm: time}\n", nil},
		{"at a number of another record", dated("at: record.centre.num") + "---\nrecord_type: kiosk\nfields: {d: date, centre: record(centre)}\n---\nrecord_type: centre\nfields: {num: number}\n", []string{
			`6:50 invalid: record.centre.num is no time of day: its type is number | write a time such as "09:00", or declare num as time if it holds one`,
		}},
		{"until some moment", dated("repeat: {every: 1d, until: now + days(3)}"), []string{"6:59 expression: there is no now here | in: now + days(3)"}},
		{"reset by time", dated("reset_on: today()"), []string{"6:47 expression: there is no now here | in: today()"}},
		{"the number of the round", met("sequence: [{day: 0, at: vars.clocks + iteration}]"), []string{"7:52 expression: undefined name 'iteration' | in: vars.clocks + iteration\nthe names here are record, vars, workspace"}},

		{"weekdays", met("repeat: {every: 1w, days: [Mon, mon, mon]}, start_on: monday"), []string{
			`7:41 invalid: "Mon" is not a weekday | did you mean mon?`, "7:51 invalid: mon is listed twice", `7:68 invalid: "monday" is not a weekday | did you mean mon?`,
		}},
		{"several weekdays to begin with", met("repeat: {every: 1w}, start_on: [mon, fri]"), []string{"7:45 invalid: this must be a text, and is a list | write one value"}},
		{"days of a month", met("repeat: {every: 1mo, days: [0, 32, 1, 1]}"), []string{
			`7:42 invalid: "0" is not a day of a month | days of a month are 1 to 31, and -1 (the last one) to -28`,
			`7:45 invalid: "32" is not a day of a month | days of a month are 1 to 31, and -1 (the last one) to -28`, "7:52 invalid: 1 is listed twice",
		}},
		{"one day in two ways", met("repeat: {every: 1mo, days: [-1, 15, 31]}"), []string{"7:50 invalid: it is never due after the message before it | " + order}},
		{"days of a day", met("repeat: {every: 1d, days: [mon]}"), []string{"7:40 invalid: days are for weeks and months | write every: 1w with days: [mon, thu], or every: 1mo with days: [1, 15]"}},
		{"no days", met("repeat: {every: 1w, days: []}"), []string{"7:40 invalid: this list of days is empty | name a day, or remove the line"}},
		{"days and a sequence", met("repeat: {every: 1w, days: [mon]}, sequence: [{day: 0}]"), []string{"7:40 invalid: days are for a course without a sequence | remove days, and write day into each entry of the sequence"}},

		{"no messages", met("sequence: []"), []string{"7:24 invalid: a sequence needs at least one message | - day: 0"}},
		{"day and after", met("sequence: [{day: 0, after: 5m}]"), []string{"7:25 invalid: day and after exclude each other | keep one of them"}},
		{"neither", met(`sequence: [{at: "09:00"}]`), []string{"7:25 missing: an entry of the sequence needs day or after | day: 0 is the first day of the round, after: 1h counts from the message before it"}},
		{"values of entries", met("sequence: [{day: soon}, {day: \"2\"}, {after: 5, at: \"9 h\"}]"), []string{
			"7:31 invalid: this must be a whole number, and is a text", "7:44 invalid: this must be a whole number, and is a text | write 2 without quotes",
			`7:58 invalid: "5" is not a duration | a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`,
			"7:65 invalid: a message that follows another one has no time of day of its own | remove at, or write day in place of after",
			`7:65 invalid: "9 h" is not a time of day | a time of day is written "09:00", from "00:00" to "23:59"`,
		}},
		{"a message of its own on another channel", met("sequence: [{day: 0, message: {sms: {text: x}}, audience: {everyone: true}, channel: email}, {day: 1, channel: email}]"), []string{
			"7:43 missing: this message has no texts for email, by which it leaves | write email: below it",
			`warning 7:98 reference: no channel named "email" | define it with channel: email:default`,
			"7:106 missing: this message has no texts for email, by which it leaves | write email: below it",
			`warning 7:124 reference: no channel named "email" | define it with channel: email:default`,
		}},
		{"each has a message", strings.Replace(met("sequence: [{day: 0, message: {sms: {text: x}}}, {after: 1h, message: {sms: {text: z}}}]"), "message:\n  sms:\n    text: Hello\n", "", 1), nil},
		{"one has no message", strings.Replace(met("sequence: [{day: 0, message: {sms: {text: x}}}, {after: 1h}]"), "message:\n  sms:\n    text: Hello\n", "", 1), []string{"1:1 missing: workflow w has no message | write it like message: {inbox: {text: Hello}}"}},
		{"what an entry says of its people and channel", met("sequence: [{day: 0, audience: {to: record.nobody.x.y, persona: Z}, channel: pigeon, message: {sms: {txt: x}}}]"), []string{
			"7:44 invalid: to, address, persona, group, place, place_above, topics, function and everyone exclude each other | write an entry for each",
			`warning 7:90 reference: no channel named "pigeon" | define it with channel: pigeon:default`,
			`7:114 unknown_key: unknown key "txt" | did you mean text?`,
		}},
		{"no message", strings.Replace(met("sequence: [{day: 0}]"), "message:\n  sms:\n    text: Hello\n", "", 1), []string{"1:1 missing: workflow w has no message | write it like message: {inbox: {text: Hello}}"}},
		{"at the same time", met("sequence: [{after: 0m}, {after: 0m}]"), []string{"7:38 invalid: a message cannot be due at the same time as the one that it follows | write after: 15m"}},
		{"out of order", dated("sequence: [{day: 2}, {day: 1}]"), []string{"6:53 invalid: it is never due after the message before it | " + order}},
		{"random times that overlap", dated("sequence: [{day: 0, at: random 09:00-11:00}, {day: 0, at: random 10:30-12:00}]"), []string{"6:77 invalid: it is never due after the message before it | " + order}},
		{"a day before the round", met("sequence: [{day: -1}]"), []string{"7:25 invalid: day -1 is before the round | day 0 is the first day of the round"}},
		{"a day after the round", met("sequence: [{day: 0}, {day: 7}], repeat: {every: 1w}"), []string{"7:35 invalid: a round of 7d has no day 7 | write a day from 0 to 6, or a longer round"}},
		{"a round shorter than its messages", met("sequence: [{day: 0}, {after: 25h}], repeat: {every: 1d}"), []string{"7:35 invalid: it may be due after the next round has begun: a round is 1d long | write a longer round, or an earlier message"}},
		{"day 0 of a month", met("sequence: [{day: 0}, {day: 15}], repeat: {every: 1mo}"), []string{"7:31 invalid: no month has the day 0 | write a day from 1 to 31, or from -1 (the last day) to -28"}},
		{"day 32", met("sequence: [{day: 1}, {day: 32}], repeat: {every: 1mo}"), []string{"7:35 invalid: no month has the day 32 | write a day from 1 to 31, or from -1 (the last day) to -28"}},
		{"day -29", met("sequence: [{day: -29}], repeat: {every: 1mo}"), []string{"7:25 invalid: no month has the day -29 | write a day from 1 to 31, or from -1 (the last day) to -28"}},
		{"beyond the calendar", met("offset: 101y, sequence: [{day: 0}, {after: 200y}]"), []string{
			`7:22 invalid: "101y" is too long | 100y is the longest`, `7:57 invalid: "200y" is too long | 100y is the longest`,
		}},
		{"a day beyond the calendar", met("sequence: [{day: 99999999}]"), []string{"7:25 invalid: day 99999999 is outside of the calendar | write a smaller number"}},

		{"31 April", onRecord("    timing: {anchor: 2026-04-10, repeat: {every: 1y, days: 31}, missing_day: skip}\n"), []string{"6:42 invalid: this course never occurs | no date of the calendar fits it, such as 31 April"}},
		{"the last day of April", onRecord("    timing: {anchor: 2026-04-10, repeat: {every: 1y, days: 31}}\n"), nil},
		{"over before it begins", fixed("repeat: {every: 1d, until: 2026-05-12}"), []string{"6:61 invalid: this course never occurs: it ends at the beginning of 2026-05-12 | until is the first day that no longer counts"}},
		{"over on the day on which it begins somewhere else", fixed("repeat: {every: 1d, until: 2026-05-14}"), nil},
		{"missing_day of days", met("repeat: {every: 30d}, missing_day: skip"), []string{"7:49 invalid: missing_day is for a course in rounds of months: a day that a month does not have | remove it"}},
		{"missing_day of one date", dated("missing_day: skip"), []string{"6:45 invalid: missing_day is for a course in rounds of months: a day that a month does not have | remove it"}},
		{"missing_day", met("repeat: {every: 1mo}, missing_day: next"), []string{`7:49 invalid: "next" is not a value of missing_day | it is last or skip`}},
		{"first by a date", dated("first: whole"), []string{"6:39 invalid: trigger t: first is for a course that begins when its condition is met | remove it: this course begins by its date"}},
		{"first without a time of day", met("first: whole, repeat: {every: 1d}"), []string{`7:21 invalid: trigger t: first: whole is for messages with a time of day | write at: "09:00", or remove it: the course begins at once`}},
		{"first", met("first: last, at: \"09:00\""), []string{`7:21 invalid: "last" is not a value of first | it is next or whole`}},
		{"backlog", dated("start_on: mon, backlog: none"), []string{`6:56 invalid: "none" is not a value of backlog | it is latest, first or all`}},
		{"backlog of one date", dated("backlog: all"), []string{"6:41 invalid: trigger t: backlog is for a schedule or a course | remove it"}},

		{"several offsets", dated("offset: [1d, 2d], repeat: {every: 1d}"), []string{"6:40 invalid: trigger t: a course has one offset | write a sequence, with a day for each message"}},
		{"hours before a time of day", dated("offset: -2h, repeat: {every: 1d}, at: \"09:00\""), []string{"6:40 invalid: trigger t: an offset with hours or minutes is for messages without a time of day | write it in days, or as after of the first entry of a sequence"}},
		{"hours before a time of day of an entry", dated("offset: -2h, sequence: {day: 0, at: \"09:00\"}"), []string{"6:40 invalid: trigger t: an offset with hours or minutes is for messages without a time of day | write it in days, or as after of the first entry of a sequence"}},
		{"hours after a fixed date", fixed("offset: 2h, repeat: {every: 1d}"), []string{"6:42 invalid: trigger t: an offset with hours or minutes is for messages without a time of day | write it in days, or as after of the first entry of a sequence"}},
		{"hours after a declared date", dated("offset: 2h, repeat: {every: 1d}") + "---\nrecord_type: kiosk\nfields: {d: date}\n", []string{"6:40 invalid: trigger t: an offset with hours or minutes is for messages without a time of day | write it in days, or as after of the first entry of a sequence"}},
		{"hours after a declared instant", dated("offset: 2h, repeat: {every: 1d}") + "---\nrecord_type: kiosk\nfields: {d: datetime}\n", nil},
		{"hours after the moment", met("offset: 2h, repeat: {every: 1d}"), nil},
		{"before the condition is met", met("offset: -1d, repeat: {every: 1d}"), []string{"7:22 invalid: nothing can leave before the condition is met | write an offset such as 10m, or for: how long it must have held"}},
		{"zones of people", dated("timezone: [contact, UTC], repeat: {every: 1d}"), []string{`6:43 not_supported_yet: "contact" is not supported yet | a course has the zone of a contact only where its whole audience is one contact, such as to: record; else write a zone, or record.timezone`}},
		{"zones of people without a date", met("timezone: contact.timezone, reset_on: record.x"), []string{`7:24 not_supported_yet: "contact.timezone" is not supported yet | a course has the zone of a contact only where its whole audience is one contact, such as to: record; else write a zone, or record.timezone`}},
		{"the zone of one person", one("to: record", dated("timezone: contact.timezone, follow_zone: false, repeat: {every: 1d}")), nil},
		{"the zone of one person, some of them", one("{to: record, where: contact.persona == ''}", dated("timezone: [contact.timezone, UTC], repeat: {every: 1d}")), nil},
		{"the zone of two people", one("to: record\n  - to: record.nurse", dated("timezone: contact.timezone, repeat: {every: 1d}")), []string{`6:42 not_supported_yet: "contact.timezone" is not supported yet | ` + onlyOne}},
		{"the zone of a field that may name many", one("{to: record.nurse}", dated("timezone: contact.timezone, repeat: {every: 1d}")), []string{`6:42 not_supported_yet: "contact.timezone" is not supported yet | ` + onlyOne}},
		{"the zone of a contact", one("{to: record.nurse}", dated("timezone: contact.timezone, repeat: {every: 1d}")) + "---\nrecord_type: kiosk\nfields: {d: date, nurse: contact}\n", nil},
		{"the zone of one person, with messages to others", one("to: record", dated("timezone: contact.timezone, sequence: [{day: 0}, {day: 1, audience: {everyone: true}}]")), []string{`6:42 not_supported_yet: "contact.timezone" is not supported yet | ` + onlyOne}},
		{"the zone of one person, with messages to them", one("to: record", dated("timezone: contact.timezone, sequence: [{day: 0}, {day: 1, audience: {to: record.id}}]")), nil},
		{"the zone of a mistaken audience", one("to: recrd", dated("timezone: contact.timezone, repeat: {every: 1d}")), []string{"8:9 expression: undefined name 'recrd' | did you mean record?"}},
		{"a metric", onRecord("    metric: {name: load, value: record.x, thresholds: [3]}\n    timing: {repeat: {every: 1d}}\n"), []string{"6:13 invalid: trigger t: a metric and a course exclude each other | make a trigger of each"}},
		{"once a day", onRecord("    when: record.a == 1\n    fire: once_per_day\n    timing: {repeat: {every: 1d}}\n"), []string{
			"7:11 invalid: trigger t: a course begins once for each record, or with false_to_true each time that its condition becomes true | remove fire, or write fire: false_to_true",
		}},
		{"once per threshold", onRecord("    metric: {name: load, value: record.x, thresholds: [3]}\n    fire: once_per_threshold\n    timing: {repeat: {every: 1d}}\n"), []string{"6:13 invalid: trigger t: a metric and a course exclude each other | make a trigger of each"}},
		{"each time", onRecord("    when: record.a == 1\n    fire: false_to_true\n    timing: {repeat: {every: 1d}}\n"), nil},
		{"nothing begins it", onRecord("    timing: {repeat: {every: 1d}}\n"), []string{"4:5 missing: trigger t has neither when nor issues, nor a metric, nor an anchor in its timing | when: record.battery_level < 20"}},

		{"who comes late", met("repeat: {every: 1d}, late_joiner: fresh"), nil},
		{"who comes late, somehow", met("repeat: {every: 1d}, late_joiner: always"), []string{`7:48 invalid: "always" is not a value of late_joiner | it is join, skip or fresh`}},
		{"who comes late to one date", dated("late_joiner: skip"), []string{"6:45 invalid: late_joiner is for a course: people who come into its audience after its first message | remove it"}},
		{"who comes late to one of several audiences", met("sequence: [{day: 0}, {day: 1, audience: {to: record.b}}], late_joiner: skip"), []string{
			"7:85 invalid: late_joiner: skip is for a course with one audience: a message of this one has an audience of its own | write the messages for other people as a trigger of their own, or late_joiner: join",
		}},
		{"who comes late to any of them", met("sequence: [{day: 0}, {day: 1, audience: {to: record.b}}], late_joiner: join"), nil},
		{"who comes late to an event", short("w", "    timing: {late_joiner: fresh}\n"), []string{
			"6:27 invalid: late_joiner is for a course of a record | remove it: each message after an event goes to the people who are in its audience when it is due",
		}},
		{"who comes late to a schedule", scheduled(`every: 1d, at: "09:00"`, "timing: {late_joiner: fresh}\n"), []string{
			"6:23 invalid: trigger t: late_joiner is not for a schedule | remove it: it is for a course of a record; each message of a schedule goes to the people who are in its audience when it is due",
		}},

		{"with a cooldown", onRecord("    when: record.a == 1\n    cooldown: {length: 1h}\n    timing: {sequence: {day: 0}, missing_day: skip}\n"), []string{
			`8:24 not_supported_yet: "sequence" is not supported yet | except for triggers on events, and for those on records that have neither issues nor a cooldown`,
			`8:47 not_supported_yet: "missing_day" is not supported yet | except for triggers on events, and for those on records that have neither issues nor a cooldown`,
		}},
		{"with a schedule", scheduled(`every: 1d, at: "09:00"`, "timing: {repeat: {every: 1d}, start_on: mon, missing_day: skip, sequence: {day: 0}}\n"), []string{
			"6:18 invalid: trigger t: repeat is not for a schedule | write its every, days, times and until below schedule",
			"6:41 invalid: trigger t: start_on is not for a schedule | write from: the first day, below schedule",
			"6:59 invalid: trigger t: missing_day is not for a schedule | write it below schedule",
			"6:75 invalid: trigger t: sequence is not for a schedule | a schedule has one message: write a trigger for each, with a schedule of its own; or a course, which begins with a record or an event",
		}},
		{"what a course of a record has, with a schedule", scheduled(`every: 1d, at: "09:00"`, "timing: {first: whole, reset_on: vars.a}\n"), []string{
			"6:17 invalid: trigger t: first is not for a schedule | remove it: the next day of the schedule is the first one, or from: below schedule",
			"6:34 invalid: trigger t: reset_on is not for a schedule | remove it: it is for a course of a record, and a schedule follows the calendar",
		}},
		{"what follows changes, with a cooldown", onRecord("    when: record.a == 1\n    cooldown: {length: 1h}\n    timing: {late_joiner: skip, stop_when: record.b == 1}\n"), []string{
			`8:27 not_supported_yet: "late_joiner" is not supported yet | except for triggers on records that have neither issues nor a cooldown`,
			`8:44 not_supported_yet: "stop_when" is not supported yet | except for triggers on records that have neither issues nor a cooldown, and for those with a schedule`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(tc.text)}}, loader.Options{})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
