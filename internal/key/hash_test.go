package key

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func lookupIn(values map[string]any) func(string) (any, bool) {
	return func(path string) (any, bool) { v, ok := values[path]; return v, ok }
}

// Shows: C8.
func TestDedupStringTellsValuesApart(t *testing.T) {
	t.Parallel()
	recipe := []string{"a", "b.c", "d"}
	// The format cannot distinguish a separator followed by the next path from the end of a value. It distinguishes all other
	// values, also those with a separator alone.
	honest := func(values map[string]any) bool {
		for i, path := range recipe[1:] {
			if strings.Contains(values[recipe[i]].(string), separator+path+"=") {
				return false
			}
		}
		return true
	}
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{separator, "a=", "b.c=", "d=", "=", "1", "é", "\xff"}), 0, 4)
	draw := rapid.Custom(func(t *rapid.T) map[string]any {
		values := map[string]any{}
		for _, path := range recipe {
			values[path] = strings.Join(pieces.Draw(t, path), "")
		}
		return values
	}).Filter(honest)
	rapid.Check(t, func(t *rapid.T) {
		a := draw.Draw(t, "a")
		b := map[string]any{}
		for path, value := range a { // only some values differ, so that near misses are common
			b[path] = value
		}
		if other := draw.Draw(t, "b"); rapid.Bool().Draw(t, "all") {
			b = other
		} else {
			b["b.c"] = other["b.c"]
		}
		if !honest(b) {
			t.Skip()
		}
		textA, missing := DedupString(recipe, lookupIn(a))
		textB, _ := DedupString(recipe, lookupIn(b))
		if len(missing) > 0 {
			t.Fatalf("missing %q of %q", missing, a)
		}
		if got, want := textA == textB, reflect.DeepEqual(a, b); got != want {
			t.Fatalf("%q and %q: equal %t, want %t", a, b, got, want)
		}
	})
}

// TestDedupStringHasNoEscapes shows the limit of the source's format, which is kept because the hashes must not change.
func TestDedupStringHasNoEscapes(t *testing.T) {
	t.Parallel()
	recipe := []string{"a", "b"}
	one, _ := DedupString(recipe, lookupIn(map[string]any{"a": "1\x1fb=2", "b": "3"}))
	two, _ := DedupString(recipe, lookupIn(map[string]any{"a": "1", "b": "2\x1fb=3"}))
	if one != two {
		t.Errorf("%q and %q differ: the format has changed", one, two)
	}
}

