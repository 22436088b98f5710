package expr

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Function is a function of a binary of one's own that expressions call by its name (docs/how-to/own-binary.md).
type Function struct {
	Name  string
	Takes []Type // of the arguments; an argument of the type Any may be null
	Gives Type
	// Call computes the result. The arguments are JSON values that belong to the function: bool, float64, string, []any and map[string]any,
	// and nil. It returns within a bounded time, at once when stop is closed, and does not panic; package function makes it so.
	Call func(args []any, stop <-chan struct{}) (any, error)
}

// MaxArguments bounds the arguments of a function.
const MaxArguments = 8

// functionCost is what a call of a function costs, besides its arguments, whatever it does: an evaluation makes up to 49 calls.
const functionCost = 2_000

const (
	// fnOwn calls a function of a binary of one's own: @own(@input, name, text of the call, arguments…). Any name compiles to it, so that
	// definitions in force can be compiled by a binary that lacks a function: the evaluation fails then.
	fnOwn = "@own"
	// inputName is the variable that leads a call to its Input.
	inputName = "@input"
	// ownOperands are the operands of fnOwn before the arguments.
	ownOperands = 3
)

// inputRef is the Input of an evaluation as an operand.
type inputRef struct {
	types.Bool // an operand has a type; it is never read
	*Input
}

// Value implements ref.Val.
func (r inputRef) Value() any { return r.Input }

// noted keeps a remark for the explanation of the line, if it is to be explained.
func (in *Input) noted(r remark) {
	if in.judged {
		in.remarks = append(in.remarks, r)
	}
}

// remark is something about an evaluation that explains its line: the result of a function, or why a pattern from the data is none.
type remark struct {
	Reading
	detail string
}

// isOwn reports whether a name is that of a function of a binary of one's own, registered or not.
func (l *lowering) isOwn(name string) bool {
	if l.functions[name] != nil {
		return true
	}
	return l.lenient && isName(name) && !l.builtIn(name)
}

// own rewrites the call of a function of a binary of one's own. Its arguments are lowered already.
func (l *lowering) own(e ast.Expr, name string, args []ast.Expr) {
	f := l.functions[name]
	if f != nil && !l.lenient && len(args) != len(f.Takes) {
		l.fail(e, fmt.Sprintf("%s takes %s, and gets %d", name, counted(len(f.Takes), "value"), len(args)), "")
		return
	}
	if len(args) > MaxArguments {
		l.fail(e, fmt.Sprintf("a function takes at most %d values", MaxArguments), "")
		return
	}
	written := make([]string, len(args))
	for i, arg := range args {
		written[i] = "…"
		if p, ok := l.path(arg, nil); ok {
			written[i] = p.String()
		}
	}
	l.owns[e.ID()] = f
	text := name + "(" + strings.Join(written, ", ") + ")"
	operands := []ast.Expr{
		l.fac.NewIdent(l.newID(e), inputName), l.fac.NewLiteral(l.newID(e), types.String(name)), l.fac.NewLiteral(l.newID(e), types.String(text)),
	}
	l.replace(e, fnOwn, append(operands, args...)...)
}

// lintOwn refuses arguments of another kind than the function takes, as far as that is known.
func (l *lowering) lintOwn(checked *ast.AST, e ast.Expr) {
	f := l.owns[e.ID()]
	if f == nil || l.lenient {
		return
	}
	for i, arg := range e.AsCall().Args()[ownOperands:] {
		want := f.Takes[i]
		kind := l.kindOf(checked, arg)
		if kind == "" || want == Any || kind == article(want) || want == Time && kind == "a text" {
			continue
		}
		l.fail(arg, fmt.Sprintf("value %d of %s must be %s, and is %s", i+1, f.Name, article(want), kind), "")
	}
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}

// ownFunction declares fnOwn.
func (b *bindings) ownFunction() cel.EnvOption {
	var opts []cel.FunctionOpt
	for n := range MaxArguments + 1 {
		in := []*cel.Type{cel.DynType, cel.StringType, cel.StringType}
		for range n {
			in = append(in, cel.DynType)
		}
		opts = append(opts, cel.Overload(fmt.Sprint(fnOwn, n), in, cel.DynType))
	}
	return cel.Function(fnOwn, append(opts, cel.SingletonFunctionBinding(b.callOwn))...)
}

