package survey

import (
	"fmt"
	"strconv"
	"strings"
)

// AnswerText returns an answer as people read it, in one line: yes or no for a boolean, several choices with "; " between them.
func AnswerText(answer any) string {
	switch v := answer.(type) {
	case nil:
		return ""
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = AnswerText(one)
		}
		return strings.Join(parts, "; ")
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64) // no exponent: 1250000, not 1.25e+06
	}
	return fmt.Sprint(answer)
}
