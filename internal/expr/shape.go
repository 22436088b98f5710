package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// shape reports whether a checked expression reads the time, and whether it is loose: whether NextChange cannot analyse it. NextChange
// analyses comparisons of moving values with constant ones, and the addition and subtraction of lengths of time.
func shape(e ast.Expr) (readsNow, loose bool) {
	var s shapes
	s.mustStand(e)
	return s.readsNow, s.loose
}

type shapes struct{ readsNow, loose bool }

// motionKind is a kind of value by how time alone changes it.
type motionKind int

const (
	stands motionKind = iota // it does not change, or only with the result of a comparison, which is recorded
	moves                    // a time, or a length of time
	counts                   // a number of days
)

// kind returns the kind of e, and records whether e is loose.
func (s *shapes) kind(e ast.Expr) motionKind {
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == "now" {
			s.readsNow = true
			return moves
		}
	case ast.SelectKind:
		s.mustStand(e.AsSelect().Operand())
	case ast.CallKind:
		return s.callKind(e.AsCall())
	case ast.ListKind:
		s.mustStand(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			s.mustStand(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		s.mustStand(c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
		if slices.Contains([]string{c.IterVar(), c.IterVar2(), c.AccuVar()}, "now") {
			s.loose = true // it reads another now
		}
	case ast.StructKind, ast.LiteralKind, ast.UnspecifiedExprKind:
	}
	return stands
}

func (s *shapes) callKind(call ast.CallExpr) motionKind {
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	kinds := make([]motionKind, len(args))
	found, n := stands, 0
	for i, arg := range args {
		if kinds[i] = s.kind(arg); kinds[i] != stands {
			found = kinds[i]
			n++
		}
	}
	if n == 0 {
		return stands
	}
	switch call.FunctionName() {
	case fnEqual, fnDiffer, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		s.loose = s.loose || n > 1
		return stands
	case operators.In:
		s.loose = s.loose || kinds[1] != stands
		return stands
	case operators.Conditional: // the comparison that decides between the branches is recorded
		s.loose = s.loose || n > 1 && kinds[1] != kinds[2]
		return found
	case "age", "today":
		s.loose = s.loose || n > 1
		return moves
	case "days_until", "days_since":
		s.loose = s.loose || n > 1
		return counts
	case "date": // only the zone of now is read
		s.loose = s.loose || kinds[0] != stands
		return stands
	case operators.Negate:
		return found
	case operators.Add, operators.Subtract:
		if n == 1 && found == moves {
			return moves
		}
	}
	s.loose = true
	return stands
}

func (s *shapes) mustStand(list ...ast.Expr) {
	for _, e := range list {
		if s.kind(e) != stands {
			s.loose = true
		}
	}
}
