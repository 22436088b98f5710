package public_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/carillonhq/carillon/internal/public"
)

type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request as a browser does; header are names and values.
func ask(t testing.TB, h http.Handler, method, path, body string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = "carillon.example.org"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.Code, w.Header(), string(text)}
}

// askFrom gets a page from an address, or posts to one that only takes that.
func askFrom(t testing.TB, h http.Handler, address, path string) answer {
	t.Helper()
	method := http.MethodGet
	if strings.HasSuffix(path, "/opened") {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// send posts a form.
func send(t testing.TB, h http.Handler, path string, fields url.Values, header ...string) answer {
	t.Helper()
	return ask(t, h, http.MethodPost, path, fields.Encode(), header...)
}

// dom is a parsed page.
type dom struct {
	t    testing.TB
	root *html.Node
}

func parse(t testing.TB, page string) dom {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return dom{t, root}
}

// all returns the elements for which is holds.
func (d dom) all(is func(*html.Node) bool) []*html.Node {
	var found []*html.Node
	for n := range d.root.Descendants() {
		if n.Type == html.ElementNode && is(n) {
			found = append(found, n)
		}
	}
	return found
}

// id returns the element of an id, and fails if there is none.
func (d dom) id(id string) *html.Node {
	d.t.Helper()
	found := d.all(func(n *html.Node) bool { return attr(n, "id") == id })
	if len(found) != 1 {
		d.t.Fatalf("%d elements with the id %q", len(found), id)
	}
	return found[0]
}

func (d dom) tag(name string) []*html.Node {
	return d.all(func(n *html.Node) bool { return n.Data == name })
}

// asked are the questions of a page, in its order.
func (d dom) asked() string {
	var ids []string
	for _, n := range d.all(func(n *html.Node) bool { return has(n, "data-question") }) {
		ids = append(ids, attr(n, "data-question"))
	}
	return strings.Join(ids, " ")
}

// fields are what a browser without script would send.
func (d dom) fields() url.Values {
	f := url.Values{}
	for _, n := range d.all(func(n *html.Node) bool { return has(n, "name") && (n.Data == "input" || n.Data == "textarea") }) {
		switch kind := attr(n, "type"); {
		case n.Data == "textarea":
			f.Add(attr(n, "name"), text(n))
		case (kind == "radio" || kind == "checkbox") && !has(n, "checked"):
		default:
			f.Add(attr(n, "name"), attr(n, "value"))
		}
	}
	return f
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for one := range n.Descendants() {
		if one.Type == html.TextNode {
			b.WriteString(one.Data)
		}
	}
	return b.String()
}

// fill returns the fields of a page as a person has filled them in.
func fill(d dom, pairs ...string) url.Values {
	f := d.fields()
	for i := 0; i+1 < len(pairs); i += 2 {
		f[pairs[i]] = nil
		for _, v := range strings.Split(pairs[i+1], "|") {
			f.Add(pairs[i], v)
		}
	}
	return f
}

func (d dom) check(name string, got, want any) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("%s: %v, want %v", name, got, want)
	}
}

// TestEveryTypeOfQuestion holds each control, its name for those who hear the page, and its mark if it is required.
func TestEveryTypeOfQuestion(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.surveys["d_en"].Draft = map[string]any{"complaint": "Yes", "call": true, "parts": []any{"tyres", "paint"}, "cost": 12.5, "day": "2026-05-14", "what": "\nA noise <b>", "phone": "+49 1"}
	a := ask(t, public.Handler(m, public.Options{}), http.MethodGet, "/s/d_en", "")
	d := parse(t, a.body)
	d.check("status", a.status, http.StatusOK)
	d.check("title", text(d.tag("title")[0]), "Your visit to the workshop")
	d.check("the one heading", text(d.tag("h1")[0]), "Your visit to the workshop")
	d.check("asked", d.asked(), "rate complaint what call phone parts cost waited day")
	for _, c := range []struct{ id, tag, kind, value, mode string }{
		{"a-rate", "input", "radio", "1", ""},
		{"a-rate-9", "input", "radio", "10", ""},
		{"a-complaint-1", "input", "radio", "No", ""},
		{"a-what", "textarea", "", "", ""},
		{"a-call", "input", "radio", "true", ""},
		{"a-call-1", "input", "radio", "false", ""},
		{"a-call-2", "input", "radio", "", ""}, // it is optional: a choice can be undone without script
		{"a-phone", "input", "text", "+49 1", ""},
		{"a-parts-2", "input", "checkbox", "paint", ""},
		{"a-cost", "input", "text", "12.5", "decimal"},
		{"a-waited", "input", "text", "", "decimal"}, // 121 numbers are no row
		{"a-day", "input", "date", "2026-05-14", ""},
	} {
		n := d.id(c.id)
		if n.Data != c.tag || attr(n, "type") != c.kind || attr(n, "value") != c.value || attr(n, "inputmode") != c.mode {
			t.Errorf("%s is <%s %v>", c.id, n.Data, n.Attr)
		}
	}
	d.check("a text", text(d.id("a-what")), "\nA noise <b>")
	for id, want := range map[string]bool{"a-complaint": true, "a-complaint-1": false, "a-call": true, "a-parts": false, "a-parts-1": true, "a-parts-2": true, "a-rate": false} {
		d.check(id+" is checked", has(d.id(id), "checked"), want)
	}
	if n := d.all(func(n *html.Node) bool { return attr(n, "id") == "a-rate-10" || attr(n, "id") == "a-complaint-2" }); len(n) > 0 {
		t.Error("a required question can be left without answer")
	}
	for id, want := range map[string]string{"a-what": "500", "a-phone": "40"} {
		d.check(id+" maxlength", attr(d.id(id), "maxlength"), want)
	}
	for _, box := range d.all(func(n *html.Node) bool { return has(n, "data-question") }) {
		id := attr(box, "data-question")
		required := m.surveys["d_en"].Form.Question(id).Required
		d.check(id+" is marked in text", strings.Contains(text(box), "(required)"), required)
		part := dom{t, box}
		var labels []*html.Node
		if set := part.tag("fieldset"); len(set) == 1 {
			labels = part.tag("legend")
			wanted := map[bool]string{true: "true"}[required && id != "parts"]
			d.check(id+" aria-required", attr(set[0], "aria-required"), wanted)
		} else {
			for _, l := range part.tag("label") {
				if attr(l, "for") == "a-"+id {
					labels = append(labels, l)
				}
			}
			d.check(id+" aria-required", attr(d.id("a-"+id), "aria-required"), map[bool]string{true: "true"}[required])
		}
		if len(labels) != 1 || !strings.Contains(text(labels[0]), visitTexts()["en"][id]) {
			t.Errorf("%s is named by %d elements", id, len(labels))
		}
	}
	described(t, d)
}

