package loader_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// said writes problems as line:column code: message, with the hint behind a bar.
func said(problems []definition.Problem) []string {
	var all []string
	for _, p := range problems {
		line := fmt.Sprintf("%d:%d %s: %s", p.Line, p.Column, p.Code, p.Message)
		if p.Warning {
			line = "warning " + line
		}
		if p.Hint != "" {
			line += " | " + p.Hint
		}
		all = append(all, line)
	}
	return all
}

// head is a workflow without mistakes up to its triggers; the trigger begins in line 4.
const head = "workflow: w\ntype: alert\ntriggers:\n"

// tail ends it, in eight lines.
const tail = `audience:
  - to: event.recipient
channel: sms
message:
  sms:
    text: Hello
---
channel: sms
provider: memory
`

// What a provider says of a setting stands at its place.
func TestProvidersCheckSettings(t *testing.T) {
	t.Parallel()
	check := func(settings map[string]string) (string, error) {
		switch {
		case settings["url"] == "ftp://x":
			return "url", errors.New("setting url: must be an http or https address")
		case settings["url"] == "both":
			return "", errors.New("url and token contradict each other")
		}
		return "", nil
	}
	options := loader.Options{Providers: []definition.ProviderInfo{{
		Name: "http", Check: check, Settings: []definition.SettingInfo{{Name: "url", Required: true}, {Name: "token", Secret: true}},
	}}}
	for url, want := range map[string][]string{
		"ftp://x":    {"5:8 invalid: setting url: must be an http or https address"},
		"both":       {"4:3 invalid: url and token contradict each other"},
		"https://x":  nil,
		"{env: URL}": nil,
	} {
		text := "channel: sms\nprovider: http\nsettings:\n  token: {env: T}\n  url: " + url + "\n"
		_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, options)
		if diff := cmp.Diff(want, said(problems)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", url, diff)
		}
	}
}

// The provider and the settings of a sink are checked as those of a channel are.
func TestMistakesOfSinks(t *testing.T) {
	t.Parallel()
	options := loader.Options{
		Providers: []definition.ProviderInfo{{Name: "smtp"}},
		Sinks: []definition.ProviderInfo{
			{Name: "file", Settings: []definition.SettingInfo{{Name: "path", Required: true}}},
			{
				Name: "webhook", Settings: []definition.SettingInfo{{Name: "url", Required: true}, {Name: "secret", Required: true, Secret: true}},
				Check: func(settings map[string]string) (string, error) {
					if strings.HasPrefix(settings["url"], "ftp:") {
						return "url", errors.New("setting url: must be an http or https address")
					}
					return "", nil
				},
			},
		},
	}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"right":                {"sink: s\nprovider: webhook\nsettings: {url: \"https://x.test\", secret: {env: S}}\n", nil},
		"unknown provider":     {"sink: s\nprovider: kafka\n", []string{`2:11 reference: no provider named "kafka" | providers are file and webhook`}},
		"misspelt provider":    {"sink: s\nprovider: webhok\n", []string{`2:11 reference: no provider named "webhok" | did you mean webhook?`}},
		"provider of mails":    {"sink: s\nprovider: smtp\n", []string{`2:11 reference: no provider named "smtp" | providers are file and webhook`}},
		"no provider":          {"sink: s\nsettings: {path: a.ndjson}\n", []string{"1:1 missing: a sink needs provider | provider: what carries the outcomes"}},
		"no settings":          {"sink: s\nprovider: webhook\n", []string{"1:1 missing: provider webhook needs the settings url and secret"}},
		"a setting is missing": {"sink: s\nprovider: webhook\nsettings:\n  secret: {env: S}\n", []string{"4:3 missing: provider webhook needs the setting url"}},
		"unknown setting":      {"sink: s\nprovider: file\nsettings:\n  path: a.ndjson\n  pth: b\n", []string{`5:3 unknown_key: provider file has no setting "pth" | did you mean path?`}},
		"a secret in clear":    {"sink: s\nprovider: webhook\nsettings:\n  url: https://x.test\n  secret: whsec_1\n", []string{"5:11 invalid: a secret is never written into a definition | write {secret: NAME}, {env: NAME} or {file: PATH}"}},
		"bad url":              {"sink: s\nprovider: webhook\nsettings:\n  url: ftp://x.test\n  secret: {env: S}\n", []string{"4:8 invalid: setting url: must be an http or https address"}},
		"no attempts":          {"sink: s\nprovider: file\nsettings: {path: a.ndjson}\nretry: {attempts: 0}\n", []string{"4:19 invalid: attempts is 0, so no outcome would be tried | write 1 to have each outcome tried once, or remove the line for 8 tries"}},
		"fewer attempts":       {"sink: s\nprovider: file\nsettings: {path: a.ndjson}\nretry: {attempts: -1}\n", []string{"4:19 invalid: this must be a whole number from 1 to 1000000, and is -1"}},
		"half an attempt":      {"sink: s\nprovider: file\nsettings: {path: a.ndjson}\nretry: {attempts: 0.5}\n", []string{"4:19 invalid: this must be a whole number from 1 to 1000000, and is 0.5"}},
		"very many attempts":   {"sink: s\nprovider: file\nsettings: {path: a.ndjson}\nretry: {attempts: " + strings.Repeat("1", 99) + "}\n", []string{"4:19 invalid: this must be a whole number from 1 to 1000000, and is a number"}},
		"no waits":             {"sink: s\nprovider: file\nsettings: {path: a.ndjson}\nretry: {backoff: often}\n", []string{`4:18 invalid: "often" is not a duration | a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`}},
		"unknown key of retry": {"sink: s\nprovider: file\nsettings: {path: a.ndjson}\nretry: {atempts: 3}\n", []string{`4:9 unknown_key: unknown key "atempts" | did you mean attempts?`}},
	} {
		_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(tc.text)}}, options)
		if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What a definition says of tries reaches the model; what it leaves out is the default.
