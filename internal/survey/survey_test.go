package survey_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/survey"
)

func condition(t testing.TB, line string) *expr.Condition {
	t.Helper()
	compiler, err := expr.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	c, err := compiler.Line(line, expr.Scope{Answers: true, Event: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func number(n float64) *float64 { return &n }

// visit has a question of each type. Some are asked, or taken, by the answers to others.
func visit(t testing.TB) *survey.Form {
	t.Helper()
	options := func(values ...string) (all []survey.Option) {
		for _, v := range values {
			all = append(all, survey.Option{Value: v})
		}
		return all
	}
	return &survey.Form{Questions: []survey.Question{
		{ID: "rate", Type: survey.Rating, Required: true, Min: number(1), Max: number(10)},
		{ID: "complaint", Type: survey.Choice, Options: options("Yes", "No")},
		{ID: "what", Type: survey.FreeText, Required: true, MaxLength: 20, ShowWhen: condition(t, `answers.complaint == "Yes"`)},
		{ID: "call", Type: survey.YesNo, ShowWhen: condition(t, `answers.what != null`)},
		{ID: "phone", Type: survey.FreeText, Pattern: regexp.MustCompile(`^\+[0-9]+$`), ShowWhen: condition(t, `answers.call == true`)},
		{ID: "parts", Type: survey.Multiple, Options: options("engine", "tyres", "paint")},
		{ID: "cost", Type: survey.Number, Min: number(0), ValidWhen: condition(t, `answers.cost <= event.total`)},
		{ID: "day", Type: survey.Date},
	}}
}

func read(t testing.TB, text string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var given map[string]any
	if err := decoder.Decode(&given); err != nil {
		t.Fatal(err)
	}
	return given
}

var input = expr.Input{Event: map[string]any{"total": 250}}

func TestCheck(t *testing.T) {
	form := visit(t)
	for _, c := range []struct {
		name, given string
		answers     string // as JSON
		asked       string
		problems    string
	}{
		{
			"everything", `{"rate": 7, "complaint": "Yes", "what": "Noise", "call": true, "phone": "+4912", "parts": ["tyres", "engine"], "cost": 12.50, "day": "2026-05-14"}`,
			`{"call":true,"complaint":"Yes","cost":12.5,"day":"2026-05-14","parts":["engine","tyres"],"phone":"+4912","rate":7,"what":"Noise"}`,
			"rate complaint what call phone parts cost day", "",
		},
		{"what must be answered", `{}`, `{}`, "rate complaint parts cost day", "rate missing"},
		{"null, blank and empty are no answers", `{"rate": null, "complaint": "", "parts": [], "day": "  "}`, `{}`, "rate complaint parts cost day", "rate missing"},
		{
			"a question that follows from an answer must be answered", `{"rate": 1, "complaint": "Yes"}`, `{"complaint":"Yes","rate":1}`,
			"rate complaint what parts cost day", "what missing",
		},
		{
			"an answer to a question that is not asked", `{"rate": 1, "complaint": "No", "what": "Noise"}`, `{"complaint":"No","rate":1}`,
			"rate complaint parts cost day", "what not_asked",
		},
		{
			"and to one that follows from it", `{"rate": 1, "complaint": "No", "what": "Noise", "call": true}`, `{"complaint":"No","rate":1}`,
			"rate complaint parts cost day", "what not_asked, call not_asked",
		},
		{
			"what follows from a refused answer is not a second problem", `{"rate": 1, "complaint": "Perhaps", "what": "Noise"}`, `{"rate":1}`,
			"rate complaint parts cost day", "complaint not_an_option",
		},
		{"unknown questions", `{"rate": 1, "zz": 1, "aa": 2}`, `{"rate":1}`, "rate complaint parts cost day", "aa unknown_question, zz unknown_question"},
		{"a rating below", `{"rate": 0}`, `{}`, "rate complaint parts cost day", "rate too_small"},
		{"a rating above", `{"rate": 11}`, `{}`, "rate complaint parts cost day", "rate too_large"},
		{"a rating with decimals", `{"rate": 7.5}`, `{}`, "rate complaint parts cost day", "rate not_whole"},
		{"a rating as a text", `{"rate": "7"}`, `{}`, "rate complaint parts cost day", "rate wrong_type"},
		{"a whole number in another form", `{"rate": 7.0, "cost": 1e2}`, `{"cost":100,"rate":7}`, "rate complaint parts cost day", ""},
		{"minus nothing", `{"rate": 7, "cost": -0}`, `{"cost":0,"rate":7}`, "rate complaint parts cost day", ""},
		{"a number without bound", `{"rate": 7, "cost": 1e999}`, `{"rate":7}`, "rate complaint parts cost day", "cost too_large"},
		{"a condition on the answer itself", `{"rate": 7, "cost": 251}`, `{"rate":7}`, "rate complaint parts cost day", "cost not_valid"},
		{"a list for a choice", `{"rate": 7, "complaint": ["Yes"]}`, `{"rate":7}`, "rate complaint parts cost day", "complaint wrong_type"},
		{"a choice for a list", `{"rate": 7, "parts": "engine"}`, `{"rate":7}`, "rate complaint parts cost day", "parts wrong_type"},
		{"an option twice", `{"rate": 7, "parts": ["paint", "paint"]}`, `{"parts":["paint"],"rate":7}`, "rate complaint parts cost day", ""},
		{"an unknown option among others", `{"rate": 7, "parts": ["paint", "roof"]}`, `{"rate":7}`, "rate complaint parts cost day", "parts not_an_option"},
		{"a number among options", `{"rate": 7, "parts": [1]}`, `{"rate":7}`, "rate complaint parts cost day", "parts wrong_type"},
		{
			"a text of the longest length", `{"rate": 7, "complaint": "Yes", "what": "ÄÖÜäöüßéèàÄÖÜäöüßéèà"}`, `{"complaint":"Yes","rate":7,"what":"ÄÖÜäöüßéèàÄÖÜäöüßéèà"}`,
			"rate complaint what call parts cost day", "",
		},
		{
			"a longer text", `{"rate": 7, "complaint": "Yes", "what": "123456789012345678901"}`, `{"complaint":"Yes","rate":7}`,
			"rate complaint what parts cost day", "what too_long",
		},
		{
			"a text with a NUL", `{"rate": 7, "complaint": "Yes", "what": "a\u0000b"}`, `{"complaint":"Yes","rate":7}`,
			"rate complaint what parts cost day", "what not_text",
		},
		{
			"lines as browsers send them", `{"rate": 7, "complaint": "Yes", "what": "a\r\nb\rc"}`, `{"complaint":"Yes","rate":7,"what":"a\nb\nc"}`,
			"rate complaint what call parts cost day", "",
		},
		{
			"a pattern", `{"rate": 7, "complaint": "Yes", "what": "x", "call": true, "phone": "030 12"}`, `{"call":true,"complaint":"Yes","rate":7,"what":"x"}`,
			"rate complaint what call phone parts cost day", "phone not_matching",
		},
		{
			"yes as a text", `{"rate": 7, "complaint": "Yes", "what": "x", "call": "yes"}`, `{"complaint":"Yes","rate":7,"what":"x"}`,
			"rate complaint what call parts cost day", "call wrong_type",
		},
		{"a day that does not exist", `{"rate": 7, "day": "2026-02-30"}`, `{"rate":7}`, "rate complaint parts cost day", "day not_a_date"},
		{"an object", `{"rate": {"a": 1}, "day": {"a": 1}}`, `{}`, "rate complaint parts cost day", "rate wrong_type, day wrong_type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := form.Check(read(t, c.given), input)
			answers, err := json.Marshal(r.Answers)
			if err != nil {
				t.Fatal(err)
			}
			if string(answers) != c.answers {
				t.Errorf("answers %s, want %s", answers, c.answers)
			}
			if asked := strings.Join(r.Asked, " "); asked != c.asked {
				t.Errorf("asked %s, want %s", asked, c.asked)
			}
			if got := problems(r); got != c.problems {
				t.Errorf("problems %q, want %q", got, c.problems)
			}
		})
	}
}

func problems(r survey.Result) string {
	var all []string
	for _, p := range r.Problems {
		all = append(all, p.Question+" "+string(p.Code))
	}
	return strings.Join(all, ", ")
}

// TestProblemsSayWhatToDo holds the words of the problems, and that none repeats an answer.
func TestProblemsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		problem survey.Problem
		want    string
	}{
		{survey.Problem{Code: survey.TooSmall, Limit: 1}, "the answer must be 1 or more"},
		{survey.Problem{Code: survey.TooLarge, Limit: 9.5}, "the answer must be 9.5 or less"},
		{survey.Problem{Code: survey.TooLong, Limit: 2000}, "the answer must have at most 2000 characters"},
		{survey.Problem{Code: survey.WrongType, Want: "a number"}, "the answer must be a number"},
		{survey.Problem{Code: survey.NotADate}, "the answer is not a date: write 2026-05-14"},
		{survey.Problem{Code: survey.NotAnOption}, "the answer is not one of the options"},
	} {
		if got := c.problem.Error(); got != c.want {
			t.Errorf("%s: %q, want %q", c.problem.Code, got, c.want)
		}
	}
	secret := "my illness"
	for id, bad := range map[string]any{"complaint": secret, "day": secret, "cost": secret, "parts": []any{secret}, "call": secret} {
		for _, p := range visit(t).Check(map[string]any{id: bad}, input).Problems {
			if text := p.Error() + p.Want; strings.Contains(text, secret) {
				t.Errorf("%s: %q repeats the answer", id, text)
			}
		}
	}
	long := strings.Repeat("ß", 100_000)
	for _, p := range visit(t).Check(map[string]any{long: "x"}, input).Problems {
		if n := len([]rune(p.Question)); n > 61 {
			t.Errorf("a problem repeats %d characters of a question's name", n)
		}
	}
}

