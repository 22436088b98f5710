package message

import (
	"strings"
)

type tokenKind int

const (
	textToken   tokenKind = iota
	outputToken           // {{ … }}
	tagToken              // {% … %}
	rawToken              // the text between {% raw %} and {% endraw %}
)

// token is a piece of a template. For outputs and tags, body is the text between the delimiters.
type token struct {
	kind tokenKind
	body string
	at   int // offset of body in the source
}

// blankSigns are the characters that Liquid treats as blanks between words.
const blankSigns = " \t\r\n"

// lex splits a template into tokens and applies the dashes that trim blanks ({{- and -}}).
func lex(src string) ([]token, *Error) {
	var tokens []token
	trimNext := false
	for at := 0; at < len(src); {
		open := nextOpen(src, at)
		text := src[at:open]
		if trimNext {
			trimmed := strings.TrimLeft(text, blankSigns)
			at += len(text) - len(trimmed)
			text, trimNext = trimmed, false
		}
		if open == len(src) {
			return appendText(tokens, text, at), nil
		}
		kind, closing, name := outputToken, "}}", "{{"
		if src[open+1] == '%' {
			kind, closing, name = tagToken, "%}", "{%"
		}
		start := open + 2
		end := closeOf(src, start, closing, kind)
		if end < 0 {
			return nil, errorAt(src, open, name+" is not closed", "end it with "+closing)
		}
		body, bodyAt := src[start:end], start
		if strings.HasPrefix(body, "-") {
			text = strings.TrimRight(text, blankSigns)
			body, bodyAt = body[1:], bodyAt+1
		}
		if strings.HasSuffix(body, "-") {
			body, trimNext = body[:len(body)-1], true
		}
		tokens = append(appendText(tokens, text, at), token{kind, body, bodyAt})
		at = end + 2
		if kind == tagToken && strings.TrimSpace(body) == "raw" {
			inner, next, ok := rawBody(src, at)
			if !ok {
				return nil, errorAt(src, open, "{% raw %} is not closed", "end it with {% endraw %}")
			}
			tokens = append(tokens[:len(tokens)-1], token{rawToken, inner, at})
			at = next
		}
	}
	return tokens, nil
}

func appendText(tokens []token, text string, at int) []token {
	if text == "" {
		return tokens
	}
	return append(tokens, token{textToken, text, at})
}

// nextOpen returns the offset of the next {{ or {%, or the end.
func nextOpen(src string, at int) int {
	for i := at; i+1 < len(src); i++ {
		if src[i] == '{' && (src[i+1] == '{' || src[i+1] == '%') {
			return i
		}
	}
	return len(src)
}

// closeOf returns the offset of the closing delimiter outside of quotes, or -1. A quote without a closing quote counts as a
// letter, so that the error is about the expression and not about the delimiter. In a comment every quote is a letter, and in a
// liquid tag a quote ends on its line.
func closeOf(src string, at int, closing string, kind tokenKind) int {
	remark, lines := false, false
	if kind == tagToken {
		body := strings.TrimLeft(strings.TrimPrefix(src[at:], "-"), blankSigns)
		remark = strings.HasPrefix(body, "#") || strings.HasPrefix(body, "comment")
		lines = strings.HasPrefix(body, "liquid")
	}
	for i := at; i < len(src); i++ {
		switch c := src[i]; {
		case !remark && (c == '"' || c == '\''):
			end := strings.IndexByte(src[i+1:], c)
			if lines && (end < 0 || strings.IndexByte(src[i+1:i+1+end], '\n') >= 0) {
				continue
			}
			if end < 0 {
				if rest := strings.Index(src[i:], closing); rest >= 0 {
					return i + rest
				}
				return -1
			}
			i += end + 1
		case strings.HasPrefix(src[i:], closing):
			return i
		case strings.HasPrefix(src[i:], "{{") || strings.HasPrefix(src[i:], "{%"):
			return -1
		}
	}
	return -1
}

// rawBody returns the text up to {% endraw %} and the offset after it.
func rawBody(src string, at int) (inner string, next int, ok bool) {
	for i := at; ; {
		open := strings.Index(src[i:], "{%")
		if open < 0 {
			return "", 0, false
		}
		open += i
		start := open + 2
		end := strings.Index(src[start:], "%}")
		if end < 0 {
			return "", 0, false
		}
		if strings.TrimSpace(strings.Trim(src[start:start+end], "-")) == "endraw" {
			return src[at:open], start + end + 2, true
		}
		i = start
	}
}

// errorAt makes an error at an offset of the source.
func errorAt(src string, at int, message, hint string) *Error {
	line, column := position(src, at)
	return &Error{Message: message, Hint: hint, Line: line, Column: column}
}

func position(src string, at int) (line, column int) {
	at = min(at, len(src))
	before := src[:at]
	return 1 + strings.Count(before, "\n"), at - strings.LastIndexByte(before, '\n')
}
