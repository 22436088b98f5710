package expr

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// The time of a regular expression grows with the length of the text times the size of the compiled program. Compiling a short
// pattern may take long: x{1000} is seven bytes. So the size of the program is computed from the parsed pattern before it is
// compiled, and matches(text, pattern) becomes two calls:
//
//	@matches(text, pattern)   compiles the pattern, and is charged for that and for the match
//	@found(attempt)           runs it, if the cost limit is not reached
//
// The pattern of a definition is compiled once, with the expression.

const (
	// maxPattern bounds a pattern from data, in bytes: ten times a pattern that a person writes.
	maxPattern = 1024
	// maxProgram bounds the instructions of a compiled pattern: a word of 2,000 letters, or x{1000} twice. Such a pattern
	// compiles within a millisecond.
	maxProgram = 2000
	// Compiling an instruction, or 16 ranges of a class, takes as long as about ten steps of an evaluation (measured).
	compileCost    = 10
	rangesOfAnItem = 16
	// Parsing a class of Unicode, such as \pL, takes up to 0.2 ms, and folding the case of a wide range up to 4 ms (measured). The
	// costs allow 25 classes and 2 such ranges.
	classCost   = 4_000
	foldCost    = 50_000
	bytesOfCost = 10 // bytes that are read for one unit of the cost
)

var errPatternTooLarge = errors.New("this regular expression is too large")

// pattern is a compiled regular expression.
type pattern struct {
	re    *regexp.Regexp
	steps uint64 // at least the instructions of its program
	cost  uint64 // of compiling it; 0: it was compiled with the definition
}

// compilePattern compiles a pattern of at most limit bytes. Its errors repeat no more of the pattern than Go's errors do.
func compilePattern(text string, limit int) (*pattern, error) {
	if len(text) > limit {
		return nil, fmt.Errorf("the regular expression is longer than %d bytes", limit)
	}
	cost := parseCost(text)
	if cost > CostLimit {
		return nil, errPatternTooLarge
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, plainPatternError(err)
	}
	steps, weight := programSize(parsed)
	if weight > maxProgram {
		return nil, errPatternTooLarge
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, plainPatternError(err)
	}
	return &pattern{re: re, steps: steps, cost: cost + compileCost*weight}, nil
}

// plainPatternError clips the part of the pattern that a message repeats.
func plainPatternError(err error) error {
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return &syntax.Error{Code: bad.Code, Expr: clip(bad.Expr)}
	}
	return err
}

// parseCost returns an upper bound of the cost of parsing a pattern.
func parseCost(text string) uint64 {
	cost := uint64(1 + len(text))
	cost += classCost * uint64(strings.Count(text, `\p`)+strings.Count(text, `\P`))
	if folds(text) && wide(text) {
		cost += foldCost * uint64(strings.Count(text, "-"))
	}
	return cost
}

// folds reports whether a pattern ignores case anywhere: it has a flag i.
func folds(text string) bool {
	for _, group := range strings.Split(text, "(?")[1:] {
		flags := strings.TrimLeft(group, "imsU-")
		if strings.Contains(group[:len(group)-len(flags)], "i") {
			return true
		}
	}
	return false
}

// wide reports whether a range of a pattern may go beyond ASCII: whether the pattern contains such a character, or the number of one.
func wide(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 || text[i] == '\\' && i+1 < len(text) && (text[i+1] == 'x' || '0' <= text[i+1] && text[i+1] <= '7') {
			return true
		}
	}
	return false
}

// programSize returns an upper bound of the instructions to which a parsed pattern compiles, and their weight with the ranges of
// their classes.
func programSize(re *syntax.Regexp) (steps, weight uint64) {
	const own = 2 // instructions at the beginning and the end of a program
	steps, weight = sizeOf(re)
	return steps + own, weight + own
}

