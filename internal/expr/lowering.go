package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/suggest"
)

// lowering rewrites the parsed expression, before it is checked, into calls with our semantics:
//
//	a == b, a != b      @equal(a, b), @differ(a, b)
//	a && b, !a, a ? …   operands that may be null are put in @truth(…)
//	age(t), today() …   get now as a further operand
//	has(a.b)            @differ(a.b, null)
//	matches(a, b)       @found(@matches(a, b)), with a pattern from the data @found(@matches_data(a, b, @input))
//	quiet(a, b)         now - a.updated_at >= b
//	within(a, b)        @within(a, b, @input)
//	own(a, b)           @own(@input, "own", "own(a, b)", a, b)
//	a.exists(x, …)      the list of a macro is put in @items(…)
//
// It also refuses names that do not exist at the place of the expression, and collects the fields that are read.
type lowering struct {
	src   string
	scope Scope
	tree  *ast.AST
	fac   ast.ExprFactory

	names  []string
	nextID int64
	err    *Error

	paths []Path
	whole string
	// places are the fields of records of which within is asked.
	places     []Path
	asksWithin bool
	calls      map[int64][]string

	functions map[string]*Function // of a binary of one's own
	owns      map[int64]*Function  // by call; nil: a function that this binary lacks
	builtIn   func(name string) bool
	lenient   bool
}

func (l *lowering) run() error {
	l.names = l.scope.names()
	ast.PostOrderVisit(l.tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) { l.nextID = max(l.nextID, e.ID()) }))
	root := l.tree.Expr()
	if p, ok := l.path(root, nil); ok {
		l.whole = p.String()
	}
	l.lower(root, nil)
	if l.err != nil {
		return l.err
	}
	return nil
}

// lower rewrites e in place; locals are the variables of the macros around it.
func (l *lowering) lower(e ast.Expr, locals []string) {
	if p, ok := l.path(e, locals); ok {
		l.read(p)
		if l.scope.RecordType.lacks(p) {
			hint := "in: " + l.src
			if meant := suggest.DidYouMean(p[1], l.scope.RecordType.names()); meant != "" {
				hint += "\n" + meant
			}
			l.fail(firstStep(e), "undefined field '"+p[1]+"'", hint)
		}
		if of, field := l.scope.RecordType.lacksBelow(p); of != nil {
			hint := "in: " + l.src
			if meant := suggest.DidYouMean(field, of.names()); meant != "" {
				hint += "\n" + meant
			}
			l.fail(e, "records of type "+of.Name+" have no field '"+field+"'", hint)
		}
		l.follow(e, p)
	}
	switch e.Kind() {
	case ast.IdentKind:
		l.knows(e, locals)
	case ast.SelectKind:
		sel := e.AsSelect()
		l.lowerInPath(sel.Operand(), locals)
		if sel.IsTestOnly() {
			field := l.fac.NewSelect(l.newID(e), sel.Operand(), sel.FieldName())
			l.replace(e, fnDiffer, field, l.fac.NewLiteral(l.newID(e), types.NullValue))
		}
	case ast.CallKind:
		l.lowerCall(e, locals)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			l.lower(item, locals)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			l.lower(entry.AsMapEntry().Key(), locals)
			l.lower(entry.AsMapEntry().Value(), locals)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		l.lower(c.IterRange(), locals)
		inner := append(slices.Clone(locals), c.IterVar(), c.AccuVar())
		if c.HasIterVar2() {
			inner = append(inner, c.IterVar2())
		}
		for _, part := range []ast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			l.lower(part, inner)
		}
		l.wrap(c.IterRange(), fnItems)
	case ast.StructKind:
		l.fail(e, "there are no types to make values of", "")
	case ast.LiteralKind, ast.UnspecifiedExprKind:
	}
}

// follow refuses relations that are not followed.
func (l *lowering) follow(e ast.Expr, p Path) {
	const many = 2
	steps, _ := l.scope.RecordType.Relations(p)
	switch {
	case len(steps) > MaxSteps:
		l.fail(e, fmt.Sprintf("this follows more than %d records, from one to the next", MaxSteps), "in: "+l.src)
	case l.scope.RecordType.childrenIn(p, steps) >= many:
		l.fail(e, "children of children are not read", "in: "+l.src)
	case l.scope.RecordType.ownersField(p):
		l.fail(e, "an owner has kind and id, and no field '"+p[2]+"'", "in: "+l.src+"\nask about record.owner.id; the fields of a contact are read where the contact gets the message, as contact."+p[2])
	}
}

// lowerInPath rewrites the operands of a path that was read as a whole.
func (l *lowering) lowerInPath(e ast.Expr, locals []string) {
	switch e.Kind() {
	case ast.IdentKind:
		l.knows(e, locals)
	case ast.SelectKind:
		l.lowerInPath(e.AsSelect().Operand(), locals)
	default:
		l.lower(e, locals)
	}
}