// callOwn checks the arguments of a call, makes it, and checks its result.
func (b *bindings) callOwn(operands ...ref.Val) ref.Val {
	in, ok := operands[0].(inputRef)
	if !ok {
		return types.NewErr("there is no input")
	}
	name, text := string(operands[1].(types.String)), string(operands[2].(types.String))
	f, args := b.own[name], operands[ownOperands:]
	switch {
	case f == nil:
		return types.NewErr("there is no function %s in this program", name)
	case len(args) != len(f.Takes):
		return types.NewErr("%s takes %s, and gets %d", name, counted(len(f.Takes), "value"), len(args))
	}
	given, size := make([]any, len(args)), uint64(0)
	for i, arg := range args {
		if m, moves := arg.(*moving); moves {
			arg = m.watch.giveUp(m.Val)
		}
		if size += deepWeight(arg, CostLimit); size > CostLimit {
			return types.NewErr("the values for %s are too large", name)
		}
		v, bad := argument(f, i, arg, in.Zone)
		if bad != nil {
			return bad
		}
		given[i] = v
	}
	out, err := in.call(f, given)
	if err != nil {
		return types.WrapErr(fmt.Errorf("%s: %w", name, err))
	}
	result := resultOf(f, out)
	if in.judged && !types.IsError(result) {
		in.noted(remark{Reading: Reading{Field: text, Value: export(result)}})
	}
	return result
}

// argument returns a value for a function as a JSON value, or an error.
func argument(f *Function, i int, v ref.Val, zone *time.Location) (given any, bad ref.Val) {
	want := f.Takes[i]
	if isNull(v) {
		if want == Any {
			return nil, nil
		}
		return nil, missing(i)
	}
	if r, ok := v.(related); ok && want == Object {
		if r.fields == nil {
			return nil, missing(i)
		}
		return jsonOf(map[string]any(r.fields)), nil
	}
	v = plain(v)
	ok := true
	switch want {
	case Bool:
		_, ok = v.(types.Bool)
	case Number:
		ok = isNumber(v)
	case Text:
		_, ok = v.(types.String)
	case List:
		_, ok = v.(traits.Lister)
	case Object:
		_, ok = v.(traits.Mapper)
	case Time:
		var t ref.Val
		if t, ok = asTime(v); ok {
			in := Input{Zone: zone}
			if l, isLocal := t.(local); isLocal && !l.wall.Equal(l.wall.Truncate(24*time.Hour)) {
				t = instant(in.resolve(l.wall))
			}
			v = t
		}
	case Any:
	}
	if !ok {
		return nil, types.NewErr("value %d of %s must be %s, and is %s", i+1, f.Name, article(want), typeName(v))
	}
	return jsonOf(export(v)), nil
}

// jsonOf copies a value to JSON values as package encoding/json makes them: numbers are float64, an instant is a text as RFC 3339 has it, a
// date is 2026-06-01, a length of time is a number of seconds, and a record that another one names is its id.
func jsonOf(value any) any {
	switch v := value.(type) {
	case nil, bool, string, float64:
		return v
	case json.Number:
		return jsonOf(number(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			out[name] = jsonOf(field)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = jsonOf(item)
		}
		return out
	case []string:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = item
		}
		return out
	case Related:
		return v.ID
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case time.Duration:
		return v.Seconds()
	case fmt.Stringer: // a date
		return v.String()
	}
	switch v := adapt(value).(type) {
	case types.Int:
		return float64(v)
	case types.Double:
		return float64(v)
	case types.String:
		return string(v)
	}
	return nil // a number that cannot be computed with
}

// resultOf returns what a function gave as a value of its type, or an error.
func resultOf(f *Function, out any) ref.Val {
	v, ok := resultValue(out, true)
	switch {
	case isNull(v):
		return v
	case !ok:
		return types.NewErr("%s gave a value that is no JSON value", f.Name)
	}
	switch f.Gives {
	case Bool:
		_, ok = v.(types.Bool)
	case Number:
		ok = isNumber(v)
	case Text:
		_, ok = v.(types.String)
	case List:
		_, ok = v.(traits.Lister)
	case Time:
		v, ok = timeOf(v)
	case Any, Object:
	}
	if !ok {
		return types.NewErr("%s must give %s, and gave %s", f.Name, article(f.Gives), KindOf(out))
	}
	return v
}

func timeOf(v ref.Val) (ref.Val, bool) {
	if t, ok := asTime(v); ok {
		return t, true
	}
	return v, false
}

// resultValue reads what a function gave; ok is false if it cannot be the value of an expression.
func resultValue(out any, lists bool) (v ref.Val, ok bool) {
	switch x := out.(type) {
	case nil:
		return absent{}, true
	case int32:
		return types.Int(x), true
	case float32:
		return resultValue(float64(x), false)
	case string:
		return types.String(x), strings.IndexByte(x, 0) < 0 // no database holds U+0000
	case float64:
		return types.Double(x), !math.IsNaN(x) && !math.IsInf(x, 0)
	case bool, int, int64, time.Time:
		return adapt(x), true
	case []string:
		items := make([]any, len(x))
		for i, item := range x {
			items[i] = item
		}
		return resultValue(items, lists)
	case []any:
		for _, item := range x {
			if _, ok := resultValue(item, false); !ok || !lists {
				return absent{}, false
			}
		}
		return types.NewDynamicList(adapter{}, x), true
	}
	return types.False, false
}
