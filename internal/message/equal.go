package message

import (
	"cmp"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// itemCost is the work of splitting off or comparing an item. It is more than the work of a byte, which may be a whole item.
const itemCost = 16

// instant returns the instant of a Local, and any other value unchanged.
func instant(v any) any {
	if l, ok := v.(Local); ok {
		return l.Time
	}
	return v
}

// same reports whether two values are equal: numbers in any notation, texts, lists and objects item by item, and the words empty
// and blank.
func (s *state) same(a, b any) (bool, error) {
	a, b = instant(a), instant(b)
	if _, ok := a.(emptyWord); ok {
		a, b = b, a
	}
	if word, ok := b.(emptyWord); ok {
		return word == emptyName && empty(a) || word == blankName && blank(a), nil
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x.compare(y) == 0, nil
	}
	if x, ok := a.(safe); ok {
		a = string(x)
	}
	if y, ok := b.(safe); ok {
		b = string(y)
	}
	switch x := a.(type) {
	case nil, bool, string, civil.Date, time.Duration:
		switch b.(type) {
		case nil, bool, string, civil.Date, time.Duration:
			return a == b, nil
		}
		return false, nil
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y), nil
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return false, nil
		}
		return s.sameObjects(x, y)
	}
	return s.sameLists(a, b)
}

func (s *state) sameLists(a, b any) (bool, error) {
	x, okX := list(a)
	y, okY := list(b)
	_, spanX := a.(interval)
	_, spanY := b.(interval)
	if !okX || !okY || len(x) != len(y) || spanX != spanY {
		return false, nil
	}
	for i := range x {
		if err := s.work(itemCost * weight(x[i])); err != nil {
			return false, err
		}
		if equal, err := s.same(x[i], y[i]); !equal || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *state) sameObjects(a, b map[string]any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for name, x := range a {
		if err := s.work(itemCost * weight(x)); err != nil {
			return false, err
		}
		y, ok := b[name]
		if !ok {
			return false, nil
		}
		if equal, err := s.same(x, y); !equal || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (n num) compare(m num) int {
	if n.whole && m.whole {
		return cmp.Compare(n.i, m.i)
	}
	return cmp.Compare(n.f, m.f)
}

// empty reports whether a value is a text, a list or an object without content.
func empty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case safe:
		return v == ""
	case map[string]any:
		return len(v) == 0
	}
	items, ok := list(v)
	return ok && len(items) == 0
}

// blank reports whether a value is empty, a text of blanks, false, or null.
func blank(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return strings.TrimSpace(v) == ""
	case safe:
		return strings.TrimSpace(string(v)) == ""
	}
	return empty(v)
}

// order compares two values of the same kind. ok is false for two values without an order.
func order(a, b any) (int, bool) {
	a, b = instant(a), instant(b)
	if x, ok := number(a); ok {
		y, ok := number(b)
		return x.compare(y), ok
	}
	if x, ok := a.(time.Time); ok {
		y, ok := b.(time.Time)
		return x.Compare(y), ok
	}
	if a == nil || b == nil {
		return 0, false
	}
	_, aBool := a.(bool)
	x, okX := text(a)
	y, okY := text(b)
	if _, isNumber := number(b); isNumber || aBool {
		return 0, false
	}
	return cmp.Compare(x, y), okX && okY
}

// contains reports whether a list has an item, an object a field, or a text a part. Null and false are contained in nothing.
func (s *state) contains(a, b any) (bool, error) {
	if !truthy(b) {
		return false, nil
	}
	if items, ok := list(a); ok {
		for _, item := range items {
			if err := s.work(itemCost * weight(item)); err != nil {
				return false, err
			}
			if equal, err := s.same(item, b); equal || err != nil {
				return equal, err
			}
		}
		return false, nil
	}
	part, ok := text(b)
	switch a := a.(type) {
	case map[string]any:
		_, has := a[part]
		return ok && has, nil
	case string:
		return ok && strings.Contains(a, part), nil
	case safe:
		return ok && strings.Contains(string(a), part), nil
	}
	return false, nil
}