func (l *lowering) lowerCall(e ast.Expr, locals []string) {
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	fields := make([]string, len(args))
	for i, arg := range args {
		fields[i] = l.fieldIn(arg, locals)
	}
	l.calls[e.ID()] = fields
	if _, ok := l.path(e, locals); ok { // an index by a literal text, which is part of the path
		l.lowerInPath(args[0], locals)
		return
	}
	if call.FunctionName() == fnQuiet && !call.IsMemberFunction() {
		l.quiet(e, args, locals)
		return
	}
	if call.FunctionName() == nameWithin && !call.IsMemberFunction() {
		l.asksWithin = true
		l.within(e, args, locals)
		return
	}
	for _, arg := range args {
		l.lower(arg, locals)
	}
	switch name := call.FunctionName(); name {
	case operators.Equals:
		l.replace(e, fnEqual, args...)
	case operators.NotEquals:
		l.replace(e, fnDiffer, args...)
	case operators.LogicalAnd, operators.LogicalOr:
		for _, arg := range args {
			l.mustBeTruth(arg, locals)
		}
	case operators.Conditional:
		l.mustBeTruth(args[0], locals)
	case "age", "date", "days_until", "days_since", "today":
		if name == "date" {
			l.dateText(args)
		}
		now := l.fac.NewIdent(l.newID(e), "now")
		l.knows(now, nil)
		l.replace(e, name, append(slices.Clone(args), now)...)
	case "matches":
		l.pattern(args)
		try := l.fac.NewCall(l.newID(e), fnMatches, args...)
		if _, constant := textOf(args, 1); !constant {
			try = l.fac.NewCall(l.newID(e), fnMatchesData, append(slices.Clone(args), l.fac.NewIdent(l.newID(e), inputName))...)
		}
		l.calls[try.ID()] = fields
		l.replace(e, fnFound, try)
	default:
		if !call.IsMemberFunction() && l.isOwn(name) {
			l.own(e, name, args)
		}
	}
}

// mustBeTruth wraps an operand of a logical operator unless it can only be true or false.
func (l *lowering) mustBeTruth(e ast.Expr, locals []string) {
	switch e.Kind() {
	case ast.LiteralKind, ast.ComprehensionKind:
		return
	case ast.CallKind:
		if f := l.owns[e.ID()]; f != nil && !l.lenient && f.Gives != Bool && f.Gives != Any {
			l.fail(e, "this must be true or false, and is "+article(f.Gives), "")
		}
		switch e.AsCall().FunctionName() {
		case fnEqual, fnDiffer, fnTruth, fnWithin, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
			operators.In, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse:
			return
		}
	case ast.IdentKind:
		if slices.Contains(locals, e.AsIdent()) { // the accumulator of a macro
			return
		}
	}
	field := l.fieldIn(e, locals)
	l.wrap(e, fnTruth)
	l.calls[e.ID()] = []string{field}
}

// wrap replaces e by a call of a function with e as its operand.
func (l *lowering) wrap(e ast.Expr, function string) {
	inner := l.fac.NewUnspecifiedExpr(l.newID(e))
	inner.SetKindCase(e)
	if fields, ok := l.calls[e.ID()]; ok { // the operands of a wrapped call move with it
		l.calls[inner.ID()] = fields
		delete(l.calls, e.ID())
	}
	if f, ok := l.owns[e.ID()]; ok {
		l.owns[inner.ID()] = f
		delete(l.owns, e.ID())
	}
	l.replace(e, function, inner)
}

// dateText refuses date("2026-13-01") when the definition is read, not at an evaluation.
func (l *lowering) dateText(args []ast.Expr) {
	if text, ok := textOf(args, 0); ok {
		if _, err := civil.ParseDate(text); err != nil {
			l.fail(args[0], err.Error(), "")
		}
	}
}

func (l *lowering) pattern(args []ast.Expr) {
	if text, ok := textOf(args, 1); ok {
		switch _, err := compilePattern(text, maxSource); {
		case errors.Is(err, errPatternTooLarge):
			l.fail(args[1], err.Error(), "")
		case err != nil:
			l.fail(args[1], "this is no regular expression: "+err.Error(), "")
		}
	}
}

func textOf(args []ast.Expr, i int) (string, bool) {
	if i >= len(args) || args[i].Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := args[i].AsLiteral().(types.String)
	return string(text), ok
}

// replace replaces e by a call. It keeps the id and so the place in the text.
func (l *lowering) replace(e ast.Expr, function string, args ...ast.Expr) {
	e.SetKindCase(l.fac.NewCall(e.ID(), function, args...))
}

// newID makes a node id with the place of e in the text.
func (l *lowering) newID(e ast.Expr) int64 {
	l.nextID++
	if at, ok := l.tree.SourceInfo().GetOffsetRange(e.ID()); ok {
		l.tree.SourceInfo().SetOffsetRange(l.nextID, at)
	}
	return l.nextID
}