// Shows: C8.
func TestDedupStringOfOtherValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		value   any
		found   bool
		want    string
		missing bool
	}{
		{"text", " a=b ", true, " a=b ", false},
		{"empty text", "", true, "", false},
		{"number as written", json.Number("1.50"), true, "1.50", false},
		{"true", true, true, "true", false},
		{"false", false, true, "false", false},
		{"null", nil, true, "", true},
		{"not there", nil, false, "", true},
		{"not found, whatever comes with it", "x", false, "", true},
		{"list", []any{json.Number("2.0"), "x"}, true, `[2,"x"]`, false},
		{"object", map[string]any{"b": nil, "a": json.Number("1e2")}, true, `{"a":100,"b":null}`, false},
		{"integer", 42, true, "42", false},
		{"float", 80.0, true, "80", false},
		{"not JSON", math.NaN(), true, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, missing := DedupString([]string{"p", "q"}, func(path string) (any, bool) {
				if path == "q" {
					return "end", true
				}
				return test.value, test.found
			})
			if want := "p=" + test.want + "\x1fq=end"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			var want []string
			if test.missing {
				want = []string{"p"}
			}
			if diff := cmp.Diff(want, missing); diff != "" {
				t.Errorf("missing (-want +got)\n%s", diff)
			}
		})
	}
	if text, missing := DedupString(nil, lookupIn(nil)); text != "" || missing != nil {
		t.Errorf("an empty recipe gives %q, %q", text, missing)
	}
}

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"whole", json.Number("80"), "80"},
		{"needless fraction", json.Number("80.0"), "80"},
		{"exponent", json.Number("8e1"), "80"},
		{"both", json.Number("0.8E+2"), "80"},
		{"minus zero", json.Number("-0.0"), "0"},
		{"zero with an exponent", json.Number("0e99999999999999999999"), "0"},
		{"negative", json.Number("-1.50"), "-1.5"},
		{"small", json.Number("1e-3"), "0.001"},
		{"shifted", json.Number("12.340e1"), "123.4"},
		{"every digit", json.Number("123456789012345678901234567890"), "123456789012345678901234567890"},
		{"twenty zeros", json.Number("1e20"), "100000000000000000000"},
		{"more zeros", json.Number("1e21"), "1e21"},
		{"written zeros", json.Number("1000000000000000000000"), "1e21"},
		{"twenty zeros behind the point", json.Number("1e-21"), "0.000000000000000000001"},
		{"more behind the point", json.Number("10e-23"), "1e-22"},
		{"large exponent", json.Number("10e998"), "1e999"},
		{"larger than an int", json.Number("12.50e99999999999999999999"), "125e99999999999999999998"},
		{"smaller than an int", json.Number("-10e-99999999999999999999"), "-1e-99999999999999999998"},
		{"at the edge", json.Number("10e2147483647"), "1e2147483648"},
		{"beyond the edge", json.Number("1e2147483648"), "1e2147483648"},
		{"float", 80.0, "80"},
		{"float of many digits", 0.1, "0.1"},
		{"large float", math.MaxFloat64, "17976931348623157e292"},
		{"minus zero as float", math.Copysign(0, -1), "0"},
		{"int", -7, "-7"},
		{"int64", int64(math.MaxInt64), "9223372036854775807"},
		{"null", nil, "null"},
		{"no list", []any(nil), "[]"},
		{"no object", map[string]any(nil), "{}"},
		{"texts", []string{"b", "a"}, `["b","a"]`},
		{"order of bytes", map[string]any{"b": 1, "a": 2, "B": 3, "é": 4, "": 5}, `{"":5,"B":3,"a":2,"b":1,"é":4}`},
		{"escapes", "\"\\/<>&\x00\n\x1f\x7f\u2028é", "\"\\\"\\\\/<>&\\u0000\\u000a\\u001f\x7f\u2028é\""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := CanonicalJSON(test.in)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestCanonicalJSONRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "-", "1.2.3", "x", "1e", "0x10", "NaN", "01", ".5", "5.", "+1", " 1", "1 ", "1\n", "1e+-2", "1_0", "1,2", "[1]"} {
		if got, err := CanonicalJSON(json.Number(bad)); err == nil {
			t.Errorf("%q was taken as %s", bad, got)
		}
	}
	for _, bad := range []any{struct{}{}, math.NaN(), math.Inf(-1), []byte("1"), map[string]string{}, json.RawMessage("1")} {
		for _, v := range []any{bad, []any{bad}, map[string]any{"a": bad}} {
			if got, err := CanonicalJSON(v); err == nil {
				t.Errorf("%#v was taken as %s", v, got)
			}
			if got, err := InputHash(v); err == nil || got != "" {
				t.Errorf("%#v has the hash %s, %v", v, got, err)
			}
		}
	}
}

// TestCanonicalNumbersAreExact compares with exact fractions. The canonical form has the value of the number, and two notations have the
// same form if and only if their values are equal.
func TestCanonicalNumbersAreExact(t *testing.T) {
	t.Parallel()
	literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3}0{0,25})(\.0{0,25}[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		form := func(s string) (string, *big.Rat) {
			b, err := CanonicalJSON(json.Number(s))
			if err != nil {
				t.Fatal(err)
			}
			value, _ := new(big.Rat).SetString(s)
			if again, ok := new(big.Rat).SetString(string(b)); !ok || again.Cmp(value) != 0 {
				t.Fatalf("%s became %s", s, b)
			}
			return string(b), value
		}
		a, valueA := form(literal.Draw(t, "a"))
		b, valueB := form(literal.Draw(t, "b"))
		if got, want := a == b, valueA.Cmp(valueB) == 0; got != want {
			t.Fatalf("%s and %s: equal %t, want %t", a, b, got, want)
		}
	})
}

// anyJSON draws values with texts of any bytes.
func anyJSON(depth int) *rapid.Generator[any] {
	texts := anyText()
	if depth == 0 {
		return rapid.OneOf(
			rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.Map(texts, func(s string) any { return s }),
			rapid.Map(rapid.SampledFrom([]string{"0", "1", "10", "0.1"}), func(s string) any { return json.Number(s) }),
		)
	}
	deeper := anyJSON(depth - 1)
	return rapid.OneOf(
		deeper,
		rapid.Map(rapid.SliceOfN(deeper, 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(texts, deeper, 0, 3), func(m map[string]any) any { return m }),
	)
}

func TestDifferentValuesNeverShareACanonicalForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyJSON(2).Draw(t, "a"), anyJSON(2).Draw(t, "b")
		textA, errA := CanonicalJSON(a)
		textB, errB := CanonicalJSON(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got, want := string(textA) == string(textB), reflect.DeepEqual(a, b); got != want {
			t.Fatalf("%#v and %#v: equal %t, want %t (%s, %s)", a, b, got, want, textA, textB)
		}
	})
}

