package public_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/survey"
)

// every is a request of each route with each outcome.
func every() [][2]string {
	var all [][2]string
	for _, id := range []string{"d_en", "d_en_answered", "d_en_closed", "none", "-"} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS"} {
			for _, part := range []string{"", "/draft", "/opened", "/more"} {
				all = append(all, [2]string{method, "/s/" + id + part})
			}
		}
	}
	return append(all, [2]string{"GET", "/s/"}, [2]string{"GET", "/"}, [2]string{"GET", "/s/-/0/page.css"}, [2]string{"HEAD", "/s/-/0/page.js"})
}

// TestHeaders holds the headers of every answer.
func TestHeaders(t *testing.T) {
	t.Parallel()
	h := public.Handler(newMemory(t), public.Options{})
	check := func(name string, a answer) {
		t.Helper()
		for header, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "noindex, nofollow, noarchive",
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		} {
			if got := a.header.Get(header); got != want {
				t.Errorf("%s (%d): %s is %q", name, a.status, header, got)
			}
		}
		if kind := a.header.Get("Content-Type"); a.body != "" && !regexp.MustCompile(`^text/(html|css|javascript); charset=utf-8$`).MatchString(kind) {
			t.Errorf("%s: a body of type %q", name, kind)
		}
	}
	for _, one := range every() {
		check(one[0]+" "+one[1], ask(t, h, one[0], one[1], ""))
	}
	check("another site", ask(t, h, http.MethodPost, "/s/d_en", "", "Sec-Fetch-Site", "cross-site"))
	check("no form", ask(t, h, http.MethodPost, "/s/d_en", "{}", "Content-Type", "application/json"))
	check("too large", ask(t, h, http.MethodPost, "/s/d_en", strings.Repeat("x", 2<<20)))
	for range 400 {
		if a := ask(t, h, http.MethodGet, "/s/d_de", ""); a.status == http.StatusTooManyRequests {
			check("too many", a)
			return
		}
	}
	t.Error("no request was too many")
}

// TestAssets: the style sheet and the script are kept for ever under the hash of their text, and under no other.
func TestAssets(t *testing.T) {
	t.Parallel()
	h := public.Handler(newMemory(t), public.Options{})
	page := ask(t, h, http.MethodGet, "/s/d_en", "").body
	paths := regexp.MustCompile(`"(/s/-/[0-9a-f]{16}/page\.(?:css|js))"`).FindAllStringSubmatch(page, -1)
	if len(paths) != 2 {
		t.Fatalf("the page names %v", paths)
	}
	for _, m := range paths {
		a := ask(t, h, http.MethodGet, m[1], "")
		if a.status != http.StatusOK || a.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || len(a.body) < 1000 {
			t.Errorf("%s: status %d, %q", m[1], a.status, a.header.Get("Cache-Control"))
		}
		other := ask(t, h, http.MethodGet, regexp.MustCompile(`[0-9a-f]{16}`).ReplaceAllString(m[1], "0123456789abcdef"), "")
		if other.status != http.StatusOK || other.header.Get("Cache-Control") != "no-store" || other.body != a.body {
			t.Errorf("another hash: status %d, %q", other.status, other.header.Get("Cache-Control"))
		}
	}
}

// TestReadingChangesNothing: programs that scan mail fetch every link, again and again.
func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.surveys["d_en"].Draft = map[string]any{"rate": 3.0}
	before := map[string]kept{}
	for id := range m.surveys {
		before[id] = m.look(id)
	}
	for range 10 {
		h := public.Handler(m, public.Options{}) // its limits begin again
		for _, one := range every() {
			if one[0] != "POST" {
				ask(t, h, one[0], one[1], "rate=9&complaint=No", "Sec-Purpose", "prefetch;prerender")
			}
		}
	}
	if len(m.calls) > 0 {
		t.Errorf("calls: %v", m.calls)
	}
	for id, was := range before {
		if now := m.look(id); now.State != was.State || now.opened != was.opened || !cmp.Equal(now.Draft, was.Draft) {
			t.Errorf("%s: %+v", id, now)
		}
	}
}

