package key

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// separator parts the values of a dedup string: the unit separator (C8).
const separator = "\x1f"

// Hash is the SHA-256 of a text in hexadecimal.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DedupString writes what makes an event the same event: path=value for each path of the recipe, in its order,
// joined by U+001F (C8). A text stands as it is, a number as it was spelled, true and false as such, null and a
// missing value as nothing, a list or object as canonical JSON. Missing names the paths that were not found.
//
// The format is the source's own. A value that itself holds U+001F and the next path can be mistaken for two;
// for every other value, different values give different strings.
func DedupString(recipe []string, lookup func(path string) (value any, found bool)) (text string, missing []string) {
	var b strings.Builder
	for i, path := range recipe {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(path)
		b.WriteByte('=')
		value, found := lookup(path)
		if !found || value == nil {
			missing = append(missing, path)
			continue
		}
		switch value := value.(type) {
		case string:
			b.WriteString(value)
		case json.Number:
			b.WriteString(value.String())
		case bool:
			b.WriteString(strconv.FormatBool(value))
		default:
			canonical, err := CanonicalJSON(value)
			if err != nil { // a value that is not JSON counts as missing, and is named
				missing = append(missing, path)
				continue
			}
			b.Write(canonical)
		}
	}
	return b.String(), missing
}

// EventHash names an event that has no id and whose trigger has no recipe: the hash of its kind, payload,
// recipient (address, locale, customer_ref) and the time of its occurrence, where the caller gave one.
func EventHash(kind string, payload map[string]any, recipient []string, occurredAt string) string {
	who := make([]any, len(recipient))
	for i, r := range recipient {
		who[i] = r
	}
	canonical, err := CanonicalJSON([]any{kind, payload, who, occurredAt})
	if err != nil { // the payload came from JSON, so that it has a canonical form
		canonical = []byte(err.Error())
	}
	return Hash(string(canonical))
}

// InputHash is the hash of what a key stands for but does not spell (decision 20).
func InputHash(v any) (string, error) {
	canonical, err := CanonicalJSON(v)
	if err != nil {
		return "", err
	}
	return Hash(string(canonical)), nil
}

// CanonicalJSON writes a JSON value in the one form in which equal values are equal bytes: keys sorted by bytes,
// no blanks, numbers as the shortest decimal (80, not 80.0 or 8e1), texts with the fewest escapes. It accepts
// what encoding/json decodes, json.Number and the integer types; anything else, NaN and infinities are errors.
func CanonicalJSON(v any) ([]byte, error) { return appendJSON(nil, v) }

func appendJSON(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendText(b, v), nil
	case json.Number:
		return appendNumber(b, v.String())
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is not a JSON number", v)
		}
		return appendNumber(b, strconv.FormatFloat(v, 'g', -1, 64))
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return appendJSON(b, list)
	case []any:
		b = append(b, '[')
		for i, element := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendJSON(b, element); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b, '{')
		for i, name := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, name), ':')
			var err error
			if b, err = appendJSON(b, v[name]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("a %T is not a JSON value", v)
}

// maxExponent bounds the zeros that a number may be written out with; beyond it the scientific form stays.
const maxExponent = 400

// appendNumber writes a decimal in its shortest form without an exponent: all digits count, none is rounded.
func appendNumber(b []byte, s string) ([]byte, error) {
	mantissa, exponent := s, 0
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		e, err := strconv.Atoi(s[at+1:])
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", s)
		}
		mantissa, exponent = s[:at], e
	}
	negative := strings.HasPrefix(mantissa, "-")
	mantissa = strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	point := len(whole) + exponent // the decimal point stands before digits[point]
	lead := len(digits) - len(strings.TrimLeft(digits, "0"))
	digits, point = digits[lead:], point-lead
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return append(b, '0'), nil
	}
	if negative {
		b = append(b, '-')
	}
	switch {
	case point > maxExponent || point < -maxExponent:
		b = append(append(b, digits...), 'e')
		return strconv.AppendInt(b, int64(point-len(digits)), 10), nil
	case point <= 0:
		b = append(append(b, "0."...), strings.Repeat("0", -point)...)
		return append(b, digits...), nil
	case point >= len(digits):
		return append(append(b, digits...), strings.Repeat("0", point-len(digits))...), nil
	}
	b = append(append(b, digits[:point]...), '.')
	return append(b, digits[point:]...), nil
}

// appendText writes a JSON text: only quotes, backslashes and controls are escaped. Bytes that are not UTF-8
// become U+FFFD.
func appendText(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
