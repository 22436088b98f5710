// Package expr compiles and evaluates the expressions of definitions: CEL with the semantics of product decision 19.
//
// A missing field is null and never an error. A comparison of null with <, <=, > or >= makes the line false, with the reason
// value_missing and the field's name. The operators == and != compare null like any value. The age of null is longer than any other.
// A value of the wrong type makes the line false, with the reason expression_failed. Whole numbers and decimals are one kind of
// number.
//
// It is not a rule engine: it computes whether a condition holds and why, not what follows from it.
//
// Invariants:
//   - An evaluation reads its Input and nothing else: no clock, no network, no random source.
//   - An evaluation ends after a bounded number of steps (CostLimit, reliability 40); it needs no deadline.
//   - Neither Compile nor Eval panics, for any text and any values.
//   - A Compiler, a Program and a Condition may be used by many goroutines at the same time.
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

// CostLimit bounds one evaluation, in CEL's cost units: about one for each step and for each ten bytes that are read. A regular
// expression reads its text once for every instruction of its program. At 100,000 the worst expression stops after some
// milliseconds (BenchmarkWorst). A condition of an ordinary definition costs less than 50.
const CostLimit = 100_000

const (
	// maxSource bounds an expression, in characters: twenty long lines.
	maxSource = 4096
	// maxNesting bounds the parser's recursion. It is deeper than the brackets that a person can read.
	maxNesting = 48
)

// Type is the type of result that the place of an expression expects.
type Type string

// The values of Type. Any accepts everything.
const (
	Any    Type = "any"
	Bool   Type = "bool"
	Number Type = "number"
	Text   Type = "text"
	Time   Type = "time" // an instant or a date
	List   Type = "list"
	Object Type = "object"
)

// Compiler turns the text of expressions into programs.
type Compiler struct {
	env     *cel.Env
	bound   *bindings
	lenient bool // of definitions in force: a function that is not registered, or takes other values, fails at the evaluation
}

// InForce returns a compiler for definitions that were accepted before, perhaps by a binary with other functions: a call of a function that
// this one lacks is no error of the definition, and fails when it is evaluated.
func (c *Compiler) InForce() *Compiler { return &Compiler{env: c.env, bound: c.bound, lenient: true} }

// NewCompiler prepares the language, with the functions of a binary of one's own. One compiler serves a whole process. An error says which
// function cannot be one.
func NewCompiler(functions ...*Function) (*Compiler, error) {
	bound := &bindings{one: map[string]unary{}, two: map[string]binary{}, own: map[string]*Function{}}
	env, err := newEnv(bound)
	if err != nil {
		return nil, fmt.Errorf("prepare the expression language: %w", err)
	}
	for _, f := range functions {
		if err := bound.register(f); err != nil {
			return nil, err
		}
	}
	return &Compiler{env: env, bound: bound}, nil
}

// Program is a compiled expression.
type Program struct {
	source    string
	want      Type
	prg       cel.Program
	paths     []Path // what it reads, in the order of the text
	about     Path   // the path that explains a verdict
	aboutText string
	others    []Path             // the other paths that it reads
	calls     map[int64][]string // call → the field that each operand reads, to name a missing one
	whole     string             // the path, if the expression is only a path
	readsNow  bool
	callsOwn  bool
	places    []Path // the fields of records of which it asks within
	within    bool   // it asks within
	loose     bool   // it uses the time in a way that NextChange cannot analyse

	audience *Function // of an audience; nil: it is an expression
	workflow string    // whose audience it is

	quick      quick // nil: it has no quick form
	quickNodes int
}

// Compile compiles src, and checks the names by scope and the type of the result by want. Its errors are *Error.
func (c *Compiler) Compile(src string, scope Scope, want Type) (*Program, error) {
	parsed, iss := c.env.Parse(src)
	if err := iss.Err(); err != nil {
		return nil, syntaxError(src, iss)
	}
	l := &lowering{
		src: src, scope: scope, tree: parsed.NativeRep(), fac: ast.NewExprFactory(), calls: map[int64][]string{},
		functions: c.bound.own, owns: map[int64]*Function{}, builtIn: c.bound.builtIn, lenient: c.lenient,
	}
	if err := l.run(); err != nil {
		return nil, err
	}
	checked, iss := c.env.Check(parsed)
	if err := iss.Err(); err != nil {
		return nil, c.checkError(src, iss)
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
		readsNow: readsNow, callsOwn: len(l.owns) > 0, places: l.places, within: l.asksWithin, loose: loose, quick: fast, quickNodes: nodes,
	}, nil
}

// Source returns the text as it was written.
func (p *Program) Source() string { return p.source }

// Paths returns the fields that the expression reads, in the order of its text, each once.
func (p *Program) Paths() []Path { return p.paths }

// ReadsNow reports whether time alone may change the value.
func (p *Program) ReadsNow() bool { return p.readsNow }

// Eval computes the value: nil, bool, int64, float64, string, time.Time (UTC), civil.Date, time.Duration, []any or map[string]any. A
// missing value gives nil. If the program was compiled for a Time, a text that contains one is converted. Its errors are *Failure.
func (p *Program) Eval(in Input) (any, error) {
	if p.audience != nil {
		return p.recipients(&in)
	}
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

// EvalRelated is Eval, except that a record that another record names is returned as a Related, alone or in a list.
func (p *Program) EvalRelated(in Input) (any, error) {
	if p.audience != nil {
		return p.recipients(&in)
	}
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

// Failure is the reason why an expression has no value for an input.
type Failure struct {
	Reason reason.Reason // value_missing, expression_failed or cost_exceeded
	Field  string        // the missing field, if the reason is value_missing
	Detail string        // for the log and the author; empty for value_missing
}

func (f *Failure) Error() string {
	if f.Detail != "" {
		return f.Detail
	}
	return string(f.Reason) + ": " + f.Field
}

// eval runs the program and translates CEL's errors.
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

// missingField returns the field of the operand that was null in the call that returned err.
func (p *Program) missingField(err error, operand int) string {
	var at *types.Err
	if errors.As(err, &at) {
		if fields := p.calls[at.NodeID()]; operand < len(fields) {
			return fields[operand]
		}
	}
	return p.whole
}

// instantNow returns the instant of an evaluation in the zone of its dates.
func (in *Input) instantNow() time.Time {
	if in.Zone != nil {
		return in.Now.In(in.Zone)
	}
	return in.Now.UTC()
}
