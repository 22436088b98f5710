package message

import (
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf8"
)

// defaultFilter returns its argument for null, false and empty values. With allow_false, false is kept.
func defaultFilter(_ *state, in any, args []any) (any, error) {
	allowFalse := len(args) > 1 && truthy(args[1])
	if _, word := in.(emptyWord); word || in == nil || in == false && !allowFalse || empty(in) {
		return args[0], nil
	}
	return in, nil
}

// escapeHTML escapes a text for HTML.
func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(s)
}

// escapeOnce escapes a text, except the entities that it already contains.
func escapeOnce(s *state, in any, _ []any) (any, error) {
	t, err := textOf(in)
	if err != nil {
		return nil, err
	}
	if s.t.format == Markdown {
		return safe(s.escape(html.UnescapeString(t))), nil
	}
	var b strings.Builder
	for {
		at := strings.IndexByte(t, '&')
		if at < 0 {
			b.WriteString(escapeHTML(t))
			return safe(b.String()), nil
		}
		n := entityLength(t[at:])
		b.WriteString(escapeHTML(t[:at]))
		if n == 0 {
			b.WriteString("&amp;")
			n = 1
		} else {
			b.WriteString(t[at : at+n])
		}
		t = t[at+n:]
	}
}

// entityLength returns the length of the entity with which a text begins, such as &name; or &#39;, or 0.
func entityLength(t string) int {
	const longest = 33 // &CounterClockwiseContourIntegral;
	end := strings.IndexByte(t[:min(len(t), longest)], ';')
	if end < 0 {
		return 0
	}
	name := t[1:end]
	signs := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.HasPrefix(name, "#") {
		name, signs = name[1:], "0123456789"
	}
	if name == "" || strings.Trim(name, signs) != "" {
		return 0
	}
	return end + 1
}

// stripHTML drops scripts, styles and comments with their content, and then everything between < and >. It keeps a < without a
// closing >.
func stripHTML(s string) string {
	blocks := [...]struct {
		open, end string
		none      bool // there is no further end
	}{{open: "<script", end: "</script>"}, {open: "<!--", end: "-->"}, {open: "<style", end: "</style>"}}
	var b strings.Builder
	for at := 0; at < len(s); {
		open := strings.IndexByte(s[at:], '<')
		if open < 0 {
			b.WriteString(s[at:])
			break
		}
		b.WriteString(s[at : at+open])
		at += open
		next := at + 1
		for i := range blocks {
			block := &blocks[i]
			if block.none || !strings.HasPrefix(s[at:], block.open) {
				continue
			}
			if end := strings.Index(s[at+len(block.open):], block.end); end >= 0 {
				at += len(block.open) + end + len(block.end)
				next = at
			} else {
				block.none = true
			}
		}
		b.WriteString(s[at:next])
		at = next
	}
	return stripTags(b.String())
}

func stripTags(s string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '<')
		length := strings.IndexByte(s[max(open, 0):], '>')
		if open < 0 || length < 0 {
			return b.String() + s
		}
		b.WriteString(s[:open])
		s = s[open+length+1:]
	}
}

// replaceLast replaces the last occurrence of old in a text.
func replaceLast(t, old, by string) string {
	at := strings.LastIndex(t, old)
	if at < 0 {
		return t
	}
	return t[:at] + by + t[at+len(old):]
}

// coding returns the filter of that name that encodes or decodes a text as part of a URL or as base64. A decoded text is escaped
// when it is written, as any other text.
func coding(name string) filter {
	switch name {
	case "url_decode":
		return decoding(url.QueryUnescape, "encoded for a URL")
	case "base64_encode":
		return ofText(func(t string) string { return base64.StdEncoding.EncodeToString([]byte(t)) })
	case "base64_url_safe_encode":
		return ofText(func(t string) string { return base64.URLEncoding.EncodeToString([]byte(t)) })
	case "base64_decode":
		return decoding(decoder(base64.StdEncoding), "base64")
	}
	return decoding(decoder(base64.URLEncoding), "base64")
}

// decoder returns a function that decodes base64 with or without padding.
func decoder(enc *base64.Encoding) func(string) (string, error) {
	return func(t string) (string, error) {
		out, err := enc.WithPadding(base64.NoPadding).DecodeString(strings.TrimRight(t, "="))
		return string(out), err
	}
}

func decoding(decode func(string) (string, error), kind string) filter {
	return filter{run: func(_ *state, in any, _ []any) (any, error) {
		t, err := textOf(in)
		if err != nil {
			return nil, err
		}
		out, err := decode(t)
		if err != nil {
			return nil, fmt.Errorf("this text is not %s", kind) // the cause would show the value
		}
		if !utf8.ValidString(out) {
			return nil, errors.New("what is encoded is no text")
		}
		return out, nil
	}}
}
