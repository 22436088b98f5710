package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// numberOf reads a number; a text that spells one will do, as Liquid has it.
func numberOf(v any) (num, error) {
	if n, ok := number(v); ok {
		return n, nil
	}
	if t, ok := v.(string); ok {
		if n, ok := number(json.Number(strings.TrimSpace(t))); ok {
			return n, nil
		}
	}
	return num{}, fmt.Errorf("needs a number, not %s", kindOf(v))
}

func ofNumber(change func(num) (any, error)) filter {
	return filter{run: func(_ *state, in any, _ []any) (any, error) {
		n, err := numberOf(in)
		if err != nil {
			return nil, err
		}
		return change(n)
	}}
}

func withNumber(change func(a, b num) (any, error)) filter {
	return filter{least: 1, most: 1, run: func(_ *state, in any, args []any) (any, error) {
		a, err := numberOf(in)
		if err != nil {
			return nil, err
		}
		b, err := numberOf(args[0])
		if err != nil {
			return nil, err
		}
		return change(a, b)
	}}
}

var errTooLarge = errors.New("the number is too large")

func finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errTooLarge
	}
	return f, nil
}

func add(a, b num) (any, error) {
	if sum := a.i + b.i; a.whole && b.whole && (sum > a.i) == (b.i > 0) {
		return sum, nil
	}
	return finite(a.f + b.f)
}

func subtract(a, b num) (any, error) {
	if diff := a.i - b.i; a.whole && b.whole && (diff < a.i) == (b.i > 0) {
		return diff, nil
	}
	return finite(a.f - b.f)
}

func multiply(a, b num) (any, error) {
	const exact = 1 << 31 // products of smaller numbers fit into 64 bits
	if a.whole && b.whole && math.Abs(a.f) < exact && math.Abs(b.f) < exact {
		return a.i * b.i, nil
	}
	return finite(a.f * b.f)
}

// divide of whole numbers gives a whole number, rounded down, as Liquid has it.
func divide(a, b num) (any, error) {
	if b.f == 0 {
		return nil, errors.New("division by zero")
	}
	if !a.whole || !b.whole || b.i == -1 {
		if a.whole && b.whole {
			return subtract(wholeNumber(0), a)
		}
		return finite(a.f / b.f)
	}
	q := a.i / b.i
	if a.i%b.i != 0 && (a.i < 0) != (b.i < 0) {
		q--
	}
	return q, nil
}

func modulo(a, b num) (any, error) {
	if b.f == 0 {
		return nil, errors.New("division by zero")
	}
	if a.whole && b.whole {
		if b.i == -1 {
			return int64(0), nil
		}
		r := a.i % b.i
		if r != 0 && (r < 0) != (b.i < 0) {
			r += b.i
		}
		return r, nil
	}
	return finite(a.f - b.f*math.Floor(a.f/b.f))
}

func larger(a, b num) num {
	if a.compare(b) < 0 {
		return b
	}
	return a
}

// rounded gives a whole number where 64 bits hold it.
func rounded(n num, how func(float64) float64) (any, error) {
	if n.whole {
		return n.i, nil
	}
	f := how(n.f)
	if math.Abs(f) < 1<<62 {
		return int64(f), nil
	}
	return finite(f)
}

func round(_ *state, in any, args []any) (any, error) {
	n, err := numberOf(in)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return rounded(n, math.Round)
	}
	digits, ok := number(args[0])
	if !ok || digits.truncated() < 0 || digits.truncated() > 15 {
		return nil, errors.New("needs 0 to 15 digits")
	}
	if digits.truncated() == 0 || n.whole {
		return rounded(n, math.Round)
	}
	scale := math.Pow10(int(digits.truncated()))
	if scaled := math.Round(n.f * scale); !math.IsInf(scaled, 0) {
		return finite(scaled / scale)
	}
	return n.f, nil
}
