package expr

import (
	"regexp"
	"strings"
)

// foreigners matches operators and signs of other languages and word processors, and also texts, which are skipped.
var foreigners = regexp.MustCompile(`"[^"]*"|'[^']*'|\{\{[^}]*\}\}|===|!==|<>|=>|=<|\bin\s*\(|\b\d+(?:mo|[smhdwy])\b|(?i:\b(?:is\s+not|not\s+in|is|not|and|or)\b)|[“”„‘’]`)

// foreign returns an error that explains the first of them; nil: there is none.
func foreign(src string) *Error {
	for _, at := range foreigners.FindAllStringIndex(src, -1) {
		found := src[at[0]:at[1]]
		if found[0] == '"' || found[0] == '\'' || at[0] > 0 && src[at[0]-1] == '.' {
			continue
		}
		e := &Error{Message: found + " is no operator", Offset: at[0]}
		switch word := strings.Join(strings.Fields(strings.ToLower(found)), " "); word {
		case "and":
			e.Hint = "write &&"
		case "or":
			e.Hint = "write ||"
		case "not":
			e.Hint = "write == false behind the value, or the whole line in quotes with ! before it"
		case "not in":
			e.Hint = `write the whole line in quotes: "!(VALUE in [LIST])"`
		case "is", "===":
			e.Hint = "write =="
		case "is not", "!==", "<>":
			e.Hint = "write !="
		case "=>":
			e.Hint = "write >="
		case "=<":
			e.Hint = "write <="
		case "“", "”", "„", "‘", "’":
			e.Message, e.Hint = found+" is no quote that begins or ends a text", `write straight quotes: "text"`
		case "in (", "in(":
			e.Message, e.Hint = "a list stands in square brackets", "write in [A, B]"
		default:
			if inner, ok := strings.CutPrefix(found, "{{"); ok {
				e.Message = "{{ }} stands in texts: an expression writes names without it"
				e.Hint = "write " + strings.TrimSpace(strings.TrimSuffix(inner, "}}"))
				break
			}
			e.Message, e.Hint = found+" is no length of time in an expression", "write "+calendarCall(found)
		}
		return e
	}
	return nil
}

// calendarCall writes a duration, such as 3d, as a function call.
func calendarCall(duration string) string {
	number := strings.TrimRight(duration, "smhdwyo")
	switch duration[len(number):] {
	case "s":
		return `duration("` + duration + `")`
	case "m":
		return "minutes(" + number + ")"
	case "h":
		return "hours(" + number + ")"
	case "d":
		return "days(" + number + ")"
	}
	return "it in days: days(7) is a week"
}
