package public_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/survey"
)

// TestSubmit: answers that are taken lead back to the page, which says thanks however often it is loaded; a second form is refused.
func TestSubmit(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	h := public.Handler(m, public.Options{})
	page := parse(t, ask(t, h, http.MethodGet, "/s/d_en", "").body)
	filled := fill(page, "rate", "9", "complaint", "No", "parts", "paint|engine", "cost", " 12,50 ", "waited", "", "day", "2026-05-14", "unknown", "x")
	a := send(t, h, "/s/d_en", filled)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/s/d_en" || a.body != "" {
		t.Fatalf("status %d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	want := map[string]any{"rate": 9.0, "complaint": "No", "parts": []any{"engine", "paint"}, "cost": 12.5, "day": "2026-05-14"}
	if diff := cmp.Diff(want, m.look("d_en").answers); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if a := ask(t, h, http.MethodGet, "/s/d_en", ""); a.status != http.StatusOK || !strings.Contains(a.body, "Thank you") || strings.Contains(a.body, "<form") {
			t.Errorf("after it: status %d: %s", a.status, a.body)
		}
	}
	before := m.look("d_en").answers
	if a := send(t, h, "/s/d_en", fill(page, "rate", "1", "complaint", "No")); a.status != http.StatusConflict || !strings.Contains(a.body, "Already answered") {
		t.Errorf("a second time: status %d: %s", a.status, a.body)
	}
	if diff := cmp.Diff(before, m.look("d_en").answers); diff != "" {
		t.Error(diff)
	}
}

// TestStates: what each request is answered in each state, and which calls it makes.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		status       int
		says, calls  string
	}{
		{"GET", "/s/d_en", 200, "Send answers", ""},
		{"HEAD", "/s/d_en", 200, "", ""},
		{"POST", "/s/d_en", 422, "Please check these answers", "submit open draft"},
		{"POST", "/s/d_en/draft", 200, "How satisfied", "draft"},
		{"POST", "/s/d_en/opened", 204, "", "open"},
		{"GET", "/s/d_en_answered", 200, "Thank you", ""},
		{"HEAD", "/s/d_en_answered", 200, "", ""},
		{"POST", "/s/d_en_answered", 409, "Already answered", ""},
		{"POST", "/s/d_en_answered/draft", 409, "Already answered", ""},
		{"POST", "/s/d_en_answered/opened", 204, "", "open"},
		{"GET", "/s/d_en_closed", 410, "This survey is closed", ""},
		{"HEAD", "/s/d_en_closed", 410, "", ""},
		{"POST", "/s/d_en_closed", 410, "This survey is closed", ""},
		{"POST", "/s/d_en_closed/draft", 410, "This survey is closed", ""},
		{"POST", "/s/d_en_closed/opened", 410, "This survey is closed", ""},
		{"GET", "/s/none", 404, "no survey at this address", ""},
		{"HEAD", "/s/none", 404, "", ""},
		{"POST", "/s/none", 404, "no survey at this address", ""},
		{"POST", "/s/none/draft", 404, "no survey at this address", ""},
		{"POST", "/s/none/opened", 404, "no survey at this address", ""},
		{"GET", "/s/d_en/draft", 405, "not possible here", ""},
		{"HEAD", "/s/d_en/opened", 405, "", ""},
		{"DELETE", "/s/d_en", 405, "not possible here", ""},
		{"PUT", "/s/d_en/draft", 405, "not possible here", ""},
		{"GET", "/s/", 404, "no survey at this address", ""},
		{"GET", "/s/d_en/more", 404, "no survey at this address", ""},
		{"GET", "/s/-/0/other.css", 404, "no survey at this address", ""},
		{"POST", "/s/-/0/page.css", 405, "not possible here", ""},
	} {
		m := newMemory(t)
		a := ask(t, public.Handler(m, public.Options{}), c.method, c.path, "")
		if a.status != c.status || !strings.Contains(a.body, c.says) || strings.Join(m.calls, " ") != c.calls {
			t.Errorf("%s %s: status %d, want %d; calls %v; says %s", c.method, c.path, a.status, c.status, m.calls, a.body)
		}
		if c.status == http.StatusMethodNotAllowed && !slices.Contains([]string{"POST", "GET, HEAD, POST", "GET, HEAD"}, a.header.Get("Allow")) {
			t.Errorf("%s %s: allows %q", c.method, c.path, a.header.Get("Allow"))
		}
	}
}

// TestRaces: the survey changes between the moment it is found and the moment the form arrives.
func TestRaces(t *testing.T) {
	t.Parallel()
	for err, status := range map[error]int{public.ErrAnswered: 409, public.ErrClosed: 410, public.ErrNotFound: 404} {
		m := newMemory(t)
		m.err = fmt.Errorf("submit: %w", err)
		h := public.Handler(m, public.Options{})
		for _, path := range []string{"/s/d_en", "/s/d_en/draft"} {
			if a := send(t, h, path, url.Values{"rate": {"7"}, "complaint": {"No"}}); a.status != status {
				t.Errorf("%s, %v: status %d", path, err, a.status)
			}
		}
	}
}

