package expr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/reason"
)

// bounded evaluates src over a record.
func bounded(t testing.TB, src string, record map[string]any) Verdict {
	t.Helper()
	c, err := NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	cond, err := c.Line(src, Scope{Record: true, Now: true})
	if err != nil {
		t.Fatal(err)
	}
	return cond.Judge(Input{Record: record})
}

// Patterns from data are bounded before they are compiled, and charged for before they run.
// Shows: reliability 40.
func TestPatternsFromData(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60_000)
	for name, c := range map[string]struct {
		text    string
		pattern any
		want    reason.Reason
		detail  string
	}{
		"ordinary":             {"order 12", `^order \d+$`, "", ""},
		"ordinary, folded":     {"Größe", `(?i)^GRÖßE$`, "", ""},
		"letters of a script":  {"مرحبا", `^[ا-ي]+$`, "", ""},
		"a class of Unicode":   {"abc", `^\pL+$`, "", ""},
		"as long as may be":    {strings.Repeat("x", 1024), strings.Repeat("x", 1024), reason.CostExceeded, ""},
		"in a long text":       {long + "y", `xy$`, "", ""},
		"no pattern":           {"x", `(`, reason.ConditionFalse, "missing closing"},
		"a number":             {"5", 5, reason.ConditionFalse, "a number is no pattern"},
		"true":                 {"true", true, reason.ConditionFalse, "true or false is no pattern"},
		"nothing":              {"x", nil, reason.ValueMissing, ""},
		"too long":             {"x", strings.Repeat("x", 1025), reason.ExpressionFailed, "1024 bytes"},
		"a large program":      {"x", strings.Repeat("x{1000}", 3), reason.ExpressionFailed, "too large"},
		"nested repetitions":   {"x", `((x{0,10}){0,10}){0,10}(x{0,99}){0,10}`, reason.ExpressionFailed, "too large"},
		"wide ranges, folded":  {"x", `(?i)[` + strings.Repeat(`B-\x{1E942}`, 40) + `]`, reason.ExpressionFailed, "too large"},
		"many classes":         {"x", `[` + strings.Repeat(`\pL`, 300) + `]`, reason.ExpressionFailed, "too large"},
		"classes, repeated":    {"x", `(\pL){300}`, reason.ExpressionFailed, "too large"},
		"much text":            {long + long, `(x+x+)+y`, reason.CostExceeded, ""},
		"much text, and empty": {long, strings.Repeat("x?", 500) + "y", reason.CostExceeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := bounded(t, `matches(record.text, record.pattern)`, map[string]any{"text": c.text, "pattern": c.pattern})
			if v.Reason != c.want || v.Met != (c.want == "") || !strings.Contains(v.Clauses[0].Detail, c.detail) {
				t.Errorf("got %t %q %.100q, want %q %q", v.Met, v.Reason, v.Clauses[0].Detail, c.want, c.detail)
			}
			if strings.Contains(v.Clauses[0].Detail, "xxxxxxxxxxxxxxxxxxxx") {
				t.Errorf("the detail repeats the data: %.200s", v.Clauses[0].Detail)
			}
		})
	}
}

// What is no text is an error before any pattern, also before one that is none.
func TestNoTextBesideNoPattern(t *testing.T) {
	t.Parallel()
	if v := bounded(t, `matches(record.text, record.pattern)`, map[string]any{"text": 5, "pattern": 5}); v.Met || v.Reason != reason.ExpressionFailed {
		t.Errorf("got %t %q", v.Met, v.Reason)
	}
	v := bounded(t, `matches(record.text, record.pattern) == false`, map[string]any{"text": "5", "pattern": 5})
	if !v.Met {
		t.Errorf("got %t %q", v.Met, v.Reason)
	}
}

// Patterns of the definition are compiled once; a program that is too large is refused with the definition.
func TestPatternsOfTheDefinition(t *testing.T) {
	t.Parallel()
	c, err := NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for pattern, message := range map[string]string{
		`(x{1000}){1}` + strings.Repeat("x{1000}", 3): "this regular expression is too large",
		`(`: "this is no regular expression",
	} {
		if _, err := c.Line(fmt.Sprintf("matches(record.a, %q)", pattern), Scope{Record: true}); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
	if v := bounded(t, `matches(record.a, "(x+x+)+y")`, map[string]any{"a": strings.Repeat("x", 200_000)}); v.Reason != reason.CostExceeded {
		t.Errorf("got %t %q", v.Met, v.Reason)
	}
}

// All work of an evaluation is charged, also work that the expression does not show. Each of these stops at the limit.
// Shows: reliability 40.
func TestHiddenWorkIsCharged(t *testing.T) {
	t.Parallel()
	many := make([]any, 10_000)
	fields := map[string]any{}
	for i := range many {
		many[i] = json.Number("1")
		fields[fmt.Sprint("field", i)] = "x"
	}
	record := map[string]any{
		"many": many, "a": []any{many}, "b": []any{many}, "fields": fields, "wrapped": map[string]any{"in": fields}, "again": map[string]any{"in": fields},
		"digits": json.Number(strings.Repeat("1", 100_000)), "long": strings.Repeat("x", 100_000), "patterns": []any{strings.Repeat("x", 900)},
	}
	for src, want := range map[string]reason.Reason{
		`record.many.all(x, record.a == record.b)`:                                reason.CostExceeded,
		`record.many.all(x, record.wrapped == record.again)`:                      reason.CostExceeded,
		`record.many.all(x, !(record.many in record.b && x == 2))`:                reason.CostExceeded,
		`record.many.all(x, record.fields.exists(f, true))`:                       reason.CostExceeded,
		`record.many.all(x, record.patterns.exists(p, matches("y", p)) == false)`: reason.CostExceeded,
		`record.many.all(x, x < record.digits)`:                                   reason.ExpressionFailed,
		`record.many.all(x, record.fields[record.long] == null)`:                  reason.ExpressionFailed,
		`record.many.all(x, record.long + record.long != "")`:                     reason.CostExceeded,
		`record.many.all(x, lower(record.long) != "")`:                            reason.CostExceeded,
		`record.many.all(x, now != record.long)`:                                  "",
		`record.many.all(x, record.a != null)`:                                    "",
		`record.many.all(x, x == 1)`:                                              "",
		`record.fields.all(f, record.fields[f] == "x")`:                           "",
	} {
		t.Run(src, func(t *testing.T) {
			t.Parallel()
			if v := bounded(t, src, record); v.Reason != want {
				t.Errorf("got %q %.100q, want %q", v.Reason, v.Clauses[0].Detail, want)
			}
		})
	}
}