// described holds that every element that is described, labelled or linked to is there, and every id is there once.
func described(t testing.TB, d dom) {
	t.Helper()
	ids := map[string]bool{}
	for _, n := range d.all(func(n *html.Node) bool { return has(n, "id") }) {
		if ids[attr(n, "id")] {
			t.Errorf("the id %q is there twice", attr(n, "id"))
		}
		ids[attr(n, "id")] = true
	}
	for _, n := range d.all(func(*html.Node) bool { return true }) {
		for _, name := range []string{"aria-describedby", "aria-labelledby", "for"} {
			for _, id := range strings.Fields(attr(n, name)) {
				if !ids[id] {
					t.Errorf("%s names %q, which is not there", name, id)
				}
			}
		}
		if to := attr(n, "href"); strings.HasPrefix(to, "#") && !ids[to[1:]] {
			t.Errorf("a link leads to %q, which is not there", to)
		}
	}
}

// TestRowsOfNumbers: a rating of up to eleven numbers is a row; others are typed.
func TestRowsOfNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		min, max *float64
		row      string
	}{
		{number(0), number(10), "0 1 2 3 4 5 6 7 8 9 10"},
		{number(0), number(11), ""},
		{number(1), number(2), "1 2"},
		{number(-2), number(2), "-2 -1 0 1 2"},
		{number(0.5), number(3.5), "1 2 3"},
		{number(0.2), number(0.8), ""},
		{number(1), nil, ""},
		{nil, number(3), ""},
		{number(1e300), number(1e300 + 1), ""},
		{number(-1e18), number(1e18), ""},
	} {
		m := newMemory(t)
		form := *m.surveys["d_en"].Form
		form.Questions = slices.Clone(form.Questions)
		form.Questions[0].Min, form.Questions[0].Max = c.min, c.max
		m.surveys["d_en"].Form = &form
		d := parse(t, ask(t, public.Handler(m, public.Options{}), http.MethodGet, "/s/d_en", "").body)
		var numbers []string
		for _, n := range d.all(func(n *html.Node) bool { return attr(n, "name") == "rate" && attr(n, "type") == "radio" }) {
			numbers = append(numbers, attr(n, "value"))
		}
		if got := strings.Join(numbers, " "); got != c.row {
			t.Errorf("row %q, want %q", got, c.row)
		}
	}
}

