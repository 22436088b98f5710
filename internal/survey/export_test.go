package survey_test

import (
	"encoding/json"
	"errors"
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
		if want := "created_at,delivery,workflow,survey,locale,agent_id,'=q,q\n2026-05-14T05:00:00Z,,,,,,," + cell + "\n"; text.String() != want {
			t.Errorf("%#v: %q, want %q", c.answer, text.String(), want)
		}
	}
	var text strings.Builder
	odd := survey.Response{Delivery: "=d", Workflow: "=w", Survey: "=s", Locale: "=l", AgentID: "=a"}
	if err := survey.WriteCSV(&text, nil, these(nil, odd)); err != nil || !strings.HasSuffix(text.String(), ",'=d,'=w,'=s,'=l,'=a\n") {
		t.Errorf("%q, %v", text.String(), err)
	}
}

func TestAnsweredQuestions(t *testing.T) {
	t.Parallel()
	got, err := survey.AnsweredQuestions(these(nil, survey.Response{Answers: map[string]any{"b": 1, "a": 2}}, survey.Response{}, survey.Response{Answers: map[string]any{"c": nil}}))
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A failure of what is read is the error, and so is one of what is written to, which ends the reading.
func TestExportsThatFail(t *testing.T) {
	t.Parallel()
	one := survey.Response{Answers: map[string]any{"q": strings.Repeat("x", 10_000)}}
	if _, err := survey.AnsweredQuestions(these(errAway, one)); err != errAway { //nolint:errorlint // it is returned as it is
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
