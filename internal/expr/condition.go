package expr

import (
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/carillonhq/carillon/internal/reason"
)

// Condition is the value of when, stop_when, show_when or where: one line, or a group of conditions of which all or any must hold. A
// nil Condition always holds.
type Condition struct {
	line   *Program
	source string // as written: the line, or field, op and value
	any    bool
	group  []*Condition
}

// Verdict is the result of a condition with its reasons.
type Verdict struct {
	Met    bool
	Reason reason.Reason // empty when met, else the reason of the line that decided
	Field  string        // the field that the line read or that was missing
	// Clauses holds the result of every line, in the order of the text, including lines that decided nothing.
	Clauses []Clause
}

// Clause is the result of one line.
type Clause struct {
	Source string
	Met    bool
	Reason reason.Reason // empty when met
	Field  string        // the first field it reads, or the one that is missing
	Value  any           // that field's value; nil when missing
	Also   []Reading     // the other fields that it reads, if one field does not explain the result
	Detail string        // why the evaluation failed, for the author
}

// Reading is a field with its value, nil when missing.
type Reading struct {
	Field string
	Value any
}

// mostReadings bounds the fields by which a line is explained.
const mostReadings = 8

// Line compiles one line, which must be true or false. Its errors are *Error.
func (c *Compiler) Line(src string, scope Scope) (*Condition, error) {
	p, err := c.Compile(src, scope, Bool)
	if err != nil {
		return nil, err
	}
	return &Condition{line: p, source: src}, nil
}

// AllOf returns a condition that holds if every one of the conditions holds.
func AllOf(of ...*Condition) *Condition { return &Condition{group: of} }

// AnyOf returns a condition that holds if at least one of the conditions holds.
func AnyOf(of ...*Condition) *Condition { return &Condition{group: of, any: true} }

// Paths returns the fields that the condition reads, in the order of its text.
func (c *Condition) Paths() []Path {
	if c == nil {
		return nil
	}
	if c.line != nil {
		return c.line.paths
	}
	var all []Path
	for _, part := range c.group {
		all = append(all, part.Paths()...)
	}
	return all
}

// Source returns the condition as one text. Two conditions with the same text have the same result for the same input. The text of
// a nil condition is empty.
func (c *Condition) Source() string {
	if c == nil {
		return ""
	}
	if c.line != nil {
		return c.source
	}
	parts := make([]string, len(c.group))
	for i, part := range c.group {
		parts[i] = part.Source()
	}
	if c.any {
		return "any(" + strings.Join(parts, "\n") + ")"
	}
	return "all(" + strings.Join(parts, "\n") + ")"
}

// Judge evaluates every line, so that each one can be explained.
func (c *Condition) Judge(in Input) Verdict {
	if c == nil {
		return Verdict{Met: true}
	}
	v := Verdict{Clauses: make([]Clause, 0, c.lines())}
	v.Met, v.Reason, v.Field = c.judge(&in, &v.Clauses)
	return v
}

// Holds reports only whether the condition holds. It stops at the first line that decides.
func (c *Condition) Holds(in Input) bool { return c.holds(&in, unbounded) }

// Fails reports whether the condition does not hold and a line that decides this could not be evaluated. A missing value is not a
// failure.
func (c *Condition) Fails(in Input) bool {
	in.failed = false
	return !c.holds(&in, unbounded) && in.failed
}

func fails(val ref.Val, failure *Failure) bool {
	if failure != nil {
		return failure.Reason != reason.ValueMissing
	}
	return !isNull(val) && val != types.True && val != types.False
}

// unbounded is the size of an input without a bound.
const unbounded = math.MaxInt32

// holds is Holds for an input of at most size bytes.
func (c *Condition) holds(in *Input, size int) bool {
	if c == nil {
		return true
	}
	if c.line != nil {
		if holds, ok := c.line.holdsQuickly(in, size); ok {
			return holds
		}
		val, failure := c.line.eval(in)
		in.failed = in.failed || fails(val, failure)
		return failure == nil && val == types.True
	}
	for _, part := range c.group {
		if part.holds(in, size) == c.any {
			return c.any
		}
	}
	return !c.any
}

func (c *Condition) lines() int {
	if c == nil {
		return 0
	}
	if c.line != nil {
		return 1
	}
	n := 0
	for _, part := range c.group {
		n += part.lines()
	}
	return n
}

// judge appends a clause for every line. If all conditions of a group must hold, the reason is that of the first line that fails.
// If any must hold, the reason is the first one that is more than "false".
func (c *Condition) judge(in *Input, clauses *[]Clause) (met bool, why reason.Reason, field string) {
	if c == nil {
		return true, "", ""
	}
	if c.line != nil {
		clause := c.judgeLine(in)
		*clauses = append(*clauses, clause)
		return clause.Met, clause.Reason, clause.Field
	}
	met = !c.any
	for _, part := range c.group {
		m, r, f := part.judge(in, clauses)
		switch {
		case c.any && m:
			met = true
		case !m && (why == "" || c.any && why == reason.ConditionFalse && r != reason.ConditionFalse):
			met, why, field = met && c.any, r, f
		}
	}
	if met {
		return true, "", ""
	}
	if why == "" { // an empty group of which any must hold
		why = reason.ConditionFalse
	}
	return false, why, field
}

func (c *Condition) judgeLine(in *Input) Clause {
	clause := Clause{Source: c.source}
	in.judged, in.remarks, in.after = true, nil, nil
	val, failure := c.line.eval(in)
	switch {
	case failure != nil:
		clause.Reason, clause.Field, clause.Detail = failure.Reason, failure.Field, failure.Detail
	case isNull(val):
		clause.Reason, clause.Field = reason.ValueMissing, c.line.whole
	case val == types.True:
		clause.Met = true
	case val == types.False:
		clause.Reason = reason.ConditionFalse
	default:
		clause.Reason, clause.Detail = reason.ExpressionFailed, "must be true or false, and is "+typeName(val)
	}
	c.remark(&clause, in)
	return clause
}

// remark adds what explains the clause: the results of functions, and the values of the fields that the line reads.
func (c *Condition) remark(clause *Clause, in *Input) {
	var readings []Reading
	for _, r := range in.remarks {
		if r.Field != "" {
			readings = append(readings, r.Reading)
		}
		if clause.Detail == "" {
			clause.Detail = r.detail
		}
	}
	if clause.Reason == reason.ValueMissing {
		return
	}
	if about := c.line.about; about != nil {
		readings = append(readings, Reading{c.line.aboutText, in.shown(about)})
	}
	for _, path := range c.line.others {
		readings = append(readings, Reading{path.String(), in.shown(path)})
	}
	readings = append(readings, in.after...)
	for i, r := range readings {
		switch {
		case i == 0:
			clause.Field, clause.Value = r.Field, r.Value
		case i <= mostReadings:
			clause.Also = append(clause.Also, r)
		}
	}
}

// subjects returns the fields that explain a line: the first one that it reads that is not a constant, and the others. A whole record, event
// or contact, which a function gets, explains nothing.
func subjects(paths []Path) (first Path, others []Path) {
	for _, path := range paths {
		switch {
		case path[0] == "now" || path[0] == "vars" || len(path) == 1 && slices.Contains(objectNames(), path[0]):
		case first == nil:
			first = path
		case len(others) < mostReadings:
			others = append(others, path)
		}
	}
	return first, others
}
