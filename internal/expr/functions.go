package expr

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The functions that the lowering inserts: for == and !=, which CEL does not allow to extend, and around operands that must be true
// or false. No expression can contain these names.
const (
	fnEqual  = "@equal"
	fnDiffer = "@differ"
	fnTruth  = "@truth"
	// fnMatches replaces matches(text, pattern), because CEL's optimizer treats a function of that name specially.
	fnMatches = "@matches"
	// fnMatchesData is fnMatches with a pattern from the data: @matches_data(text, pattern, @input).
	fnMatchesData = "@matches_data"
	fnFound       = "@found"
	// fnItems is put around the list of a macro, so that the list is charged for.
	fnItems = "@items"
)

// forever is the age of null. It is longer than any other length of time (product decision 19).
const forever = time.Duration(math.MaxInt64)

// newEnv declares the language. Only the logical operators, indexing and the macros are CEL's own. Everything else has a binding of
// this package, because CEL's bindings do not accept null or mixed numbers.
func newEnv(b *bindings) (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{IncludeFunctions: []*env.Function{
			env.NewFunction(operators.LogicalAnd), env.NewFunction(operators.LogicalOr),
			env.NewFunction(operators.Conditional), env.NewFunction(operators.Index),
			env.NewFunction(operators.NotStrictlyFalse),
		}})),
		cel.CustomTypeAdapter(adapter{}),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ParserRecursionLimit(maxNesting),
		cel.ParserErrorRecoveryLimit(4),
	}
	opts = append(opts, variables()...)
	return cel.NewCustomEnv(append(opts, b.functions()...)...)
}

