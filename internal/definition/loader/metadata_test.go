package loader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// Metadata is texts by name, beside texts, a template or a survey. What a provider could not take is refused with its place.
func TestMistakesOfMetadata(t *testing.T) {
	t.Parallel()
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprintf("k%d: v", i)
	}
	for name, tc := range map[string]struct {
		metadata string
		want     []string
	}{
		"good":        {`{campaign: spring, ward: "{{ event.ward }}", day_2: {en: Monday, de: Montag}}`, nil},
		"nothing":     {"{}", []string{"11:13 invalid: the metadata is empty | write it like {campaign: spring}, or remove it"}},
		"no map":      {"spring", []string{"11:13 invalid: this must be a map of values by name, and is a text | write it like {campaign: spring}"}},
		"names":       {`{"a b": c, 1st: d}`, []string{`11:14 invalid: "a b" is not the name of metadata | a name has up to 40 letters, digits and _, and begins with a letter`, `11:24 invalid: "1st" is not the name of metadata | a name has up to 40 letters, digits and _, and begins with a letter`}},
		"a variable":  {`{ward: "{{ record.ward }}"}`, []string{"11:24 template: there is no record here: the trigger listens to an event"}},
		"a list":      {`{ward: [a]}`, []string{"11:20 invalid: this must be a text, and is a list | write one value"}},
		"many values": {"{" + strings.Join(many, ", ") + "}", []string{"11:404 invalid: a message has at most 50 values of metadata"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "channel: sms\nprovider: memory\n---\n" + head + "  - {id: t, event: e}\naudience: [{to: event.recipient}]\nchannel: sms\nmessage:\n  metadata: " + tc.metadata + "\n  sms: {text: Hello}\n"
			_, problems := loader.Load([]definition.File{yaml(text)}, loader.Options{})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// With a template, which has texts alone, and with a survey the metadata is the message's.
func TestMetadataBesideTexts(t *testing.T) {
	t.Parallel()
	const of = "workflow: w\ntype: alert\ntriggers: [{id: t, event: e}]\naudience: [{to: event.recipient}]\nchannel: sms\nmessage: {%s, metadata: {ward: \"{{ event.ward }}\"}}\n---\nchannel: sms\nprovider: memory\n---\n"
	for _, texts := range []string{
		fmt.Sprintf(of, "template: a") + "template: a\nsms: {text: Hello}\n",
		fmt.Sprintf(of, "survey: a") + "survey: a\ntitle: A\ninvitation: {text: \"{{ survey.link }}\"}\nquestions: [{id: q, type: text, text: Why?}]\n",
	} {
		bundle, problems := loader.Load([]definition.File{yaml(texts)}, loader.Options{})
		if len(said(problems)) > 0 {
			t.Fatal(said(problems))
		}
		set, err := loader.Compile(1, merged(nil, bundle.Documents), loader.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Workflow("w").Trigger[0].Message.Metadata["ward"]; got.IsZero() {
			t.Errorf("%s has no metadata", texts)
		}
	}
}
