package message

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filter is a function that is written after | in a template.
type filter struct {
	run         func(s *state, in any, args []any) (any, error)
	least, most int    // number of arguments
	named       string // the name of a named argument, which run gets as the last one if it is given
}

func (f filter) count() string {
	switch {
	case f.most == 0:
		return "no value"
	case f.least == f.most && f.most == 1:
		return "one value"
	case f.least == f.most:
		return fmt.Sprintf("%d values", f.most)
	}
	return fmt.Sprintf("%d to %d values", f.least, f.most)
}

// filterNamed returns the filter of that name: one of Liquid's own, or date, local_time, cycle_at or raw.
func filterNamed(name string) (filter, bool) {
	switch name {
	// texts
	case "upcase":
		return ofText(strings.ToUpper), true
	case "downcase":
		return ofText(strings.ToLower), true
	case "capitalize":
		return ofText(capitalize), true
	case "strip":
		return ofText(strings.TrimSpace), true
	case "lstrip":
		return ofText(func(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }), true
	case "rstrip":
		return ofText(func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }), true
	case "url_decode", "base64_encode", "base64_decode", "base64_url_safe_encode", "base64_url_safe_decode":
		return coding(name), true
	case "escape_once":
		return filter{run: escapeOnce}, true
	case "strip_newlines":
		return ofText(func(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }), true
	case "strip_html":
		return ofText(stripHTML), true
	case "strip_markdown":
		return ofText(stripMarkdown), true
	case "url_encode":
		return ofText(url.QueryEscape), true
	case "escape":
		return filter{run: func(s *state, in any, _ []any) (any, error) {
			t, err := textOf(in)
			if s.t.format == Markdown {
				return safe(s.escape(t)), err
			}
			return safe(escapeHTML(t)), err
		}}, true
	case "raw":
		return filter{run: func(_ *state, in any, _ []any) (any, error) {
			t, err := textOf(in)
			return safe(t), err
		}}, true
	case "newline_to_br":
		return filter{run: newlineToBr}, true
	case "append":
		return withText(func(t, a string) string { return t + a }), true
	case "prepend":
		return withText(func(t, a string) string { return a + t }), true
	case "remove":
		return withText(func(t, a string) string { return strings.ReplaceAll(t, a, "") }), true
	case "remove_first":
		return withText(func(t, a string) string { return strings.Replace(t, a, "", 1) }), true
	case "remove_last":
		return withText(func(t, a string) string { return replaceLast(t, a, "") }), true
	case "replace":
		return filter{run: replaced(-1), least: 2, most: 2}, true
	case "replace_first":
		return filter{run: replaced(1), least: 2, most: 2}, true
	case "replace_last":
		return filter{run: replaced(0), least: 2, most: 2}, true
	case "truncate":
		return filter{run: truncate, most: 2}, true
	case "truncatewords":
		return filter{run: truncateWords, most: 2}, true
	case "split":
		return filter{run: split, least: 1, most: 1}, true
	case "slice":
		return filter{run: slice, least: 1, most: 2}, true
	// numbers
	case "abs":
		return ofNumber(func(n num) (any, error) {
			if n.f < 0 {
				return subtract(wholeNumber(0), n)
			}
			return n.value(), nil
		}), true
	case "ceil":
		return ofNumber(func(n num) (any, error) { return rounded(n, ceilOf) }), true
	case "floor":
		return ofNumber(func(n num) (any, error) { return rounded(n, floorOf) }), true
	case "round":
		return filter{run: round, most: 1}, true
	case "plus":
		return withNumber(add), true
	case "minus":
		return withNumber(subtract), true
	case "times":
		return withNumber(multiply), true
	case "divided_by":
		return withNumber(divide), true
	case "modulo":
		return withNumber(modulo), true
	case "at_least":
		return withNumber(func(a, b num) (any, error) { return larger(a, b).value(), nil }), true
	case "at_most":
		return withNumber(func(a, b num) (any, error) {
			if a.compare(b) < 0 {
				return a.value(), nil
			}
			return b.value(), nil
		}), true
	// times
	case "date":
		return filter{run: dateFilter, most: 1}, true
	case "local_time":
		return filter{run: localTime, most: 1}, true
	// anything
	case "default":
		return filter{run: defaultFilter, least: 1, most: 1, named: "allow_false"}, true
	}
	return listFilter(name)
}

func filterNames() []string {
	return []string{
		"abs", "append", "at_least", "at_most", "base64_decode", "base64_encode", "base64_url_safe_decode",
		"base64_url_safe_encode", "capitalize", "ceil", "compact", "concat", "cycle_at", "date", "default",
		"divided_by", "downcase", "escape", "escape_once", "find", "find_index", "first", "floor", "has", "join", "last",
		"local_time", "lstrip", "map", "minus", "modulo", "newline_to_br", "plus", "prepend", "raw", "reject", "remove",
		"remove_first", "remove_last", "replace", "replace_first", "replace_last", "reverse", "round", "rstrip", "size",
		"slice", "sort", "sort_natural", "split", "strip", "strip_html", "strip_markdown", "strip_newlines", "sum", "times", "truncate",
		"truncatewords", "uniq", "upcase", "url_decode", "url_encode", "where",
	}
}