// functions lists every operator and function with its operands.
func (b *bindings) functions() []cel.EnvOption {
	var (
		i, f, s, o = cel.IntType, cel.DoubleType, cel.StringType, cel.BoolType
		t, d       = cel.TimestampType, cel.DurationType
		a          = cel.TypeParamType("A")
		list       = cel.ListType(a)
		objects    = cel.MapType(s, cel.DynType)
	)
	order := []signature{
		{in: []*cel.Type{i, i}, out: o},
		{in: []*cel.Type{f, f}, out: o},
		{in: []*cel.Type{i, f}, out: o},
		{in: []*cel.Type{f, i}, out: o},
		{in: []*cel.Type{s, s}, out: o},
		{in: []*cel.Type{t, t}, out: o},
		{in: []*cel.Type{d, d}, out: o},
	}
	numeric := func(whole *cel.Type, more ...signature) []signature {
		return append([]signature{
			{in: []*cel.Type{i, i}, out: whole}, {in: []*cel.Type{f, f}, out: f}, {in: []*cel.Type{i, f}, out: f}, {in: []*cel.Type{f, i}, out: f},
		}, more...)
	}
	same := []signature{{in: []*cel.Type{cel.DynType, cel.DynType}, out: o}} // lint checks the kinds
	texts := []signature{{in: []*cel.Type{s, s}, out: o}, {in: []*cel.Type{s, s}, out: o, member: true}}
	ordered := func(holds func(order int) bool) binary {
		op := func(x, y ref.Val) ref.Val {
			order, bad := compare(x, y)
			if bad != nil {
				return bad
			}
			return types.Bool(holds(order))
		}
		return func(x, y ref.Val) ref.Val { return compared(x, y, op) }
	}
	calculated := func(op byte) binary {
		return func(x, y ref.Val) ref.Val {
			if watcher(x, y) != nil {
				return moved(op, x, y)
			}
			return arithmetic(op, x, y)
		}
	}
	ofNow := func(out *cel.Type) []signature {
		return []signature{{in: []*cel.Type{t, t}, out: out}, {in: []*cel.Type{s, t}, out: out}}
	}
	number := func(out *cel.Type) []signature {
		return []signature{{in: []*cel.Type{i}, out: out}, {in: []*cel.Type{f}, out: out}}
	}
	return []cel.EnvOption{
		b.binary(fnEqual, func(x, y ref.Val) ref.Val { return compared(x, y, equals) }, same...),
		b.binary(fnDiffer, func(x, y ref.Val) ref.Val { return !compared(x, y, equals).(types.Bool) }, same...),
		b.binary(operators.Less, ordered(func(o int) bool { return o < 0 }), order...),
		b.binary(operators.LessEquals, ordered(func(o int) bool { return o <= 0 }), order...),
		b.binary(operators.Greater, ordered(func(o int) bool { return o > 0 }), order...),
		b.binary(operators.GreaterEquals, ordered(func(o int) bool { return o >= 0 }), order...),
		b.binary(operators.Add, calculated('+'), numeric(i,
			signature{in: []*cel.Type{s, s}, out: s}, signature{in: []*cel.Type{list, list}, out: list},
			signature{in: []*cel.Type{t, d}, out: t}, signature{in: []*cel.Type{d, t}, out: t}, signature{in: []*cel.Type{d, d}, out: d})...),
		b.binary(operators.Subtract, calculated('-'), numeric(i,
			signature{in: []*cel.Type{t, d}, out: t}, signature{in: []*cel.Type{t, t}, out: d}, signature{in: []*cel.Type{d, d}, out: d})...),
		b.binary(operators.Multiply, calculated('*'), numeric(i)...),
		b.binary(operators.Divide, calculated('/'), numeric(cel.DynType)...),
		b.binary(operators.Modulo, calculated('%'), numeric(i)...),
		b.binary(operators.In, contained, signature{in: []*cel.Type{cel.DynType, cel.ListType(cel.DynType)}, out: o}, signature{in: []*cel.Type{s, objects}, out: o}),
		b.unary(operators.Negate, negate, append(number(i)[:1:1], signature{in: []*cel.Type{f}, out: f}, signature{in: []*cel.Type{d}, out: d})...),
		b.unary(operators.LogicalNot, not, signature{in: []*cel.Type{o}, out: o}),
		b.unary(fnTruth, truth, signature{in: []*cel.Type{o}, out: o}),

		b.binary("contains", onTexts(strings.Contains), texts...),
		b.binary("startsWith", onTexts(strings.HasPrefix), texts...),
		b.binary("endsWith", onTexts(strings.HasSuffix), texts...),
		b.binary(fnMatches, matches, signature{in: []*cel.Type{s, s}, out: cel.DynType}),
		cel.Function(fnMatchesData, cel.Overload(fnMatchesData, []*cel.Type{s, s, cel.DynType}, cel.DynType), cel.SingletonFunctionBinding(matchesData)),
		cel.Function(fnWithin, cel.Overload(fnWithin, []*cel.Type{cel.DynType, cel.DynType, cel.DynType}, o), cel.SingletonFunctionBinding(inPlace)),
		b.unary(fnFound, found, signature{in: []*cel.Type{cel.DynType}, out: o}),
		cel.Function(fnItems, append(overloadsOf(fnItems, []signature{{in: []*cel.Type{list}, out: list}, {in: []*cel.Type{objects}, out: objects}}),
			cel.SingletonUnaryBinding(func(x ref.Val) ref.Val { return x }))...),
		b.unary("lower", onText(strings.ToLower), signature{in: []*cel.Type{s}, out: s}, signature{in: []*cel.Type{s}, out: s, member: true}),
		b.unary("trim", onText(strings.TrimSpace), signature{in: []*cel.Type{s}, out: s}, signature{in: []*cel.Type{s}, out: s, member: true}),
		b.unary("size", size, signature{in: []*cel.Type{s}, out: i}, signature{in: []*cel.Type{list}, out: i}, signature{in: []*cel.Type{objects}, out: i},
			signature{in: []*cel.Type{s}, out: i, member: true}, signature{in: []*cel.Type{list}, out: i, member: true}),

		b.unary("days", length(24*time.Hour), number(d)...),
		b.unary("hours", length(time.Hour), number(d)...),
		b.unary("minutes", length(time.Minute), number(d)...),
		b.unary(overloads.TypeConvertDuration, duration, signature{in: []*cel.Type{s}, out: d}),
		b.binary("age", age, ofNow(d)...),
		b.binary("date", date, ofNow(t)...),
		b.binary("days_until", daysUntil, ofNow(i)...),
		b.binary("days_since", func(x, now ref.Val) ref.Val { return negate(daysUntil(x, now)) }, ofNow(i)...),
		b.unary("today", today, signature{in: []*cel.Type{t}, out: t}),
		b.ownFunction(),
		b.binary("shifted", shifted, signature{in: []*cel.Type{t, s}, out: t}, signature{in: []*cel.Type{s, s}, out: t}),
	}
}

