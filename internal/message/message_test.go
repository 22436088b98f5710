package message

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/reason"
)

// world returns the values that the templates of these tests name.
func world() map[string]any {
	return map[string]any{
		"record": map[string]any{
			"name": "Gate <3>", "amount": json.Number("120.50"), "count": json.Number("7"), "nickname": nil,
			"due": "2026-05-25", "seen_at": "2026-05-25T22:30:00Z", "tags": []any{"b", "a", "b"},
			"rows":  []any{map[string]any{"c": "x", "n": json.Number("2")}, map[string]any{"c": "y", "n": json.Number("1")}},
			"third": json.Number("0.3333333333333333"),
		},
		"issues": []string{"LOW_BATTERY", "OFFLINE"}, "step": 2, "vars": map[string]any{"tips": []any{"one", "two"}},
		"due_at": time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC),
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, src, want string
		format          Format
		reader          Reader
	}{
		{name: "text", src: "plain } { %", want: "plain } { %"},
		{name: "value", src: "{{ record.name }}", want: "Gate <3>"},
		{name: "escaped", src: "<p>{{ record.name }}</p>", format: HTML, want: "<p>Gate &lt;3&gt;</p>"},
		{name: "raw", src: "{{ record.name | raw }}", format: HTML, want: "Gate <3>"},
		{name: "escape once", src: "{{ record.name | escape }}", format: HTML, want: "Gate &lt;3&gt;"},
		{name: "raw is not inherited", src: "{{ record.name | raw | upcase }}", format: HTML, want: "GATE &lt;3&gt;"},
		{name: "capture is not escaped twice", src: "{% capture x %}<b>{{ record.name }}</b>{% endcapture %}{{ x }}", format: HTML, want: "<b>Gate &lt;3&gt;</b>"},
		{name: "line breaks", src: "{{ 'a<\nb' | newline_to_br }}", format: HTML, want: "a&lt;<br />\nb"},
		{name: "number keeps its value", src: "{{ record.amount }} {{ record.count }} {{ record.third }}", want: "120.5 7 0.3333333333333333"},
		{name: "null is empty", src: "[{{ record.nickname }}]", want: "[]"},
		{name: "missing in a condition is false", src: "{% if record.nothing %}x{% else %}y{% endif %}", want: "y"},
		{name: "default", src: "{{ record.nothing | default: 'friend' }}", want: "friend"},
		{name: "join", src: "{{ issues | join: ', ' }}", want: "LOW_BATTERY, OFFLINE"},
		{name: "if", src: "{% if step > 1 %}Reminder: {% endif %}x", want: "Reminder: x"},
		{name: "elsif", src: "{% if step == 1 %}a{% elsif step == 2 %}b{% else %}c{% endif %}", want: "b"},
		{name: "unless", src: "{% unless step == 1 %}a{% else %}b{% endunless %}", want: "a"},
		{name: "and, or", src: "{% if false and true or true %}x{% endif %}", want: ""},
		{name: "contains", src: "{% if issues contains 'OFFLINE' and record.name contains '<' %}x{% endif %}", want: "x"},
		{name: "empty", src: "{% if record.tags != empty and '' == blank %}x{% endif %}", want: "x"},
		{name: "case", src: "{% case step %}{% when 1 %}a{% when 2, 3 %}b{% else %}c{% endcase %}", want: "b"},
		{name: "for", src: "{% for i in issues %}{{ forloop.index }}{{ i }}{% unless forloop.last %},{% endunless %}{% endfor %}", want: "1LOW_BATTERY,2OFFLINE"},
		{name: "for over a range", src: "{% for i in (1..3) reversed %}{{ i }}{% endfor %}", want: "321"},
		{name: "for with limit", src: "{% for i in (1..9) limit: 2 offset: 3 %}{{ i }}{% endfor %}", want: "45"},
		{name: "for else", src: "{% for i in record.nickname %}x{% else %}none{% endfor %}", want: "none"},
		{name: "break and continue", src: "{% for i in (1..9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", want: "13"},
		{name: "assign in a loop stays", src: "{% for i in (1..3) %}{% assign last = i %}{% endfor %}{{ last }}", want: "3"},
		{name: "assign in a branch not taken", src: "{% if false %}{% assign x = 1 %}{% endif %}[{{ x }}]", want: "[]"},
		{name: "cycle", src: "{% for i in (1..3) %}{% cycle 'a', 'b' %}{% endfor %}", want: "aba"},
		{name: "comment", src: "a{% comment %}{{ nothing }}{% endcomment %}b{% # so %}", want: "ab"},
		{name: "raw block", src: "{% raw %}{{ x }}{% endraw %}", want: "{{ x }}"},
		{name: "trim", src: "a \n{{- 1 -}}\n b", want: "a1b"},
		{name: "index", src: "{{ record.tags[0] }}{{ record['name'] | size }}{{ record.tags.last }}{{ record.tags[-2] }}", want: "b8ba"},
		{name: "sort, uniq", src: "{{ record.tags | uniq | sort | join }}", want: "a b"},
		{name: "sort by field", src: "{{ record.rows | sort: 'n' | map: 'c' | join: '' }}", want: "yx"},
		{name: "where, sum", src: "{{ record.rows | where: 'c', 'x' | size }} {{ record.rows | sum: 'n' }}", want: "1 3"},
		{name: "arithmetic", src: "{{ 7 | divided_by: 2 }} {{ 7.0 | divided_by: 2 }} {{ record.amount | round }} {{ 2 | plus: 0.5 }} {{ -7 | modulo: 3 }}", want: "3 3.5 121 2.5 2"},
		{name: "large numbers stay exact", src: "{{ 9007199254740993 | plus: 0 }}", want: "9007199254740993"},
		{name: "strings", src: "{{ 'a-b' | replace: '-', '+' | upcase | append: '!' | prepend: '>' }}", want: ">A+B!"},
		{name: "truncate", src: "{{ 'مرحبا بالعالم' | truncate: 8 }} {{ 'a b c' | truncatewords: 2 }}", want: "مرحبا... a b..."},
		{name: "date", src: "{{ record.due | date }}", want: "25 May 2026"},
		{name: "date in Swahili", src: "Miadi yako ni {{ record.due | date }}.", reader: Reader{Locale: "sw"}, want: "Miadi yako ni 25 Mei 2026."},
		{name: "date in German", src: "{{ record.due | date }}", reader: Reader{Locale: "de-AT"}, want: "25. Mai 2026"},
		{name: "date in a language without names", src: "{{ record.due | date }}", reader: Reader{Locale: "xx"}, want: "2026-05-25"},
		{name: "a date is in no zone, an instant is", src: "{{ record.due | local_time }}, {{ record.seen_at | local_time }}", reader: Reader{Zone: berlin}, want: "25 May 2026, 26 May 2026 00:30"},
		{name: "date by pattern", src: "{{ due_at | date: '%-d.%m.%y %H:%M' }}", reader: Reader{Zone: berlin}, want: "2.03.26 00:30"},
		{name: "date of nothing", src: "[{{ record.nickname | date }}]", want: "[]"},
		{name: "cycle_at", src: "{{ vars.tips | cycle_at: 1 }} {{ vars.tips | cycle_at: 4 }}", want: "one two"},
		{name: "apostrophe outside of tags", src: "it's {{ step }} o'clock", want: "it's 2 o'clock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tpl, err := Parse(tt.src, tt.format)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tpl.RenderFor(tt.reader, world(), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		src, message, hint string
		line, column       int
	}{
		{"{% if x %}never closed", "{% if %} is not closed", "end it with {% endif %}", 1, 4},
		{"a\n  {{ x | upcas }}", `unknown filter "upcas"`, "did you mean upcase?", 2, 10},
		{"{% include 'x' %}", "the tag include of Liquid is not supported", "a text reaches no other file; write it here, or use vars", 1, 4},
		{"{% inclde %}", `unknown tag "inclde"`, "", 1, 4},
		{"{% endif %}", "{% endif %} has no beginning", "", 1, 4},
		{"{% for x in y %}{% endif %}", "{% endif %} does not belong into {% for %}", "end it with {% endfor %}", 1, 20},
		{"{{ x", "{{ is not closed", "end it with }}", 1, 1},
		{"{{ x {{ y }}", "{{ is not closed", "end it with }}", 1, 1},
		{"{% if x = 1 %}{% endif %}", `unexpected "= 1"`, "write == to compare", 1, 9},
		{"{{ 'a }}", "the quote is not closed", "", 1, 4},
		{"{{ }}", "a value is missing", "", 1, 4},
		{"{{ x | date: '%Q' }}", "%Q is no part of a date", "the parts of a date are those of strftime: %Y %m %d %H %M", 1, 8},
		{"{{ x | append }}", "filter append takes one value, not 0", "", 1, 8},
		{"{% break %}", "{% break %} stands outside of a loop", "", 1, 4},
		{"{% for x of y %}{% endfor %}", "the word in is missing", "write {% for item in items %}", 1, 10},
	} {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(tt.src, Plain)
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if diff := cmp.Diff(&Error{tt.message, tt.hint, tt.line, tt.column}, got); diff != "" {
				t.Errorf("error (-want +got)\n%s", diff)
			}
		})
	}
}

