package expr

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/carillonhq/carillon/internal/suggest"
)

// Error is the reason why a text is not an expression, or not one for its place (docs/reference/definitions.md, Errors).
type Error struct {
	Message string
	Hint    string // what to do, or the place of the error
	Offset  int    // in bytes, from the beginning of the text
	Name    string // the name that does not exist, if that is the error
}

func (e *Error) Error() string { return e.Message }

// offsetOf returns where a node begins, in bytes.
func offsetOf(src string, info *ast.SourceInfo, id int64) int {
	at, ok := info.GetOffsetRange(id)
	if !ok {
		return 0
	}
	return bytesIn(src, int(at.Start))
}

// bytesIn converts an offset in characters.
func bytesIn(src string, chars int) int {
	for i := range src {
		if chars == 0 {
			return i
		}
		chars--
	}
	return len(src)
}

// offsetAt converts CEL's line and column.
func offsetAt(src string, line, column int) int {
	start := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(src[start:], '\n')
		if next < 0 {
			return start
		}
		start += next + 1
	}
	return start + bytesIn(src[start:], column)
}

func first(src string, iss *cel.Issues) *Error {
	e := &Error{Message: "this is no expression", Hint: "in: " + src}
	if errs := iss.Errors(); len(errs) > 0 {
		e.Message = errs[0].Message
		if at := errs[0].Location; at != nil {
			e.Offset = offsetAt(src, at.Line(), at.Column())
		}
	}
	return e
}

func syntaxError(src string, iss *cel.Issues) *Error {
	if strings.TrimSpace(src) == "" {
		return &Error{Message: "there is no expression", Hint: "write a condition, such as record.status == \"open\""}
	}
	e := first(src, iss)
	text := strings.TrimPrefix(e.Message, "Syntax error: ")
	if e := reserved(src); e != nil {
		return e
	}
	if e := foreign(src); e != nil {
		return e
	}
	switch {
	case assignment(src):
		e.Message, e.Hint = "a single = compares nothing", "write == to compare"
	case strings.Contains(text, "expression size exceeds limit") || utf8.RuneCountInString(src) > maxSource:
		e.Message = fmt.Sprintf("an expression has at most %d characters", maxSource)
	case strings.Contains(text, "recursion limit"):
		e.Message = fmt.Sprintf("brackets are nested deeper than %d", maxNesting)
	case strings.Contains(text, "'<EOF>'"):
		e.Message = "this expression ends too early"
	default:
		if i := strings.Index(text, " expecting "); i > 0 { // a list of a hundred tokens is of no help
			text = text[:i]
		}
		e.Message = "this is no expression: " + text
	}
	return e
}

// reservedFields matches a reserved word behind a dot, and also texts, which are skipped.
var reservedFields = regexp.MustCompile(`"[^"]*"|'[^']*'|([A-Za-z_][\w.]*)?\.(in|true|false|null)\b`)

// reserved returns an error that says how to read a field whose name is a reserved word; nil: there is none.
func reserved(src string) *Error {
	for _, at := range reservedFields.FindAllStringSubmatchIndex(src, -1) {
		if at[4] < 0 {
			continue
		}
		word, object := src[at[4]:at[5]], "record"
		if at[2] >= 0 {
			object = src[at[2]:at[3]]
		}
		return &Error{Message: word + " is a reserved word", Hint: fmt.Sprintf("a field of that name is read by brackets: %s[%q]", object, word), Offset: at[4]}
	}
	return nil
}

func assignment(src string) bool {
	return regexp.MustCompile(`[^=!<>]=[^=]`).MatchString(regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(src, `""`))
}

func (c *Compiler) checkError(src string, iss *cel.Issues) *Error {
	e := first(src, iss)
	if name, ok := between(e.Message, "undeclared reference to '", "'"); ok {
		e.Message = "there is no function " + name
		own := slices.Sorted(maps.Keys(c.bound.own))
		if hint := suggest.DidYouMean(name, append(functionNames(), own...)); hint != "" {
			e.Hint = hint
		} else {
			e.Hint += "\n" + Unregistered(own)
		}
		return e
	}
	if name, ok := between(e.Message, "found no matching overload for '", "'"); ok {
		_, args, _ := strings.Cut(e.Message, "applied to '")
		args, _, _ = strings.Cut(args, "'")
		e.Message = misapplied(name, args)
		e.Hint += unquoted(e.Message)
	}
	return e
}

// unquoted returns the hint for a text that is compared with a value of another kind.
func unquoted(message string) string {
	other, ok := strings.CutSuffix(message, " is compared with a text")
	if !ok {
		other, ok = strings.CutPrefix(message, "a text is compared with ")
	}
	switch {
	case ok && other == "a number":
		return "\na number stands without quotes"
	case ok && other == "true or false":
		return "\ntrue and false stand without quotes"
	case ok && other == "a time":
		return "\na date is written date(\"2026-06-01\")"
	}
	return ""
}