type (
	unary  = func(ref.Val) ref.Val
	binary = func(a, b ref.Val) ref.Val
)

// signature is one combination of operands that the check accepts.
type signature struct {
	in     []*cel.Type
	out    *cel.Type
	member bool // x.f(y) instead of f(x, y)
}

// bindings are the implementations of operators and functions.
type bindings struct {
	one map[string]unary
	two map[string]binary
	own map[string]*Function // of a binary of one's own, by name
}

// builtIn reports whether a name is that of a function or a macro of the language.
func (b *bindings) builtIn(name string) bool {
	return b.one[name] != nil || b.two[name] != nil || slices.Contains(functionNames(), name)
}

// register adds a function of a binary of one's own.
func (b *bindings) register(f *Function) error {
	switch {
	case !isName(f.Name):
		return fmt.Errorf("%q cannot be the name of a function of expressions: it has letters, digits and _, and begins with a letter", f.Name)
	case b.builtIn(f.Name) || slices.Contains(everything().names(), f.Name):
		return fmt.Errorf("%s is a name of expressions already: register the function under another name", f.Name)
	case b.own[f.Name] != nil:
		return fmt.Errorf("two functions of expressions are named %s", f.Name)
	case len(f.Takes) > MaxArguments:
		return fmt.Errorf("the function %s takes %d values, and at most %d are possible", f.Name, len(f.Takes), MaxArguments)
	}
	b.own[f.Name] = f
	return nil
}

func (b *bindings) binary(name string, bind binary, sigs ...signature) cel.EnvOption {
	of := liftBinary(name, bind)
	b.two[name] = of
	return cel.Function(name, append(overloadsOf(name, sigs), cel.SingletonBinaryBinding(of))...)
}

func (b *bindings) unary(name string, bind unary, sigs ...signature) cel.EnvOption {
	of := liftUnary(name, bind)
	b.one[name] = of
	return cel.Function(name, append(overloadsOf(name, sigs), cel.SingletonUnaryBinding(of))...)
}

func overloadsOf(name string, sigs []signature) []cel.FunctionOpt {
	var opts []cel.FunctionOpt
	for _, sig := range sigs {
		id := name
		for _, in := range sig.in {
			id += "_" + in.String()
		}
		if sig.member {
			opts = append(opts, cel.MemberOverload("member_"+id, sig.in, sig.out))
		} else {
			opts = append(opts, cel.Overload(id, sig.in, sig.out))
		}
	}
	return opts
}

// contained is `x in list`. A missing list contains nothing.
func contained(x, in ref.Val) ref.Val {
	switch in := in.(type) {
	case absent, types.Null:
		return types.False
	case traits.Lister:
		for it := in.Iterator(); it.HasNext() == types.True; {
			if compared(x, it.Next(), equals) == types.True {
				return types.True
			}
		}
		return types.False
	case traits.Mapper:
		return in.Contains(x)
	}
	return types.NewErr("%s is no list", typeName(in))
}

func negate(x ref.Val) ref.Val {
	switch x := x.(type) {
	case *moving:
		return turned(x)
	case types.Int:
		return calculate('-', types.IntZero, x)
	case types.Double:
		return -x
	case types.Duration:
		return types.Duration{Duration: -x.Duration}
	case *types.Err:
		return x
	}
	if isNull(x) {
		return missing(0)
	}
	return types.NewErr("%s has no negative", typeName(x))
}

func not(x ref.Val) ref.Val {
	x = truth(x)
	if b, ok := x.(types.Bool); ok {
		return !b
	}
	return x
}

// truth returns an error for a value that is neither true nor false.
func truth(x ref.Val) ref.Val {
	if _, ok := x.(types.Bool); ok {
		return x
	}
	if isNull(x) {
		return missing(0)
	}
	return types.NewErr("must be true or false, and is %s", typeName(x))
}