func sizeOf(re *syntax.Regexp) (steps, weight uint64) {
	for _, sub := range re.Sub {
		s, w := sizeOf(sub)
		steps, weight = bounded64(steps+s), bounded64(weight+w)
	}
	own := uint64(1)
	switch re.Op {
	case syntax.OpLiteral:
		own = max(1, uint64(len(re.Rune)))
	case syntax.OpCharClass:
		weight += uint64(len(re.Rune)) / rangesOfAnItem
	case syntax.OpCapture:
		own = 2
	case syntax.OpAlternate:
		own = uint64(len(re.Sub))
	case syntax.OpRepeat: // x{2,5} is xx(x(x(x)?)?)?, and x{2,} is xx+
		times := uint64(max(re.Min, re.Max, 1))
		steps, weight, own = bounded64(steps*times), bounded64(weight*times), times
	}
	return bounded64(steps + own), bounded64(weight + own)
}

// bounded64 limits a size, so that it does not overflow when it is multiplied by a repetition of at most 1,000.
func bounded64(n uint64) uint64 { return min(n, 1<<40) }

// attempt is a match that has not run yet: a text and a pattern.
type attempt struct {
	*pattern
	text string
}

// run searches the text for the pattern.
func (a *attempt) run() ref.Val { return types.Bool(a.re.MatchString(a.text)) }

// charge returns the cost of compiling the pattern and of searching the text.
func (a *attempt) charge() uint64 {
	return a.pattern.cost + uint64(len(a.text))*a.steps/bytesOfCost
}

// ConvertToNative implements ref.Val.
func (a *attempt) ConvertToNative(reflect.Type) (any, error) { return a, nil }

// ConvertToType implements ref.Val.
func (a *attempt) ConvertToType(t ref.Type) ref.Val { return noConversion(a, t) }

// Equal implements ref.Val.
func (a *attempt) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(a)) }

// Type implements ref.Val.
func (*attempt) Type() ref.Type { return types.BoolType }

// Value implements ref.Val.
func (a *attempt) Value() any { return a }

// matches compiles a pattern from the data. Constant patterns are compiled by constantPattern.
func matches(x, given ref.Val) ref.Val {
	text, ok := given.(types.String)
	if !ok {
		if isNull(given) {
			return missing(1)
		}
		return types.NewErr("%s is no pattern", typeName(given))
	}
	p, err := compilePattern(string(text), maxPattern)
	if err != nil {
		return types.WrapErr(err)
	}
	return attemptOf(x, p)
}

// matchesData is matches with a pattern from the data. A value that is no pattern matches no text; the explanation of the line says why. A pattern
// that is too large to be tried is an error: nobody knows whether it matches.
func matchesData(operands ...ref.Val) ref.Val {
	if s, many := operands[0].(several); many {
		return s.each(func(v ref.Val) ref.Val { return matchesData(v, operands[1], operands[2]) })
	}
	x, given := plain(operands[0]), plain(operands[1])
	if isNull(x) {
		return missing(0)
	}
	found := matches(x, given)
	failed, _ := found.(*types.Err)
	in, ok := operands[2].(inputRef)
	if _, isText := x.(types.String); failed == nil || !ok || !isText || isNull(given) {
		return found
	}
	_, ofText := given.(types.String)
	var bad *syntax.Error
	if ofText && (!errors.As(failed, &bad) || bad.Code == syntax.ErrLarge || bad.Code == syntax.ErrNestingDepth) {
		return found
	}
	in.noted(remark{detail: failed.Error()})
	return types.False
}

func attemptOf(x ref.Val, p *pattern) ref.Val {
	if s, many := x.(several); many {
		return s.each(func(v ref.Val) ref.Val { return attemptOf(v, p) })
	}
	if isNull(x) {
		return missing(0)
	}
	text, ok := x.(types.String)
	if !ok {
		return types.NewErr("%s is no text", typeName(x))
	}
	return &attempt{pattern: p, text: string(text)}
}

func found(x ref.Val) ref.Val {
	switch x := x.(type) {
	case *attempt:
		return x.run()
	case types.Bool: // the pattern is none
		return x
	}
	return types.NewErr("%s is no match", typeName(x))
}

// constantPattern compiles the pattern of a matches call when the program is made.
func constantPattern() *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function: fnMatches, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
			p, err := compilePattern(text, maxSource)
			if err != nil {
				return nil, err
			}
			p.cost = 0
			return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
				return attemptOf(plain(args[0]), p)
			}), nil
		},
	}
}
