package expr

import (
	"errors"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Most lines of conditions compare fields with constants, and a backfill over a million records spends its time on them. For these
// lines a program has a second form, the quick form: closures that call the same operators, without the interpreter's steps and cost
// counter (measured: an eighth of the time). It exists for lines that read the record, constants and the time, and make neither texts
// nor lists, so that their cost is bounded by their length and the size of the record. All other lines are left to the interpreter.
//
// The quick form computes only whether a line holds. The interpreter explains why a line does not hold.

// quick evaluates a part of a line. A nil result means that the interpreter has to evaluate it. Errors are values, as in operators.
type quick func(in *Input) ref.Val

// quickCost returns an upper bound of CEL's cost of a node that reads values of size bytes besides constants.
func quickCost(size int) int { return 4 + size/4 }

// quicken returns the closures of a checked line and the number of their nodes; nil if the line has nodes without a quick form.
func quicken(e ast.Expr, b *bindings) (quick, int) {
	q := &quickener{bindings: b}
	f := q.compile(e)
	if q.lost {
		return nil, 0
	}
	return f, q.nodes
}

type quickener struct {
	*bindings
	nodes int
	lost  bool
}

func (q *quickener) lose() quick {
	q.lost = true
	return nil
}

func (q *quickener) compile(e ast.Expr) quick {
	q.nodes++
	switch e.Kind() {
	case ast.LiteralKind:
		v := e.AsLiteral()
		if text, ok := v.(types.String); ok {
			q.nodes += len(text)/10 + 1
		}
		return func(*Input) ref.Val { return v }
	case ast.IdentKind:
		switch name := e.AsIdent(); name {
		case "record", "vars", "now":
			return func(in *Input) ref.Val { return adapt(resolved(in, name)) }
		}
	case ast.SelectKind:
		sel := e.AsSelect()
		if !sel.IsTestOnly() {
			return q.field(sel.Operand(), sel.FieldName())
		}
	case ast.CallKind:
		return q.call(e.AsCall())
	case ast.ListKind, ast.MapKind, ast.StructKind, ast.ComprehensionKind, ast.UnspecifiedExprKind:
	}
	return q.lose()
}

func resolved(in *Input, name string) any {
	v, _ := in.ResolveName(name)
	return v
}

// field reads a field of an object. A value that is not an object is left to the interpreter.
func (q *quickener) field(of ast.Expr, name string) quick {
	if of.Kind() == ast.IdentKind && of.AsIdent() == "record" {
		q.nodes++
		return func(in *Input) ref.Val { return adapt(in.Record[name]) }
	}
	object := q.compile(of)
	key := ref.Val(types.String(name))
	return func(in *Input) ref.Val {
		v := object(in)
		m, ok := v.(traits.Mapper)
		if _, many := v.(several); !ok || many { // several records cost more than the quick form is bounded to
			return nil
		}
		v, _ = m.Find(key)
		return v
	}
}

func (q *quickener) call(call ast.CallExpr) quick {
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	name := call.FunctionName()
	switch name {
	case operators.Index:
		if text, ok := textOf(args, 1); ok {
			return q.field(args[0], text)
		}
		return q.lose()
	case operators.LogicalAnd:
		return q.logical(args, types.False)
	case operators.LogicalOr:
		return q.logical(args, types.True)
	case operators.In:
		return q.oneOf(args[0], args[1])
	case operators.Add, operators.Multiply, "lower", "trim", fnMatches, fnFound, fnItems: // they make values, or take long
		return q.lose()
	}
	switch len(args) {
	case 1:
		if f, ok := q.one[name]; ok {
			x := q.compile(args[0])
			return func(in *Input) ref.Val {
				v := x(in)
				if v == nil || types.IsError(v) {
					return v
				}
				return f(v)
			}
		}
	case 2:
		if f, ok := q.two[name]; ok {
			x, y := q.compile(args[0]), q.compile(args[1])
			return func(in *Input) ref.Val {
				a := x(in)
				if a == nil || types.IsError(a) {
					return a
				}
				b := y(in)
				if b == nil || types.IsError(b) {
					return b
				}
				return f(a, b)
			}
		}
	}
	return q.lose()
}

// logical is && or ||. The first operand that decides it gives the result, even if another operand is an error.
func (q *quickener) logical(args []ast.Expr, decides types.Bool) quick {
	all := make([]quick, len(args))
	for i, arg := range args {
		all[i] = q.compile(arg)
	}
	return func(in *Input) ref.Val {
		is := ref.Val(!decides)
		for _, f := range all {
			switch v := f(in).(type) {
			case types.Bool:
				if v == decides {
					return decides
				}
			case *types.Err:
				is = v
			default:
				return nil
			}
		}
		return is
	}
}

// oneOf is `x in [constants]`.
func (q *quickener) oneOf(of, list ast.Expr) quick {
	if list.Kind() != ast.ListKind {
		return q.lose()
	}
	var constants []ref.Val
	for _, item := range list.AsList().Elements() {
		if item.Kind() != ast.LiteralKind {
			return q.lose()
		}
		q.compile(item)
		constants = append(constants, item.AsLiteral())
	}
	x := q.compile(of)
	return func(in *Input) ref.Val {
		v := x(in)
		switch v.(type) {
		case types.String, types.Bool, types.Int, types.Double:
		default:
			return nil
		}
		for _, c := range constants {
			if equal(v, c) {
				return types.True
			}
		}
		return types.False
	}
}

// holdsQuickly reports whether a line holds for an input of at most size bytes; ok is false if the quick form cannot decide.
func (p *Program) holdsQuickly(in *Input, size int) (holds, ok bool) {
	if p.quick == nil || p.quickNodes*quickCost(size) > CostLimit {
		return false, false
	}
	switch v := p.quick(in).(type) {
	case types.Bool:
		return bool(v), true
	case *types.Err:
		var missing *missingError
		in.failed = in.failed || !errors.As(v, &missing)
		return false, true
	}
	return false, false
}
