package message_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/message"
)

// between returns the content of a rendered page.
func between(t *testing.T, page string) string {
	t.Helper()
	_, body, ok := strings.Cut(page, "padding:0 1em\">\n")
	body, end, closed := strings.Cut(body, "</body></html>\n")
	if !ok || !closed || end != "" || !strings.HasPrefix(page, "<!doctype html>\n") {
		t.Fatalf("no page: %q", page)
	}
	return body
}

// Reliability 39: a value cannot add markup in Markdown either.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, source, value, want string }{
		{"plain", "Dear {{ v }},\n\n- one\n- **two**", "Ann", "<p>Dear Ann,</p>\n<ul>\n<li>one</li>\n<li><strong>two</strong></li>\n</ul>\n"},
		{"every sign", "{{ v }}", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "<p>!&quot;#$%&amp;'()*+,-./:;&lt;=&gt;?@[\\]^_`{|}~</p>\n"},
		{"link", "{{ v }}", "[pay](https://evil.example)", "<p>[pay](https://evil.example)</p>\n"},
		{"html", "{{ v }}", "<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"},
		{"heading", "{{ v }}", "# big", "<p># big</p>\n"},
		{"heading below", "{{ v }}", "big\n===", "<p>big\n===</p>\n"},
		{"list", "{{ v }}", "1. one", "<p>1. one</p>\n"},
		{"entity", "{{ v }}", "&lt;b&gt;", "<p>&amp;lt;b&amp;gt;</p>\n"},
		{"destination", "[form]({{ v }})", "https://x.test/s/d_1?a=b", "<p><a href=\"https://x.test/s/d_1?a=b\">form</a></p>\n"},
		{"out of a destination", "[form]({{ v }})", "x) [pay](y", "<p>[form](x) [pay](y)</p>\n"},
		{"program", "[form]({{ v }})", "javascript:alert(1)", "<p><a href=\"\">form</a></p>\n"},
		{"raw", "<{{ v | raw }}>", "https://x.test/a_b_c", "<p><a href=\"https://x.test/a_b_c\">https://x.test/a_b_c</a></p>\n"},
		{"escape", "{{ v | escape }}", "*a* <b>", "<p>*a* &lt;b&gt;</p>\n"},
		{"lines", "{{ v | newline_to_br }}", "*a*\n<b>", "<p>*a*<br>\n&lt;b&gt;</p>\n"},
		{"capture", "{% capture c %}*{{ v }}*{% endcapture %}{{ c }}", "*", "<p><em>*</em></p>\n"},
		{"HTML of the author", "a <b>c</b>", "", "<p>a <!-- raw HTML omitted -->c<!-- raw HTML omitted --></p>\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			template, err := message.Parse(tt.source, message.Markdown)
			if err != nil {
				t.Fatal(err)
			}
			page, err := template.Render(map[string]any{"v": tt.value}, message.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := between(t, page); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// The page has attributes for its language and the direction of its script.
func TestMarkdownSpeaksALanguage(t *testing.T) {
	t.Parallel()
	template, err := message.Parse("a", message.Markdown)
	if err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[string]string{
		"": `<html dir="auto">`, "en": `<html lang="en" dir="ltr">`, "de_AT": `<html lang="de-AT" dir="ltr">`, "ar-IQ": `<html lang="ar-IQ" dir="rtl">`,
		"he": `<html lang="he" dir="rtl">`, "ur": `<html lang="ur" dir="rtl">`, "ckb": `<html lang="ckb" dir="rtl">`, "az-Arab": `<html lang="az-Arab" dir="rtl">`,
		"az": `<html lang="az" dir="ltr">`, `x"><script>`: `<html dir="auto">`,
	} {
		page, err := template.RenderFor(message.Reader{Locale: locale}, nil, message.Limits{})
		body := strings.Replace(want, "<html", "<body", 1)
		if err != nil || !strings.Contains(page, want) || !strings.Contains(page, body[:len(body)-1]+" style=") {
			t.Errorf("%q: got %v %s", locale, err, page)
		}
	}
}

// No value makes an element that a plain word does not make.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"<b>", "[a](b)", "# a", "a\n\n    b", "\\", "`", "![x](y)", "1. a\n2. b", "&amp;", "\x00", "\xff", "a\na"} {
		f.Add(s)
	}
	template, err := message.Parse("**Dear** {{ v }} [form](<{{ v }}>)", message.Markdown)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		page, err := template.Render(map[string]any{"v": s}, message.Limits{})
		if err != nil {
			return
		}
		for _, never := range []string{"<img", "<h1", "<h2", "<script", "<li", "<em", "<!-- raw", "javascript:alert"} {
			if never == "<!-- raw" && strings.Contains(s, "\n") {
				continue // a line break in the address of a link ends it, and what was meant as the link is left out
			}
			if strings.Contains(page, never) && !strings.Contains(page, "href=\"javascript%3A") {
				t.Fatalf("%q became %s in %q", s, never, page)
			}
		}
		if n := strings.Count(page, "<a "); n > 1 {
			t.Fatalf("%q became %d links in %q", s, n, page)
		}
	})
}
