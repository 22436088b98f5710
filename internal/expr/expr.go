// Package expr compiles and evaluates the expressions of definitions: CEL with the semantics of decision 19.
//
// A missing field is null and never an error. Comparing null by order makes the line false with the reason
// value_missing and the field's name; == and != see null; the age of null is longer than any. A value of the wrong
// type makes the line false with the reason expression_failed. Whole numbers and decimals are one kind of number.
//
// It is not a rule engine: it says whether a condition holds and why, never what follows from it.
//
// Invariants:
//   - An evaluation reads its Input and nothing else: no clock, no network, no random source.
//   - It ends after a bounded number of steps (CostLimit, reliability 40), without a deadline.
//   - Neither Compile nor Eval panics, whatever the text and the values.
//   - A Compiler, a Program and a Condition may be used by many goroutines at once.
package expr

import (
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/carillonhq/carillon/internal/reason"
)

// CostLimit bounds one evaluation, in CEL's cost units: about one per step and per ten bytes read, which a regular
// expression reads once for every instruction of its program. At 100,000 the worst expression stops after some
// milliseconds (BenchmarkWorst); a condition of an ordinary definition costs less than 50.
const CostLimit = 100_000

const (
	// maxSource is the longest expression in characters: twenty long lines.
	maxSource = 4096
	// maxNesting bounds the parser's recursion: deeper brackets than anyone reads.
	maxNesting = 48
)

// Type is what the place of an expression expects of its result.
type Type string

// The types. Any accepts everything.
const (
	Any    Type = "any"
	Bool   Type = "bool"
	Number Type = "number"
	Text   Type = "text"
	Time   Type = "time" // an instant or a date
	List   Type = "list"
)

// Compiler turns the text of expressions into programs.
type Compiler struct {
	env   *cel.Env
	bound *bindings
}

// NewCompiler prepares the language. One compiler serves a whole process.
func NewCompiler() (*Compiler, error) {
	bound := &bindings{one: map[string]unary{}, two: map[string]binary{}}
	env, err := newEnv(bound)
	if err != nil {
		return nil, fmt.Errorf("prepare the expression language: %w", err)
	}
	return &Compiler{env: env, bound: bound}, nil
}

// Program is a compiled expression.
type Program struct {
	source    string
	want      Type
	prg       cel.Program
	paths     []Path // what it reads, in the order of the text
	about     Path   // the one that explains a judgement
	aboutText string
	others    []Path             // that it reads besides
	calls     map[int64][]string // call → the field each operand reads, for naming what is missing
	whole     string             // the path when the expression is nothing but a path
	readsNow  bool
	loose     bool // it uses the time in a way that NextLook cannot analyse

	quick      quick // nil: it has none
	quickNodes int
}

// Compile checks src against the names of scope and the type that its place wants. Its errors are *Error.
func (c *Compiler) Compile(src string, scope Scope, want Type) (*Program, error) {
	parsed, iss := c.env.Parse(src)
	if err := iss.Err(); err != nil {
		return nil, syntaxError(src, iss)
	}
	l := &lowering{src: src, scope: scope, tree: parsed.NativeRep(), fac: ast.NewExprFactory(), calls: map[int64][]string{}}
	if err := l.run(); err != nil {
		return nil, err
	}
	checked, iss := c.env.Check(parsed)
	if err := iss.Err(); err != nil {
		return nil, checkError(src, iss)
	}
	if err := fits(src, l.kindOf(checked.NativeRep(), checked.NativeRep().Expr()), want); err != nil {
		return nil, err
	}
	if err := l.lint(checked.NativeRep()); err != nil {
		return nil, err
	}
	prg, err := c.env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(CostLimit),
		cel.CostTracking(costs{}), cel.OptimizeRegex(constantPattern()))
	if err != nil {
		return nil, programError(src, err)
	}
	about, others := subjects(l.paths)
	readsNow, loose := shape(checked.NativeRep().Expr())
	fast, nodes := quicken(checked.NativeRep().Expr(), c.bound)
	return &Program{
		source: src, want: want, prg: prg, paths: l.paths, about: about, aboutText: about.String(), others: others, calls: l.calls, whole: l.whole,
		readsNow: readsNow, loose: loose, quick: fast, quickNodes: nodes,
	}, nil
}

// Source returns the text as it was written.
func (p *Program) Source() string { return p.source }

// Paths returns the fields that the expression reads, in the order of its text, each once.
func (p *Program) Paths() []Path { return p.paths }

// ReadsNow reports whether time alone may change the value.
func (p *Program) ReadsNow() bool { return p.readsNow }

// Eval computes the value: nil, bool, int64, float64, string, time.Time (UTC), civil.Date, time.Duration, []any or
// map[string]any. A missing value gives nil. When a Time is wanted, texts that contain one are converted.
// Its errors are *Failure.
func (p *Program) Eval(in Input) (any, error) {
	val, failure := p.eval(&in)
	if failure != nil {
		if failure.Reason == reason.ValueMissing {
			return nil, nil
		}
		return nil, failure
	}
	out, err := p.export(val, &in)
	if err != nil {
		return nil, &Failure{Reason: reason.ExpressionFailed, Detail: err.Error()}
	}
	return out, nil
}

// EvalRelated is Eval, but for a record that another one names, alone or in a list: that is a Related.
func (p *Program) EvalRelated(in Input) (any, error) {
	val, failure := p.eval(&in)
	if failure == nil {
		switch v := val.(type) {
		case related:
			return Related{ID: string(v.String), Fields: v.fields}, nil
		case traits.Lister:
			all := []any{}
			for it := v.Iterator(); it.HasNext() == types.True; {
				item := it.Next()
				if r, ok := item.(related); ok {
					all = append(all, Related{ID: string(r.String), Fields: r.fields})
				} else {
					all = append(all, export(item))
				}
			}
			return all, nil
		}
	}
	return p.Eval(in)
}

// Failure says why an expression has no value on these inputs.
type Failure struct {
	Reason reason.Reason // value_missing, expression_failed or cost_exceeded
	Field  string        // the missing field, where the reason is value_missing
	Detail string        // for the log and the author; empty for value_missing
}

func (f *Failure) Error() string {
	if f.Detail != "" {
		return f.Detail
	}
	return string(f.Reason) + ": " + f.Field
}

// eval runs the program and translates what CEL reports.
func (p *Program) eval(in *Input) (ref.Val, *Failure) {
	val, details, err := p.prg.Eval(in)
	in.Meter.add(details)
	if err == nil {
		return val, nil
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) {
		return nil, &Failure{Reason: reason.CostExceeded, Detail: fmt.Sprintf("took more than %d steps", CostLimit)}
	}
	var missing *missingError
	if errors.As(err, &missing) {
		return nil, &Failure{Reason: reason.ValueMissing, Field: p.missingField(err, missing.operand)}
	}
	return nil, &Failure{Reason: reason.ExpressionFailed, Detail: plainError(err)}
}

// missingField names the operand that was null at the call where err arose.
func (p *Program) missingField(err error, operand int) string {
	var at *types.Err
	if errors.As(err, &at) {
		if fields := p.calls[at.NodeID()]; operand < len(fields) {
			return fields[operand]
		}
	}
	return p.whole
}

// instantNow is the instant of an evaluation in the zone in which dates are meant.
func (in *Input) instantNow() time.Time {
	if in.Zone != nil {
		return in.Now.In(in.Zone)
	}
	return in.Now.UTC()
}
