package expr

import (
	"regexp/syntax"
	"testing"

	"cel.dev/cel-go/common/types"
)

// FuzzPattern: the computed size of every accepted pattern is at least that of its compiled program.
// Shows: reliability 40.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{
		`^a|b$`, `(?i)[a-z]+\d{2,7}`, `(x{0,30}){0,30}y`, `((a?){3}|(b*)+){4,}`, `\pL{3}[^x]`, `(?s).{5}?(?P<id>\w)\b`, `(a|ab|abc){2}`, `(?i)größe|maß`, `[[:alpha:]]{9}$`, `(){1000}`, `x{0}`, `(?:)`,
	} {
		f.Add(p, "text")
	}
	f.Fuzz(func(t *testing.T, p, text string) {
		found, err := compilePattern(p, maxPattern)
		if err != nil {
			return
		}
		parsed, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := uint64(len(prog.Inst)); n > found.steps || found.steps > maxProgram {
			t.Errorf("%q has %d instructions, and was taken for %d", p, n, found.steps)
		}
		call := &attempt{pattern: found, text: text}
		if paid := *(costs{}).CallCost(fnMatches, "", nil, call); paid < uint64(len(text)*len(prog.Inst))/10 {
			t.Errorf("%q on %d bytes costs %d", p, len(text), paid)
		}
		if _, ok := call.run().(types.Bool); !ok {
			t.Errorf("%q has no answer", p)
		}
	})
}
