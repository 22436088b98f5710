package survey

import (
	"fmt"
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
	}
	return fmt.Sprint(answer)
}
