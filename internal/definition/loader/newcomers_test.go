package loader_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What was written by people who had read one page: each mistake is answered at its place, once, with what to write instead.
func TestNewcomersMistakes(t *testing.T) {
	t.Parallel()
	const (
		text    = "    text: \"Visit on {{ record.visit_date | date }}.\""
		message = "message:\n  sms:\n" + text
		when    = `when: record.status == "open"`
		field   = "it is text, number, bool, date, datetime, time, contact, place, list, object or record(TYPE)"
		clock   = `a time of day is written "09:00", from "00:00" to "23:59"`
		offset  = "-2d is two days before the anchor, +3d three days after"
	)
	for _, tc := range []struct{ name, from, to, want string }{
		// YAML
		{"a tab", "  offset: -2d", "\toffset: -2d", "9:1 syntax: a tab cannot indent | use spaces"},
		{"no blank after a colon", "type: reminder", "type:reminder", "2:1 syntax: a blank is missing after the colon | write type: reminder"},
		{"= for a colon", "type: reminder", "type = reminder", "2:1 syntax: a key ends in a colon, not in = | write type: reminder"},
		{"no blank after a dash", "  - to:", "  -to:", "12:3 syntax: a blank is missing after the dash | write - to: record.payer"},
		{"a comment of another language", "type: reminder", "type: reminder\n// a comment", "3:1 syntax: a comment begins with # | write # a comment"},
		{"an unquoted colon", text, "    text: Visit: tomorrow", `16:16 syntax: ": " inside a value begins a map | write "Visit: tomorrow"`},
		{"unquoted Liquid", text, "    text: {{ record.visit_date }}", `16:11 syntax: a text with Liquid stands in quotes or in a | block | write "{{ record.visit_date }}"`},
		{"quotes in quotes", text, `    text: "Your "visit""`, `16:18 syntax: a value cannot go on after the closing quote | write '"Your "visit""'`},
		{"an open quote", text, `    text: "Your visit`, `16:11 syntax: this quote is not closed | write another " at the end of the text`},
		{"an open bracket", "offset: -2d", "offset: [-2d, -1d", `9:11 syntax: ] is missing | write it behind the last value`},
		{"a path of Windows", text, `    text: "C:\Users"`, `16:14 syntax: this escape names no character | write four hexadecimal digits, such as \u00e9, or \\ for a backslash`},
		{"a list for a map", "  visit_date: date\n", "  - visit_date: date\n", "21:3 syntax: this line is no item of the list above it | begin all lines with a dash, or none"},
		{"a bare yes", "type: reminder", "type: reminder\nenabled: yes", `3:10 syntax: yes means true or false to some YAML readers | write "yes" in quotes, or true / false`},

		{"text behind a comment sign", text, "    text: Visit # {{ record.visit_date }}", `16:17 syntax: a # behind a blank begins a comment, so this text would end before it | write "Visit # {{ record.visit_date }}"`},
		{"a block that is not indented", text, "    text: |\n    Hello to you", "16:11 syntax: this block of text is empty | indent its lines deeper than the key"},
		{"a second line of a text", text, "    text: Hello,\n    how are you?", "17:5 syntax: a key and a colon are missing here | write KEY: VALUE, with a space after the colon; a text of several lines stands in a | block"},

		// Keys
		{"kind for type", "type: reminder", "kind: reminder", `2:1 unknown_key: unknown key "kind" | did you mean type?`},
		{"name for the kind", "workflow: visit-reminder", "name: visit-reminder", `1:1 unknown_key: unknown kind "name" | it is one of channel, group, persona, record_type, scenario, sink, survey, template, topic, workflow or workspace`},
		{"limits below a persona", "---\nchannel: sms", "---\npersona: Manager\nmax_per_day: 3\n---\nchannel: sms", `27:1 unknown_key: unknown key "max_per_day" | write it below cadence`},
		{"no id", "  - id: visit\n    record", "  - record", "4:5 missing: a trigger needs id | id: a name of its own, such as first"},
		{"a plural", "channel: sms\nmess", "channels: [sms]\nmess", `13:1 unknown_key: unknown key "channels" | did you mean channel?`},
		{"a plural below", "  anchor:", "  anchors:", `8:3 unknown_key: unknown key "anchors" | did you mean anchor?`},
		{"a capital", "timing:", "Timing:", `7:1 unknown_key: unknown key "Timing" | did you mean timing?`},
		{"a key of a cadence", "channel: sms\nmess", "quiet_hours: \"22:00-07:00\"\nchannel: sms\nmess", `13:1 unknown_key: unknown key "quiet_hours" | it is a key of cadence`},
		{"a text without its channel", message, "message:\n  text: Hello", `15:3 unknown_key: unknown key "text" | write it below email, sms, whatsapp, push, inbox or webhook`},
		{"a key of another channel", text, "    html: Hello", `16:5 unknown_key: unknown key "html" | it is a key of email`},
		{"two ids", "  - id: visit\n    record: visit\n", "  - id: visit\n    record: visit\n    when: record.visits > 1\n  - id: visit\n    record: visit\n", "7:9 duplicate: there are two triggers visit | give each an id of its own"},
		{"two sources", "    record: visit\n", "    record: visit\n    event: visit-made\n", "4:5 invalid: trigger visit: event, record and schedule exclude each other | make a trigger of each"},
		{"triggers by their names", "  - id: visit\n    record: visit\n    when", "  visit:\n    record: visit\n    when", "4:3 invalid: triggers are a list | write - id: visit, and its other keys in the column of id"},
		{"no provider", "provider: memory\n", "concurrency: 1\n", "26:1 missing: a channel needs provider | provider: what sends the messages"},

		// Values of the wrong kind
		{"an audience that is a text", "audience:\n  - to: record.payer", "audience: record.payer", "11:11 invalid: this must be an entry of the audience with its keys, and is a text | write to: record.payer"},
		{"a message that is a text", message, "message: Hello", "14:10 invalid: this must be a message with its keys, and is a text | write sms: {text: Hello}"},
		{"a channel's text that is a text", "  sms:\n" + text, "  sms: Hello", "15:8 invalid: this must be sms with its keys, and is a text | write text: Hello"},
		{"a schedule that is a text", "    record: visit\n    " + when + "\ntiming:\n  anchor: record.visit_date\n  offset: -2d\n  at: \"09:00\"\naudience:\n  - to: record.payer\nchannel: sms\n" + message, "    schedule: 0 9 * * *\naudience:\n  - everyone: true\nchannel: sms\nmessage:\n  sms: {text: Hello}", `5:15 invalid: this must be a schedule with its keys, and is a text | write cron: 0 9 * * *`},
		{"everyone without true", "- to: record.payer", "- everyone", "12:5 invalid: this must be an entry of the audience with its keys, and is a text | write everyone: true"},
		{"several channels", "channel: sms\nmess", "channel: [sms, inbox]\nmess", "13:10 invalid: this must be a text, and is a list | write channel: sms, and the others as fallback: [inbox]"},
		{"several record types", "record: visit\n    when", "record: [visit, order]\n    when", "5:13 invalid: this must be a text, and is a list | write one value"},
		{"a list of channels' limits", "---\nchannel: sms", "---\npersona: Manager\ncadence: {channels: [sms]}\n---\nchannel: sms", "27:21 invalid: this must be a map from a kind of channel to its value, and is a list | write NAME: VALUE, without dashes and brackets"},
		{"true in quotes", "type: reminder", "type: reminder\nenabled: \"true\"", `3:10 invalid: this must be true or false, and is a text | write true without quotes`},
		{"a number in quotes", "provider: memory", "provider: memory\nconcurrency: \"3\"", `28:14 invalid: this must be a whole number from 1 to 1000000, and is a text | write 3 without quotes`},
		{"a name with a blank", "workflow: visit-reminder", "workflow: Visit reminder", `1:11 invalid: "Visit reminder" is not a name: letters, digits, - _ and . only | write Visit-reminder`},
		{"a type of another system", "status: text", "status: string", `22:11 invalid: "string" is not the type of a field | did you mean text?`},
		{"a whole number", "visits: number", "visits: integer", `23:11 invalid: "integer" is not the type of a field | did you mean number?`},
		{"a type in capitals", "visit_date: date", "visit_date: Date", `20:15 invalid: "Date" is not the type of a field | did you mean date?`},
		{"a value for a type", "visits: number", "visits: 3", `23:11 invalid: "3" is not the type of a field | ` + field},
		{"another word", "type: reminder", "type: notification", `2:7 invalid: "notification" is not a value of type | it is alert, reminder, report, survey, broadcast, digest, story_so_far, notice or custom`},
		{"a capital in a value", "type: reminder", "type: Reminder", `2:7 invalid: "Reminder" is not a value of type | did you mean reminder?`},
		{"a unit in words", "offset: -2d", "offset: -2 days", `9:11 invalid: "-2 days" is not an offset | ` + offset},
		{"no unit", "offset: -2d", "offset: 2", `9:11 invalid: "2" is not an offset | ` + offset},
		{"a unit in capitals", "offset: -2d", "offset: -2D", `9:11 invalid: "-2D" is not an offset | ` + offset},
		{"am and pm", `at: "09:00"`, "at: 9am", `10:7 invalid: "9am" is not a time of day | ` + clock},
		{"one digit", `at: "09:00"`, "at: 9:00", `10:7 invalid: "9:00" is not a time of day | ` + clock},

		// Names
		{"a channel that is not there", "channel: sms\nmess", "channel: SMS\nmess", `13:10 reference: no channel named "SMS" | did you mean sms:default?`},
		{"a record type in capitals", "    record: visit", "    record: Visit", `5:13 reference: no record type named "Visit" | did you mean visit?`},
		{"a provider that is not there", "provider: memory", "provider: twilio", `27:11 reference: no provider named "twilio" | providers are memory`},
		{"a number to write to", "to: record.payer", `to: "+491701234567"`, `12:9 invalid: +491701234567 is an address, and to is an expression | write address: '"+491701234567"' with kind: sms`},
		{"an address without quotes", "to: record.payer", "address: ada@example.org\n    kind: sms", `12:14 invalid: an address is an expression, and ada@example.org is a text | write '"ada@example.org"', with both quotes`},

		{"a name of a template with a blank", "  sms:\n" + text, "  template: my text", `15:13 invalid: "my text" is not a name | write my-text`},

		// Expressions
		{"a list in round brackets", when, `when: record.status in ("a", "b")`, `6:25 expression: a list stands in square brackets | write in [A, B]`},
		{"one =", when, `when: record.status = "open"`, `6:25 expression: a single = compares nothing | write == to compare`},
		{"three =", when, `when: record.status === "open"`, `6:25 expression: === is no operator | write ==`},
		{"<>", when, `when: record.status <> "open"`, `6:25 expression: <> is no operator | write !=`},
		{"=>", when, `when: record.visits => 3`, `6:25 expression: => is no operator | write >=`},
		{"is not", when, `when: record.status is not null`, `6:25 expression: is not is no operator | write !=`},
		{"is", when, `when: record.status is "open"`, `6:25 expression: is is no operator | write ==`},
		{"None", when, `when: record.status != None`, `6:28 expression: undefined name 'None' | write null`},
		{"True", when, `when: record.closed == True`, `6:28 expression: undefined name 'True' | write true`},
		{"a text without quotes", when, `when: record.status == started`, "6:28 expression: undefined name 'started' | in: record.status == started\na text stands in quotes, \"started\""},
		{"a number in quotes, compared", when, `when: record.visits == "3"`, "6:25 expression: a number is compared with a text | in: record.visits == \"3\"\na number stands without quotes"},
		{"a date in quotes", when, `when: record.visit_date < "2026-06-01"`, "6:29 expression: a time is compared with a text | in: record.visit_date < \"2026-06-01\"\na date is written date(\"2026-06-01\")"},
		{"a length of time", when, `when: record.visit_date < now + 3d`, `6:37 expression: 3d is no length of time in an expression | write days(3)`},
		{"braces", when, `when: "{{ record.status }} == 1"`, `6:12 expression: {{ }} stands in texts: an expression writes names without it | write record.status`},
		{"a function in another case", when, `when: daysUntil(record.visit_date) < 3`, `6:20 expression: there is no function daysUntil | did you mean days_until?`},
		{"another op", when, `when: {field: record.status, op: equals, value: open}`, `6:38 expression: unknown op "equals" | ops are is, is_not, less_than, at_most, more_than, at_least, in, not_in, matches, set, not_set, older_than, newer_than`},

		// Texts
		{"a field that is not there", "record.visit_date | date", "record.visitdate | date", `16:24 template: record has no field "visitdate" | did you mean visit_date?`},
		{"a field without its record", "{{ record.visit_date | date", "{{ visit_date | date", `16:24 template: there is no variable "visit_date" | a field of the record is record.visit_date; besides record there are attempt, contact, days_left, detected_at, due_at, issues, now, step, survey, trigger, vars and workspace`},
		{"a filter that is not there", "| date }}", "| dat }}", `16:44 template: unknown filter "dat" | did you mean date?`},
		{"a filter of another system", "| date }}", "| upper }}", `16:44 template: unknown filter "upper" | did you mean upcase?`},
		{"open braces", "| date }}", "| date }", "16:21 template: {{ is not closed | end it with }}"},
		{"a dollar", "{{ record.visit_date | date }}", "${record.visit_date}", "warning 16:21 lint: ${record.visit_date} is sent as written | write {{ record.visit_date }}"},
		{"single braces", "{{ record.visit_date | date }}", "{record.visit_date}", "warning 16:21 lint: {record.visit_date} is sent as written | write {{ record.visit_date }}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]string{tc.want}, checked(changed(t, tc.from, tc.to))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
