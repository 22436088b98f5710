package loader_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// talk is a survey that is asked by messages; the marks are replaced by what a case has instead.
const talk = `
workflow: w
type: survey
triggers: {id: t, event: visit}
audience: {to: event.recipient}
channel: CHANNEL
timing: TIMING
message: {survey: s, mode: MODE}
EXTRA
---
survey: s
title: S
questions:
  - {id: fever, type: yes_no, text: "Fever, {{ contact.id }}?"}
  - {id: pain, type: number, text: Pain?}
conversation: TALK
---
channel: sms
provider: memory
---
channel: email
provider: memory
`

func talking(channel, timing, mode, extra, conversation string) []definition.Problem {
	text := strings.NewReplacer("CHANNEL", channel, "TIMING", timing, "MODE", mode, "EXTRA", extra, "TALK", conversation).Replace(talk)
	return load(text)
}

// What makes no conversation is refused where it stands; what makes one is not.
func TestConversationMistakes(t *testing.T) {
	t.Parallel()
	const plain = "{closing: Thanks.}"
	for _, good := range [][5]string{
		{"sms", "{expire_after: 2d}", "conversation", "", plain},
		{"sms", "{offset: 1h}", "conversation", "", "{reminders: [6h, 17h], expire_after: 1d, partial: drop, invalid: {en: Again.}}"},
		{"whatsapp", "{offset: 1h}", "conversation", "", "{}"},
	} {
		for _, p := range talking(good[0], good[1], good[2], good[3], good[4]) {
			if !p.Warning {
				t.Errorf("%v: %v", good, p)
			}
		}
	}
	for _, c := range []struct {
		channel, timing, mode, extra, conversation string
		line                                       int
		want, hint                                 string
	}{
		{"email", "{offset: 1h}", "conversation", "", plain, 8, "people cannot reply on email", "mode: link"},
		{"sms", "{offset: 1h}", "conversation", "fallback: [email]", plain, 8, "people cannot reply on email", "sms or whatsapp"},
		{"sms", "{reminders: [1d]}", "conversation", "", plain, 7, "have reminders of their own", "conversation: {reminders: [6h]}"},
		{"sms", "{accept_late: true}", "conversation", "", plain, 7, "takes no reply", "mode: link"},
		{"sms", "{offset: 1h}", "letter", "", plain, 8, `"letter" is not a value of mode`, "link or conversation"},
		{"sms", "{offset: 1h}", "conversation", "", "{reminders: [1d, 1d], expire_after: 2d}", 16, "the last reminder comes after 48h", "expire_after"},
		{"sms", "{offset: 1h}", "conversation", "", "{reminders: [31d]}", 16, "the last reminder comes after 744h", "expire_after"},
		{"sms", "{offset: 1h}", "conversation", "", "{partial: keep}", 16, `"keep" is not a value of partial`, "submit or drop"},
		{"sms", "{offset: 1h}", "conversation", "", "{closing: '{{ event.x.y | nothing }}'}", 16, "nothing", ""},
		{"sms", "{offset: 1h}", "conversation", "", "{say: hello}", 16, `"say"`, ""},
		{"sms", "{offset: 1h}", "link", "", plain, 8, "survey s has no invitation", ""},
	} {
		problems := talking(c.channel, c.timing, c.mode, c.extra, c.conversation)
		found := false
		for _, p := range problems {
			found = found || strings.Contains(p.Message, c.want) && strings.Contains(p.Hint, c.hint) && p.Line == c.line
		}
		if !found {
			t.Errorf("%+v\nis not refused so: %v", c, problems)
		}
	}
}

