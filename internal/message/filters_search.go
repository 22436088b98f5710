package message

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// searching returns the filter where, reject, find, find_index or has. With one argument the filter selects items whose field of
// that name is neither false nor null. With two it selects items whose field is equal to the second one. Of items that are texts
// it selects those that contain the argument.
func searching(name string) func(s *state, in any, args []any) (any, error) {
	return func(s *state, in any, args []any) (any, error) {
		items, err := searched(in)
		if err != nil {
			return nil, err
		}
		out := []any{}
		for i, item := range items {
			if err := s.work(itemCost * weight(item)); err != nil {
				return nil, err
			}
			hit, err := s.hits(item, args)
			if err != nil {
				return nil, err
			}
			switch {
			case hit && name == "has":
				return true, nil
			case hit && name == "find":
				return item, nil
			case hit && name == "find_index":
				return int64(i), nil
			case hit == (name == "where"):
				out = append(out, item)
			}
		}
		switch name {
		case "has":
			return false, nil
		case "find", "find_index":
			return nil, nil
		}
		return out, nil
	}
}

// searched returns the list to search; an object or a text is a list of one item.
func searched(in any) ([]any, error) {
	switch in.(type) {
	case map[string]any, string, safe:
		return []any{in}, nil
	}
	return listOf(in)
}

// hits reports whether a filter selects an item.
func (s *state) hits(item any, args []any) (bool, error) {
	name, err := textOf(args[0])
	if err != nil {
		return false, err
	}
	exact := len(args) > 1 && args[1] != nil
	if m, ok := item.(map[string]any); ok {
		if exact {
			return s.same(m[name], args[1])
		}
		return truthy(m[name]), nil
	}
	var t string
	switch item := item.(type) {
	case string:
		t = item
	case safe:
		t = string(item)
	default:
		if exact {
			return false, fmt.Errorf("needs a list of objects, not of %s", kindOf(item))
		}
		return false, fmt.Errorf("needs a list of texts, not of %s", kindOf(item))
	}
	if exact {
		return false, fmt.Errorf("needs a list of objects, not of %s", kindOf(item))
	}
	return strings.Contains(t, name), nil
}

// keysOf returns the values by which a list is sorted or deduplicated: its items, or a field of each item.
func keysOf(in any, args []any) (items, keys []any, err error) {
	if len(args) > 0 && args[0] != nil {
		return properties(in, args[0])
	}
	items, err = listOf(in)
	return items, items, err
}

// compact drops items that are null or, with an argument, items whose field is null.
func compact(_ *state, in any, args []any) (any, error) {
	items, keys, err := keysOf(in, args)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for i, key := range keys {
		if key != nil {
			out = append(out, items[i])
		}
	}
	return out, nil
}

// uniq keeps the first of equal items, or of items whose field is equal. A number is not equal to its text.
func uniq(s *state, in any, args []any) (any, error) {
	items, keys, err := keysOf(in, args)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	out := []any{}
	for i, key := range keys {
		t, ok := text(key)
		if !ok {
			return nil, fmt.Errorf("needs a list of plain values, not of %s", kindOf(key))
		}
		if err := s.work(len(t)); err != nil {
			return nil, err
		}
		if t = kindOf(key) + ":" + t; !seen[t] {
			seen[t] = true
			out = append(out, items[i])
		}
	}
	return out, nil
}

// sortFilter sorts a list, null last. Values of different kinds are an error.
func sortFilter(s *state, in any, args []any) (any, error) {
	return sorted(s, in, args, func(x, y any) (int, error) {
		if o, ok := order(x, y); ok {
			return o, nil
		}
		if x, ok := x.(bool); ok && any(x) == y {
			return 0, nil
		}
		return 0, fmt.Errorf("cannot compare %s with %s", kindOf(x), kindOf(y))
	})
}

// sortNatural sorts a list, null last, without regard to capital letters.
func sortNatural(s *state, in any, args []any) (any, error) {
	return sorted(s, in, args, func(x, y any) (int, error) {
		a, err := textOf(x)
		if err != nil {
			return 0, err
		}
		b, err := textOf(y)
		return cmp.Compare(lowerASCII(a), lowerASCII(b)), err
	})
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func sorted(s *state, in any, args []any, compare func(x, y any) (int, error)) (any, error) {
	items, keys, err := keysOf(in, args)
	if err != nil {
		return nil, err
	}
	if err := s.work(len(items) * int(math.Log2(float64(len(items)+2)))); err != nil {
		return nil, err
	}
	index := make([]int, len(items))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int {
		x, y := keys[a], keys[b]
		if err != nil {
			return 0
		}
		if x == nil || y == nil {
			switch {
			case x == nil && y != nil:
				return 1
			case x != nil && y == nil:
				return -1
			}
			return 0
		}
		if err = s.work(weight(x) + weight(y)); err != nil {
			return 0
		}
		o, failed := compare(x, y)
		err = failed
		return o
	})
	out := make([]any, len(items))
	for i, at := range index {
		out[i] = items[at]
	}
	return out, err
}
