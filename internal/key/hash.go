package key

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// separator is written between the values of a dedup string: the unit separator (C8).
const separator = "\x1f"

// Hash returns the SHA-256 of a text in hexadecimal.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DedupString writes the text that identifies an event: path=value for each dedup path, in order, joined by U+001F (C8). Texts and
// numbers are written unchanged, booleans as true and false, null and a missing value as an empty text, a list or object as canonical
// JSON. Missing names the paths that were not found.
//
// The format is the source's own and has no escapes. Different texts give different strings, as long as no text contains U+001F followed
// by the recipe's next path and an equals sign. Null, a missing value and an empty text give the same string, and so do 1 and "1".
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
			if err != nil { // a value that is not JSON counts as missing
				missing = append(missing, path)
				continue
			}
			b.Write(canonical)
		}
	}
	return b.String(), missing
}

// EventHash identifies an event that has no id and whose trigger has no recipe. It is the hash of the kind, the payload, the recipient
// (address, locale, customer_ref) and the time of occurrence, if the caller gave one. The payload must be decoded JSON; EventHash panics
// on other values.
func EventHash(kind string, payload map[string]any, recipient []string, occurredAt string) string {
	who := make([]any, len(recipient))
	for i, r := range recipient {
		who[i] = r
	}
	canonical, err := CanonicalJSON([]any{kind, payload, who, occurredAt})
	if err != nil { // any hash would be the same for different events
		panic(fmt.Sprintf("key: hash of an event: %v", err))
	}
	return Hash(string(canonical))
}

// InputHash returns the hash of the inputs that a key depends on but does not contain (product decision 20).
func InputHash(v any) (string, error) {
	canonical, err := CanonicalJSON(v)
	if err != nil {
		return "", err
	}
	return Hash(string(canonical)), nil
}

// CanonicalJSON writes a JSON value in its canonical form, in which equal values have equal bytes: keys sorted by bytes, no blanks,
// numbers as exact decimals with the fewest digits (80, not 80.0 or 8e1), texts with the fewest escapes. It accepts every value that
// encoding/json decodes, with or without json.Number, and int, int64 and []string. Other values, NaN and infinities are errors.
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

// maxZeros bounds the zeros that are written for an exponent. It is enough for every integer of 64 bits. A number that needs more zeros
// keeps its exponent, so that six bytes of a caller cannot become a megabyte.
const maxZeros = 20

// appendNumber writes a JSON number without rounding it. The digits between the first and the last one that is not 0, and the position of
// the point, are the same for every notation of a number.
func appendNumber(b []byte, s string) ([]byte, error) {
	if !isNumber(s) {
		return nil, fmt.Errorf("%q is not a JSON number", s)
	}
	unsigned := strings.TrimPrefix(s, "-")
	mantissa, power := unsigned, ""
	if at := strings.IndexAny(unsigned, "eE"); at >= 0 {
		mantissa, power = unsigned[:at], unsigned[at+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return append(b, '0'), nil // minus zero too
	}
	if len(unsigned) < len(s) {
		b = append(b, '-')
	}

	// The number is significant × 10^exponent.
	shift := len(digits) - len(significant) - len(fraction)
	exponent, err := strconv.Atoi(cmp.Or(power, "0"))
	if err != nil || exponent > math.MaxInt32 || exponent < math.MinInt32 {
		long, _ := new(big.Int).SetString(power, 10)
		return long.Add(long, big.NewInt(int64(shift))).Append(append(append(b, significant...), 'e'), 10), nil
	}
	exponent += shift

	switch point := len(significant) + exponent; { // the decimal point is before significant[point]
	case exponent > maxZeros || -point > maxZeros:
		return strconv.AppendInt(append(append(b, significant...), 'e'), int64(exponent), 10), nil
	case exponent >= 0:
		return append(append(b, significant...), strings.Repeat("0", exponent)...), nil
	case point <= 0:
		b = append(append(b, "0."...), strings.Repeat("0", -point)...)
		return append(b, significant...), nil
	default:
		b = append(append(b, significant[:point]...), '.')
		return append(b, significant[point:]...), nil
	}
}

// isNumber reports whether s is a JSON number (RFC 8259, section 6): a JSON value that begins with a digit or a minus and ends with a
// digit, without blanks.
func isNumber(s string) bool {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	return s != "" && (s[0] == '-' || isDigit(s[0])) && isDigit(s[len(s)-1]) && json.Valid([]byte(s))
}

// appendText writes a JSON text. Only quotes, backslashes and control characters are escaped. All other bytes are written unchanged, so
// that different texts that are not UTF-8 stay different too; JSON has none.
func appendText(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