// TestLanguages: content in the person's locale, the page's own words in that language if there are any, else in the browser's.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, locale, accept, lang, dir, send, own string }{
		{"the person's", "ar-IQ", "de", "ar-IQ", "rtl", "إرسال الإجابات", ""},
		{"the person's, of a country", "de-AT", "", "de-AT", "ltr", "Antworten senden", ""},
		{"the browser's, marked", "ur", "fr, de;q=0.8, en;q=0.9", "ur", "rtl", "Send answers", "en ltr"},
		{"the browser's second", "fr", "pt, de-CH", "fr", "ltr", "Antworten senden", "de ltr"},
		{"English", "he", "", "he", "rtl", "Send answers", "en ltr"},
		{"of a script", "uz-Arab", "", "uz-Arab", "rtl", "Send answers", "en ltr"},
		{"Arabic for a person of French", "fr", "ar", "fr", "ltr", "إرسال الإجابات", "ar rtl"},
		{"no locale", "", "ar, en;q=0.1", "ar", "rtl", "إرسال الإجابات", ""},
		{"no locale, nothing that is known", "", "xx, *", "en", "ltr", "Send answers", ""},
		{"nonsense", "!!", "%%%;;q=9" + strings.Repeat(",a-b-c-d-e-f-g-h", 5000), "en", "ltr", "Send answers", ""},
	} {
		m := newMemory(t)
		m.surveys["d_en"].Locale = c.locale
		d := parse(t, ask(t, public.Handler(m, public.Options{}), http.MethodGet, "/s/d_en", "", "Accept-Language", c.accept).body)
		root, button := d.tag("html")[0], d.tag("button")[0]
		if attr(root, "lang") != c.lang || attr(root, "dir") != c.dir {
			t.Errorf("%s: the page is %s %s", c.name, attr(root, "lang"), attr(root, "dir"))
		}
		if own := strings.TrimSpace(attr(button, "lang") + " " + attr(button, "dir")); text(button) != c.send || own != c.own {
			t.Errorf("%s: the button says %q, %s", c.name, text(button), own)
		}
	}
}

// TestNumbersOfALocale: numbers are shown in its digits, and read in those of every script.
func TestNumbersOfALocale(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.surveys["d_ar"].Draft, m.surveys["d_de"].Draft = map[string]any{"cost": 1234.5, "waited": 30.0}, map[string]any{"cost": 1234.5}
	h := public.Handler(m, public.Options{})
	d := parse(t, ask(t, h, http.MethodGet, "/s/d_ar", "").body)
	d.check("cost", attr(d.id("a-cost"), "value"), "١٢٣٤٫٥")
	d.check("waited", attr(d.id("a-waited"), "value"), "٣٠")
	d.check("hint", text(d.id("h-cost")), "من ٠ إلى ٩٠٠٠.")
	d.check("the value of ten", attr(d.id("a-rate-9"), "value"), "10")
	if page := text(d.tag("fieldset")[0]); !strings.Contains(page, "١٠") {
		t.Errorf("the row is %s", page)
	}
	german := parse(t, ask(t, h, http.MethodGet, "/s/d_de", "").body)
	d.check("a German number", attr(german.id("a-cost"), "value"), "1234,5")
	if a := send(t, h, "/s/d_ar", fill(d, "rate", "7", "complaint", "No", "cost", "٢٠٫٥", "waited", "١٥")); a.status != http.StatusSeeOther {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	got := m.look("d_ar").answers
	d.check("cost", got["cost"], 20.5)
	d.check("waited", got["waited"], 15.0)
}

// TestTextsAreText: nothing of a survey, of a person or of an address becomes markup.
func TestTextsAreText(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script>`
	m := newMemory(t)
	s := m.surveys["d_en"]
	delete(m.surveys, "d_en")
	m.surveys[evil] = s
	s.Title, s.Texts["rate"], s.Texts["complaint=Yes"] = evil, evil, evil
	s.Draft = map[string]any{"cost": evil, "day": evil, "waited": evil}
	s.Locale = `en"><script>`
	h := public.Handler(m, public.Options{})
	a := ask(t, h, http.MethodGet, "/s/"+url.PathEscape(evil), "")
	d := parse(t, a.body)
	d.check("scripts", len(d.tag("script")), 1)
	d.check("status", a.status, http.StatusOK)
	d.check("action", attr(d.tag("form")[0], "action"), "/s/"+url.PathEscape(evil))
	d.check("cost", attr(d.id("a-cost"), "value"), evil)
	again := parse(t, send(t, h, "/s/"+url.PathEscape(evil), fill(d, "what", evil)).body)
	d.check("scripts of the second page", len(again.tag("script")), 1)
	if !strings.Contains(text(again.id("above")), evil) {
		t.Error("the question is not named")
	}
}

// TestNothingInline: the policy forbids it, and nothing is loaded from elsewhere.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	h := public.Handler(newMemory(t), public.Options{})
	for _, a := range []answer{ask(t, h, http.MethodGet, "/s/d_en", ""), send(t, h, "/s/d_ar", nil), ask(t, h, http.MethodGet, "/s/none", "")} {
		d := parse(t, a.body)
		for _, n := range d.all(func(*html.Node) bool { return true }) {
			for _, at := range n.Attr {
				outside := (at.Key == "href" || at.Key == "src" || at.Key == "action") && !strings.HasPrefix(at.Val, "/s/") && !strings.HasPrefix(at.Val, "#")
				if at.Key == "style" || strings.HasPrefix(at.Key, "on") || outside {
					t.Errorf("<%s %s=%q>", n.Data, at.Key, at.Val)
				}
			}
			if n.Data == "style" || n.Data == "script" && text(n) != "" {
				t.Errorf("<%s> has a text", n.Data)
			}
		}
		described(t, d)
	}
}
