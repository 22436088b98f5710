package expr

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// For any record, the quick form of a line has the same result as the interpreter, and the same instant at which time alone changes
// it.
func TestTheQuickFormSaysWhatTheInterpreterSays(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	operands := []string{
		"record.a", "record.b", "record['odd name']", "record.deep.er", "record.list", "3", "2.5", "-1", "'x'", "'3'", "''", "true", "null", "vars.limit", "vars.none", "record.at", "date(record.at)",
		"now", "today()", "age(record.at)", "days_until(record.at)", "days(2)", "minutes(record.a)", "size(record.b)", "-record.a", "now - record.at", "record.a - 1", "record.a / 2", "record.a % 2",
		"duration('1h')", "record.at - days(1)",
	}
	var draw func(t *rapid.T, depth int) string
	draw = func(t *rapid.T, depth int) string {
		value := rapid.SampledFrom(operands)
		switch rapid.IntRange(0, 9).Draw(t, "kind") + 3*min(depth, 2) {
		case 0, 1, 2:
			return "(" + draw(t, depth+1) + rapid.SampledFrom([]string{" && ", " || "}).Draw(t, "op") + draw(t, depth+1) + ")"
		case 3:
			return "!(" + draw(t, depth+1) + ")"
		case 4:
			return value.Draw(t, "x") + " in " + rapid.SampledFrom([]string{"[1, 2.0, 3]", "['x', 'y']", "[3, 'x', true]", "record.list"}).Draw(t, "list")
		case 5:
			return value.Draw(t, "x") + rapid.SampledFrom([]string{".contains('x')", ".startsWith(record.b)", " == record"}).Draw(t, "text")
		case 6:
			return "has(record.deep.er)"
		}
		return value.Draw(t, "x") + rapid.SampledFrom([]string{" == ", " != ", " < ", " <= ", " > ", " >= "}).Draw(t, "op") + value.Draw(t, "y")
	}
	values := []any{
		nil, true, false, "", "x", "3", "2026-05-14", "2026-05-13T09:00:00Z", "2026-05-16T10:00", json.Number("3"), json.Number("2.50"), json.Number("1e400"), json.Number("9007199254740993"),
		[]any{"x", json.Number("3")},
		[]any{},
		map[string]any{"er": "x"},
		map[string]any{"er": map[string]any{}},
	}
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	lines, fast, met := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		src := draw(t, 0)
		cond, err := c.Line(src, everywhere())
		if err != nil {
			return // the compiler refuses it
		}
		lines++
		for range 5 {
			record := map[string]any{}
			for _, name := range []string{"a", "b", "odd name", "deep", "list", "at"} {
				if rapid.IntRange(0, 5).Draw(t, "there") > 0 {
					record[name] = rapid.SampledFrom(values).Draw(t, name)
				}
			}
			in := Input{Record: record, Vars: map[string]any{"limit": json.Number("3")}, Now: now}
			want := cond.Judge(in).Met
			wantAt, wantExact := cond.NextChange(in)
			given := in
			got, at, exact := cond.Watch(&given, 1000)
			if got != want || !at.Equal(wantAt) || exact != wantExact {
				t.Fatalf("%s of %v: got %t, next %s, exact %t; want %t, %s, %t", src, record, got, at, exact, want, wantAt, wantExact)
			}
			if _, ok := cond.line.holdsQuickly(&in, 1000); ok {
				fast++
			}
			if want {
				met++
			}
		}
	})
	if lines < 50 || fast < lines || met < lines/5 {
		t.Errorf("of %d lines with 5 records each %d took the quick form and %d were met: this shows nothing", lines, fast, met)
	}
	cond, err := c.Line("record.a == 'x'", everywhere())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := cond.line.holdsQuickly(&Input{}, CostLimit*4); ok {
		t.Error("a record whose reading may cost more than the limit is read by the quick form")
	}
	for _, src := range []string{"record.a + record.b == 'xx'", "record.list.exists(x, x == 1)", "record.b.matches('^x')", "record.list[0] == 1", "contact.name == 'x'", "lower(record.b) == 'x'", "record.a ? true : false"} {
		if cond, err := c.Line(src, everywhere()); err != nil || cond.line.quick != nil {
			t.Errorf("%s has a quick form, or is refused: %v", src, err)
		}
	}
}
