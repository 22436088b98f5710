package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMistakesAhead shows what is said of triggers that plan ahead.
//
// Shows: B33, B36.
func TestMistakesAhead(t *testing.T) {
	t.Parallel()
	timing := func(keys string) string { return onRecord("    timing: {" + keys + "}\n") }
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing to look for", onRecord(""), []string{"4:5 missing: trigger t has neither when nor issues, nor a metric, nor an anchor in its timing | when: record.battery_level < 20"}},
		{"fire and cooldown", onRecord("    when: record.a == 1\n    fire: once_per_day\n    cooldown: {length: 1h}\n"), []string{"7:11 invalid: trigger t: fire and cooldown exclude each other"}},
		{"fire and issues", onRecord("    issues: {A: record.a == 1}\n    fire: once_per_day\n"), []string{"7:11 invalid: trigger t: issues have a cooldown, not fire | write a single condition into when, or cooldown instead of fire"}},
		{"fire", onRecord("    when: record.a == 1\n    fire: once_per_dya\n"), []string{`7:11 invalid: "once_per_dya" is not a value of fire | did you mean once_per_day?`}},
		{"thresholds without a metric", onRecord("    when: record.a == 1\n    fire: once_per_threshold\n"), []string{"7:11 invalid: trigger t: once_per_threshold is for a metric | write metric: with its thresholds, or fire: once_per_source"}},
		{"metric", onRecord("    metric: {name: a b, value: record.x + \"y\", thresholds: [90, 80]}\n"), []string{
			`6:20 invalid: "a b" is not a name: letters, digits, - _ and . only | write a-b`,
			"6:32 expression: this must be a number, and is a text | in: record.x + \"y\"",
			"6:65 invalid: thresholds must ascend | [80, 90]",
		}},
		{"metric without thresholds", onRecord("    metric: {name: load, value: record.x, thresholds: []}\n"), []string{"6:55 invalid: a metric needs at least one threshold | [80, 90]"}},
		{"metric of time", onRecord("    metric: {name: load, value: days_since(record.x) * days_since(record.y), thresholds: [3]}\n"), []string{"6:13 invalid: it cannot be computed when time alone changes this: days_since(record.x) * days_since(record.y) | write check: [change, 5m], so that it is also evaluated every 5 minutes"}},
		{"date and metric", onRecord("    metric: {name: load, value: record.x, thresholds: [3]}\n    timing: {anchor: record.d}\n"), []string{"6:13 invalid: trigger t: a metric and a date exclude each other | make a trigger of each"}},
		{"date and fire", onRecord("    fire: once_per_day\n    timing: {anchor: record.d}\n"), []string{"6:11 invalid: trigger t: by a date it fires once for each date and offset | remove fire"}},
		{"without a date", onRecord("    when: record.a == 1\n    timing: {offset: [1d, 2d], at: \"09:00\", timezone: UTC}\n"), []string{
			`7:22 invalid: trigger t: several offsets are for a date | write anchor: the date of the record that they count from`,
			`7:36 invalid: trigger t: at is for a date | write anchor: the date of the record that it counts from`,
			`7:55 invalid: trigger t: timezone is for a date | write anchor: the date of the record that it counts from`,
		}},
		{"before it is met", onRecord("    when: record.a == 1\n    timing: {offset: -1d}\n"), []string{"7:22 invalid: nothing can leave before the condition is met | write an offset such as 10m, or for: how long it must have held"}},
		{"offsets", timing("anchor: record.d, offset: [-2d, -2d, 2 days]"), []string{
			"6:46 invalid: -2d is listed twice | each offset is an occasion of its own",
			`6:51 invalid: "2 days" is not an offset | -2d is two days before the anchor, +3d three days after`,
		}},
		{"a repair", onRecord("    when: record.a == 1\n    reconcile: {every: 30m, due_within: 2d, where: 4 + 12345678, batch: 6000}\n"), []string{
			"7:24 invalid: a repair goes over all records: at most once an hour | write 1h or longer, such as 1d",
			"7:41 invalid: trigger t: due_within is for a date | remove it: without a date all is due at once",
			"7:52 expression: this must be true or false, and is a number | in: 4 + 12345678",
			"7:73 invalid: a batch has at most 5000 records",
		}},
		{"a repair of nothing", onRecord("    when: record.a == 1\n    cooldown: {length: 1h}\n    reconcile: {batch: 2}\n"), []string{
			"8:16 missing: a repair needs every | every: how often the records are gone over, in batches: 1h or longer",
			"8:16 invalid: trigger t: with a cooldown nothing is planned ahead, so nothing can be missing | remove reconcile: every evaluation decides again what is sent",
		}},
		{"a repair without records", strings.Replace(onRecord("    reconcile: {every: 1d}\n"), "record: kiosk", "event: e", 1), []string{"6:16 invalid: trigger t: reconcile is for triggers with a record | remove it"}},
		{"the moment of the look", timing("anchor: now + days(2)"), []string{"6:22 expression: there is no now here | in: now + days(2)"}},
		{"a time of day", timing("anchor: record.d, at: \"9 h\""), []string{`6:36 invalid: "9 h" is not a time of day | a time of day is written "09:00", from "00:00" to "23:59"`}},
		{"a span", timing("anchor: record.d, at: random 9-10"), []string{`6:36 invalid: "9-10" is not a span of the day | a span of the day is written "22:00-07:00"; it may cross midnight`}},
		{"zones", timing("anchor: record.d, timezone: [Europe/Berln, contact.timezone]"), []string{
			`6:43 invalid: "Europe/Berln" is not a zone | use a name of the tz database, such as Europe/Berlin, or UTC`,
			"6:57 invalid: the zone of the contact stands first | [contact.timezone, record.timezone]: the others are for people without a zone",
		}},
		{"zones of people", timing("anchor: record.d, timezone: contact.timezone, follow_zone: false"), []string{"6:73 invalid: trigger t: each contact is notified in their present zone | remove follow_zone, or write a zone that is the same for everybody"}},
		{"the zone of one person", strings.Replace(timing("anchor: record.d, timezone: contact.timezone, follow_zone: false"), "everyone: true", "to: record", 1), nil},
		{"other fields of people", timing("anchor: record.d, timezone: contact.place"), []string{`6:42 not_supported_yet: "contact.place" is not supported yet | the zone of a contact is contact.timezone`}},
		{"days of people", onRecord("    when: record.a == 1\n    fire: once_per_day\n    timing: {timezone: contact.timezone}\n"), []string{
			"8:24 invalid: trigger t: a day of once_per_day is one for everybody, and so in one zone | write a zone, or record.timezone",
		}},
		{"people without a date", onRecord("    when: record.a == 1\n    timing: {timezone: contact.timezone}\n"), []string{
			"7:24 invalid: trigger t: timezone is for a date | write anchor: the date of the record that it counts from",
		}},
		{"dst", timing("anchor: record.d, dst: {gap: back, overlap: first}"), []string{`6:43 invalid: "back" is not a value of gap | it is forward or skip`}},
		{"pin", strings.Replace(timing("anchor: record.d"), "type: alert\n", "type: alert\npin: true\n", 1), []string{"5:5 invalid: trigger t: pin: true is for events: what is planned by a record follows its definition | remove pin"}},
		{"resolved", onRecord("    when: record.a == 1\n    resolved: {sms: {text: x}}\n"), []string{"7:15 invalid: trigger t: resolved is for issues, and for when with a cooldown | remove it: a reminder is withdrawn where it no longer holds"}},
		{"texts", strings.Replace(timing("anchor: record.d"), "Hello", `"{{ metric.value }} {{ days_left }}"`, 1), []string{"12:15 template: there is no metric here: the trigger has none, which is metric: with its name, value and thresholds"}},
		{"texts without a date", strings.Replace(onRecord("    when: record.a == 1\n"), "Hello", `"{{ days_left }}"`, 1), []string{"12:15 template: there are no days left here: the trigger has no date, which is the anchor of its timing"}},
		{"an event with a zone", strings.Replace(timing("anchor: event.d, timezone: UTC"), "record: kiosk", "event: e", 1), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, said(load(tc.text))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