// A template can read nothing but its values, and its output is bounded.
func TestPayloads(t *testing.T) {
	t.Parallel()
	deep := any("x")
	for range 40 {
		deep = []any{deep}
	}
	vars := world()
	vars["deep"] = deep
	vars["clock"] = strings.NewReader("a value with methods")
	vars["self"] = map[string]any{"fn": func() string { return "reached" }}
	for _, tt := range []struct {
		name, src string
		want      reason.Reason
	}{
		{"unknown variable", "{{ recrod.name }}", reason.CannotRender},
		{"unknown field", "{{ record.nmae }}", reason.CannotRender},
		{"unknown name in a condition", "{% if recrod %}{% endif %}", reason.CannotRender},
		{"environment", "{{ env.HOME }}", reason.CannotRender},
		{"method", "{{ clock.Len }}", reason.CannotRender},
		{"value with methods", "{{ clock }}", reason.CannotRender},
		{"function", "{{ self.fn }}", reason.CannotRender},
		{"object", "{{ record }}", reason.CannotRender},
		{"clock", "{{ 'now' | date }}", reason.CannotRender},
		{"division by zero", "{{ 1 | divided_by: 0 }}", reason.CannotRender},
		{"overflow", "{% assign x = 9999999999 %}{% for i in (1..60) %}{% assign x = x | times: x %}{% endfor %}", reason.CannotRender},
		{"output", "{% for i in (1..9999) %}" + strings.Repeat("x", 100) + "{% endfor %}", reason.OutputTooLarge},
		{"empty turns", "{% for i in (1..9000) %}{% for j in (1..9000) %}{% endfor %}{% endfor %}", reason.OutputTooLarge},
		{"range", "{% for i in (1..900000000000) %}{% endfor %}", reason.OutputTooLarge},
		{"range beyond 64 bits", "{% for i in (-9223372036854775808..9223372036854775807) %}{% endfor %}", reason.OutputTooLarge},
		{"doubling", "{% assign s = 'x' %}{% for i in (1..60) %}{% assign s = s | append: s %}{% endfor %}", reason.OutputTooLarge},
		{"doubling by capture", "{% assign s = 'x' %}{% for i in (1..60) %}{% capture s %}{{ s }}{{ s }}{% endcapture %}{% endfor %}", reason.OutputTooLarge},
		{"doubling by join", "{% assign s = 'xx' %}{% for i in (1..60) %}{% assign s = s | split: '' | join: s %}{% endfor %}", reason.OutputTooLarge},
		{"replace", "{% assign s = 'x' %}{% for i in (1..60) %}{% assign s = s | replace: 'x', 'xxxxxxxxxx' %}{% endfor %}", reason.OutputTooLarge},
		{"doubling a list", "{% assign s = issues %}{% for i in (1..60) %}{% assign s = s | concat: s %}{% endfor %}", reason.OutputTooLarge},
		{"deep list", "{{ deep }}", reason.OutputTooLarge},
		{"many steps", "{% for i in (1..9000) %}" + strings.Repeat("{% if i %}{% endif %}", 2000) + "{% endfor %}", reason.OutputTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tpl, err := Parse(tt.src, HTML)
			if err != nil {
				t.Fatal(err)
			}
			out, err := tpl.Render(vars, Limits{})
			var got *RenderError
			if !errors.As(err, &got) {
				t.Fatalf("got %q and error %v, want %s", out, err, tt.want)
			}
			if got.Reason != tt.want {
				t.Errorf("got %s (%s), want %s", got.Reason, got.Detail, tt.want)
			}
		})
	}
}