func TestRetryOfSinks(t *testing.T) {
	t.Parallel()
	const head = "sink: s\nprovider: file\nsettings: {path: a.ndjson}\n"
	for text, want := range map[string]definition.Sink{
		"": {Jitter: loader.DefaultJitter},
		"retry: {backoff: [10s, 1m], attempts: 3, jitter: none}\n": {Backoff: []time.Duration{10 * time.Second, time.Minute}, Attempts: 3},
		"retry: {attempts: 1}\n":                                   {Attempts: 1, Jitter: loader.DefaultJitter},
	} {
		bundle, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(head + text)}}, loader.Options{})
		if len(problems) > 0 {
			t.Fatalf("%s: %v", text, said(problems))
		}
		got := bundle.Set.Sink("s")
		if !slices.Equal(got.Backoff, want.Backoff) || got.Attempts != want.Attempts || got.Jitter != want.Jitter {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

// A secret that is not there yet stops nobody: the definition may come first.
func TestSecretsAreLookedFor(t *testing.T) {
	t.Parallel()
	options := loader.Options{Secret: func(name string) error {
		if name == "HAVE" {
			return nil
		}
		return errors.New("there is no secret named " + name)
	}}
	const text = "channel: sms\nprovider: http\nsettings:\n  url: {secret: HAVE}\n  token: {secret: HAVE_NOT}\n  more: {secret: a b}\n"
	_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, options)
	want := []string{
		"warning 5:19 reference: there is no secret named HAVE_NOT | carillon secrets set HAVE_NOT",
		`6:18 invalid: "a b" is not the name of a secret`,
	}
	if diff := cmp.Diff(want, said(problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"unknown kind", "workflw: w\ntype: alert\n", []string{`1:1 unknown_key: unknown kind "workflw" | did you mean workflow?`}},
		{"kind below", "type: alert\nworkflow: w\n", []string{`1:1 unknown_key: unknown kind "type" | the first key is the kind: move it to the first line`}},
		{"no map", "- a\n- b\n", []string{`1:1 invalid: this must be a definition, and is a list | its first key is its kind, its value the name, such as workflow: csi-gr`}},
		{"nothing but braces", "{}\n", []string{`1:1 invalid: this must be a definition, and is a map | its first key is its kind, its value the name, such as workflow: csi-gr`}},
		{"name", "sink: a b\nprovider: file\n", []string{`1:7 invalid: "a b" is not a name | write a-b`}},
		{"twice", "sink: a\nprovider: file\n---\nsink: a\nprovider: file\n", []string{`4:7 duplicate: sink a is defined twice | the other one is at a.yaml:1`}},
		{"one channel in two spellings", "channel: sms\nprovider: memory\n---\nchannel: sms:default\nprovider: memory\n", []string{`4:10 duplicate: channel sms:default is defined twice | the other one is at a.yaml:1`}},
		{"two workspaces", "workspace: a\n---\nworkspace: b\n", []string{`3:12 duplicate: there is one workspace in a set of definitions | put the definitions of another workspace into a folder of their own`}},
		{"nothing but a name", "workflow: w\n", []string{`1:1 missing: workflow w has no type, triggers, audience, channel and message | type is alert, reminder, report, survey, broadcast, digest, story_so_far, notice or custom`}},
		{"reserved name", "workflow: retry\ntype: alert\ntriggers:\n  - {id: event, event: e}\n" + tail, []string{
			`1:11 invalid: "retry" is a word of the engine's own keys; take another name`, `4:10 invalid: "event" is a word of the engine's own keys; take another name`,
		}},
		{"misspelt required key", "workflow: w\ntipe: alert\ntriggers:\n  - {id: t, event: e}\n" + tail, []string{`2:1 unknown_key: unknown key "tipe" | did you mean type?`}},
		{"key of another block", "workflow: w\ntype: alert\noffset: 2d\ntriggers:\n  - {id: t, event: e}\n" + tail, []string{`3:1 unknown_key: unknown key "offset" | write it below timing`}},
		{"type", "workflow: w\ntype: alrt\ntriggers:\n  - {id: t, event: e}\n" + tail, []string{`2:7 invalid: "alrt" is not a value of type | did you mean alert?`}},
		{"enabled", "workflow: w\ntype: alert\nenabled: 1\ntriggers:\n  - {id: t, event: e}\n" + tail, []string{`3:10 invalid: this must be true or false, and is a number`}},
		{"no triggers", "workflow: w\ntype: alert\ntriggers: []\n" + tail, []string{`3:11 invalid: a workflow needs at least one trigger`}},
		{"trigger without event", head + "  - id: t\n" + tail, []string{`4:5 missing: trigger t has neither event nor record nor schedule | event: the kind of event that makes an occasion, record: the type of records to evaluate, or schedule: when it recurs`}},
		{"trigger without id", head + "  - event: e\n" + tail, []string{`4:5 missing: a trigger needs id | id: a name of its own, such as first`}},
		{"triggers of one id", head + "  - {id: t, event: e}\n  - {id: t, event: f}\n" + tail, []string{`5:10 duplicate: there are two triggers t | give each an id of its own`}},
		{"event and record", head + "  - {id: t, event: e, record: r}\n" + tail, []string{
			`4:5 invalid: trigger t: event, record and schedule exclude each other | make a trigger of each`,
		}},
		{"one of two triggers without a channel", "workflow: w\ntype: alert\ntriggers:\n  - {id: t, event: e, channel: memory}\n  - {id: u, event: f}\naudience: {to: event.recipient}\nmessage: {sms: {text: x}}\n---\nchannel: memory\nprovider: memory\n", []string{
			`5:5 missing: trigger u has no channel | write it here, or once for the whole workflow`,
		}},
		{"dedup", head + "  - {id: t, event: e, dedup: [recipient.adress, templateID, candidate.a, candidate.a, a b]}\n" + tail, []string{
			`4:31 invalid: a recipient has no "adress" | did you mean address?`, `4:49 invalid: "templateID" is not a path | did you mean templateId?`,
			`4:74 invalid: "candidate.a" is listed twice in the recipe`, `4:87 invalid: "a b" is not a path | a path is written candidate.wip, recipient.address, templateId or id`,
		}},
		{"condition", head + "  - {id: t, event: e, when: {field: event.a, all: [x]}}\n" + tail, []string{`4:29 invalid: this is no condition | write an expression, a list of them, all: or any: with a list, or field, op and value`}},
		{"condition without op", head + "  - {id: t, event: e, when: {field: event.a}}\n" + tail, []string{`4:29 missing: a condition on a field needs an op | such as op: is`}},
		{"empty condition", head + "  - {id: t, event: e, when: []}\n" + tail, []string{`4:29 invalid: this list of conditions is empty`}},
		{"name in an expression", head + "  - id: t\n    event: e\n    when: evnt.a == 1\n" + tail, []string{`6:11 expression: undefined name 'evnt' | did you mean event?`}},
		{"second line of a condition", head + "  - id: t\n    event: e\n    when:\n      - event.a == 1\n      - event.b = 2\n" + tail, []string{`8:17 expression: a single = compares nothing | write == to compare`}},
		{"constant", head + "  - id: t\n    event: e\n    when: event.a > vars.limt\nvars: {limit: 1}\n" + tail, []string{`6:21 reference: workflow w has no constant "limt" | did you mean limit?`}},
		{"timing", head + "  - id: t\n    event: e\n    timing:\n      offset: 1 day\n      reminders: [1h, 0d]\n      reminders_from: ankor\n      expire_after: month\n      catch_up: later\n" + tail, []string{
			`7:15 invalid: "1 day" is not an offset | -2d is two days before the anchor, +3d three days after`,
			`8:23 invalid: "0d" is no time at all | write one such as 5m`,
			`9:23 invalid: "ankor" is not a value of reminders_from | did you mean anchor?`,
			`10:21 invalid: "month" is not a duration | a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`,
			`11:17 invalid: "later" does not say how late | write a duration such as 48h, or never, or forever`,
		}},
		{"accept_late without a survey", head + "  - {id: t, event: e, timing: {accept_late: true}}\n" + tail, []string{
			`4:45 invalid: accept_late is for a message with a survey | remove it: nobody can answer this message`,
		}},
		{"anchor", head + "  - {id: t, event: e, timing: {anchor: event.a > 1}}\n" + tail, []string{`4:40 expression: this must be a time, and is true or false | in: event.a > 1`}},
		{"descending reminders", head + "  - {id: t, event: e, timing: {reminders: [10d, 5d], reminders_from: anchor}}\n" + tail, []string{`4:43 invalid: reminders that count from the anchor must ascend | [5d, 15d, 30d]`}},
		{"audience", head + "  - id: t\n    event: e\n    audience:\n      - {to: event.a, address: event.b, kind: sms}\n      - address: event.b\n      - {to: event.a, kind: sms}\n      - where: contact.id == \"x\"\n" + tail, []string{
			`7:9 invalid: to, address, persona, group, place, place_above, topics, function and everyone exclude each other | write an entry for each`, `8:9 missing: an address needs its kind | kind is email, sms, whatsapp, push, inbox or webhook`,
			`9:29 invalid: kind says what kind of address it is, and there is no address`, `10:9 missing: an entry of the audience needs to, address, persona, group, place, place_above, topics, function or everyone | such as to: event.recipient`,
		}},
		{"an address that no channel takes", head + "  - {id: t, event: e, audience: [{address: event.a, kind: sms}, {address: event.b, kind: push}]}\n" + tail, []string{
			`4:90 invalid: none of its channels takes an address of the kind push | it leaves by sms:default`,
		}},
		{"mistake in a block that is replaced", head + "  - {id: t, event: e, timing: {offset: 1d}}\ntiming: {offset: x}\n" + tail, []string{`5:18 invalid: "x" is not an offset | -2d is two days before the anchor, +3d three days after`}},
		{"no texts for the channel", "workflow: w\ntype: alert\ntriggers:\n  - {id: t, event: e}\naudience: {to: event.recipient}\nchannel: sms\nmessage:\n  email: {subject: a, text: b}\n---\nchannel: sms\nprovider: memory\n", []string{
			`8:3 missing: this message has no texts for sms, by which it leaves | write sms: below it`,
		}},
		{"template and texts", "template: t\nsms: {text: x}\n---\nworkflow: w\ntype: alert\ntriggers:\n  - {id: t, event: e}\naudience: {to: event.recipient}\nchannel: memory\nmessage:\n  template: t\n  sms: {text: x}\n---\nchannel: memory\nprovider: memory\n", []string{
			`11:3 invalid: a message has a template, a survey or texts of its own | keep one of them`,
		}},
		{"no template", strings.Replace(head+"  - {id: t, event: e}\n"+tail, "  sms:\n    text: Hello\n", "  template: tt\n", 1), []string{`9:13 reference: no template named "tt" | define it with template: tt`}},
		{"no survey, channel and sink", "workflow: w\ntype: survey\ntriggers:\n  - {id: t, event: e}\naudience: {to: event.recipient}\nchannel: emial\nmessage: {survey: s}\nsinks: {sink: x}\n", []string{
			`warning 6:10 reference: no channel named "emial" | did you mean email:default?`,
			`warning 7:19 reference: no survey named "s" | define it with survey: s`,
			`warning 8:15 reference: no sink named "x", so this route leads nowhere: no outcome is kept for a sink that is defined later | define it with sink: x`,
		}},
		{"text", "template: t\nsms:\n  text:\n    en: \"Hello {{ evnt.name }}\"\n    english language: x\n    sw: \"{{ contact.adress }} {{ survey.lnk }}\"\n", []string{
			`4:19 template: there is no variable "evnt" | did you mean event?`, `5:5 invalid: "english language" is not a locale | a text is one text, or a map of locales such as en and ar-IQ`,
			`6:13 template: contact has no field "adress" | did you mean address?`, `6:34 template: survey has no field "lnk" | did you mean link?`,
		}},
		{"retry", "workspace: default\nretry:\n  backoff: [5m, soon]\n  jitter: 20\n  then: giveup\n", []string{
			`3:17 invalid: "soon" is not a duration | a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`,
			`4:11 invalid: "20" is not a jitter | write none, or a percentage such as 20%`, `5:9 invalid: "giveup" is not a value of then | it is fail, hold, daily or forever`,
		}},
		{"retry of instances", head + "  - {id: t, event: e}\nretry: {on_crash: never, lease: 2h}\n" + strings.Replace(tail, "event.recipient", "'\"x\"'", 1), []string{
			`5:19 invalid: "never" is not a value of on_crash | it is now or ladder`, `5:33 invalid: a lease is from 1s to 1h | a lease is not renewed, so choose more than the longest run of one instance`,
		}},
		{"retry of no instances", head + "  - {id: t, event: e}\nretry: {then: daily, on_crash: ladder, lease: 1m}\n" + tail, []string{
			`5:15 invalid: then: daily is about instances, and those of w are done when their event is taken in | leave it out`,
			`5:32 invalid: on_crash is about instances, and those of w are done when their event is taken in | leave it out`,
			`5:47 invalid: lease is about instances, and those of w are done when their event is taken in | leave it out`,
		}},
		{"workspace", "workspace: default\ntimezone: CET+1\nlocale: english language\nbase_url: carillon.example.org\n", []string{
			`2:11 invalid: "CET+1" is not a zone | use a name of the tz database, such as Europe/Berlin, or UTC`, `3:9 invalid: "english language" is not a locale | a locale is written en or ar-IQ`,
			`4:11 invalid: "carillon.example.org" is not the base of links | such as https://carillon.example.org`,
		}},
		{"channel", "channel: sms\nprovider: htp\n---\nchannel: push\nprovider: http\nsettings:\n  ulr: http://127.0.0.1\n  token: s3cret\n---\nchannel: inbox\nprovider: inbox\nsettings: {a: b}\non_unknown: retry\n", []string{
			`2:11 reference: no provider named "htp" | did you mean http?`,
			`7:3 unknown_key: provider http has no setting "ulr" | did you mean url?`,
			`8:10 invalid: a secret is never written into a definition | write {secret: NAME}, {env: NAME} or {file: PATH}`,
			`12:12 unknown_key: provider inbox has no setting "a" | it has no settings`,
			`13:13 invalid: "retry" is not a value of on_unknown | it is resend, hold or verify`,
		}},
		{"what follows an unknown outcome", "channel: push\nprovider: http\nsettings: {url: http://127.0.0.1}\non_unknown: verify\ntimeout: 6m\n---\nchannel: sms\nprovider: asked\non_unknown: verify\n---\nchannel: email\nprovider: memory\non_unknown: hold\nidempotency_ttl: 24h\n", []string{
			`4:13 invalid: provider http cannot look up the outcome of a message | write resend if it recognises a repeated idempotency key, else hold`,
			`5:10 invalid: a request takes at most 5m`,
			`9:13 missing: on_unknown: verify needs the setting status_url of provider asked | write resend if it recognises a repeated idempotency key, else hold`,
			`14:18 invalid: idempotency_ttl bounds on_unknown: resend only: hold never sends again, verify asks first | remove it`,
		}},
		{"a provider of other kinds of channels", "channel: whatsapp:town\nprovider: telnyx\nsettings: {api_key: {secret: k}, from: '1'}\non_unknown: verify\n---\nchannel: email\nprovider: twilio\nsettings: {account_sid: a, auth_token: t, from: '1'}\n", []string{
			`2:11 invalid: provider telnyx does not serve channels of the kind whatsapp | its kinds: sms`,
			`4:13 invalid: provider telnyx cannot look up the outcome of a message | write resend if it recognises a repeated idempotency key, else hold`,
			`7:11 invalid: provider twilio does not serve channels of the kind email | its kinds: sms, whatsapp`,
			`8:40 invalid: a secret is never written into a definition | write {secret: NAME}, {env: NAME} or {file: PATH}`,
		}},
		{"words of a channel", "channel: sms\nprovider: memory\nkeywords:\n  stop: []\n  start: [go, ' . ']\n  help: [Go!, help]\n", []string{
			`4:9 invalid: an empty list would leave people without a word | name one, or remove the line for the built-in ones`,
			`5:15 invalid: a word has a letter or a digit`,
			`6:10 invalid: "Go!" stands there already | each word has one meaning`,
		}},
		{"what a channel lets through", "channel: push\nprovider: memory\nrate: 50\nconcurrency: 2000\nonly_to: [ann@example.org, '*']\n---\nchannel: sms\nprovider: memory\nrate: 0/s\nconcurrency: none\nonly_to: []\n", []string{
			`3:7 invalid: "50" is not a rate | a rate is written 50/s, 600/m or 1000/h`,
			`4:14 invalid: at most 1000 requests can be in flight at once`,
			`5:28 invalid: "*" allows everybody: leave the list out`,
			`9:7 invalid: "0/s" is not a rate | a rate is written 50/s, 600/m or 1000/h`,
			`10:14 invalid: this must be a whole number from 1 to 1000000, and is a text`,
			`11:10 invalid: an empty list would allow everybody | name who may be written to, or remove the line`,
		}},
		{"settings that are needed", "channel: push\nprovider: http\n", []string{`1:1 missing: provider http needs the setting url`}},
		{"survey", `survey: s
title: S
questions:
  - {id: a, type: choice, text: A}
  - {id: b, type: rating, text: B, min: 5, max: 1}
  - {id: c, type: number, text: C, max_length: 3, show_when: answers.z == 1}
  - {id: a, type: txt, text: D, pattern: "("}
  - {id: e, type: multiple, text: E, options: [{value: x, text: X}, {value: x, text: Z}]}
`, []string{
			`4:5 missing: a question of type choice needs options`, `5:49 invalid: max must be greater than min`,
			`6:48 invalid: max_length is not for questions of type number | it is for text`, `6:62 reference: no question "z" comes before this one`,
			`7:10 duplicate: there are two questions a`, `7:19 invalid: "txt" is not a value of type | did you mean text?`,
			"7:42 invalid: \"(\" is not a regular expression | missing closing ): `(`", `8:77 duplicate: there are two options x`,
		}},
		{"survey without an invitation", "survey: s\ntitle: S\nquestions: {id: a, type: text, text: A}\n---\n" + strings.Replace(head+"  - {id: t, event: e}\n"+tail, "  sms:\n    text: Hello\n", "  survey: s\n", 1), []string{
			`13:11 reference: survey s has no invitation | write invitation: with a text`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{yaml(tc.text)}, loader.Options{Providers: providers()})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecipesAreLinted shows the guidance on recipes, and that a sound one is left in peace.
//
// Shows: C14.
func TestRecipesAreLinted(t *testing.T) {
	t.Parallel()
	one := func(name, recipe string) string {
		return strings.Split(short(name, "    dedup: "+recipe+"\n"), "---")[0]
	}
	rest := "---\nchannel: sms\nprovider: memory\n"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"sound", one("a", "[templateId, recipient.address, candidate.wip]"), nil},
		{"the event's id", one("a", "[templateId, id]"), nil},
		{"empty", one("a", "[]"), []string{"6:12 invalid: the recipe is empty | leave it out: an event is known by its id then"}},
		{"too narrow", one("a", "[templateId, recipient.address]"), []string{"warning 6:12 lint: the recipe has no id of the event itself: a second event for the same person is lost | add id or a field of the payload, such as candidate.wip"}},
		{"no address", one("a", "[templateId, candidate.wip]"), []string{"warning 6:12 lint: the recipe has no recipient.address: the same event for another person is lost | add recipient.address"}},
		{"too wide", one("a", "[templateId, recipient.address, candidate.wip, occurred_at]"), []string{"warning 6:12 lint: occurred_at differs every time, so no event is ever the same | leave it out of the recipe"}},
		{"shared without templateId", one("a", "[recipient.address, candidate.wip]") + "---\n" + one("b", "[recipient.address, candidate.wip]"), []string{
			"warning 19:12 lint: workflow a has the same recipe for the same event | add templateId, so that the hashes of the two differ",
		}},
		{"shared with templateId", one("a", "[templateId, recipient.address, candidate.wip]") + "---\n" + one("b", "[templateId, recipient.address, candidate.wip]"), nil},
		{"two triggers", one("a", "[templateId, recipient.address, id]\n  - {id: u, event: hello, dedup: [templateId, recipient.address, id]}"), []string{
			"warning 7:34 lint: triggers t and u make the same event one occasion: only the first that fires sends | make their when exclude each other, or give them recipes of their own",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, said(load(tc.text+rest))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
