package expr

import (
	"cmp"
	"math"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// missingError names the operand of a call that was null although the call needs a value. It is an error, so that CEL's own rule
// applies: `x < 5 || true` holds although x is missing, `x < 5 || false` does not.
type missingError struct{ operand int }

func (*missingError) Error() string { return "a value is missing" }

func missing(operand int) ref.Val { return types.WrapErr(&missingError{operand}) }

// firstNull returns the index of the first operand that is null, or -1.
func firstNull(args ...ref.Val) int {
	for i, a := range args {
		if isNull(a) {
			return i
		}
	}
	return -1
}

// equal reports whether two values are equal: numbers by value, times by the instant or day that they mean, lists and objects item
// by item. Values of different kinds are different; this is not an error.
func equal(a, b ref.Val) bool {
	if isNull(a) || isNull(b) {
		return isNull(a) && isNull(b)
	}
	switch x := a.(type) {
	case types.String:
		if y, ok := b.(types.String); ok {
			return x == y
		}
	case types.Bool:
		y, ok := b.(types.Bool)
		return ok && x == y
	case traits.Lister:
		y, ok := b.(traits.Lister)
		return ok && equalLists(x, y)
	case traits.Mapper:
		y, ok := b.(traits.Mapper)
		return ok && equalMaps(x, y)
	}
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b) == 0
	}
	if da, ok := a.(types.Duration); ok {
		db, ok := b.(types.Duration)
		return ok && da.Duration == db.Duration
	}
	if order, ok := compareTimes(a, b); ok {
		return order == 0
	}
	return false
}

// equals is equal as a comparison.
func equals(a, b ref.Val) ref.Val { return types.Bool(equal(a, b)) }

func equalLists(a, b traits.Lister) bool {
	if a.Size() != b.Size() {
		return false
	}
	for x, y := a.Iterator(), b.Iterator(); x.HasNext() == types.True; {
		if !equal(x.Next(), y.Next()) {
			return false
		}
	}
	return true
}

func equalMaps(a, b traits.Mapper) bool {
	if a.Size() != b.Size() {
		return false
	}
	for it := a.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		if !equal(a.Get(key), b.Get(key)) {
			return false
		}
	}
	return true
}

// compare orders two values of one kind: numbers, texts, times or lengths of time. Anything else is an error.
func compare(a, b ref.Val) (order int, bad ref.Val) {
	if i := firstNull(a, b); i >= 0 {
		return 0, missing(i)
	}
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b), nil
	}
	switch x := a.(type) {
	case types.String:
		if y, ok := b.(types.String); ok {
			return strings.Compare(string(x), string(y)), nil
		}
	case types.Duration:
		if y, ok := b.(types.Duration); ok {
			return cmp.Compare(x.Duration, y.Duration), nil
		}
	}
	if order, ok := compareTimes(a, b); ok {
		return order, nil
	}
	return 0, types.NewErr("%s cannot be compared with %s", typeName(a), typeName(b))
}

// compareTimes orders two times. At least one of them must be a time; two texts are not compared as dates.
func compareTimes(a, b ref.Val) (order int, ok bool) {
	_, aText := a.(types.String)
	_, bText := b.(types.String)
	if aText && bText {
		return 0, false
	}
	a, okA := asTime(a)
	b, okB := asTime(b)
	if !okA || !okB {
		return 0, false
	}
	x, y, _ := onOneClock(a, b)
	return x.Compare(y), true
}

// onOneClock makes two times comparable. An instant that is compared with a date is read on the wall clock of its own zone.
func onOneClock(a, b ref.Val) (x, y time.Time, wall bool) {
	la, aLocal := a.(local)
	lb, bLocal := b.(local)
	switch {
	case aLocal && bLocal:
		return la.wall, lb.wall, true
	case aLocal:
		return la.wall, wallOf(b.(types.Timestamp).Time), true
	case bLocal:
		return wallOf(a.(types.Timestamp).Time), lb.wall, true
	}
	return a.(types.Timestamp).Time, b.(types.Timestamp).Time, false
}

func isNumber(v ref.Val) bool {
	switch v.(type) {
	case types.Int, types.Double:
		return true
	}
	return false
}

func float(v ref.Val) float64 {
	if i, ok := v.(types.Int); ok {
		return float64(i)
	}
	return float64(v.(types.Double))
}

