package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// numberOf reads a number, or a text that contains one, as Liquid does.
func numberOf(v any) (num, error) {
	if n, ok := number(v); ok {
		return n, nil
	}
	switch v := v.(type) {
	case string:
		t := strings.TrimSpace(v)
		if n, ok := number(json.Number(t)); ok && strings.Trim(t, "-.0123456789") == "" {
			return n, nil
		}
	case emptyWord:
		return wholeNumber(0), nil
	}
	return num{}, fmt.Errorf("needs a number, not %s", kindOf(v))
}

// wholeOf reads a whole number from an argument of a filter.
func wholeOf(v any, what string) (int64, error) {
	n, err := numberOf(v)
	if err != nil || !n.whole {
		return 0, fmt.Errorf("needs a whole number as %s", what)
	}
	return n.i, nil
}

func ofNumber(change func(num) (any, error)) filter {
	return filter{run: func(s *state, in any, _ []any) (any, error) {
		n, err := numberOf(in)
		if err != nil {
			return nil, err
		}
		if err := s.work(costOf(n)); err != nil {
			return nil, err
		}
		return change(n)
	}}
}

func withNumber(change func(a, b num) (any, error)) filter {
	return filter{least: 1, most: 1, run: func(s *state, in any, args []any) (any, error) {
		a, err := numberOf(in)
		if err != nil {
			return nil, err
		}
		b, err := numberOf(args[0])
		if err != nil {
			return nil, err
		}
		if err := s.work(costOf(a) + costOf(b)); err != nil {
			return nil, err
		}
		return change(a, b)
	}}
}

// costOf returns the work of computing with a number. Decimals are exact, so the work grows with their digits.
func costOf(n num) int {
	if n.whole {
		return 1
	}
	return 128 + int(math.Abs(math.Log10(math.Abs(n.f)+math.SmallestNonzeroFloat64)))
}

var errTooLarge = errors.New("the number is too large")

// exact returns the number exactly as written: 10.1 and not the nearest binary fraction.
func (n num) exact() (*big.Rat, error) {
	if n.whole {
		return new(big.Rat).SetInt64(n.i), nil
	}
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(n.f, 'g', -1, 64))
	if !ok || n.text != "" {
		return nil, errTooLarge
	}
	return r, nil
}

// compute computes with whole numbers if both are whole, and with exact decimals otherwise.
func compute(a, b num, whole func(a, b int64) (int64, bool), decimal func(r, a, b *big.Rat) *big.Rat) (any, error) {
	if a.whole && b.whole {
		if out, ok := whole(a.i, b.i); ok {
			return out, nil
		}
		return nil, errTooLarge
	}
	x, err := a.exact()
	if err != nil {
		return nil, err
	}
	y, err := b.exact()
	if err != nil {
		return nil, err
	}
	return finite(decimal(new(big.Rat), x, y))
}

func finite(r *big.Rat) (any, error) {
	f, _ := r.Float64()
	if math.IsInf(f, 0) {
		return nil, errTooLarge
	}
	return f, nil
}

func add(a, b num) (any, error) {
	return compute(a, b, func(a, b int64) (int64, bool) { return a + b, (a+b > a) == (b > 0) }, (*big.Rat).Add)
}

func subtract(a, b num) (any, error) {
	return compute(a, b, func(a, b int64) (int64, bool) { return a - b, (a-b < a) == (b > 0) }, (*big.Rat).Sub)
}

func multiply(a, b num) (any, error) {
	return compute(a, b, func(a, b int64) (int64, bool) {
		product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		return product.Int64(), product.IsInt64()
	}, (*big.Rat).Mul)
}

var errByZero = errors.New("division by zero")

// divide returns a whole number, rounded down, if both numbers are whole. This is Liquid's rule.
func divide(a, b num) (any, error) {
	if b.f == 0 {
		return nil, errByZero
	}
	return compute(a, b, func(a, b int64) (int64, bool) {
		if b == -1 {
			return -a, a != math.MinInt64
		}
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q--
		}
		return q, true
	}, (*big.Rat).Quo)
}

// modulo returns the remainder of a division that is rounded down. It has the sign of b.
func modulo(a, b num) (any, error) {
	if b.f == 0 {
		return nil, errByZero
	}
	return compute(a, b, func(a, b int64) (int64, bool) {
		if b == -1 {
			return 0, true
		}
		r := a % b
		if r != 0 && (r < 0) != (b < 0) {
			r += b
		}
		return r, true
	}, func(r, a, b *big.Rat) *big.Rat {
		times := floorOf(r.Quo(a, b))
		return r.Sub(a, r.Mul(b, r.SetInt(times)))
	})
}

func larger(a, b num) num {
	if a.compare(b) < 0 {
		return b
	}
	return a
}

func floorOf(r *big.Rat) *big.Int {
	return new(big.Int).Div(r.Num(), r.Denom()) // Denom is positive, so Div rounds down
}

func ceilOf(r *big.Rat) *big.Int {
	down := floorOf(new(big.Rat).Neg(r))
	return down.Neg(down)
}

// roundOf rounds halves away from zero.
func roundOf(r *big.Rat) *big.Int {
	half := big.NewRat(1, 2)
	if r.Sign() < 0 {
		return ceilOf(half.Sub(r, half))
	}
	return floorOf(half.Add(r, half))
}

// rounded returns a number as a whole number, rounded by how.
func rounded(n num, how func(*big.Rat) *big.Int) (any, error) {
	if n.whole {
		return n.i, nil
	}
	r, err := n.exact()
	if err != nil {
		return nil, err
	}
	out := how(r)
	if !out.IsInt64() {
		return nil, errTooLarge
	}
	return out.Int64(), nil
}

// round rounds to a number of digits after the point; a negative number counts digits before it.
func round(s *state, in any, args []any) (any, error) {
	n, err := numberOf(in)
	if err != nil {
		return nil, err
	}
	digits := int64(0)
	if len(args) > 0 {
		if digits, err = wholeOf(args[0], "digits"); err != nil {
			return nil, err
		}
	}
	const most = 15 // the digits of a decimal that a float holds
	if digits < -most || digits > most {
		return nil, fmt.Errorf("needs -%d to %d digits", most, most)
	}
	if digits == 0 || n.whole && digits > 0 {
		return rounded(n, roundOf)
	}
	if err := s.work(costOf(n)); err != nil {
		return nil, err
	}
	r, err := n.exact()
	if err != nil {
		return nil, err
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(digits, -digits)), nil))
	if digits < 0 {
		out := roundOf(r.Quo(r, scale))
		if out.Mul(out, scale.Num()); !out.IsInt64() {
			return nil, errTooLarge
		}
		return out.Int64(), nil
	}
	return finite(r.Quo(r.SetInt(roundOf(r.Mul(r, scale))), scale))
}
