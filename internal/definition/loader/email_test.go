package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/message"
)

// What only emails have is checked before it is sent: addresses, names of headers, two sources of one text.
func TestEmailMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		email string
		want  []string
	}{
		"nothing":       {"subject: Hello", []string{"3:3 missing: email needs text, html or markdown"}},
		"markdown only": {"markdown: Hello", nil},
		"markdown and text": {"markdown: Hello\n  text: Hello", []string{
			"4:13 invalid: markdown stands for text and html | keep markdown, or write text and html",
		}},
		"slip in markdown": {"markdown: \"{{ nobody }}\"", []string{
			`4:17 template: there is no variable "nobody"`,
		}},
		"good": {"text: Hello\n  from: A <a@b.c>\n  reply_to: \"{{ candidate.desk }}\"\n  headers: {List-Id: a}", nil},
		"from": {"text: Hello\n  from: a b@c", []string{
			"5:9 invalid: this is not of the form Name <name@example.org>",
		}},
		"reply_to": {"text: Hello\n  reply_to: {en: '\"a b\"@c'}", []string{
			"5:13 invalid: the part before the @ holds a sign that it must not hold; quoted parts are refused",
		}},
		"our header": {"text: Hello\n  headers: {bcc: a@b.c}", []string{"5:13 invalid: the header bcc is written by Carillon"}},
		"no header":  {"text: Hello\n  headers: {\"X A\": b}", []string{`5:13 invalid: "X A" is not the name of a header`}},
		"twice":      {"text: Hello\n  headers: {X-A: b, x-a: c}", []string{"5:21 invalid: the header x-a is there twice"}},
		"no map":     {"text: Hello\n  headers: X-A", []string{"5:12 invalid: this must be a map of headers, and is a text"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "template: a\nemail:\n  subject: Hello\n  " + strings.TrimPrefix(tt.email, "subject: Hello") + "\n"
			_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{})
			got := said(problems)
			for i := range got {
				if i < len(tt.want) && !strings.Contains(tt.want[i], "|") {
					got[i], _, _ = strings.Cut(got[i], " |")
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a webhook says is its text; body is another name of it.
func TestWebhookMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		webhook string
		want    []string
	}{
		"text":          {"{subject: Hello, text: World}", nil},
		"body":          {"{body: World}", nil},
		"nothing":       {"{subject: Hello}", []string{"2:10 missing: webhook needs text | the request is JSON: what text says is data.text, what subject says is data.subject"}},
		"text and body": {"{text: World, body: World}", []string{"2:30 invalid: body and text are the same | keep text: it is text of the request's data"}},
		"JSON": {"{url: x}", []string{
			`2:11 unknown_key: unknown key "url" | the keys here are subject, text and body`,
		}},
	} {
		_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte("template: a\nwebhook: " + tt.webhook + "\n")}}, loader.Options{})
		if diff := cmp.Diff(tt.want, said(problems)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A page that does not exist is warned of where a text leads to it.
func TestLinksToSurveysLeadNowhere(t *testing.T) {
	t.Parallel()
	const text = "workflow: w\ntype: custom\ntriggers: [{id: t, event: e}]\naudience: [{to: event.recipient}]\nchannel: sms\nmessage:\n  sms:\n    text: \"{{ survey.link }}\"\n---\n" +
		"channel: sms\nprovider: memory\n---\nworkspace: default\ncadence: {cooldown: 1m}\n"
	_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{})
	want := []string{"warning 7:3 no_page: survey.link leads nowhere: the message asks nothing | write message: {survey: NAME}, or a link to a form of your own"}
	if diff := cmp.Diff(want, said(problems)); diff != "" {
		t.Error(diff)
	}
}

// One text in Markdown is both: HTML, and the text as it was written.
func TestEmailMarkdown(t *testing.T) {
	t.Parallel()
	const text = "template: a\nemail:\n  subject: Hello\n  markdown: \"# Dear {{ contact.id }}\"\n---\n" +
		"workflow: w\ntype: alert\ntriggers: [{id: t, event: e}]\naudience: [{to: event.recipient}]\nchannel: email\nmessage: {template: a}\n"
	set := bundleOf(t, definition.File{Name: "a.yaml", Text: []byte(text)}).Set
	texts := set.Workflow("w").TriggerByID("t").Message.ByKind["email"]
	render := func(text message.Text) string {
		template, _, _ := text.Pick()
		out, err := template.Render(map[string]any{"contact": map[string]any{"id": "<b>*x*"}}, message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := render(texts.Text); got != "# Dear <b>*x*" {
		t.Errorf("text %q", got)
	}
	if got := render(texts.HTML); !strings.Contains(got, "<h1>Dear &lt;b&gt;*x*</h1>") {
		t.Errorf("HTML %q", got)
	}
}
