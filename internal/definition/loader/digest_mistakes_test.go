package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// Each mistake in a digest is refused with its place and its remedy.
func TestMistakesOfDigests(t *testing.T) {
	t.Parallel()
	const whole = `workflow: w
type: digest
triggers:
  - id: daily
    schedule: {every: 1d, at: "08:30", period: 1d}
audience: [{topics: all, frequency: daily}]
channel: sms
message: {sms: {text: "{{ digest.more }} {{ unsubscribe_link }}"}}
digest: {bundle: contact}
---
channel: sms
provider: memory
`
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(whole) }
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"a digest", whole, nil},
		{"without its block", with("digest: {bundle: contact}\n", ""), nil},
		{"another type", with("type: digest", "type: report", "{{ digest.more }} {{ unsubscribe_link }}", "Hello"), []string{
			"9:9 invalid: digest goes with type: digest, and the type is report | write type: digest, or remove digest",
		}},
		{"no schedule", with(`schedule: {every: 1d, at: "08:30", period: 1d}`, "event: item.published", "topics: all, frequency: daily", "topics: matched", "{{ digest.more }}", ""), []string{
			"9:9 invalid: no trigger makes digests | add a trigger with a schedule, or remove digest",
		}},
		{"no period", with(", period: 1d", ""), []string{
			`5:15 missing: trigger daily: a digest needs the period whose items it holds | such as period: 1d, with period_end: "08:00"`,
		}},
		{"others than subscribers", with("[{topics: all, frequency: daily}]", "[{everyone: true}]"), []string{
			"5:15 invalid: trigger daily: a digest goes to those who subscribe to topics, and its audience has others | write topics: all, with the frequency that it serves, or another type such as broadcast",
		}},
		{"no frequency", with(", frequency: daily", ""), []string{
			"5:15 invalid: trigger daily: a digest serves one frequency, and its audience has none or several | write one in each entry, such as frequency: daily",
		}},
		{"the zones of people", with("period: 1d", "period: 1d, timezone: contact.timezone"), []string{
			"5:62 invalid: trigger daily: a digest is about one period, and so in one zone | write a zone",
		}},
		{"backlog", with("channel: sms\nmessage", "timing: {backlog: all}\nchannel: sms\nmessage"), []string{
			"7:19 invalid: a digest says by catch_up what becomes of a missed run | write digest: {catch_up: send} for each of them",
		}},
		{"fold", with("channel: sms\nmessage", "limits: {at_send: fold}\nchannel: sms\nmessage"), []string{
			"4:5 invalid: trigger daily: a digest does not leave as part of another message | write at_send: defer in its limits",
		}},
		{"reminders", with("channel: sms\nmessage", "timing: {reminders: [1d]}\nchannel: sms\nmessage"), []string{
			"4:5 invalid: trigger daily: a digest has no reminders | remove reminders from its timing",
		}},
		{"duplicates of one topic", with("bundle: contact", "bundle: subscription, duplicates: each"), []string{
			"9:44 invalid: each message is about one topic, so none of its items stands in another section | remove duplicates, or write bundle: contact",
		}},
		{"too many items", with("bundle: contact", "max_items: 5000"), []string{"9:21 invalid: this must be a whole number from 1 to 1000, and is 5000"}},
		{"the digest of a message that is none", with("type: digest", "type: report", "digest: {bundle: contact}\n", ""), []string{
			"8:27 template: there is no digest here: a message has one if its workflow is of type: digest and its trigger has a schedule",
			"8:45 template: there is no unsubscribe link here: the message is neither a digest nor about an item, to subscribers alone",
		}},
		{"a link to who does not subscribe", with("type: digest", "type: notice", "digest: {bundle: contact}\n", "", `schedule: {every: 1d, at: "08:30", period: 1d}`, "event: item.published", "topics: all, frequency: daily", "everyone: true", "{{ digest.more }} ", ""), []string{
			"8:27 template: there is no unsubscribe link here: the message is neither a digest nor about an item, to subscribers alone",
		}},
	} {
		_, problems := loader.Load([]definition.File{yaml(tc.text)}, loader.Options{})
		if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, diff)
		}
	}
}
