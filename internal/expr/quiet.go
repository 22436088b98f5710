package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// fnQuiet asks whether nobody has written a record for some time: quiet(record, days(30)).
const fnQuiet = "quiet"

// quiet rewrites quiet(x, length) to now - x.updated_at >= length, so that the next change and the explanation are those of any other
// comparison with the time. A record that does not exist has no updated_at: the line is false with the reason value_missing.
func (l *lowering) quiet(e ast.Expr, args []ast.Expr, locals []string) {
	const operands = 2
	if len(args) != operands {
		l.fail(e, "quiet needs a record and a length of time", "such as quiet(record, days(30))")
		return
	}
	of, length := args[0], args[1]
	if !l.isRecord(of, locals) {
		l.fail(of, "quiet is asked of a record, and this is none", "such as quiet(record, days(30)), or of a record that a field of the type record(TYPE) names")
		return
	}
	if length.Kind() == ast.LiteralKind {
		l.fail(length, "quiet needs a length of time, and this is "+typeName(length.AsLiteral()), "such as quiet(record, days(30))")
		return
	}
	written := l.fac.NewSelect(l.newID(e), of, "updated_at")
	l.lower(written, locals)
	l.lower(length, locals)
	now := l.fac.NewIdent(l.newID(e), "now")
	l.knows(now, nil)
	since := l.fac.NewCall(l.newID(e), operators.Subtract, now, written)
	field := l.fieldIn(written, locals)
	l.calls[since.ID()] = []string{"", field}
	l.calls[e.ID()] = []string{field, l.fieldIn(length, locals)}
	l.replace(e, operators.GreaterEquals, since, length)
}

// isRecord reports whether e may be a record: record, what a relation leads to, or the variable of a macro.
func (l *lowering) isRecord(e ast.Expr, locals []string) bool {
	for at := e; ; at = at.AsSelect().Operand() {
		if at.Kind() == ast.IdentKind {
			if slices.Contains(locals, at.AsIdent()) {
				return true
			}
			break
		}
		if at.Kind() != ast.SelectKind {
			break
		}
	}
	p, ok := l.path(e, locals)
	if !ok || p[0] != "record" {
		return false
	}
	if l.scope.RecordType == nil || len(p) == 1 {
		return true
	}
	steps, _ := l.scope.RecordType.Relations(append(slices.Clone(p), "updated_at"))
	return len(steps) == len(p)-1
}