func TestErrorsNameNoValues(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("\n{{ record.name | date }}", Plain)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tpl.Render(world(), Limits{})
	want := &RenderError{Reason: reason.CannotRender, Detail: "filter date: needs a date, and this text is none", Line: 2}
	var got *RenderError
	if !errors.As(err, &got) || *got != *want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("{{ record.name }}{% for i in digest.items %}{{ i.title }}{{ forloop.index }}{% endfor %}{% assign x = vars.y %}{{ x }}"+
		"{% if record.tags.size > 0 %}{{ survey.link | append: step }}{{ event.answers['has-a-complaint'] }}{% endif %}{{ i }}", Plain)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"digest.items", "event.answers.has-a-complaint", "i", "record.name", "record.tags", "step", "survey.link", "vars.y"}
	if diff := cmp.Diff(want, tpl.Variables()); diff != "" {
		t.Errorf("variables (-want +got)\n%s", diff)
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	by := func(texts map[string]string) Text {
		out := map[string]*Template{}
		for locale, src := range texts {
			tpl, err := Parse(src, Plain)
			if err != nil {
				t.Fatal(err)
			}
			out[locale] = tpl
		}
		return Localized(out)
	}
	for _, tt := range []struct {
		name    string
		texts   map[string]string
		locales []string
		want    string
		missing bool
	}{
		{"exact", map[string]string{"en": "e", "sw": "s"}, []string{"sw"}, "sw", false},
		{"region takes its language", map[string]string{"ar": "a", "en": "e"}, []string{"ar-IQ", "en"}, "ar", false},
		{"underscore", map[string]string{"en_GB": "e", "de": "d"}, []string{"en-gb"}, "en_GB", false},
		{"script before language", map[string]string{"zh": "z", "zh-Hant": "h"}, []string{"zh-Hant-TW"}, "zh-Hant", false},
		{"language takes a region", map[string]string{"pt-BR": "p", "en": "e"}, []string{"pt"}, "pt-BR", false},
		{"next in the chain", map[string]string{"en": "e", "sw": "s"}, []string{"", "fr", "sw"}, "sw", false},
		{"blank counts as missing", map[string]string{"en": "e", "ar": " \n"}, []string{"ar", "en"}, "en", false},
		{"any, in order", map[string]string{"sw": "s", "de": "d"}, []string{"fr"}, "de", false},
		{"nothing", map[string]string{"sw": ""}, []string{"sw"}, "", true},
		{"no prefix of letters", map[string]string{"eng": "x", "de": "d"}, []string{"en"}, "de", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, got, ok := by(tt.texts).Pick(tt.locales...)
			if got != tt.want || ok == tt.missing {
				t.Errorf("got %q, %t, want %q, %t", got, ok, tt.want, !tt.missing)
			}
		})
	}
}

