package subject

import (
	"fmt"
	"strings"
	"unicode"
)

// MaxName is the longest name that callers give, in bytes: an id, a kind, an address, the name of a person or of a field.
const MaxName = 256

// CheckName says what is wrong with a name that a caller gives, as the end of a sentence, and what to do; "" if nothing is. It never
// repeats the name.
func CheckName(name string) (problem, hint string) {
	switch {
	case strings.TrimSpace(name) == "":
		return "is blank", "write it out, or leave it out"
	case len(name) > MaxName:
		return fmt.Sprintf("is longer than %d bytes", MaxName), ""
	case strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
	}):
		return "holds a control or an invalid character", ""
	}
	return "", ""
}
