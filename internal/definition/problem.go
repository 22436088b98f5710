package definition

import (
	"fmt"
	"strings"
)

// The codes of problems, for programs.
const (
	CodeSyntax          = "syntax"            // not portable YAML
	CodeUnknownKey      = "unknown_key"       // no such key, kind or setting
	CodeNotSupportedYet = "not_supported_yet" // known, but without effect in this release
	CodeMissing         = "missing"           // a required key is not there
	CodeInvalid         = "invalid"           // a value of the wrong kind or shape
	CodeExpression      = "expression"
	CodeTemplate        = "template"
	CodeReference       = "reference" // it names something that is not defined
	CodeDuplicate       = "duplicate" // defined twice
	CodeNeeded          = "needed"    // it is to be deleted, but another definition needs it
	CodeLint            = "lint"      // valid, but probably not what is meant
	CodeNoPage          = "no_page"   // a link leads to a page that is not there
)

// Problem is one mistake in a definition, and what to write instead.
type Problem struct {
	File         string
	Line, Column int // from 1; columns count characters
	Message      string
	Hint         string // may be empty
	Code         string
	Warning      bool // the definition may still be applied
}

// String writes the problem as in the section Errors of docs/reference/definitions.md, with the hint on a line of its own.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("\n    " + strings.ReplaceAll(p.Hint, "\n", "\n    "))
	}
	return b.String()
}

// Errors counts the problems that are more than warnings.
func Errors(problems []Problem) int {
	count := 0
	for _, p := range problems {
		if !p.Warning {
			count++
		}
	}
	return count
}

// HasErrors reports whether one of the problems is more than a warning.
func HasErrors(problems []Problem) bool { return Errors(problems) > 0 }