func TestEventHashSeesEveryPart(t *testing.T) {
	t.Parallel()
	payload := map[string]any{"a": json.Number("1"), "huge": json.Number("1e99999999999999999999")}
	hashes := map[string]string{
		"reference":   EventHash("closed", payload, []string{"x@y", "en", ""}, ""),
		"kind":        EventHash("open", payload, []string{"x@y", "en", ""}, ""),
		"payload":     EventHash("closed", map[string]any{"a": json.Number("2")}, []string{"x@y", "en", ""}, ""),
		"no payload":  EventHash("closed", nil, []string{"x@y", "en", ""}, ""),
		"other huge":  EventHash("closed", map[string]any{"a": json.Number("1"), "huge": json.Number("1e99999999999999999998")}, []string{"x@y", "en", ""}, ""),
		"recipient":   EventHash("closed", payload, []string{"x@y", "", "en"}, ""),
		"no ref":      EventHash("closed", payload, []string{"x@y", "en"}, ""),
		"instant":     EventHash("closed", payload, []string{"x@y", "en", ""}, "2026-05-14T05:12:34Z"),
		"shifted":     EventHash("closed", payload, []string{"x@y", "en"}, "2026-05-14T05:12:34Z"),
		"other bytes": EventHash("closed\xff", payload, []string{"x@y", "en", ""}, ""),
		"bytes":       EventHash("closed\xfe", payload, []string{"x@y", "en", ""}, ""),
	}
	seen := map[string]string{}
	for name, hash := range hashes {
		if other, twice := seen[hash]; twice {
			t.Errorf("%s and %s share a hash", name, other)
		}
		seen[hash] = name
	}
	alike := map[string]any{"huge": json.Number("10e99999999999999999998"), "a": json.Number("1.0")}
	if EventHash("closed", alike, []string{"x@y", "en", ""}, "") != hashes["reference"] {
		t.Error("other notations of the same numbers give another hash")
	}
}

func TestEventHashNeverMergesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a payload that is not JSON has a hash")
		}
	}()
	EventHash("closed", map[string]any{"a": math.NaN()}, nil, "")
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":1.0,"a":[true,null,"x\u0001"]}`, `1e-7`, `"é"`, `[[[]]]`, `1e21`, `10e-99999999999999999999`, `-0.0`,
		`"\ud800"`, `{"":{"\u0000":[]}}`, `0.000000000000000000000123`, `12300000000000000000000000`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := decodeJSON(text)
		if err != nil {
			return
		}
		once, err := CanonicalJSON(v)
		if err != nil {
			t.Fatalf("%q is JSON and has no canonical form: %v", text, err)
		}
		again, err := decodeJSON(string(once))
		if err != nil {
			t.Fatalf("%q became %q, which is not JSON: %v", text, once, err)
		}
		twice, err := CanonicalJSON(again)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%q became %q and then %q, %v", text, once, twice, err)
		}
	})
}

func FuzzDedupString(f *testing.F) {
	f.Add("a.b", "c", "x", "y")
	f.Add("a", "b", "1\x1fb=2", "3")
	f.Add("", "=", "=", "\x1f")
	f.Fuzz(func(t *testing.T, path, next, a, b string) {
		if path == next {
			return
		}
		text, missing := DedupString([]string{path, next}, lookupIn(map[string]any{path: a, next: b}))
		if len(missing) > 0 {
			t.Fatalf("missing %q", missing)
		}
		mark := separator + next + "="
		if !strings.HasPrefix(text, path+"=") || strings.Contains(a, mark) || strings.Contains(next, separator) {
			return // paths have no separator; the limit for values is shown above
		}
		got := slices.Collect(strings.SplitSeq(text[len(path)+1:], mark))
		if len(got) < 2 || got[0] != a || strings.Join(got[1:], mark) != b {
			t.Fatalf("%q reads as %q, want %q and %q", text, got, a, b)
		}
	})
}