// TestReadFields reads what a browser sends for each type of question.
func TestReadFields(t *testing.T) {
	got := visit(t).ReadFields(map[string][]string{
		"rate": {"٧"}, "complaint": {"Yes"}, "what": {"Noise\r\nand more"}, "call": {"true"}, "phone": {""},
		"parts": {"paint", "engine"}, "cost": {" 12,50 "}, "day": {"2026-05-14"}, "unknown": {"x"},
	})
	want := map[string]any{
		"rate": json.Number("7"), "complaint": "Yes", "what": "Noise\r\nand more", "call": true, "phone": "",
		"parts": []any{"paint", "engine"}, "cost": json.Number("12.50"), "day": "2026-05-14",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadFieldsNumbers reads numbers as people type them, and keeps everything else as a text.
func TestReadFieldsNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"7": json.Number("7"), "+7": json.Number("7"), "-7": json.Number("-7"), "−7": json.Number("-7"), "۱۲٫۵": json.Number("12.5"), "𝟘𝟙": json.Number("01"),
		"1.000,5": "1.000,5", "seven": "seven", "0x10": "0x10", "1e5": "1e5", "NaN": "NaN", "": "", "-": "-", "7 8": "7 8",
	} {
		got := visit(t).ReadFields(map[string][]string{"cost": {text}})["cost"]
		if got != want {
			t.Errorf("%q is read as %#v, want %#v", text, got, want)
		}
	}
	for _, r := range unicode.Nd.R16 {
		if (r.Hi-r.Lo+1)%10 != 0 || r.Stride != 1 {
			t.Errorf("digits %x to %x are not in tens", r.Lo, r.Hi)
		}
	}
}

