package loader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// Each mistake in a topic, and in an audience of topics, is refused with its place and its remedy.
func TestMistakesOfTopics(t *testing.T) {
	t.Parallel()
	audience := func(event, entry string) string {
		return head + "  - {id: t, event: " + event + "}\naudience: [{" + entry + "}]\nchannel: sms\nmessage: {sms: {text: Hello}}\n---\nchannel: sms\nprovider: memory\n---\ntopic: tax\nfrequencies: [daily]\n---\ntopic: visas\n"
	}
	text := func(text string) string {
		return head + "  - {id: t, event: e}\naudience: [{to: event.recipient}]\nchannel: sms\nmessage: {sms: {text: '" + text + "'}}\n---\nchannel: sms\nprovider: memory\n"
	}
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"a topic", "topic: tax\n", nil},
		{"a rule for every item", "topic: all-news\nmatch: [{}]\n", nil},
		{"a word of audiences", "topic: all\n", []string{
			"1:8 invalid: all is no name of a topic: in an audience it means others | take another name",
		}},
		{"no rules", "topic: tax\nmatch: []\n", []string{
			"2:8 invalid: no item fits an empty match | write an entry, such as - tags: {policy: {any: [tax]}}; without match, only items that name the topic belong to it",
		}},
		{"no values", "topic: tax\nmatch:\n  - tags:\n      policy: {}\n", []string{
			"4:7 missing: policy has no values | write any: [VALUE], of which an item needs one, or all: [VALUE], of which it needs each",
		}},
		{"values without any", "topic: tax\nmatch:\n  - tags: {policy: [tax]}\n", []string{
			"3:20 invalid: this must be values of a tag or a link with its keys, and is a list | its keys are any and all",
		}},
		{"an empty list of values", "topic: tax\nmatch:\n  - tags: {policy: {any: []}}\n", []string{
			"3:12 missing: policy has no values | write any: [VALUE], of which an item needs one, or all: [VALUE], of which it needs each",
		}},
		{"tags that are a list", "topic: tax\nmatch:\n  - tags: [tax]\n", []string{
			"3:11 invalid: this must be a map from a name to its value, and is a list | write NAME: VALUE, without dashes and brackets",
		}},
		{"an unknown key", "topic: tax\nmatch:\n  - tag: {policy: {any: [tax]}}\n", []string{
			"3:5 unknown_key: unknown key \"tag\" | did you mean tags?",
		}},
		{"confirm", "topic: tax\nconfirm: maybe\n", []string{
			"2:10 invalid: this must be true or false, and is a text",
		}},
		{"confirm, and nobody is asked", "topic: tax\nconfirm: true\n", []string{
			"warning 1:8 lint: nobody is asked to confirm a subscription to topic tax: no trigger listens to subscription.requested, so none ever begins | add a workflow with triggers: {id: asked, event: subscription.requested} and {{ confirm_link }} in its message",
		}},
		{"a title with a value", "topic: tax\ntitle: 'Dear {{ contact.name }}'\n", []string{
			"2:8 invalid: a title is the same for everybody, and this one writes contact.name | write the values into the message",
		}},
		{"when of a contact", "topic: tax\nmatch:\n  - when: contact.persona == 'x'\n", []string{
			"3:11 expression: undefined name 'contact' | in: contact.persona == 'x'\nthe names here are item, now, vars, workspace",
		}},
		{"when of now", "topic: tax\nmatch:\n  - when: days_since(item.date) < 3\n", []string{
			"3:11 invalid: whether an item belongs to a topic does not change with time | compare fields of the item",
		}},
		{"when of vars", "topic: tax\nmatch:\n  - when: workspace.timezone == 'UTC'\n", []string{
			"3:11 invalid: the when of a topic reads nothing but item, and this reads workspace | write item.timezone",
		}},
		{"a frequency twice", "topic: tax\nfrequencies: [daily, daily]\n", []string{
			"2:22 invalid: daily is named twice | remove one of them",
		}},
		{"a frequency that is no slug", "topic: tax\nfrequencies: [twice a day]\n", []string{
			"2:15 invalid: \"twice a day\" is not a name: letters, digits, - _ and . only | write twice-a-day",
		}},
		{"a long value", "topic: tax\nmatch:\n  - content_id: " + strings.Repeat("x", 201) + "\n", []string{
			"3:17 invalid: \"xxxxxxxxxxxxxxxxxxxx\"… is longer than 200 bytes",
		}},
		{"the topics of an item", audience("item.published", "topics: matched, frequency: immediate"), nil},
		{"topics by name", audience("e", "topics: [tax, visas]"), nil},
		{"a topic that is not defined", audience("e", "topics: [taxx]"), []string{
			"5:22 reference: no topic named \"taxx\" | did you mean tax?",
		}},
		{"no topics", audience("e", "topics: []"), []string{
			"5:21 invalid: this names no topic | write names of topics, all, or matched",
		}},
		{"matched without an item", audience("e", "topics: matched"), []string{
			"5:21 invalid: matched are the topics of an item, and there is no item here | event: item.published makes an occasion of each item; else name topics, or write all",
		}},
		{"matched beside others", audience("item.published", "topics: [matched, tax]"), []string{
			"5:22 invalid: matched stands alone | write an entry for the others",
		}},
		{"every item before an urgent one", head + "  - {id: t, event: item.published}\n  - {id: u, event: item.published, when: item.urgent}\naudience: [{topics: matched}]\nchannel: sms\nmessage: {sms: {text: Hello}}\n---\nchannel: sms\nprovider: memory\n", []string{
			"warning 5:5 lint: trigger t takes every item, so that trigger u never sends | write u, with its when, above t",
		}},
		{"an urgent one before every item", head + "  - {id: u, event: item.published, when: item.urgent}\n  - {id: t, event: item.published}\naudience: [{topics: matched}]\nchannel: sms\nmessage: {sms: {text: Hello}}\n---\nchannel: sms\nprovider: memory\n", nil},
		{"a frequency alone", audience("e", "to: event.recipient, frequency: daily"), []string{
			"5:45 invalid: frequency goes with topics, and there are none | add topics: and the name of a topic, or remove it",
		}},
		{"a frequency that the topic lacks", audience("e", "topics: [tax, visas], frequency: weekly"), []string{
			"5:46 invalid: topic tax offers no frequency weekly | it offers daily",
		}},
		{"topics and a persona", audience("e", "topics: tax, everyone: true"), []string{
			"5:12 invalid: to, address, persona, group, place, place_above, topics, function and everyone exclude each other | write an entry for each",
		}},
		{"the recipient of an item", audience("item.published", "to: event.recipient"), []string{
			"5:17 invalid: an item has no recipient | write topics: matched, for those who subscribe to its topics",
		}},
		{"an item in the text of another event", text("{{ item.title }}"), []string{
			"7:27 template: there is no item here: the trigger does not listen to item.published",
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

// Mail to subscribers that can have no unsubscribe button is warned about: at the address of the links, and at the channel that does not sign.
//
// Shows: E15.
func TestMailToSubscribersWithoutAButton(t *testing.T) {
	t.Parallel()
	const (
		link   = "warning 2:11 lint: mail programs offer no unsubscribe button for links without HTTPS (RFC 8058) | begin base_url with https://"
		signed = "warning 11:10 lint: subscribers get mail by channel %s, which does not sign it (DKIM): mail programs offer no unsubscribe button for it | " +
			"set dkim_domain, dkim_selector and dkim_key, unless the mail server signs List-Unsubscribe and List-Unsubscribe-Post itself"
	)
	options := loader.Options{Providers: []definition.ProviderInfo{{Name: "memory"}, {Name: "smtp", Settings: []definition.SettingInfo{
		{Name: "dkim_domain"}, {Name: "host"},
	}}}}
	for name, tc := range map[string]struct {
		base, audience, channel, provider string
		want                              []string
	}{
		"signed":                {"https://x.test", "topics: matched", "email", "smtp\nsettings: {dkim_domain: x.test}", nil},
		"not signed":            {"https://x.test", "topics: matched", "email", "smtp\nsettings: {host: x.test}", []string{fmt.Sprintf(signed, "email:default")}},
		"a named channel":       {"https://x.test", "topics: matched", "email:news", "smtp\nsettings: {host: x.test}", []string{fmt.Sprintf(signed, "email:news")}},
		"neither":               {"http://x.test", "topics: matched", "email", "smtp\nsettings: {host: x.test}", []string{link, fmt.Sprintf(signed, "email:default")}},
		"links of this machine": {"http://127.0.0.1:8080", "topics: matched", "email", "smtp\nsettings: {dkim_domain: x.test}", nil},
		"links of localhost":    {"http://localhost", "topics: matched", "email", "smtp\nsettings: {dkim_domain: x.test}", nil},
		"another provider":      {"https://x.test", "topics: matched", "email", "memory", nil},
		"no subscribers":        {"http://x.test", "to: event.recipient", "email", "smtp\nsettings: {host: x.test}", nil},
		"no mail":               {"http://x.test", "topics: matched", "sms", "memory", nil},
	} {
		kind, _, _ := strings.Cut(tc.channel, ":")
		message := map[string]string{"email": "{email: {subject: News, text: x}}", "sms": "{sms: {text: x}}"}[kind]
		event := definition.ItemPublished
		if tc.audience == "to: event.recipient" {
			event = "e"
		}
		text := fmt.Sprintf("workspace: default\nbase_url: %s\n---\nworkflow: w\ntype: custom\ntriggers: [{id: t, event: %s}]\naudience: [{%s}]\nchannel: %s\nmessage: %s\n---\nchannel: %s\nprovider: %s\n",
			tc.base, event, tc.audience, tc.channel, message, tc.channel, tc.provider)
		_, problems := loader.Load([]definition.File{yaml(text)}, options)
		if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