// A conversation reads what its messages read: a name that its workflow has not is refused.
func TestConversationsReadTheirOccasion(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("CHANNEL", "sms", "TIMING", "{offset: 1h}", "MODE", "conversation", "EXTRA", "", "TALK", "{closing: 'Bye {{ record.name }}'}").Replace(talk)
	problems := load(text)
	if len(problems) != 1 || problems[0].Line != 8 || !strings.Contains(problems[0].Message, "survey s writes record.name") {
		t.Errorf("a record in a conversation about an event: %v", problems)
	}
	text = strings.NewReplacer("CHANNEL", "sms", "TIMING", "{offset: 1h}", "MODE", "conversation", "EXTRA", "resolved: {sms: {text: Over}}", "TALK", "{}",
		"{id: t, event: visit}", "{id: t, record: pump, when: record.on == false, cooldown: 1h}").Replace(talk)
	const want = "a conversation has no resolved message"
	if p := find(load(text), definition.CodeInvalid, want); p == nil || p.Line != 9 || p.Hint == "" {
		t.Errorf("%q is not among %v", want, load(text))
	}
}

// A channel that cannot take replies is warned of where a conversation asks on it: at the channel, or at the workflow if the channel is in force already.
func TestConversationsWithoutReplies(t *testing.T) {
	t.Parallel()
	const workflow = "workflow: w\ntype: survey\ntriggers:\n  - {id: t, event: visit}\naudience: {to: event.recipient}\nchannel: sms:a\nfallback: [\"whatsapp:b\"]\nmessage: {survey: s, mode: MODE}\n---\n" +
		"survey: s\ntitle: S\nquestions: [{id: q, type: text, text: Q}]\ninvitation: {text: \"{{ survey.link }}\"}\n"
	const channels = "channel: sms:a\nprovider: gateway\nsettings: {}\n---\nchannel: whatsapp:b\nprovider: vendor\n---\nchannel: sms:c\nprovider: gateway\n"
	providers := []definition.ProviderInfo{{Name: "gateway", Settings: []definition.SettingInfo{{Name: "inbound_secret", Secret: true}}}, {Name: "vendor"}}
	converse, link := strings.Replace(workflow, "MODE", "conversation", 1), strings.Replace(workflow, "MODE", "link", 1)
	heard := strings.Replace(channels, "settings: {}", "settings: {inbound_secret: {secret: X}}", 1)
	const want = "workflow w asks by conversation on channel sms:a, which takes no replies: it has no inbound_secret"
	for name, c := range map[string]struct {
		text, inForce string
		line          int // 0: no warning
	}{
		"all at once":             {converse + "---\n" + channels, "", 15},
		"the channel is in force": {converse, channels, 4},
		"the workflow is":         {channels, converse, 1},
		"with the secret":         {converse + "---\n" + heard, "", 0},
		"by a page":               {link + "---\n" + channels, "", 0},
	} {
		opts := loader.Options{Providers: providers}
		if c.inForce != "" {
			bundle, _ := loader.Load([]definition.File{yaml(c.inForce)}, opts)
			for _, d := range bundle.Documents {
				opts.Known = append(opts.Known, definition.Stored{Document: d})
			}
		}
		_, problems := loader.Load([]definition.File{yaml(c.text)}, opts)
		got := 0
		for _, p := range problems {
			if p.Message == want && p.Warning && p.Hint == "write inbound_secret: {secret: NAME} in its settings" {
				got = p.Line
			} else if strings.Contains(p.Message, "inbound_secret") || !p.Warning {
				t.Errorf("%s: %v", name, p)
			}
		}
		if got != c.line {
			t.Errorf("%s: warned of in line %d, want %d: %v", name, got, c.line, problems)
		}
	}
}