func onTexts(holds func(s, part string) bool) binary {
	return func(x, y ref.Val) ref.Val {
		if i := firstNull(x, y); i >= 0 {
			return missing(i)
		}
		s, okS := x.(types.String)
		part, okPart := y.(types.String)
		if !okS || !okPart {
			return types.NewErr("%s and %s are not two texts", typeName(x), typeName(y))
		}
		return types.Bool(holds(string(s), string(part)))
	}
}

func onText(change func(string) string) unary {
	return func(x ref.Val) ref.Val {
		if s, ok := x.(types.String); ok {
			return types.String(change(string(s)))
		}
		if isNull(x) {
			return missing(0)
		}
		return types.NewErr("%s is no text", typeName(x))
	}
}

// size counts characters, items or fields. The size of a missing value is 0.
func size(x ref.Val) ref.Val {
	switch x := x.(type) {
	case absent, types.Null:
		return types.IntZero
	case types.String:
		return types.Int(utf8.RuneCountInString(string(x)))
	case traits.Sizer:
		return x.Size()
	}
	return types.NewErr("%s has no size", typeName(x))
}

// length returns a function such as days(3). A day is 24 hours, which on dates is a calendar day (docs/reference/definitions.md, Values).
func length(unit time.Duration) unary {
	return func(n ref.Val) ref.Val {
		if isNull(n) {
			return missing(0)
		}
		if !isNumber(n) {
			return types.NewErr("%s is no number", typeName(n))
		}
		total := float(n) * float64(unit)
		if math.Abs(total) >= float64(forever) {
			return types.NewErr("the length of time is too long")
		}
		if i, whole := n.(types.Int); whole {
			return types.Duration{Duration: time.Duration(i) * unit}
		}
		return types.Duration{Duration: time.Duration(total)}
	}
}

func duration(x ref.Val) ref.Val {
	if d, ok := x.(types.Duration); ok {
		return d
	}
	s, ok := x.(types.String)
	if !ok {
		if isNull(x) {
			return missing(0)
		}
		return types.NewErr("%s is no length of time", typeName(x))
	}
	d, err := time.ParseDuration(string(s))
	if err != nil {
		return types.NewErr("%q is no length of time: write days(2), hours(4) or minutes(5)", clip(string(s)))
	}
	return types.Duration{Duration: d}
}

// age returns how long ago x was, in calendar days if x is a date. The age of null is longer than any other.
func age(x, now ref.Val) ref.Val {
	if isNull(x) {
		return types.Duration{Duration: forever}
	}
	t, ok := asTime(x)
	if !ok {
		return types.NewErr("%s is no time", typeName(x))
	}
	if watcher(now) != nil {
		return moved('-', now, t)
	}
	n, then, _ := onOneClock(now, t)
	return types.Duration{Duration: n.Sub(then)}
}

// today returns the date in the zone of now.
func today(now ref.Val) ref.Val {
	if w := watcher(now); w != nil {
		return w.moving(movingTime{today: true})
	}
	return midnight(now.(types.Timestamp).Time)
}

func midnight(t time.Time) local {
	y, m, d := t.Date()
	return local{time.Date(y, m, d, 0, 0, 0, 0, time.UTC)}
}

// date returns the calendar day of x in the zone of now.
func date(x, now ref.Val) ref.Val {
	if isNull(x) {
		return missing(0)
	}
	t, ok := asTime(x)
	if !ok {
		return types.NewErr("%s is no date", typeName(x))
	}
	if l, ok := t.(local); ok {
		return midnight(l.wall)
	}
	return midnight(t.(types.Timestamp).In(still(now).(types.Timestamp).Location()))
}

func daysUntil(x, now ref.Val) ref.Val {
	d, ok := date(x, now).(local)
	if !ok {
		return date(x, now)
	}
	if w := watcher(now); w != nil {
		return w.moving(movingDays{date: d.wall})
	}
	return types.Int(d.wall.Sub(midnight(now.(types.Timestamp).Time).wall) / (24 * time.Hour))
}