// TestOneAnswerForEveryIDThatLeadsNowhere: it differs by nothing but the language of the browser.
func TestOneAnswerForEveryIDThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	h := public.Handler(newMemory(t), public.Options{})
	for _, language := range []string{"en", "ar", "de"} {
		var first answer
		for i, id := range []string{
			"d_00000000000000000000000000", "i_00000000000000000000000000", "d_EN", "de", "ar", "d_en%20", "d_en%00", "%ff%fe", "018f3c1e-5b7a-7cc0-8000-000000000000", "-", "draft", "a%2Fb",
			strings.Repeat("x", 5000), "%3Cscript%3E", "d_en/more", "d_en/", "",
		} {
			a := ask(t, h, http.MethodGet, "/s/"+id, "", "Accept-Language", language)
			if i == 0 {
				first = a
			}
			if a.status != http.StatusNotFound || a.body != first.body || !cmp.Equal(a.header, first.header) {
				t.Errorf("%.40s: status %d, %v: %s", id, a.status, a.header, a.body)
			}
		}
	}
}

// TestOtherSites: forms of other sites are refused. Browsers that do not say where a form is from are let through, with and without an
// origin of their own.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		site, origin string
		status       int
	}{
		{"same-origin", "null", 303},
		{"none", "", 303},
		{"", "", 303},
		{"", "null", 303},
		{"", "https://carillon.example.org", 303},
		{"", "https://evil.example", 403},
		{"cross-site", "null", 403},
		{"cross-site", "https://evil.example", 403},
		{"same-site", "https://other.example.org", 403},
	} {
		m := newMemory(t)
		a := send(t, public.Handler(m, public.Options{}), "/s/d_en", url.Values{"rate": {"7"}, "complaint": {"No"}}, "Sec-Fetch-Site", c.site, "Origin", c.origin)
		if a.status != c.status || (len(m.calls) > 0) != (c.status == 303) {
			t.Errorf("%+v: status %d, %v", c, a.status, m.calls)
		}
	}
}

// TestBodies: what is no form, or too large, is refused with a page, and nothing is changed.
func TestBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 100<<10)
	for _, c := range []struct {
		name, kind, body string
		status           int
	}{
		{"JSON", "application/json", `{"rate": 7}`, 415},
		{"files", "multipart/form-data; boundary=x", "--x--", 415},
		{"no type", "", "rate=7", 415},
		{"a broken type", ";;;", "rate=7", 415},
		{"broken escapes", "application/x-www-form-urlencoded", "rate=%zz", 400},
		{"too large", "application/x-www-form-urlencoded", "what=" + long, 413},
		{"1 MB", "application/x-www-form-urlencoded", "what=" + strings.Repeat("a", 1<<20), 413},
		{"with a charset", "application/x-www-form-urlencoded; charset=UTF-8", "rate=7&complaint=No", 303},
	} {
		m := newMemory(t)
		a := ask(t, public.Handler(m, public.Options{}), http.MethodPost, "/s/d_en", c.body, "Content-Type", c.kind)
		if a.status != c.status || c.status != 303 && (len(m.calls) > 0 || !strings.Contains(a.body, "Nothing was sent")) {
			t.Errorf("%s: status %d, %v: %s", c.name, a.status, m.calls, a.body)
		}
	}
}

// TestEveryTextThatAFieldAcceptsFits: the bound of a body grows with the texts that its form asks for, up to 1 MiB.
func TestEveryTextThatAFieldAcceptsFits(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.surveys["d_en"].Form = &survey.Form{Questions: []survey.Question{{ID: "a", Type: survey.FreeText}, {ID: "b", Type: survey.FreeText}}}
	h := public.Handler(m, public.Options{})
	text := strings.Repeat("😀", survey.MaxText)
	if a := send(t, h, "/s/d_en", url.Values{"a": {text}, "b": {text}}); a.status != http.StatusSeeOther {
		t.Errorf("status %d", a.status)
	}
	m.surveys["d_de"].Form = &survey.Form{Questions: []survey.Question{{ID: "a", Type: survey.FreeText, MaxLength: 1 << 60}, {ID: "b", Type: survey.FreeText, MaxLength: 1 << 62}}}
	if a := send(t, h, "/s/d_de", url.Values{"a": {strings.Repeat("x", 1<<20)}}); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", a.status)
	}
}