// An option whose text is another thing as a reply is warned about, where the survey is asked by messages: people choose it by its number only.
func TestOptionsThatNobodySays(t *testing.T) {
	t.Parallel()
	const text = `
workspace: w
locale: LOCALE
---
workflow: w
type: survey
triggers: {id: t, event: visit}
audience: {to: event.recipient}
channel: sms
fallback: [whatsapp]
message: {survey: s, mode: MODE}
---
survey: s
title: S
invitation: {text: "{{ survey.link }}"}
questions:
  - {id: q, type: TYPE, text: Which?, options: OPTIONS}
---
channel: sms
provider: memory
KEYWORDS
---
channel: whatsapp
provider: memory
---
persona: p
`
	check := func(mode, locale, kind, options, keywords string) (all []definition.Problem) {
		doc := strings.NewReplacer("MODE", mode, "LOCALE", locale, "TYPE", kind, "OPTIONS", options, "KEYWORDS", keywords).Replace(text)
		for _, p := range load(doc) {
			if strings.Contains(p.Message, "of question q") || !p.Warning {
				all = append(all, p)
			}
		}
		return all
	}
	for _, c := range []struct {
		locale, kind, options, keywords string
		want, hint                      string // empty: no warning
	}{
		{"en", "choice", "[{value: a, text: Go on}, {value: b, text: Cancel}]", "", `nobody chooses option 2 of question q in survey s by its text: "Cancel" is the keyword stop`, "by its number, 2; write another text, or other keywords in channel sms"},
		{"en", "multiple", "[{value: a, text: 'S.T.O.P'}, {value: b, text: 'No'}]", "", `is the keyword stop`, "number, 1"},
		{"en", "choice", "[{value: a, text: {en: Low, es: Baja}}, {value: b, text: {en: High, es: Mucho}}]", "", `"Baja" is the keyword stop`, ""},
		{"es", "choice", "[{value: a, text: Baja}, {value: b, text: Mucho}]", "", `"Baja" is the keyword stop`, ""},
		{"en", "choice", "[{value: a, text: Baja}, {value: b, text: Mucho}]", "", "", ""},
		{"en", "choice", "[{value: a, text: Go on}, {value: b, text: Bye}]", "keywords: {stop: [bye]}", `"Bye" is the keyword stop`, "channel sms"},
		{"en", "choice", "[{value: a, text: Go on}, {value: b, text: Cancel}]", "keywords: {stop: [bye]}", `"Cancel" is the keyword stop`, "channel whatsapp"},
		{"en", "choice", "[{value: a, text: 'Dr. {{ event.name }}'}, {value: b, text: Another}]", "", "", ""},
		{"en", "choice", "[{value: a, text: '3'}, {value: b, text: '2'}, {value: c, text: '1'}]", "", `option 3 of question q in survey s by its text: the reply "1" is the number of option 1`, "number, 3"},
		{"en", "choice", "[{value: a, text: '0'}, {value: b, text: '1'}]", "", `the reply "1" is the number of option 1`, "by its number, 2; write another text"},
		{"en", "choice", "[{value: a, text: '1'}, {value: b, text: '2'}]", "", "", ""},
		{"en", "choice", "[{value: a, text: 'Yes'}, {value: b, text: 'yes!'}]", "", `the reply "Yes" is the text of no option, or of two`, "number, 1"},
		{"en", "choice", "[{value: a, text: '…'}, {value: b, text: 'yes!'}]", "", `the reply "…" is the text of no option, or of two`, "number, 1"},
		{"en", "choice", "[{value: a, text: A}, {value: b, text: '-'}]", "", `the reply "-" leaves no question out here: it is option 2 of question q`, "another text"},
		{"en", "choice", "[{value: a, text: A}, {value: b, text: Skip}]", "", `the reply "Skip" leaves no question out here: it is option 2 of question q`, "another text"},
		{"en", "choice", "[{value: a, text: {en: A, de: Weiter}}, {value: b, text: {en: B, de: Zurück}}]", "", `the reply "Weiter" leaves no question out here`, ""},
	} {
		got := check("conversation", c.locale, c.kind, c.options, c.keywords)
		if c.want == "" && len(got) > 0 {
			t.Errorf("%s: %v", c.options, got)
			continue
		}
		p := find(got, definition.CodeLint, c.want)
		if c.want != "" && (p == nil || !p.Warning || p.Line != 11 || !strings.Contains(p.Hint, c.hint)) {
			t.Errorf("%s: %q (%q) is not among %v", c.options, c.want, c.hint, got)
		}
		if got := check("link", c.locale, c.kind, c.options, c.keywords); len(got) > 0 {
			t.Errorf("%s: on a page: %v", c.options, got)
		}
	}
	if got := check("conversation", "en", "choice, required: true", "[{value: a, text: A}, {value: b, text: Skip}]", ""); len(got) > 0 {
		t.Errorf("a required question: %v", got)
	}
}