// TestUnasked clears what a page without script still shows.
func TestUnasked(t *testing.T) {
	form := visit(t)
	got := form.Unasked(map[string]any{"rate": "x", "complaint": "No", "what": "Noise", "other": 1}, input)
	if diff := cmp.Diff(map[string]any{"rate": "x", "complaint": "No"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestCheckProperties: whatever is given, the answers that are taken are taken again as they are, none of them belongs to a question
// that is not asked, and every question that is asked and required has an answer or a problem.
func TestCheckProperties(t *testing.T) {
	form := visit(t)
	values := []any{
		nil, "", "Yes", "No", "x", "+49", true, false, json.Number("7"), json.Number("1e400"), json.Number("-3"), 2.5,
		[]any{},
		[]any{"engine"},
		[]any{"paint", "tyres", "paint"},
		[]any{1.0},
		map[string]any{},
		"2026-05-14", "2026-13-01", "a\x00", "a\r\nb", strings.Repeat("a", 21), "\xff",
	}
	ids := []string{"unknown", ""}
	for _, q := range form.Questions {
		ids = append(ids, q.ID)
	}
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.MapOf(rapid.SampledFrom(ids), rapid.SampledFrom(values)).Draw(t, "given")
		before := fmt.Sprint(given)
		r := form.Check(given, input)
		if fmt.Sprint(given) != before {
			t.Fatal("Check has changed what was given")
		}
		for id := range r.Answers {
			if !slices.Contains(r.Asked, id) {
				t.Fatalf("%s is answered and not asked", id)
			}
		}
		for _, id := range r.Asked {
			_, answered := r.Answers[id]
			problem := slices.ContainsFunc(r.Problems, func(p survey.Problem) bool { return p.Question == id })
			if form.Question(id).Required && !answered && !problem {
				t.Fatalf("%s must be answered, and is neither answered nor a problem", id)
			}
		}
		again := form.Check(maps.Clone(r.Answers), input)
		if diff := cmp.Diff(r.Answers, again.Answers); diff != "" {
			t.Fatal(diff)
		}
		for _, p := range again.Problems {
			if p.Code != survey.Missing {
				t.Fatalf("an answer that was taken is refused: %v %v", p.Question, p)
			}
		}
		if diff := cmp.Diff(r.Asked, again.Asked); diff != "" {
			t.Fatal(diff)
		}
	})
}