// knows refuses a name that does not exist at the place of the expression.
func (l *lowering) knows(e ast.Expr, locals []string) {
	name := e.AsIdent()
	if slices.Contains(locals, name) || slices.Contains(l.names, name) {
		return
	}
	if name == "now" {
		l.fail(e, "there is no now here", "")
		return
	}
	if l.err == nil {
		l.fail(e, "undefined name '"+name+"'", l.namely(name))
		l.err.Name = name
	}
}

// namely returns a hint for a name that does not exist: another name, a field, or a text without its quotes.
func (l *lowering) namely(name string) string {
	in, typ := "in: "+l.src+"\n", l.scope.RecordType
	quoted := `a text stands in quotes, "` + name + `"`
	switch strings.ToLower(name) {
	case "none", "nil", "null", "undefined":
		return "write null"
	case "true", "false":
		return "write " + strings.ToLower(name)
	}
	switch {
	case l.scope.Record && typ != nil && typ.Fields[name] != "":
		return "a field of the record is record." + name + `; a text stands in quotes, "` + name + `"`
	case slices.Contains(everything().names(), name):
		return in + "the names here are " + strings.Join(l.names, ", ")
	case suggest.Nearest(name, l.names) != "":
		return suggest.DidYouMean(name, l.names)
	case l.scope.Record && typ == nil:
		return in + quoted + "; a field of the record is record." + name
	case l.scope.Event:
		return in + quoted + "; a field of the event is event." + name
	}
	return in + quoted
}

func (l *lowering) fail(e ast.Expr, message, hint string) {
	if l.err != nil {
		return
	}
	if hint == "" {
		hint = "in: " + l.src + unquoted(message)
	}
	l.err = &Error{Message: message, Hint: hint, Offset: offsetOf(l.src, l.tree.SourceInfo(), e.ID())}
}

// path reads e as a path: a name of the scope with fields and literal indexes. ok is false for any other expression.
func (l *lowering) path(e ast.Expr, locals []string) (Path, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		if slices.Contains(locals, e.AsIdent()) {
			return nil, false
		}
		return Path{e.AsIdent()}, true
	case ast.SelectKind:
		p, ok := l.path(e.AsSelect().Operand(), locals)
		return append(p, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index {
			return nil, false
		}
		step, ok := textOf(call.Args(), 1)
		if !ok {
			return nil, false
		}
		p, ok := l.path(call.Args()[0], locals)
		return append(p, step), ok
	}
	return nil, false
}

// fieldIn returns the path that e is, or the first path inside it. For a macro's variable it is the text of the variable and its
// fields, such as p.status.
func (l *lowering) fieldIn(e ast.Expr, locals []string) string {
	if p, ok := l.path(e, nil); ok {
		return p.String()
	}
	var found string
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(sub ast.Expr) {
		if p, ok := l.path(sub, nil); ok && found == "" && p[0] != "now" {
			found = p.String()
		}
	}))
	return found
}

// read records a path. A name without a field, such as vars or now, is not recorded.
func (l *lowering) read(p Path) {
	for _, known := range l.paths {
		if slices.Equal(known, p) {
			return
		}
	}
	l.paths = append(l.paths, p)
}

// lint refuses, after CEL's check, expressions that CEL's types allow: all numbers have the type dyn, so that only lint finds
// `record.battery_level < "20"`.
func (l *lowering) lint(checked *ast.AST) error {
	ast.PostOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.LiteralKind && holdsZero(e.AsLiteral()) {
			l.fail(e, "a text holds the character U+0000, which no database holds", "")
		}
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == fnOwn {
			l.lintOwn(checked, e)
		}
		if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
			return
		}
		switch e.AsCall().FunctionName() {
		case fnEqual, fnDiffer, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		default:
			return
		}
		a, b := l.kindOf(checked, e.AsCall().Args()[0]), l.kindOf(checked, e.AsCall().Args()[1])
		if a != "" && b != "" && a != b {
			l.fail(e, a+" is compared with "+b, "")
		}
	}))
	if l.err != nil {
		return l.err
	}
	return nil
}

// holdsZero reports whether a literal is a text with U+0000. Inputs have none, so no result has one either: the databases cannot
// store it, and the whole batch would fail.
func holdsZero(v ref.Val) bool {
	text, ok := v.(types.String)
	return ok && strings.IndexByte(string(text), 0) >= 0
}

// kindOf returns the kind of a literal or of a declared field; empty: it is not known.
func (l *lowering) kindOf(checked *ast.AST, e ast.Expr) string {
	if e.Kind() == ast.LiteralKind {
		if isNull(e.AsLiteral()) {
			return ""
		}
		return typeName(e.AsLiteral())
	}
	if p, ok := l.path(e, nil); ok {
		if name, ok := l.scope.RecordType.kindOf(p); ok {
			return name
		}
	}
	if f := l.owns[e.ID()]; f != nil && e.Kind() == ast.CallKind && !l.lenient {
		if f.Gives == Any {
			return ""
		}
		return article(f.Gives)
	}
	return kindOfType(checked.GetType(e.ID()))
}
