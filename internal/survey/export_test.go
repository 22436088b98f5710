package survey_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/survey"
)

var errAway = errors.New("the server is away")

// these goes through responses, and then fails if err is not nil.
func these(err error, list ...survey.Response) iter.Seq2[survey.Response, error] {
	return func(yield func(survey.Response, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(survey.Response{}, err)
		}
	}
}

// full takes some bytes and no more.
type full int

func (f *full) Write(p []byte) (int, error) {
	if *f -= full(len(p)); *f < 0 {
		return 0, errAway
	}
	return len(p), nil
}

// A cell of CSV is what was written, with an apostrophe where a spreadsheet would take it for a formula.
func TestCells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer any
		want   string
	}{
		{nil, ""},
		{"", ""},
		{"good", "good"},
		{" =1+1", " =1+1"},
		{"a=1", "a=1"},
		{"'=1", "'=1"},
		{"كل شيء", "كل شيء"},
		{"\xff", "\xff"},
		{"=1+1", "'=1+1"},
		{"+1", "'+1"},
		{"-1", "'-1"},
		{"@SUM(A1)", "'@SUM(A1)"},
		{"\t=1", "'\t=1"},
		{"\r=1", "'\r=1"},
		{"\n=1", "'\n=1"},
		{"＝1+1", "'＝1+1"},
		{"＋1", "'＋1"},
		{"－1", "'－1"},
		{"＠A", "'＠A"},
		{-5.0, "-5"},
		{json.Number("-5"), "-5"},
		{1250000.0, "1250000"},
		{0.1, "0.1"},
		{true, "yes"},
		{false, "no"},
		{[]any{"a", "b"}, "a; b"},
		{[]any{"=a", "b"}, "'=a; b"},
		{[]any{}, ""},
	} {
		var text strings.Builder
		r := survey.Response{Answers: map[string]any{"q": c.answer}, CreatedAt: time.Date(2026, 5, 14, 8, 0, 0, 999, time.FixedZone("", 3*60*60))}
		if err := survey.WriteCSV(&text, []string{"=q", "q"}, these(nil, r)); err != nil {
			t.Fatal(err)
		}
		cell := c.want
		if strings.ContainsAny(cell, "\r\n") || strings.HasPrefix(cell, " ") {
			cell = `"` + cell + `"`
		}
		if want := "created_at,delivery,address,customer_ref,workflow,survey,locale,agent_id,'=q,q\n2026-05-14T05:00:00Z,,,,,,,,," + cell + "\n"; text.String() != want {
			t.Errorf("%#v: %q, want %q", c.answer, text.String(), want)
		}
	}
	var text strings.Builder
	odd := survey.Response{Delivery: "=d", Address: "+964", CustomerRef: "=c", Workflow: "=w", Survey: "=s", Locale: "=l", AgentID: "=a"}
	if err := survey.WriteCSV(&text, nil, these(nil, odd)); err != nil || !strings.HasSuffix(text.String(), ",'=d,'+964,'=c,'=w,'=s,'=l,'=a\n") {
		t.Errorf("%q, %v", text.String(), err)
	}
}

func TestAnsweredQuestions(t *testing.T) {
	t.Parallel()
	asked := 0
	questions := func(name string, definitions int64) ([]string, error) {
		asked++
		return map[string][]string{"visit 3": {"rate", "why", "again"}, "visit 2": {"rate", "where", "why"}, "call 3": {"helped", "rate"}}[fmt.Sprint(name, " ", definitions)], nil
	}
	answered := func(name string, definitions int64, ids ...string) survey.Response {
		r := survey.Response{Survey: name, Definitions: definitions, Answers: map[string]any{}}
		for _, id := range ids {
			r.Answers[id] = nil
		}
		return r
	}
	for name, tt := range map[string]struct {
		all   []survey.Response
		want  []string
		asked int
	}{
		"none":                        {nil, nil, 0},
		"as the survey has them":      {[]survey.Response{answered("visit", 3, "again", "rate"), answered("visit", 3, "why")}, []string{"rate", "why", "again"}, 1},
		"one that was removed":        {[]survey.Response{answered("visit", 3, "again", "why"), answered("visit", 2, "rate", "where")}, []string{"rate", "where", "why", "again"}, 2},
		"an earlier set with no more": {[]survey.Response{answered("visit", 3, "again", "why"), answered("visit", 2, "why"), answered("visit", 1, "again")}, []string{"why", "again"}, 1},
		"surveys by name":             {[]survey.Response{answered("visit", 3, "again", "rate"), answered("call", 3, "helped", "rate")}, []string{"helped", "rate", "again"}, 2},
		"a survey that is not there":  {[]survey.Response{answered("gone", 1, "b", "a"), answered("gone", 1, "c")}, []string{"a", "b", "c"}, 2},
		"of which a part is not":      {[]survey.Response{answered("visit", 3, "again", "a", "why", "z")}, []string{"why", "again", "a", "z"}, 1},
	} {
		asked = 0
		got, err := survey.AnsweredQuestions(these(nil, tt.all...), questions)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil || asked != tt.asked {
			t.Errorf("%s: %v, asked %d times, want %d %s", name, err, asked, tt.asked, diff)
		}
	}
	if _, err := survey.AnsweredQuestions(these(nil, answered("visit", 3, "rate")), func(string, int64) ([]string, error) { return nil, errAway }); err != errAway { //nolint:errorlint // it is returned as it is
		t.Error(err)
	}
}

// A failure of what is read is the error, and so is one of what is written to, which ends the reading.
func TestExportsThatFail(t *testing.T) {
	t.Parallel()
	one := survey.Response{Answers: map[string]any{"q": strings.Repeat("x", 10_000)}}
	if _, err := survey.AnsweredQuestions(these(errAway, one), func(string, int64) ([]string, error) { return nil, nil }); err != errAway { //nolint:errorlint // it is returned as it is
		t.Error(err)
	}
	for name, write := range map[string]func(*full, iter.Seq2[survey.Response, error]) error{
		"csv": func(w *full, all iter.Seq2[survey.Response, error]) error {
			return survey.WriteCSV(w, []string{"q"}, all)
		},
		"ndjson": func(w *full, all iter.Seq2[survey.Response, error]) error { return survey.WriteNDJSON(w, all) },
	} {
		room := full(1 << 20)
		if err := write(&room, these(errAway, one)); err != errAway { //nolint:errorlint // it is returned as it is
			t.Errorf("%s: %v", name, err)
		}
		room = 100
		read := 0
		err := write(&room, func(yield func(survey.Response, error) bool) {
			for read = 1; read < 10 && yield(one, nil); read++ {
			}
		})
		if !errors.Is(err, errAway) || read > 2 {
			t.Errorf("%s into a full disk: %v after %d responses", name, err, read)
		}
	}
}