func textOf(v any) (string, error) {
	t, ok := text(v)
	if !ok {
		return "", fmt.Errorf("needs a text, not %s", kindOf(v))
	}
	return t, nil
}

func ofText(change func(string) string) filter {
	return filter{run: func(_ *state, in any, _ []any) (any, error) {
		t, err := textOf(in)
		if err != nil {
			return nil, err
		}
		return change(t), nil
	}}
}

func withText(change func(t, arg string) string) filter {
	return filter{least: 1, most: 1, run: func(_ *state, in any, args []any) (any, error) {
		t, err := textOf(in)
		if err != nil {
			return nil, err
		}
		arg, err := textOf(args[0])
		if err != nil {
			return nil, err
		}
		return change(t, arg), nil
	}}
}

func capitalize(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + strings.ToLower(s[n:])
}

func newlineToBr(s *state, in any, _ []any) (any, error) {
	t, err := textOf(in)
	if err != nil {
		return nil, err
	}
	if _, done := in.(safe); !done {
		t = s.escape(t)
	}
	if s.t.format == Markdown {
		return safe(strings.ReplaceAll(strings.ReplaceAll(t, "\r\n", "\n"), "\n", "\\\n")), nil
	}
	return safe(strings.ReplaceAll(strings.ReplaceAll(t, "\r\n", "\n"), "\n", "<br />\n")), nil
}

// replaced returns the filter that replaces a text: the first times occurrences, all for -1, or the last one for 0. The filter
// computes the length of its result first, because replacing a letter by a page makes a small text huge.
func replaced(times int) func(*state, any, []any) (any, error) {
	return func(s *state, in any, args []any) (any, error) {
		t, err := textOf(in)
		if err != nil {
			return nil, err
		}
		old, err := textOf(args[0])
		if err != nil {
			return nil, err
		}
		by, err := textOf(args[1])
		if err != nil {
			return nil, err
		}
		n := strings.Count(t, old)
		if times >= 0 {
			n = min(n, max(times, 1))
		}
		if err := s.work(n * max(len(by)-len(old), 0)); err != nil {
			return nil, err
		}
		if times == 0 {
			return replaceLast(t, old, by), nil
		}
		return strings.Replace(t, old, by, times), nil
	}
}

func truncate(_ *state, in any, args []any) (any, error) {
	t, err := textOf(in)
	if err != nil {
		return nil, err
	}
	length, ending, err := lengthAndEnding(args, 50)
	if err != nil {
		return nil, err
	}
	runes := []rune(t)
	if len(runes) <= length {
		return t, nil
	}
	return string(runes[:max(0, length-utf8.RuneCountInString(ending))]) + ending, nil
}

func truncateWords(_ *state, in any, args []any) (any, error) {
	t, err := textOf(in)
	if err != nil {
		return nil, err
	}
	length, ending, err := lengthAndEnding(args, 15)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(t)
	if len(words) <= max(length, 1) {
		return t, nil
	}
	return strings.Join(words[:max(length, 1)], " ") + ending, nil
}

func lengthAndEnding(args []any, length int) (int, string, error) {
	ending := "..."
	if len(args) > 0 {
		n, ok := number(args[0])
		if !ok || n.truncated() < 0 {
			return 0, "", errors.New("needs a length")
		}
		length = int(min(n.truncated(), math.MaxInt32))
	}
	if len(args) > 1 {
		var err error
		if ending, err = textOf(args[1]); err != nil {
			return 0, "", err
		}
	}
	return length, ending, nil
}

func split(s *state, in any, args []any) (any, error) {
	t, err := textOf(in)
	if err != nil {
		return nil, err
	}
	by, err := textOf(args[0])
	if err != nil {
		return nil, err
	}
	if t == "" {
		return []any{}, nil
	}
	if err := s.work(itemCost * (strings.Count(t, by) + 1)); err != nil {
		return nil, err
	}
	if by == " " { // a blank splits at any run of blanks
		parts := strings.FieldsFunc(t, func(r rune) bool { return strings.ContainsRune(blankSigns+"\v\f\x00", r) })
		return convert(parts), s.work(itemCost * len(parts))
	}
	parts := strings.Split(t, by)
	for len(parts) > 0 && parts[len(parts)-1] == "" { // Ruby drops empty parts at the end too
		parts = parts[:len(parts)-1]
	}
	return convert(parts), nil
}

// slice returns a part of a text or a list: one character or item at an index, or the given number of them.
func slice(_ *state, in any, args []any) (any, error) {
	from, err := wholeOf(args[0], "index")
	if err != nil {
		return nil, err
	}
	count := int64(1)
	if len(args) > 1 {
		if count, err = wholeOf(args[1], "length"); err != nil {
			return nil, err
		}
		count = max(0, count)
	}
	cut := func(n int) (int, int) {
		start := from
		if start < 0 {
			start += int64(n)
		}
		if start < 0 || start > int64(n) {
			return 0, 0
		}
		return int(start), int(start + min(count, int64(n)-start))
	}
	if items, ok := list(in); ok {
		a, b := cut(len(items))
		return slices.Clone(items[a:b]), nil
	}
	t, err := textOf(in)
	if err != nil {
		return nil, err
	}
	runes := []rune(t)
	a, b := cut(len(runes))
	return string(runes[a:b]), nil
}