// compareNumbers is exact, even if one side is a whole number beyond 2^53.
func compareNumbers(a, b ref.Val) int {
	x, xInt := a.(types.Int)
	y, yInt := b.(types.Int)
	if xInt && yInt {
		return cmp.Compare(x, y)
	}
	if order := cmp.Compare(float(a), float(b)); order != 0 || (!xInt && !yInt) {
		return order
	}
	if xInt {
		return compareExact(x, float(b))
	}
	return -compareExact(y, float(a))
}

// compareExact compares a whole number with the float to which it rounds.
func compareExact(i types.Int, f float64) int {
	if f >= 1<<63 {
		return -1
	}
	return cmp.Compare(int64(i), int64(f))
}

// arithmetic computes a op b for the operators + - * / %.
func arithmetic(op byte, a, b ref.Val) ref.Val {
	if i := firstNull(a, b); i >= 0 {
		return missing(i)
	}
	if isNumber(a) && isNumber(b) {
		return calculate(op, a, b)
	}
	switch op {
	case '+':
		switch x := a.(type) {
		case types.String:
			if y, ok := b.(types.String); ok {
				return x + y
			}
		case traits.Lister:
			if y, ok := b.(traits.Lister); ok {
				return x.Add(y)
			}
		}
		return addTime(a, b)
	case '-':
		return subtractTime(a, b)
	}
	return types.NewErr("%s and %s cannot be joined by %c", typeName(a), typeName(b), op)
}

// calculate computes with whole numbers if both operands and the result are whole, and otherwise with decimals.
func calculate(op byte, a, b ref.Val) ref.Val {
	x, xInt := a.(types.Int)
	y, yInt := b.(types.Int)
	if xInt && yInt {
		if r, ok := calculateWhole(op, int64(x), int64(y)); ok {
			return types.Int(r)
		}
	}
	f, g := float(a), float(b)
	var r float64
	switch op {
	case '+':
		r = f + g
	case '-':
		r = f - g
	case '*':
		r = f * g
	case '/':
		r = f / g
	case '%':
		r = math.Mod(f, g)
	}
	if math.IsNaN(r) || math.IsInf(r, 0) {
		if g == 0 {
			return types.NewErr("division by zero")
		}
		return types.NewErr("the number is too large")
	}
	return types.Double(r)
}

func calculateWhole(op byte, x, y int64) (r int64, ok bool) {
	switch op {
	case '+':
		r = x + y
		return r, (r > x) == (y > 0)
	case '-':
		r = x - y
		return r, (r < x) == (y > 0)
	case '*':
		if x == 0 || y == 0 {
			return 0, true
		}
		r = x * y
		return r, r/y == x && (x != -1 || y != math.MinInt64) && (y != -1 || x != math.MinInt64)
	case '/':
		if y == 0 || y == -1 && x == math.MinInt64 {
			return 0, false
		}
		return x / y, x%y == 0
	case '%':
		if y == 0 || y == -1 {
			return 0, y != 0
		}
		return x % y, true
	}
	return 0, false
}

func addTime(a, b ref.Val) ref.Val {
	if _, ok := a.(types.Duration); ok {
		a, b = b, a
	}
	by, ok := b.(types.Duration)
	if !ok {
		return types.NewErr("%s and %s cannot be added", typeName(a), typeName(b))
	}
	if x, ok := a.(types.Duration); ok {
		return addDurations(x.Duration, by.Duration)
	}
	return shift(a, by.Duration)
}

func subtractTime(a, b ref.Val) ref.Val {
	if by, ok := b.(types.Duration); ok {
		if x, ok := a.(types.Duration); ok {
			return addDurations(x.Duration, -by.Duration)
		}
		return shift(a, -by.Duration)
	}
	ta, okA := asTime(a)
	tb, okB := asTime(b)
	if !okA || !okB {
		return types.NewErr("%s cannot be subtracted from %s", typeName(b), typeName(a))
	}
	x, y, _ := onOneClock(ta, tb)
	return types.Duration{Duration: x.Sub(y)}
}

func addDurations(x, y time.Duration) ref.Val {
	if sum, ok := calculateWhole('+', int64(x), int64(y)); ok {
		return types.Duration{Duration: time.Duration(sum)}
	}
	return types.NewErr("the length of time is too long")
}

func shift(v ref.Val, by time.Duration) ref.Val {
	t, ok := asTime(v)
	if !ok {
		return types.NewErr("%s is no time", typeName(v))
	}
	if l, ok := t.(local); ok {
		return local{l.wall.Add(by)}
	}
	return instant(t.(types.Timestamp).Time.Add(by))
}
