package public

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/carillonhq/carillon/internal/survey"
)

// frame is the part around a page.
type frame struct {
	words         *words
	title         string
	lang, dir     string // of the page's content; empty lang: not known
	own           templ.Attributes
	numbers       digits // of the content
	style, script string
}

// frame chooses the languages of a page. Its own texts are marked where they are in another language than the content.
func (s *site) frame(locale, accept string) frame {
	w := s.languages.choose(locale, accept)
	f := frame{words: w, style: s.style.path, script: s.script.path}
	f.lang, f.dir = spoken(locale)
	f.numbers = digitsOf(locale)
	if f.lang == "" {
		f.speakOwn()
		f.numbers = digitsOf(w.Locale)
	}
	if !sameLanguage(f.lang, w.Locale) {
		lang, dir := spoken(w.Locale)
		f.own = templ.Attributes{"lang": lang, "dir": dir}
	}
	return f
}

// speakOwn makes the language of the page's own texts that of the whole page.
func (f *frame) speakOwn() {
	f.lang, f.dir = spoken(f.words.Locale)
	f.own = nil
}

// formPage is a form as it is shown.
type formPage struct {
	frame
	action    string
	questions []question
	lost      []string // problems that belong to no question of the page
	more      []string // questions that follow from the answers, and that the page shows for the first time
	errors    bool     // answers were refused
	failed    bool     // the server could not take the answers
}

// control is how a question is asked.
type control string

const (
	radios control = "radios"
	checks control = "checks"
	scale  control = "scale" // radios in a row, each a number
	line   control = "line"
	area   control = "area"
	figure control = "figure" // a number that is typed
	day    control = "day"
)

const (
	// longestScale is how many numbers a rating may have to be shown as a row: 0 to 10.
	longestScale = 11
	// longestLine is how many characters an answer may have to be typed into one line.
	longestLine = 200
)

// question is one question as it is shown.
type question struct {
	id       string
	control  control
	text     string
	required bool
	hint     string
	problem  string // empty: its answer was not refused
	fresh    bool   // it follows from the answers, and is shown for the first time
	value    string // as it was typed
	longest  int    // characters; 0: no bound
	options  []option
}

type option struct {
	value, text string
	checked     bool
	quiet       bool // it stands for no answer
}

// field is the id of the element that takes the answer: of the first of several.
func (q question) field(n int) string {
	if n == 0 {
		return "a-" + q.id
	}
	return "a-" + q.id + "-" + strconv.Itoa(n)
}

// describedBy are the ids of what is said of the question.
func (q question) describedBy() string {
	var ids []string
	if q.hint != "" {
		ids = append(ids, "h-"+q.id)
	}
	if q.problem != "" {
		ids = append(ids, "e-"+q.id)
	}
	return strings.Join(ids, " ")
}

// grouped reports whether the answer has several fields.
func (q question) grouped() bool {
	return q.control == radios || q.control == checks || q.control == scale
}

// form is the page of some questions, with the values that their fields have.
func (s *site) form(v visit, asked []string, fields url.Values) *formPage {
	p := &formPage{frame: s.frame(v.Locale, v.accept), action: v.action}
	p.title = strings.TrimSpace(v.Title)
	if p.title == "" {
		p.title = p.words.Untitled
	}
	for _, id := range asked {
		if q := v.Form.Question(id); q != nil {
			p.questions = append(p.questions, p.question(q, v.Texts, fields[id]))
		}
	}
	return p
}

