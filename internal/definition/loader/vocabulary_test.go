package loader_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// places shows where each block of the vocabulary stands: @ is replaced by one more key.
func places() map[string]string {
	workflow := "workflow: w\n" + "type: alert\n@\n"
	return map[string]string{
		"workflow":        workflow,
		"trigger":         "workflow: w\ntriggers:\n  - @\n",
		"cooldown":        "workflow: w\ntriggers:\n  - id: t\n    record: r\n    cooldown:\n      @\n",
		"metric":          "workflow: w\ntriggers:\n  - id: t\n    record: r\n    metric:\n      @\n",
		"reconcile":       "workflow: w\ntriggers:\n  - id: t\n    record: r\n    reconcile:\n      @\n",
		"schedule":        "workflow: w\ntriggers:\n  - id: t\n    schedule:\n      @\n",
		"dst":             "workflow: w\ntriggers:\n  - id: t\n    record: r\ntiming:\n  dst:\n    @\n",
		"limits":          "workflow: w\ntriggers:\n  - id: t\n    record: r\nlimits:\n  @\n",
		"digest":          "workflow: w\ntype: digest\ndigest:\n  @\n",
		"persona":         "persona: p\n@\n",
		"group":           "group: g\n@\n",
		"topic":           "topic: t\n@\n",
		"match":           "topic: t\nmatch:\n  - @\n",
		"match_values":    "topic: t\nmatch:\n  - tags:\n      a:\n        @\n",
		"cadence":         "persona: p\ncadence:\n  @\n",
		"channel_cadence": "persona: p\ncadence:\n  channels:\n    sms:\n      @\n",
		"total":           "persona: p\ncadence:\n  total:\n    @\n",
		"record_type":     "record_type: r\n@\n",
		"timing":          "workflow: w\ntiming:\n  @\n",
		"sequence":        "workflow: w\ntriggers:\n  - id: t\n    record: r\n    timing:\n      sequence:\n        - @\n",
		"repeat":          "workflow: w\ntriggers:\n  - id: t\n    record: r\n    timing:\n      repeat:\n        @\n",
		"audience":        "workflow: w\naudience:\n  - @\n",
		"message":         "workflow: w\nmessage:\n  @\n",
		"data":            "workflow: w\nmessage:\n  data:\n    a:\n      @\n",
		"email":           "workflow: w\nmessage:\n  email:\n    @\n",
		"sms":             "template: t\nsms:\n  @\n",
		"whatsapp":        "template: t\nwhatsapp:\n  @\n",
		"push":            "template: t\npush:\n  @\n",
		"inbox":           "template: t\ninbox:\n  @\n",
		"webhook":         "template: t\nwebhook:\n  @\n",
		"template":        "template: t\n@\n",
		"retry":           "workflow: w\nretry:\n  @\n",
		"sink_ref":        "workflow: w\nsinks:\n  - @\n",
		"survey":          "survey: s\n@\n",
		"conversation":    "survey: s\nconversation:\n  @\n",
		"invitation":      "survey: s\ninvitation:\n  @\n",
		"question":        "survey: s\nquestions:\n  - @\n",
		"option":          "survey: s\nquestions:\n  - options:\n      - @\n",
		"channel":         "channel: c\n@\n",
		"keywords":        "channel: c\nkeywords:\n  @\n",
		"sink":            "sink: s\n@\n",
		"sink_retry":      "sink: s\nretry:\n  @\n",
		"workspace":       "workspace: d\n@\n",
		"condition":       "workflow: w\ntriggers:\n  - when:\n      any:\n        - @\n",
	}
}

func load(text string) []definition.Problem {
	_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{})
	return problems
}

func find(problems []definition.Problem, code, part string) *definition.Problem {
	for i, p := range problems {
		if p.Code == code && strings.Contains(p.Message, part) {
			return &problems[i]
		}
	}
	return nil
}

// TestUnknownKeys shows that every block refuses a key that it does not have, where it stands.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	for name := range loader.Vocabulary() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place, ok := places()[name]
			if !ok {
				t.Fatal("the test does not know where this block stands")
			}
			text := strings.ReplaceAll(place, "@", "qqq: x")
			got := find(load(text), definition.CodeUnknownKey, `unknown key "qqq"`)
			if got == nil {
				t.Fatalf("not refused:\n%s\n%v", text, load(text))
			}
			before := text[:strings.Index(text, "qqq")]
			line, column := strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n")
			if got.Line != line || got.Column != column || got.Hint == "" {
				t.Errorf("got %v, want it at %d:%d with a hint", got, line, column)
			}
		})
	}
}

// TestLaterKeysAreRefused shows that no key is accepted that has no effect.
func TestLaterKeysAreRefused(t *testing.T) {
	t.Parallel()
	for block, keys := range loader.Vocabulary() {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if keys[key] {
				continue
			}
			t.Run(block+"."+key, func(t *testing.T) {
				t.Parallel()
				problems := load(strings.ReplaceAll(places()[block], "@", key+": x"))
				want := fmt.Sprintf("%q is not supported yet", key)
				if got := find(problems, definition.CodeNotSupportedYet, want); got == nil || got.Hint == "" {
					t.Errorf("want %s with a hint among %v", want, problems)
				}
				if got := find(problems, definition.CodeUnknownKey, ""); got != nil {
					t.Errorf("it is known: %v", got)
				}
			})
		}
	}
	for place, value := range map[string]string{
		"survey: s\ntitle: 'Dear {{ @ }}'\n":                        "answers.rate",
		"workflow: w\nmessage:\n  sms:\n    text: '{{ @ }} days'\n": "answers.rate",
	} {
		if got := find(load(strings.ReplaceAll(place, "@", value)), definition.CodeNotSupportedYet, value); got == nil {
			t.Errorf("%s is not refused in %q", value, place)
		}
	}
}

// TestEverythingIsUsed shows that one file can use every key that is built.
func TestEverythingIsUsed(t *testing.T) {
	t.Parallel()
	files := read(t, "testdata/everything.yaml")
	_, problems := loader.Load(files, loader.Options{})
	for _, p := range problems {
		if p.Code != definition.CodeNoPage { // it has a survey
			t.Error(p)
		}
	}
	docs, _ := portable.Parse(string(files[0].Text))
	written := map[string]bool{}
	for _, d := range docs {
		keysOf(d.Root, written)
	}
	for block, keys := range loader.Vocabulary() {
		for key, built := range keys {
			if built && !written[key] {
				t.Errorf("%s.%s is built and nowhere in the file", block, key)
			}
		}
	}
}

func keysOf(n *portable.Node, into map[string]bool) {
	for _, item := range n.Items {
		keysOf(item, into)
	}
	for _, f := range n.Fields {
		into[f.Key.Text] = true
		keysOf(f.Value, into)
	}
}
