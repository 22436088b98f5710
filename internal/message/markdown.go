package message

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/yuin/goldmark"
)

// maxExpansion bounds how much longer HTML is than the Markdown that it is made of.
const maxExpansion = 8

// The page around a text that was written in Markdown: readable on a telephone, nothing fetched from anywhere.
const (
	pageHead = "<!doctype html>\n<html><head><meta charset=\"utf-8\">" +
		"<meta name=\"viewport\" content=\"width=device-width\"></head>\n" +
		"<body style=\"font-family:sans-serif;line-height:1.5;max-width:40em;margin:1em auto;padding:0 1em\">\n"
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
func page(source string, limits Limits) (string, error) {
	var b bytes.Buffer
	b.WriteString(pageHead)
	if err := goldmark.New().Convert([]byte(source), &b); err != nil {
		return "", fmt.Errorf("turn Markdown into HTML: %w", err)
	}
	if b.Len() > maxExpansion*limits.MaxOutput {
		return "", tooLarge("the HTML of this Markdown is too long")
	}
	b.WriteString(pageTail)
	return b.String(), nil
}