func TestConcurrentRenders(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("{% for i in issues %}{% cycle 'a', 'b' %}{{ i }}{% endfor %}{% assign x = step %}{{ x }}", HTML)
	if err != nil {
		t.Fatal(err)
	}
	vars := world()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, err := tpl.Render(vars, Limits{}); err != nil || got != "aLOW_BATTERYbOFFLINE2" {
					t.Errorf("got %q, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzRender(f *testing.F) {
	for _, src := range []string{
		"{{ record.name | upcase }}", "{% for i in (1..3) %}{{ i }}{% endfor %}", "{% if a == b and c %}x{% else %}y{% endif %}",
		"{%- case step -%}{% when 1 %}{% endcase %}", "{% assign x = record.tags | sort | join: ',' %}{{x}}", "{{ record['a'][0].b | slice: -1, 9 }}",
		"{% capture q %}{{ due_at | date: '%-d %B' }}{% endcapture %}", "{% raw %}{{{% endraw %}", "{{ 1 | divided_by: 0.0 }}", "{% cycle 'a', 'b' %}",
	} {
		f.Add(src, true)
	}
	f.Fuzz(func(t *testing.T, src string, inHTML bool) {
		format := Plain
		if inHTML {
			format = HTML
		}
		tpl, err := Parse(src, format)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
				t.Fatalf("got error %#v", err)
			}
			return
		}
		limits := Limits{MaxOutput: 2000, MaxTurns: 100}
		out, err := tpl.Render(world(), limits)
		if len(out) > limits.MaxOutput {
			t.Fatalf("%d bytes, more than allowed", len(out))
		}
		var e *RenderError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("got error %#v", err)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	tpl, err := Parse("<p>{{ record.name }}: {{ issues | join: ', ' }}</p>{% if step > 1 %}Reminder{% endif %} {{ record.amount }}", HTML)
	if err != nil {
		b.Fatal(err)
	}
	vars := world()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tpl.Render(vars, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