// TestFailures: an error of the server loses nothing that was typed, and is logged without the address.
func TestFailures(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := newMemory(t)
	m.err = errors.New("the database is away")
	h := public.Handler(m, public.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := send(t, h, "/s/d_en", url.Values{"rate": {"7"}, "complaint": {"No"}, "cost": {"12.5"}})
	d := parse(t, a.body)
	d.check("status", a.status, http.StatusInternalServerError)
	d.check("what was typed", attr(d.id("a-cost"), "value"), "12.5")
	if !strings.Contains(text(d.id("above")), "could not be taken") {
		t.Error(text(d.id("above")))
	}
	for _, path := range []string{"/s/d_en/draft", "/s/d_en/opened"} {
		if a := send(t, h, path, nil); a.status != http.StatusInternalServerError || !strings.Contains(a.body, "Something went wrong") {
			t.Errorf("%s: status %d", path, a.status)
		}
	}
	if text := log.String(); strings.Count(text, "the database is away") != 3 || strings.Contains(text, "d_en") {
		t.Error(text)
	}
}

// TestErrorsAtTheirQuestions: a refused form comes back as it was typed, and each error is at its question, in the list above, and named
// as what describes the field.
func TestErrorsAtTheirQuestions(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	h := public.Handler(m, public.Options{})
	page := parse(t, ask(t, h, http.MethodGet, "/s/d_en", "").body)
	a := send(t, h, "/s/d_en", fill(page, "complaint", "Maybe", "cost", "a lot", "waited", "500", "day", "next week", "parts", "paint|roof"))
	d := parse(t, a.body)
	d.check("status", a.status, http.StatusUnprocessableEntity)
	d.check("title", text(d.tag("title")[0]), "Error: Your visit to the workshop")
	above := d.id("above")
	if !has(above, "autofocus") || attr(above, "tabindex") != "-1" {
		t.Error("the list of errors does not get the focus")
	}
	for id, want := range map[string]string{
		"rate": "Please choose an answer.", "complaint": "Please choose one of the answers shown.", "cost": "Please write a number, such as 12.5.",
		"waited": "Please write 120 or less.", "day": "Please write a date like this: 2026-05-14.", "parts": "Please choose one of the answers shown.",
	} {
		d.check(id, text(d.id("e-"+id)), "Error: "+want)
		links := d.all(func(n *html.Node) bool { return attr(n, "href") == "#a-"+id })
		if len(links) != 1 || !strings.Contains(text(above), want) {
			t.Errorf("%s: %d links above", id, len(links))
		}
		by := d.all(func(n *html.Node) bool { return slices.Contains(strings.Fields(attr(n, "aria-describedby")), "e-"+id) })
		if len(by) != 1 || id != "parts" && attr(by[0], "aria-invalid") != "true" {
			t.Errorf("%s: its error describes %d elements", id, len(by))
		}
	}
	for id, want := range map[string]string{"cost": "a lot", "waited": "500", "day": "next week"} {
		d.check(id+" as it was typed", attr(d.id("a-"+id), "value"), want)
	}
	d.check("a date as it was typed stands in a field of text", attr(d.id("a-day"), "type"), "text")
	d.check("a box that was ticked", has(d.id("a-parts-2"), "checked"), true)
	described(t, d)
	// The draft holds it too, for those who come back later.
	if diff := cmp.Diff(map[string]any{"complaint": "Maybe", "cost": "a lot", "waited": 500.0, "day": "next week", "parts": []any{"paint", "roof"}}, m.look("d_en").Draft); diff != "" {
		t.Error(diff)
	}
	if m.look("d_en").opened != 1 {
		t.Error("without script the first form opens the survey")
	}
}

// refusing is a Surveys that refuses every form for one problem.
type refusing struct {
	*memory
	problem survey.Problem
}

func (r refusing) Submit(context.Context, string, map[string]any) ([]survey.Problem, error) {
	return []survey.Problem{r.problem}, nil
}

// codes are the codes of problems, read from the source of package survey, so that a new one cannot be forgotten here.
func codes(t *testing.T) []survey.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../survey/problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []survey.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, survey.Code(code))
		}
		return true
	})
	if len(all) < 13 {
		t.Fatalf("%d codes", len(all))
	}
	return all
}

