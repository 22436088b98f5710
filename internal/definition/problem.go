package definition

import (
	"cmp"
	"fmt"
	"slices"
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
	CodeNoPage          = "no_page"   // a link leads to a page that this version does not have
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

// String writes the problem in the form of format.md §4, with the hint on a line of its own.
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

// tidy sorts problems by file and line and removes duplicates.
func tidy(problems []Problem, files []File) []Problem {
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f.Name] = i
	}
	seen := make(map[Problem]bool, len(problems))
	problems = slices.DeleteFunc(problems, func(p Problem) bool {
		twice := seen[p]
		seen[p] = true
		return twice
	})
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
}

// sentence joins names for people: a, b and c.
func sentence(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
