package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// expected reads a list as it would stand under `expect` of a step at 10:00.
func expected(t *testing.T, list string) expectation {
	t.Helper()
	s, problems := Parse("f.yaml", []byte(head+"  - at: \"10:00\"\n    expect:\n      "+list+"\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s[0].Steps[0].expect[0]
}

// messages makes observed rows of texts like "to=alice step=1".
func messages(lines ...string) []row {
	rows := make([]row, len(lines))
	for i, line := range lines {
		cells := map[string]cell{"at": instantCell(time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC))}
		for _, word := range strings.Split(line, ",") {
			name, value, _ := strings.Cut(word, "=")
			cells[strings.TrimSpace(name)] = textCell(value)
		}
		rows[i] = row{cells: cells, alias: []string{cells["contact"].text}}
	}
	return rows
}

func TestCompare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, list string
		actual     []row
		want       string // a sign per pair with the indices of both sides, then whether it held
	}{
		{"none and nothing", "sent: none", nil, "held"},
		{"none and something", "sent: none", messages("to=a"), "+:0 differs"},
		{"any", "sent: any", messages("to=a"), "held"},
		{"a count", "sent: 2", messages("to=a", "to=b"), "held"},
		{"another count", "sent: 2", messages("to=a"), "differs"},
		{"at least a count", "sent_at_least: 1", messages("to=a", "to=b"), "held"},
		{"fewer than at least", "sent_at_least: 3", messages("to=a", "to=b"), "differs"},
		{"any order", "sent: [{to: a}, {to: b}]", messages("to=b", "to=a"), "=0:1 =1:0 held"},
		{"partial rows", "sent: {to: a}", messages("to=a,step=7"), "=0:0 held"},
		{"one missing", "sent: [{to: a}, {to: b}]", messages("to=b"), "-0: =1:0 differs"},
		{"one too many", "sent: {to: a}", messages("to=a", "to=b"), "=0:0 +:1 differs"},
		{"too many for at least", "sent_at_least: [{to: a}]", messages("to=a", "to=b"), "=0:0 held"},
		{"times", "sent: {to: a, times: 2}", messages("to=a", "to=a"), "=0:0 =0:1 held"},
		{"times too few", "sent: {to: a, times: 3}", messages("to=a", "to=a"), "=0:0 =0:1 -0: differs"},
		{
			"the wide row leaves the narrow one its match", "sent: [{to: a}, {to: a, step: 1}]",
			messages("to=a,step=1", "to=a,step=2"), "=0:1 =1:0 held",
		},
		{
			"a chain of moves", "sent: [{to: a}, {step: 1}, {to: a, step: 1}]",
			messages("to=a,step=1", "to=b,step=1", "to=a,step=2"), "=0:2 =1:1 =2:0 held",
		},
		{"nearest by fields in common", "sent: [{to: a, step: 1, channel: x}]", messages("to=b,step=1,channel=y", "to=a,step=2,channel=x"), "~0:1 +:0 differs"},
		{"nothing in common stays apart", "sent: {to: a}", messages("to=b"), "-0: +:0 differs"},
		{"an address in another spelling", "sent: {to: \"+964 770 1\"}", messages("to=+9647701"), "=0:0 held"},
		{"a contact by its id", "sent: {to: alice}", messages("to=a@example.org,contact=alice"), "=0:0 held"},
		{"a channel by its kind", "sent: {channel: email}", messages("channel=email:default"), "=0:0 held"},
		{"another channel of the kind", "sent: {channel: email}", messages("channel=email:second"), "-0: +:0 differs"},
		{"an instant", "sent: {at: \"10:00\"}", messages("to=a"), "=0:0 held"},
		{"no instant", "sent: {due: none}", messages("to=a"), "=0:0 held"},
		{"parts of a text", "sent: {text_has: [how, was]}", messages("text=how it was"), "=0:0 held"},
		{"a part that is missing", "sent: {text_has: [how, is]}", messages("text=how it was"), "-0: +:0 differs"},
		{"a pattern", "sent: {text_matches: \"^how.*s$\"}", messages("text=how it was"), "=0:0 held"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := compare(expected(t, test.list), test.actual)
			var got []string
			for _, p := range o.pairs {
				got = append(got, string(p.sign)+index(p.expected)+":"+index(p.actual))
			}
			verdict := "differs"
			if o.held {
				verdict = "held"
			}
			if diff := cmp.Diff(test.want, strings.Join(append(got, verdict), " ")); diff != "" {
				t.Errorf("compare (-want +got):\n%s", diff)
			}
			if o.held != (o.differences() == 0) {
				t.Errorf("held is %t and there are %d differences", o.held, o.differences())
			}
		})
	}
}