// TestEveryCode: each problem has a sentence of its own language at its question, of each type; what is wrong with no question of the page
// is said above it.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	for _, locale := range []string{"en", "ar", "de"} {
		for _, code := range codes(t) {
			for _, id := range []string{"rate", "complaint", "cost", "waited", "day", "parts", "elsewhere"} {
				m := refusing{newMemory(t), survey.Problem{Question: id, Code: code, Want: "given", Limit: 42}}
				a := send(t, public.Handler(m, public.Options{}), "/s/d_"+locale, url.Values{"rate": {"7"}, "complaint": {"No"}})
				name := fmt.Sprint(locale, " ", code, " ", id)
				if a.status != http.StatusUnprocessableEntity {
					t.Fatalf("%s: status %d", name, a.status)
				}
				d := parse(t, a.body)
				said := text(d.id("above"))
				if id != "elsewhere" {
					said = text(d.id("e-" + id))
				}
				if strings.Contains(said, "%") || len(said) < 15 {
					t.Errorf("%s: says %q", name, said)
				}
				limited := code == survey.TooSmall || code == survey.TooLarge || code == survey.TooLong
				if id != "elsewhere" && limited != (strings.Contains(said, "42") || strings.Contains(said, "٤٢")) {
					t.Errorf("%s: says %q", name, said)
				}
			}
		}
	}
}

// TestFollowingQuestions: without script the questions that follow from the answers are asked by the next page, and nothing is taken
// before, also if they may be left out.
func TestFollowingQuestions(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	h := public.Handler(m, public.Options{})
	page := parse(t, ask(t, h, http.MethodGet, "/s/d_en", "").body)
	page.check("asked at first", page.asked(), "rate complaint parts cost waited day")
	a := send(t, h, "/s/d_en", fill(page, "rate", "2", "complaint", "Yes", "cost", "12"))
	page = parse(t, a.body)
	page.check("status", a.status, http.StatusUnprocessableEntity)
	page.check("asked then", page.asked(), "rate complaint what call parts cost waited day")
	above := text(page.id("above"))
	if !strings.Contains(above, "further questions") || !strings.Contains(above, "What went wrong?") || strings.Contains(above, "Please check") || strings.Contains(a.body, `class="problem"`) {
		t.Errorf("it says %q", above)
	}
	page.check("what was typed", attr(page.id("a-cost"), "value"), "12")
	if slices.Contains(m.calls, "submit") {
		t.Error("answers were taken")
	}
	a = send(t, h, "/s/d_en", fill(page, "what", "Noise", "call", "true"))
	page = parse(t, a.body)
	page.check("asked after that", page.asked(), "rate complaint what call phone parts cost waited day")
	// The other way round: an answer takes the questions away again, and what was written there does not count.
	a = send(t, h, "/s/d_en", fill(page, "complaint", "No", "phone", "none"))
	page.check("status at the end", a.status, http.StatusSeeOther)
	if diff := cmp.Diff(map[string]any{"rate": 2.0, "complaint": "No", "cost": 12.0}, m.look("d_en").answers); diff != "" {
		t.Error(diff)
	}
}

// TestFollowingQuestionsAndErrors: both are said at once, and a question that is asked for the first time is no error.
func TestFollowingQuestionsAndErrors(t *testing.T) {
	t.Parallel()
	h := public.Handler(newMemory(t), public.Options{})
	page := parse(t, ask(t, h, http.MethodGet, "/s/d_en", "").body)
	page = parse(t, send(t, h, "/s/d_en", fill(page, "complaint", "Yes")).body)
	above := text(page.id("above"))
	for _, want := range []string{"Please check these answers", "How satisfied", "further questions", "What went wrong?", "May we call you"} {
		if !strings.Contains(above, want) {
			t.Errorf("it does not say %q: %s", want, above)
		}
	}
	page.check("errors", len(page.all(func(n *html.Node) bool { return attr(n, "class") == "problem" })), 1)
	// A form that was not made by the page has seen all questions.
	a := send(t, h, "/s/d_en", url.Values{"rate": {"2"}, "complaint": {"Yes"}, "what": {"Noise"}})
	page.check("a program's form", a.status, http.StatusSeeOther)
}

// TestDraft: a draft keeps what is in the form, as any database can keep it, and answers what is asked then.
func TestDraft(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	h := public.Handler(m, public.Options{})
	a := send(t, h, "/s/d_en/draft", url.Values{
		"complaint": {"Yes"}, "what": {"a\x00b"}, "cost": {"007."}, "waited": {"abc"}, "parts": {"paint", "\x00", "\xff"}, "day": {"14.5.2026"}, "call": {"\xff"}, "unknown": {"x"},
	})
	d := parse(t, a.body)
	d.check("status", a.status, http.StatusOK)
	d.check("asked", d.asked(), "rate complaint what call parts cost waited day")
	if strings.Contains(a.body, "<html") {
		t.Error("it is a whole page")
	}
	if diff := cmp.Diff(map[string]any{"complaint": "Yes", "cost": 7.0, "waited": "abc", "parts": []any{"paint"}, "day": "2026-05-14"}, m.look("d_en").Draft); diff != "" {
		t.Error(diff)
	}
	page := parse(t, ask(t, h, http.MethodGet, "/s/d_en", "").body)
	page.check("the page of a draft", page.asked(), "rate complaint what call parts cost waited day")
	page.check("a number that is none", attr(page.id("a-waited"), "value"), "abc")
	if state := m.look("d_en").State; state != public.Asking {
		t.Errorf("a draft is no answer: %s", state)
	}
}
