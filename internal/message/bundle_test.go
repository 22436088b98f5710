package message_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/message"
)

// Bundle joins messages into one and leaves some out.
//
// Shows: R7.
func TestBundle(t *testing.T) {
	t.Parallel()
	type parts = []message.Part
	long := strings.Repeat("x", 60)
	for _, c := range []struct {
		name  string
		in    parts
		keep  int
		email bool
		want  message.Part
		out   []int
	}{
		{"texts", parts{{Text: "a"}, {Text: "b\n"}, {Text: "c"}}, 1, false, message.Part{Text: "a\n\nb\n\n\nc"}, nil},
		{
			"emails",
			parts{{"A", "a", "<p>a"}, {"B", "b", "<b>b</b>"}},
			0, true,
			message.Part{Subject: "A (+1)", Text: "a\n\n----------\n\nb", HTML: "<p>a</p>\n<hr>\n<b>b</b>"},
			nil,
		},
		{
			"what is left open ends with its part",
			parts{{"A", "a", "<div><!-- a"}, {"B", "b", "<i>b"}},
			0, true,
			message.Part{Subject: "A (+1)", Text: "a\n\n----------\n\nb", HTML: "<div><!-- a--></div>\n<hr>\n<i>b</i>"},
			nil,
		},
		{
			"one without HTML",
			parts{{"A", "a", "<p>a</p>"}, {"B", "b", ""}},
			0, true,
			message.Part{Subject: "A (+1)", Text: "a\n\n----------\n\nb"},
			nil,
		},
		{
			"a whole document",
			parts{{"A", "a", "<p>a</p>"}, {"B", "b", "<!DOCTYPE html><p>b"}},
			0, true,
			message.Part{Subject: "A (+1)", Text: "a\n\n----------\n\nb"},
			nil,
		},
		{"a body", parts{{"A", "a", "<p>a</p>"}, {"B", "b", "<p><BODY class=x>b"}}, 0, true, message.Part{Subject: "A (+1)", Text: "a\n\n----------\n\nb"}, nil},
		{
			"HTML alone stays out of texts",
			parts{{"A", "", "<p>a</p>"}, {"B", "b", "<p>b</p>"}, {"C", "c", ""}},
			1, true,
			message.Part{Subject: "B (+1)", Text: "b\n\n----------\n\nc"},
			[]int{0},
		},
		{
			"texts stay out of HTML alone",
			parts{{"A", "", "<p>a</p>"}, {"B", "b", "<p>b</p>"}, {"C", "c", ""}},
			0, true,
			message.Part{Subject: "A (+1)", HTML: "<p>a</p>\n<hr>\n<p>b</p>"},
			[]int{2},
		},
		{"a document alone stays alone", parts{{"A", "", "<html>a"}, {"B", "b", "<p>b</p>"}}, 0, true, message.Part{Subject: "A", HTML: "<html>a"}, []int{1}},
		{"subjects alone", parts{{Subject: "A"}, {Subject: "B"}}, 0, false, message.Part{Subject: "A (+1)", Text: "A\n\nB"}, nil},
		{"too long", parts{{Text: long}, {Text: "b"}, {Text: long}, {Text: "c"}}, 1, false, message.Part{Text: long + "\n\nb\n\nc"}, []int{2}},
		{"the one that stays is never too long", parts{{Text: long + long}, {Text: "b"}}, 0, false, message.Part{Text: long + long}, []int{1}},
		{"HTML too long", parts{{"A", "a", "<p>a</p>"}, {"B", "b", long + long}}, 0, true, message.Part{Subject: "A", Text: "a", HTML: "<p>a</p>"}, []int{1}},
	} {
		whole, out := message.Bundle(c.in, c.keep, c.email, message.Limits{MaxOutput: 100})
		if diff := cmp.Diff(c.want, whole) + cmp.Diff(c.out, out); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

// Rendered Markdown texts are pages; the bundle has one page around all of them.
func TestBundleOfMarkdown(t *testing.T) {
	t.Parallel()
	page := func(text string) message.Part {
		template, err := message.Parse(text, message.Markdown)
		if err != nil {
			t.Fatal(err)
		}
		html, err := template.Render(nil, message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return message.Part{Subject: text, Text: text, HTML: html}
	}
	arabic := page("d")
	arabic.HTML = strings.ReplaceAll(arabic.HTML, ` dir="auto"`, ` lang="ar" dir="rtl"`)
	mixed, _ := message.Bundle([]message.Part{page("*a*"), arabic}, 0, true, message.Limits{})
	if !strings.Contains(mixed.HTML, "<hr>\n<div lang=\"ar\" dir=\"rtl\">\n<p>d</p>\n</div>\n</body>") || !strings.Contains(mixed.HTML, `<html dir="auto">`) {
		t.Errorf("in two languages: %s", mixed.HTML)
	}
	whole, out := message.Bundle([]message.Part{page("*a*"), page("b"), {Subject: "c", Text: "c", HTML: "c"}}, 0, true, message.Limits{})
	if strings.Count(whole.HTML, "<html dir=\"auto\">") != 1 || strings.Count(whole.HTML, "</body></html>") != 1 ||
		!strings.Contains(whole.HTML, "<p><em>a</em></p>\n\n<hr>\n<p>b</p>\n\n<hr>\nc</body>") || len(out) > 0 {
		t.Errorf("%v stay out of %s", out, whole.HTML)
	}
}

// A digest that is a whole page keeps its page: what leaves with it stands at the end of its body.
//
// Shows: R7.
func TestAppend(t *testing.T) {
	t.Parallel()
	page := message.Part{Subject: "Your daily update", Text: "One", HTML: "<!doctype html><html><body><p>One</p></BODY></html>"}
	door, mark := message.Part{Subject: "Door", Text: "Door <7>\nis open"}, message.Part{Subject: "Gate", Text: "Gate", HTML: "<p><b>Gate"}
	for name, tt := range map[string]struct {
		parts []message.Part
		want  message.Part
		out   []int
	}{
		"a page, a text and HTML": {
			[]message.Part{page, door, mark},
			message.Part{
				"Your daily update (+2)", "One\n\n----------\n\nDoor <7>\nis open\n\n----------\n\nGate",
				"<!doctype html><html><body><p>One</p>\n<hr>\n<p style=\"white-space: pre-line\">Door &lt;7&gt;\nis open</p>\n\n<hr>\n<p><b>Gate</b></p></BODY></html>",
			},
			nil,
		},
		"a page without an end": {
			[]message.Part{{"S", "T", "<html><p>T"}, door},
			message.Part{"S (+1)", "T\n\n----------\n\nDoor <7>\nis open", "<html><p>T\n<hr>\n<p style=\"white-space: pre-line\">Door &lt;7&gt;\nis open</p>\n"},
			nil,
		},
		"no page":             {[]message.Part{{"S", "T", ""}, door}, message.Part{"S (+1)", "T\n\n----------\n\nDoor <7>\nis open", ""}, nil},
		"a page without text": {[]message.Part{{"S", "", page.HTML}, door}, message.Part{"S", "", page.HTML}, []int{1}},
		"two pages":           {[]message.Part{page, page}, message.Part{"Your daily update (+1)", "One\n\n----------\n\nOne", strings.Replace(page.HTML, "</BODY", "\n<hr>\n<p style=\"white-space: pre-line\">One</p>\n</BODY", 1)}, nil},
		"too much":            {[]message.Part{page, {"S", strings.Repeat("x", 300_000), ""}}, page, []int{1}},
	} {
		got, out := message.Append(tt.parts, true, message.Limits{})
		if got != tt.want || !slices.Equal(out, tt.out) {
			t.Errorf("%s:\n%+v\n%+v, without %v", name, got, tt.want, out)
		}
	}
}
