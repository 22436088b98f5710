package message

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	bcp47 "golang.org/x/text/language"
)

// maxExpansion bounds the length of HTML, as a multiple of its Markdown source.
const maxExpansion = 8

// The page around a text that was written in Markdown. It is readable on a telephone and loads no other files.
const (
	pageHead = "<!doctype html>\n<html%[1]s><head><meta charset=\"utf-8\">" +
		"<meta name=\"viewport\" content=\"width=device-width\"></head>\n" +
		"<body%[1]s style=\"font-family:sans-serif;line-height:1.5;max-width:40em;margin:1em auto;padding:0 1em\">\n"
	pageTail = "</body></html>\n"
)

// escapeMarkdown escapes every character that has a meaning in Markdown. CommonMark allows a backslash before any ASCII character
// that is neither a letter nor a digit.
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

// page converts Markdown (CommonMark) to a page of HTML. HTML in the source is left out, and so are links that run programs
// (javascript:).
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

// cutPage splits a page that was made from Markdown into its head and its body.
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

// spokenIn returns the attributes for the language of a page, as its head has them.
func spokenIn(head string) string {
	_, attributes, _ := strings.Cut(head, "<html")
	attributes, _, _ = strings.Cut(attributes, ">")
	return attributes
}

// spoken returns the attributes of an element whose text is in the language of a locale. Screen readers need the language, and mail
// programs the direction of the script. Mail programs drop the element html and keep the attributes of body.
func spoken(locale string) string {
	lang, dir := Spoken(locale)
	if lang == "" {
		return ` dir="auto"`
	}
	return fmt.Sprintf(` lang="%s" dir="%s"`, lang, dir)
}

// Spoken returns the language of a locale and the direction of its script, as HTML names them: ltr or rtl. A locale that names no
// language has none, and the direction auto.
func Spoken(locale string) (lang, dir string) {
	tag, err := bcp47.Parse(locale)
	if err != nil || tag == bcp47.Und {
		return "", "auto"
	}
	if script, _ := tag.Script(); slices.Contains(rightToLeft, script.String()) {
		return tag.String(), "rtl"
	}
	return tag.String(), "ltr"
}

// rightToLeft are the scripts of living languages that are written from right to left.
var rightToLeft = []string{"Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa", "Yezi"}