// TestLimits: one address, and one link, can be asked for so often, and the allowance grows back.
func TestLimits(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC))
	h := public.Handler(newMemory(t), public.Options{Clock: now})
	from := func(address, path string) answer {
		t.Helper()
		return askFrom(t, h, address, path)
	}
	for i := range 60 {
		if a := from(fmt.Sprintf("192.0.2.%d:1", i), "/s/d_en"); a.status != http.StatusOK {
			t.Fatalf("request %d: status %d", i, a.status)
		}
	}
	a := from("198.51.100.1:1", "/s/d_en")
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "Too many requests") {
		t.Errorf("a link: status %d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.body)
	}
	if a := from("198.51.100.1:1", "/s/d_de"); a.status != http.StatusOK {
		t.Errorf("another link: status %d", a.status)
	}
	now.Set(now.Now().Add(time.Second))
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if a := from("198.51.100.1:1", "/s/d_en/opened"); i == 1 && a.status != want {
			t.Errorf("a second later: status %d", a.status)
		}
	}
	for i := range 300 {
		if a := from("[2001:db8::1]:1", fmt.Sprint("/s/guess", i)); a.status != http.StatusNotFound {
			t.Fatalf("guess %d: status %d", i, a.status)
		}
	}
	for address, want := range map[string]int{"[2001:db8::2]:9": http.StatusTooManyRequests, "[2001:db8:0:1::1]:1": http.StatusNotFound, "nonsense": http.StatusNotFound} {
		if a := from(address, "/s/guess"); a.status != want {
			t.Errorf("%s: status %d, want %d", address, a.status, want)
		}
	}
	now.Set(now.Now().Add(-time.Hour))
	if a := from("[2001:db8::1]:1", "/s/guess"); a.status != http.StatusNotFound {
		t.Errorf("a clock that is set back locks people out: status %d", a.status)
	}
}

// expected are the statuses that are no failure of the server.
var expected = []int{200, 204, 303, 400, 403, 404, 405, 409, 410, 413, 415, 422, 429}

// FuzzForm: no form makes the page fail.
func FuzzForm(f *testing.F) {
	for _, body := range []string{
		"", "rate=7&complaint=No", "rate=1e999&cost=-&waited=..&day=1-1-1", "cost=%D9%A1%D9%AB%D9%A5&carillon:shown=rate", "=&&;;&rate", "parts=paint&parts=&parts=%00", "call=perhaps&call=true",
		"complaint=Yes&what=%0d%0a&carillon%3Ashown=what", "rate=%zz", "day=%D9%A1%D9%A4/5/2026", "cost=00000.&waited=" + strings.Repeat("9", 400),
	} {
		f.Add(body, "application/x-www-form-urlencoded", "ar;q=0.5, de")
	}
	f.Add("rate=1", "text/plain", "\x00")
	f.Fuzz(func(t *testing.T, body, kind, languages string) {
		for _, path := range []string{"/s/d_en", "/s/d_ar/draft", "/s/d_de", "/s/d_de_closed", "/s/d_ar_answered"} {
			m := newMemory(t)
			h := public.Handler(m, public.Options{})
			a := ask(t, h, http.MethodPost, path, body, "Content-Type", kind, "Accept-Language", languages)
			if !slices.Contains(expected, a.status) {
				t.Errorf("%s: status %d: %s", path, a.status, a.body)
			}
			if again := ask(t, h, http.MethodGet, path, ""); !slices.Contains(expected, again.status) {
				t.Errorf("%s afterwards: status %d: %s", path, again.status, again.body)
			}
		}
	})
}

// TestForms: whatever is written into the fields of a form, it is taken, or comes back as it was typed.
func TestForms(t *testing.T) {
	t.Parallel()
	form := visitForm(t)
	value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "Yes", "No", "true", "false", "7", "٧", "-1", "1e5", "12,5", "paint", "2026-05-14", "14.05.2026", "+49 30", "\x00", "\xff", "\r\n"}))
	rapid.Check(t, func(rt *rapid.T) {
		fields := url.Values{}
		for _, q := range form.Questions {
			if rapid.Bool().Draw(rt, "given") {
				fields[q.ID] = rapid.SliceOfN(value, 0, 3).Draw(rt, q.ID)
			}
			if rapid.Bool().Draw(rt, "shown") {
				fields.Add("carillon:shown", q.ID)
			}
		}
		m := newMemory(t)
		h := public.Handler(m, public.Options{})
		a := send(t, h, "/s/d_en", fields)
		switch a.status {
		case http.StatusSeeOther:
			if m.look("d_en").State != public.Answered {
				rt.Error("it was not taken")
			}
		case http.StatusUnprocessableEntity:
			d := parse(t, a.body)
			described(t, d)
			for _, id := range []string{"cost", "waited"} {
				want := fields.Get(id)
				if got := attr(d.id("a-"+id), "value"); normal(got) != normal(want) {
					rt.Errorf("%s was %q and is %q", id, want, got)
				}
			}
		default:
			rt.Errorf("status %d", a.status)
		}
	})
}

// normal is a text as HTML reads it.
func normal(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}
