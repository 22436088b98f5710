package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/carillonhq/carillon/internal/civil"
)

// Simple compiles the form with the keys field, op and value, which forms and imports use (C3, C6). It is translated to an expression
// and means the same. Its errors are *Error, with an offset of 0.
func (c *Compiler) Simple(field, op string, value any, scope Scope) (*Condition, error) {
	f, err := fieldPath(field)
	if err != nil {
		return nil, err
	}
	src, err := simpleSource(f, op, value)
	if err != nil {
		return nil, err
	}
	p, err := c.Compile(src, scope, Bool)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Offset = 0
		}
		return nil, err
	}
	written := field + " " + op
	if value != nil {
		written += " " + display(value)
	}
	return &Condition{line: p, source: written}, nil
}

// simpleSource returns the expression for field, op and value.
func simpleSource(f, op string, value any) (string, error) {
	if sign, ok := comparison(op); ok {
		lit, err := literalOf(value)
		if err != nil {
			return "", err
		}
		if (sign != "==" && sign != "!=") && value == nil {
			return "", &Error{Message: op + " needs a value"}
		}
		return f + " " + sign + " " + lit, nil
	}
	switch op {
	case "in", "not_in", "notIn":
		items, ok := value.([]any)
		if !ok {
			return "", &Error{Message: op + " needs a list of values"}
		}
		lit, err := literalOf(items)
		if err != nil {
			return "", err
		}
		if op == "in" {
			return f + " in " + lit, nil
		}
		return "!(" + f + " in " + lit + ")", nil
	case "matches":
		pattern, ok := value.(string)
		if !ok {
			return "", &Error{Message: "matches needs a regular expression"}
		}
		return "matches(" + f + ", " + literal(pattern) + ")", nil
	case "set", "isSet", "not_set", "isNotSet":
		if value != nil {
			return "", &Error{Message: op + " takes no value"}
		}
		if op == "set" || op == "isSet" {
			return f + ` != null && ` + f + ` != ""`, nil
		}
		return f + ` == null || ` + f + ` == ""`, nil
	case "older_than", "newer_than":
		written, _ := value.(string)
		if _, err := civil.ParseOffset(written); err != nil {
			return "", &Error{Message: op + " needs a length of time", Hint: "older_than: 3d is three days after the date or later, newer_than: -2d more than two days before it"}
		}
		sign := " >= "
		if op == "newer_than" {
			sign = " < "
		}
		return "now" + sign + "shifted(" + f + ", " + literal(written) + ")", nil
	}
	return "", &Error{Message: fmt.Sprintf("unknown op %q", op), Hint: "ops are is, is_not, less_than, at_most, more_than, at_least, in, not_in, matches, set, not_set, older_than, newer_than"}
}

func comparison(op string) (sign string, ok bool) {
	switch op {
	case "is", "==":
		return "==", true
	case "is_not", "!=":
		return "!=", true
	case "less_than", "<":
		return "<", true
	case "at_most", "<=":
		return "<=", true
	case "more_than", ">":
		return ">", true
	case "at_least", ">=":
		return ">=", true
	}
	return "", false
}

// fieldPath writes a dotted field as an expression. Parts that are not names become indexes.
func fieldPath(field string) (string, error) {
	parts := strings.Split(field, ".")
	for _, part := range parts {
		if part == "" {
			return "", &Error{Message: fmt.Sprintf("%q is no field", field), Hint: "a field is written record.status or candidate.jobType"}
		}
	}
	if !isName(parts[0]) {
		return "", &Error{Message: fmt.Sprintf("%q is no field", field), Hint: "a field is written record.status or candidate.jobType"}
	}
	return Path(parts).String(), nil
}

// IsName reports whether an expression can write a field as .NAME.
func IsName(s string) bool { return isName(s) }

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	switch s { // reserved words of the language
	case "", "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
		"package", "namespace", "return", "var", "void", "while":
		return false
	}
	return true
}

// literal writes a text as an expression.
func literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// literalOf writes a JSON value as an expression.
func literalOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case string:
		return literal(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		return numberLiteral(strconv.FormatFloat(v, 'g', -1, 64)), nil
	case json.Number:
		if _, ok := number(v).(*types.Err); ok {
			return "", &Error{Message: clip(string(v)) + " is no number"}
		}
		return numberLiteral(string(v)), nil
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			part, err := literalOf(item)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	}
	return "", &Error{Message: fmt.Sprintf("a value must be a text, a number, true, false or a list, not %T", value)}
}

// numberLiteral writes a number; a whole number of more than 64 bits becomes a decimal.
func numberLiteral(s string) string {
	if strings.ContainsAny(s, ".eE") {
		return s
	}
	if _, err := strconv.ParseInt(s, 10, 64); err != nil {
		return s + ".0"
	}
	return s
}

// display writes a value as the author of a definition writes it.
func display(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = display(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(value)
}

// shifted returns t moved by an offset in calendar units: now >= shifted(record.last_visit, "3d").
func shifted(t, offset ref.Val) ref.Val {
	if isNull(t) {
		return missing(0)
	}
	written, _ := offset.(types.String)
	by, err := civil.ParseOffset(string(written))
	if err != nil {
		return types.NewErr("%q is no offset", clip(string(written)))
	}
	at, ok := asTime(t)
	if !ok {
		return types.NewErr("%s is no time", typeName(t))
	}
	if l, ok := at.(local); ok {
		day, _ := civil.DateOf(l.wall, l.wall.Location())
		clock := l.wall.Sub(midnight(l.wall).wall)
		return local{dateValue(day.Add(by)).wall.Add(clock + by.Clock)}
	}
	return instant(at.(types.Timestamp).Time.Add(by.Exact()))
}