// misapplied explains CEL's "found no matching overload".
func misapplied(name, args string) string {
	args = strings.Trim(args, "()")
	if i := strings.Index(args, ".("); i > 0 { // a method's receiver
		args = args[:i] + ", " + args[i+2:]
	}
	var kinds []string
	for _, a := range strings.Split(args, ", ") {
		kinds = append(kinds, celTypeName(a))
	}
	switch name {
	case "age", "date", "days_until", "days_since", "today":
		kinds = kinds[:max(0, len(kinds)-1)] // the lowering has added now
	}
	if op, ok := operatorSign(name); ok {
		if len(kinds) == 2 {
			switch op {
			case "==", "!=", "<", "<=", ">", ">=":
				return kinds[0] + " is compared with " + kinds[1]
			case "in":
				return kinds[1] + " is no list"
			}
			return op + " cannot join " + kinds[0] + " and " + kinds[1]
		}
		return op + " cannot stand before " + kinds[0]
	}
	if name == fnTruth {
		return "this must be true or false, and is " + kinds[0]
	}
	if name == fnItems {
		return "a macro goes over a list or an object, and this is " + kinds[0]
	}
	name = strings.TrimPrefix(name, "@")
	if len(kinds) == 0 || kinds[0] == "" {
		return name + "() needs a value"
	}
	return name + " cannot be applied to " + strings.Join(kinds, " and ")
}

// Unregistered says which functions of one's own this program has, beside the one that is missing, and where it stands how it gets one.
func Unregistered(own []string) string {
	const page = "a function of your own is registered in a binary of your own (docs/how-to/own-binary.md); this program has "
	if len(own) == 0 {
		return page + "none"
	}
	return page + strings.Join(own, ", ")
}

func operatorSign(name string) (string, bool) {
	switch name {
	case fnEqual:
		return "==", true
	case fnDiffer:
		return "!=", true
	case "@in":
		return "in", true
	case "!_", "-_":
		return name[:1], true
	}
	if len(name) > 2 && name[0] == '_' && name[len(name)-1] == '_' {
		return strings.Trim(name, "_"), true
	}
	return "", false
}

func programError(src string, err error) *Error {
	return &Error{Message: plainError(err), Hint: "in: " + src}
}

// plainError drops the text that CEL puts around a message.
func plainError(err error) string {
	text := err.Error()
	if text == "no such overload" {
		return "a value is of the wrong kind"
	}
	return strings.TrimPrefix(text, "error optimizing constant expression: ")
}

// fits checks that the kind of the whole expression is the one that its place needs.
func fits(src, kind string, want Type) error {
	if kind == "" || want == Any {
		return nil
	}
	if kind == article(want) || want == Text && kind == "a number" || want == Time && kind == "a text" { // the text may be one
		return nil
	}
	return &Error{Message: "this must be " + article(want) + ", and is " + kind, Hint: "in: " + src}
}

func article(t Type) string {
	switch t {
	case Bool:
		return "true or false"
	case Number:
		return "a number"
	case Text:
		return "a text"
	case Time:
		return "a time"
	case List:
		return "a list"
	case Object:
		return "an object"
	case Any:
	}
	return "a value"
}

// kindOfType returns the name of a type for people; empty if the type is known only at evaluation.
func kindOfType(t *cel.Type) string {
	if t == nil {
		return ""
	}
	switch t.Kind() {
	case types.BoolKind:
		return "true or false"
	case types.IntKind, types.DoubleKind, types.UintKind:
		return "a number"
	case types.StringKind:
		return "a text"
	case types.TimestampKind:
		return "a time"
	case types.DurationKind:
		return "a length of time"
	case types.ListKind:
		return "a list"
	case types.MapKind, types.StructKind:
		return "an object"
	}
	return ""
}

func celTypeName(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "wrapper("), ")")
	switch {
	case name == "int" || name == "double" || name == "uint":
		return "a number"
	case name == "string":
		return "a text"
	case name == "bool":
		return "true or false"
	case name == "null":
		return "nothing"
	case strings.HasSuffix(name, "Timestamp") || name == "timestamp":
		return "a time"
	case strings.HasSuffix(name, "Duration") || name == "duration":
		return "a length of time"
	case strings.HasPrefix(name, "list("):
		return "a list"
	case name == "":
		return ""
	case name == "dyn" || name == "any":
		return "a value"
	}
	return "an object"
}

// KindOf returns the name of the kind of a result, for people.
func KindOf(result any) string { return typeName(adapt(result)) }

// typeName returns the name of a value's kind for people.
func typeName(v ref.Val) string {
	if isNull(v) {
		return "nothing"
	}
	if t, ok := v.Type().(*types.Type); ok {
		if kind := kindOfType(t); kind != "" {
			return kind
		}
	}
	return "a value of another kind"
}

func between(s, before, after string) (string, bool) {
	_, rest, ok := strings.Cut(s, before)
	if !ok {
		return "", false
	}
	part, _, ok := strings.Cut(rest, after)
	return part, ok
}

// clip shortens data that is quoted in an error.
func clip(s string) string {
	const longest = 40
	if utf8.RuneCountInString(s) <= longest {
		return s
	}
	return s[:bytesIn(s, longest)] + "…"
}

func functionNames() []string {
	return []string{
		"age", "all", "contains", "date", "days", "days_since", "days_until", "duration", "endsWith", "exists", "exists_one", "filter",
		"has", "hours", "lower", "map", "matches", "minutes", "quiet", "size", "startsWith", "today", "trim", nameWithin,
	}
}