// What is to come is compared in its order, and only its beginning; the fields that all rows name choose among it.
func TestCompareInOrder(t *testing.T) {
	t.Parallel()
	coming := messages("workflow=w,to=a,iteration=1", "workflow=w,to=b,iteration=1", "workflow=v,to=a,iteration=7", "workflow=w,to=a,iteration=2")
	for list, want := range map[string]string{
		"upcoming: none": "+:0 +:1 +:2 +:3 differs",
		"upcoming: [{workflow: w, to: a}, {workflow: w, to: b}]":                       "=0:0 =1:1 held",
		"upcoming: [{workflow: w, to: b}, {workflow: w, to: a}]":                       "~0:0 ~1:1 differs",
		"upcoming: [{workflow: w, to: a, iteration: 1}, {to: a}]":                      "=0:0 =1:1 held", // the second one of any workflow
		"upcoming: {to: b, times: 2}":                                                  "=0:0 -0: differs",
		"upcoming: [{workflow: v}, {workflow: w, to: b}]":                              "~0:0 =1:1 differs",
		"upcoming: {workflow: v, iteration: 8}":                                        "~0:0 differs",
		"upcoming: [{to: a, workflow: w}, {to: a, workflow: v}, {to: a, workflow: w}]": "=0:0 =1:1 =2:2 held",
	} {
		s, problems := Parse("f.yaml", []byte(head+"  - at: \"10:00\"\n    state:\n      "+list+"\n"))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		var o outcome
		for _, e := range s[0].Steps[0].state {
			if e.spec.name == "upcoming" {
				o = compare(e, coming)
			}
		}
		var got []string
		for _, p := range o.pairs {
			got = append(got, string(p.sign)+index(p.expected)+":"+index(p.actual))
		}
		verdict := "differs"
		if o.held {
			verdict = "held"
		}
		if text := strings.Join(append(got, verdict), " "); text != want {
			t.Errorf("%s: %s, want %s", list, text, want)
		}
	}
	if o := compare(expectation{spec: listSpec{ordered: true}, count: -1}, nil); !o.held {
		t.Error("nothing comes, as expected")
	}
}

func index(i int) string {
	if i < 0 {
		return ""
	}
	return string(rune('0' + i))
}

func TestCompareManyAlikeRows(t *testing.T) {
	t.Parallel()
	rows := slices.Repeat(messages("to=a"), 3000)
	if o := compare(expected(t, "sent: {to: a, times: 3000}"), rows); !o.held {
		t.Errorf("%d rows differ, want none", o.differences())
	}
	if o := compare(expected(t, "sent: {to: b, times: 3000}"), rows); o.differences() != 6000 {
		t.Errorf("%d rows differ, want 6000", o.differences())
	}
}

func TestDiffLines(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, want, got, diff string }{
		{"one line of three", "a\nb\nc", "a\nx\nc", "  a|- b|+ x|  c"},
		{"a blank at the end", "a", "a ", "- a|+ a·"},
		{"a tab and a zero-width space", "a\tb", "a\u200bb", "- a→b|+ a‹U+200B›b"},
		{"a line more", "a", "a\n", "  a|+ "},
		{"a hard space", "a b", "a\u00a0b", "- a b|+ a‹U+00A0›b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(diffLines(test.want, test.got), "|"); got != test.diff {
				t.Errorf("got %q, want %q", got, test.diff)
			}
		})
	}
}
