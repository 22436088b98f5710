package loader_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// A message that makes a telephone ring and waits for another day comes at midnight, where nothing keeps it from that.
func TestMidnightIsWarnedOf(t *testing.T) {
	t.Parallel()
	const base = "workspace: default\ncadence: {max_per_day: 0}\n---\nchannel: sms\nprovider: memory\n---\nchannel: email\nprovider: memory\n---\n" +
		"record_type: visit\nfields: {starts: datetime, day: date}\n---\n"
	warning := "what waits for max_per_day of persona P comes by sms at 00:00"
	for _, c := range []struct{ name, cadence, flow, want string }{
		{"an event", "{max_per_day: 1}", "triggers: [{id: t, event: e}]\nchannel: sms\n", warning},
		{"a fallback", "{max_per_day: 1}", "triggers: [{id: t, event: e}]\nchannel: email\nfallback: [sms]\n", ""},
		{"a total", "{total: {max_per_week: 1}}", "triggers: [{id: t, event: e}]\nchannel: sms\n", strings.Replace(warning, "max_per_day", "total.max_per_week", 1)},
		{"limits of a kind", `{quiet_hours: "20:00-07:00", channels: {sms: {max_per_day: 3}}}`, "triggers: [{id: t, event: e}]\nchannel: sms\n", warning},
		{"an instant", "{max_per_day: 1}", "triggers: [{id: t, record: visit}]\ntiming: {anchor: record.starts, offset: -2h}\nchannel: sms\n", warning},
		{"reminders of a date", "{max_per_day: 1}", "triggers: [{id: t, record: visit}]\ntiming: {anchor: record.day, reminders: [2d]}\nchannel: sms\n", warning},
		{"email", "{max_per_day: 1}", "triggers: [{id: t, event: e}]\nchannel: email\n", ""},
		{"resume_at", `{max_per_day: 1, resume_at: "08:00"}`, "triggers: [{id: t, event: e}]\nchannel: sms\n", ""},
		{"quiet hours over midnight", `{max_per_day: 1, quiet_hours: "20:00-07:00"}`, "triggers: [{id: t, event: e}]\nchannel: sms\n", ""},
		{"quiet hours from midnight on", `{max_per_day: 1, quiet_hours: "00:00-07:00"}`, "triggers: [{id: t, event: e}]\nchannel: sms\n", ""},
		{"quiet hours until midnight", `{max_per_day: 1, quiet_hours: "20:00-00:00"}`, "triggers: [{id: t, event: e}]\nchannel: sms\n", warning},
		{"a send window", "{max_per_day: 1}", "triggers: [{id: t, event: e}]\nchannel: sms\nlimits: {send_window: \"08:00-20:00\"}\n", ""},
		{"a send window at night", "{max_per_day: 1}", "triggers: [{id: t, event: e}]\nchannel: sms\nlimits: {send_window: \"20:00-08:00\"}\n", warning},
		{"rolling windows", "{max_per_day: 1, window: rolling}", "triggers: [{id: t, event: e}]\nchannel: sms\n", ""},
		{"a cooldown alone", "{cooldown: 1h}", "triggers: [{id: t, event: e}]\nchannel: sms\n", ""},
		{"what is critical", "{max_per_day: 1}", "triggers: [{id: t, event: e}]\nchannel: sms\nlimits: {critical: true}\n", ""},
		{"a type outside of the limits", "{max_per_day: 1, types: [report]}", "triggers: [{id: t, event: e}]\nchannel: sms\n", ""},
		{"a date", "{max_per_day: 1}", "triggers: [{id: t, record: visit}]\ntiming: {anchor: record.day}\nchannel: sms\n", ""},
		{"a course of dates", "{max_per_day: 1}", "triggers: [{id: t, record: visit}]\ntiming: {anchor: record.day, sequence: [{day: 0}, {day: 1}]}\nchannel: sms\n", ""},
		{"a course of instants", "{max_per_day: 1}", "triggers: [{id: t, record: visit}]\ntiming: {anchor: record.starts, sequence: [{day: 0, at: \"10:00\"}, {day: 1}]}\nchannel: sms\n", warning},
		{"messages that follow", "{max_per_day: 1}", "triggers: [{id: t, record: visit}]\ntiming: {anchor: record.day, sequence: [{day: 0}, {after: 1h}]}\nchannel: sms\n", warning},
		{"a condition with times of day", "{max_per_day: 1}", "triggers: [{id: t, record: visit, when: record.day != null}]\ntiming: {repeat: {every: 1d}, at: \"10:00\"}\nchannel: sms\n", ""},
		{"a condition", "{max_per_day: 1}", "triggers: [{id: t, record: visit, when: record.day != null}]\ntiming: {repeat: {every: 1d}}\nchannel: sms\n", warning},
		{"a schedule", "{max_per_day: 1}", "triggers: [{id: t, schedule: {every: 1d, at: \"10:00\"}}]\nchannel: sms\n", ""},
	} {
		files := yaml(base + "persona: P\ncadence: " + c.cadence + "\n---\nworkflow: w\ntype: alert\naudience: [{persona: P}]\n" +
			"message: {sms: {text: x}, email: {subject: s, text: x}}\n" + c.flow)
		_, problems := loader.Load([]definition.File{files}, loader.Options{})
		var got []string
		for _, p := range said(problems) {
			if strings.Contains(p, "at 00:00") {
				got = append(got, p)
			}
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	// The default limits are reported separately.
	bundle, problems := loader.Load([]definition.File{yaml("channel: sms\nprovider: memory\n---\nworkflow: w\ntype: alert\ntriggers: [{id: t, event: e}]\n" +
		"audience: [{to: event.recipient}]\nchannel: sms\nmessage: {sms: {text: x}}\n")}, loader.Options{})
	if got := bundle.Set.RingsByDefault(); !slices.Equal(got, []string{"sms"}) {
		t.Errorf("got %v, %v", got, problems)
	}
}
