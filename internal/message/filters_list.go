package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// listFilter returns the filter of lists of that name.
func listFilter(name string) (filter, bool) {
	switch name {
	case "size":
		return filter{run: func(_ *state, in any, _ []any) (any, error) {
			if items, ok := list(in); ok {
				return int64(len(items)), nil
			}
			if m, ok := in.(map[string]any); ok {
				return int64(len(m)), nil
			}
			if _, isNumber := number(in); isNumber {
				return nil, fmt.Errorf("needs a text, a list or an object, not %s", kindOf(in))
			}
			t, err := textOf(in)
			return int64(utf8.RuneCountInString(t)), err
		}}, true
	case "first", "last":
		return ofList(func(items []any) (any, error) {
			if len(items) == 0 {
				return nil, nil
			}
			if name == "first" {
				return items[0], nil
			}
			return items[len(items)-1], nil
		}), true
	case "reverse":
		return ofList(func(items []any) (any, error) {
			items = slices.Clone(items)
			slices.Reverse(items)
			return items, nil
		}), true
	case "compact":
		return filter{run: compact, most: 1}, true
	case "uniq":
		return filter{run: uniq, most: 1}, true
	case "join":
		return filter{run: join, most: 1}, true
	case "concat":
		return filter{run: concat, least: 1, most: 1}, true
	case "map":
		return filter{run: mapFilter, least: 1, most: 1}, true
	case "where", "reject", "find", "find_index", "has":
		return filter{run: searching(name), least: 1, most: 2}, true
	case "sort_natural":
		return filter{run: sortNatural, most: 1}, true
	case "sort":
		return filter{run: sortFilter, most: 1}, true
	case "sum":
		return filter{run: sum, most: 1}, true
	case "cycle_at":
		return filter{run: cycleAt, least: 1, most: 1}, true
	}
	return filter{}, false
}

// listOf reads a list; null is an empty one.
func listOf(v any) ([]any, error) {
	items, ok := list(v)
	if !ok && v != nil {
		return nil, fmt.Errorf("needs a list, not %s", kindOf(v))
	}
	return items, nil
}

func ofList(change func([]any) (any, error)) filter {
	return filter{run: func(_ *state, in any, _ []any) (any, error) {
		items, err := listOf(in)
		if err != nil {
			return nil, err
		}
		return change(items)
	}}
}

func join(s *state, in any, args []any) (any, error) {
	items, err := listOf(in)
	if err != nil {
		return nil, err
	}
	by := " "
	if len(args) > 0 {
		if by, err = textOf(args[0]); err != nil {
			return nil, err
		}
	}
	parts := make([]string, len(items))
	total := len(by) * len(items)
	for i, item := range items {
		if parts[i], err = textOf(item); err != nil {
			return nil, err
		}
		total += len(parts[i])
	}
	if err := s.work(total); err != nil {
		return nil, err
	}
	return strings.Join(parts, by), nil
}

func concat(_ *state, in any, args []any) (any, error) {
	items, err := listOf(in)
	if err != nil {
		return nil, err
	}
	more, err := listOf(args[0])
	if err != nil {
		return nil, err
	}
	return slices.Concat(items, more), nil
}

// property reads a field of an item; the result is null if the item lacks it.
func property(item any, name string) (any, error) {
	m, ok := item.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("needs a list of objects, not of %s", kindOf(item))
	}
	return m[name], nil
}

// properties reads a field of every item.
func properties(in, name any) (items, values []any, err error) {
	if items, err = listOf(in); err != nil {
		return nil, nil, err
	}
	field, err := textOf(name)
	if err != nil {
		return nil, nil, err
	}
	values = make([]any, len(items))
	for i, item := range items {
		if values[i], err = property(item, field); err != nil {
			return nil, nil, err
		}
	}
	return items, values, nil
}

func mapFilter(_ *state, in any, args []any) (any, error) {
	_, values, err := properties(in, args[0])
	return values, err
}

func sum(_ *state, in any, args []any) (any, error) {
	values, err := listOf(in)
	if err == nil && len(args) > 0 {
		_, values, err = properties(in, args[0])
	}
	if err != nil {
		return nil, err
	}
	var total any = int64(0)
	for _, v := range values {
		if v == nil {
			continue
		}
		n, err := numberOf(v)
		if err != nil {
			return nil, err
		}
		t, _ := number(total)
		if total, err = add(t, n); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// cycleAt returns the nth item of a list, counted from 1, and begins again after the last: for 8 of a list of 7 it returns the
// first one.
func cycleAt(_ *state, in any, args []any) (any, error) {
	items, err := listOf(in)
	if err != nil {
		return nil, err
	}
	n, ok := number(args[0])
	if !ok || !n.whole {
		return nil, errors.New("needs a whole number, such as iteration")
	}
	if len(items) == 0 {
		return nil, nil
	}
	k := (n.i - 1) % int64(len(items))
	if k < 0 {
		k += int64(len(items))
	}
	return items[k], nil
}
