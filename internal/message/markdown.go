package message

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	bcp47 "golang.org/x/text/language"
)

// maxExpansion bounds how much longer HTML is than the Markdown that it is made of.
const maxExpansion = 8

// The page around a text that was written in Markdown: readable on a telephone, nothing fetched from anywhere.
const (
	pageHead = "<!doctype html>\n<html%[1]s><head><meta charset=\"utf-8\">" +
		"<meta name=\"viewport\" content=\"width=device-width\"></head>\n" +
		"<body%[1]s style=\"font-family:sans-serif;line-height:1.5;max-width:40em;margin:1em auto;padding:0 1em\">\n"
	pageTail = "</body></html>\n"
)

// escapeMarkdown makes a value a text in Markdown: every sign that could begin something there is escaped, which
// CommonMark allows before any sign of ASCII that is neither letter nor digit.
func escapeMarkdown(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for _, r := range s {
		if r > ' ' && r < 0x7f && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// page turns Markdown (CommonMark) into a page of HTML. HTML in the source is left out, and so are links that are
// programs (javascript:).
func page(source, locale string, limits Limits) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, pageHead, spoken(locale))
	if err := goldmark.New().Convert([]byte(source), &b); err != nil {
		return "", fmt.Errorf("turn Markdown into HTML: %w", err)
	}
	if b.Len() > maxExpansion*limits.MaxOutput {
		return "", tooLarge("the HTML of this Markdown is too long")
	}
	b.WriteString(pageTail)
	return b.String(), nil
}

// cutPage takes a page apart that was made of Markdown.
func cutPage(html string) (head, body string, ok bool) {
	before, style, _ := strings.Cut(pageHead, "%[1]s style")
	before, _, _ = strings.Cut(before, "%[1]s")
	if !strings.HasPrefix(html, before) || !strings.HasSuffix(html, pageTail) {
		return "", "", false
	}
	head, body, ok = strings.Cut(html, " style"+style)
	if !ok || head+" style"+style != fmt.Sprintf(pageHead, spokenIn(head)) {
		return "", "", false
	}
	return head + " style" + style, strings.TrimSuffix(body, pageTail), true
}

// spokenIn are the attributes that say in which language a page is written, as its head has them.
func spokenIn(head string) string {
	_, attributes, _ := strings.Cut(head, "<html")
	attributes, _, _ = strings.Cut(attributes, ">")
	return attributes
}

// spoken returns the attributes of an element whose text is in the language of a locale: screen readers learn the language, and mail programs in
// which direction to lay it out. Programs that show mails drop html, and keep the attributes of body.
func spoken(locale string) string {
	tag, err := bcp47.Parse(locale)
	if err != nil || tag == bcp47.Und {
		return ` dir="auto"`
	}
	dir := "ltr"
	if script, _ := tag.Script(); slices.Contains(rightToLeft, script.String()) {
		dir = "rtl"
	}
	return fmt.Sprintf(` lang="%s" dir="%s"`, tag, dir)
}

// rightToLeft are the scripts that are written so, of languages that people write today.
var rightToLeft = []string{"Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa", "Yezi"}