func (p *formPage) question(q *survey.Question, texts map[string]string, values []string) question {
	out := question{id: q.ID, text: texts[q.ID], required: q.Required}
	if strings.TrimSpace(out.text) == "" {
		out.text = q.ID
	}
	if len(values) > 0 {
		out.value = values[0]
	}
	choose := func(value, text string) {
		if strings.TrimSpace(text) == "" {
			text = value
		}
		out.options = append(out.options, option{value: value, text: text, checked: slices.Contains(values, value)})
	}
	switch q.Type {
	case survey.Choice, survey.Multiple:
		for _, o := range q.Options {
			choose(o.Value, texts[q.ID+"="+o.Value])
		}
		out.control = radios
		if q.Type == survey.Multiple {
			out.control, out.hint = checks, p.words.Several
		}
	case survey.YesNo:
		out.control = radios
		choose("true", p.words.Yes)
		choose("false", p.words.No)
	case survey.Rating, survey.Number:
		out.control, out.hint = figure, p.words.bounds(q.Min, q.Max)
		if from, to, ok := row(q); ok {
			out.control, out.hint = scale, ""
			for n := from; n <= to; n++ {
				choose(strconv.Itoa(n), p.numbers.write(float64(n)))
			}
		}
	case survey.FreeText:
		out.control, out.longest = line, q.Longest()
		if q.Longest() > longestLine {
			out.control = area
			if q.MaxLength > 0 {
				out.hint = p.words.length(q.MaxLength)
			}
		}
	case survey.Date:
		out.control = day
		if out.value != "" && !isDate(out.value) {
			out.control, out.hint = line, p.words.DateForm // a field for dates would show nothing
		}
	}
	if (out.control == radios || out.control == scale) && !q.Required {
		none := option{text: p.words.None, quiet: true}
		none.checked = len(values) > 0 && strings.TrimSpace(out.value) == ""
		out.options = append(out.options, none)
	}
	return out
}

// row returns the numbers of a rating that is short enough to be shown as a row.
func row(q *survey.Question) (from, to int, ok bool) {
	if q.Type != survey.Rating || q.Min == nil || q.Max == nil {
		return 0, 0, false
	}
	low, high := math.Ceil(*q.Min), math.Floor(*q.Max)
	if !(high-low < longestScale) || high < low || math.Abs(low) > math.MaxInt32 {
		return 0, 0, false
	}
	return int(low), int(high), true
}

// refused puts problems to their questions. Problems of questions that are not on the page are named above it.
func (p *formPage) refused(problems []survey.Problem) {
	for _, one := range problems {
		p.errors = true
		i := slices.IndexFunc(p.questions, func(q question) bool { return q.id == one.Question })
		switch {
		case i < 0:
			if !slices.Contains(p.lost, p.words.Changed) {
				p.lost = append(p.lost, p.words.Changed)
			}
		case p.questions[i].problem == "":
			p.questions[i].problem = p.words.problem(one, p.questions[i].control)
			if one.Code == survey.NotADate && p.questions[i].hint == "" {
				p.questions[i].hint = p.words.DateForm
			}
		}
	}
	for i := range p.questions {
		p.questions[i].fresh = slices.Contains(p.more, p.questions[i].id)
	}
}

// whole is the form with its frame. The title begins with what is wrong, for those who hear it first.
func (p *formPage) whole() templ.Component {
	f := p.frame
	if p.errors || p.failed {
		f.title = p.words.Error + ": " + f.title
	}
	return whole(f, formBody(p))
}

// numbers is how many numbers a scale has.
func (q question) numbers() int {
	n := 0
	for _, o := range q.options {
		if !o.quiet {
			n++
		}
	}
	return n
}

// group are the attributes of a question with several fields. One of several is a group of radios, which can be required and refused as
// a whole.
func (q question) group() templ.Attributes {
	a := q.attributes()
	if q.control == checks {
		delete(a, "aria-required")
		delete(a, "aria-invalid")
		return a
	}
	a["role"] = "radiogroup"
	return a
}

// attributes are those that every field has that is typed into.
func (q question) attributes() templ.Attributes {
	a := templ.Attributes{}
	if q.required {
		a["aria-required"] = "true"
	}
	if q.problem != "" {
		a["aria-invalid"] = "true"
	}
	if ids := q.describedBy(); ids != "" {
		a["aria-describedby"] = ids
	}
	return a
}

// kind are the attributes of a field of one line. A number is a text, so that every script's digits can be typed.
func (q question) kind() templ.Attributes {
	switch q.control {
	case day:
		return templ.Attributes{"type": "date"}
	case figure:
		return templ.Attributes{"type": "text", "inputmode": "decimal", "class": "figure", "dir": "ltr"}
	case line, area, radios, checks, scale:
	}
	a := templ.Attributes{"type": "text", "dir": "auto"}
	if q.longest > 0 {
		a["maxlength"] = strconv.Itoa(q.longest)
	}
	return a
}

// firstLine keeps the first line of a text that begins with an empty one: HTML drops a line's end after <textarea>.
func (q question) firstLine() string {
	if strings.HasPrefix(q.value, "\n") || strings.HasPrefix(q.value, "\r") {
		return "\n"
	}
	return ""
}
