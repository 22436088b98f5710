package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The codes of problems, for programs.
const (
	CodeSyntax          = "syntax"            // not the YAML that every reader reads alike
	CodeUnknownKey      = "unknown_key"       // no such key, kind or setting
	CodeNotSupportedYet = "not_supported_yet" // known, and without effect in this release
	CodeMissing         = "missing"           // a required key is not there
	CodeInvalid         = "invalid"           // a value of the wrong kind or shape
	CodeExpression      = "expression"
	CodeTemplate        = "template"
	CodeReference       = "reference" // it names something that is not defined
	CodeDuplicate       = "duplicate" // defined twice
	CodeLint            = "lint"      // works, and probably not as meant
)

// Problem is one thing wrong with a definition, and what to write instead.
type Problem struct {
	File         string
	Line, Column int // from 1; columns count characters
	Message      string
	Hint         string // may be empty
	Code         string
	Warning      bool // it may be applied nevertheless
}

// String writes the problem as format.md §4 has it, with the hint on a line of its own.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("\n    " + p.Hint)
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

// tidy puts problems in the order of the files and lines, each once.
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

// didYouMean is a hint at the name that is a slip of the pen away, or empty.
func didYouMean(written string, names []string) string {
	best, least := "", 3
	if n := len([]rune(written)); n < 4 {
		least = 2
	}
	for _, name := range names {
		if d := slips(strings.ToLower(written), strings.ToLower(name)); d < least && d < len(name) {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// slips counts what must be typed otherwise: letters added, left out, replaced, or swapped with their neighbour.
func slips(a, b string) int {
	if a == b {
		return 0
	}
	s, t := []rune(a), []rune(b)
	if len(s) > 64 || len(t) > 64 {
		return 64
	}
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}

// sentence joins names for people: a, b and c.
func sentence(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
