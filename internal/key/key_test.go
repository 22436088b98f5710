package key

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyText draws texts in which the grammar's own separators are frequent.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z:|%,]{0,6}`), rapid.String(),
		rapid.SampledFrom([]string{"", "retry", ":retry:1", "event", "%3A", "a|b", "a:b", "\x1f", "z:UTC"}),
	)
}

type occasion struct {
	Type, Workflow, Hash string
	Retry                int
	Contact, Channel     string
	Step                 int
}

func drawOccasion(t *rapid.T) occasion {
	return occasion{
		Type:     rapid.SampledFrom([]string{"survey", "alert", "report", "custom"}).Draw(t, "type"),
		Workflow: anyText().Draw(t, "workflow"),
		Hash:     anyText().Draw(t, "hash"),
		Retry:    rapid.IntRange(0, 3).Draw(t, "retry"),
		Contact:  anyText().Draw(t, "contact"),
		Channel:  rapid.SampledFrom([]string{"email:default", "sms:twilio", "sms:default"}).Draw(t, "channel"),
		Step:     rapid.IntRange(1, 12).Draw(t, "step"),
	}
}

func (o occasion) instance() Instance {
	k := Event(o.Type, o.Workflow, o.Hash)
	if o.Retry > 0 {
		k = k.Retry(o.Retry)
	}
	return k
}

// Shows: B17.
func TestDifferentOccasionsNeverShareAKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawOccasion(t), drawOccasion(t)
		if rapid.Bool().Draw(t, "alike") { // differ in one field at most, so that near misses are common
			b = a
			switch rapid.IntRange(0, 4).Draw(t, "field") {
			case 0:
				b.Workflow = anyText().Draw(t, "other workflow")
			case 1:
				b.Hash = anyText().Draw(t, "other hash")
			case 2:
				b.Contact = anyText().Draw(t, "other contact")
			case 3:
				b.Retry = rapid.IntRange(0, 3).Draw(t, "other retry")
			}
		}
		same := a.Type == b.Type && a.Workflow == b.Workflow && a.Hash == b.Hash && a.Retry == b.Retry
		if got := a.instance() == b.instance(); got != same {
			t.Fatalf("%+v and %+v: equal keys %t, want %t (%q, %q)", a, b, got, same, a.instance(), b.instance())
		}
		da, db := a.instance().Delivery(a.Contact, a.Channel), b.instance().Delivery(b.Contact, b.Channel)
		same = same && a.Contact == b.Contact && a.Channel == b.Channel
		if got := da == db; got != same {
			t.Fatalf("%+v and %+v: equal delivery keys %t, want %t", a, b, got, same)
		}
		same = same && a.Step == b.Step
		if got := da.Idempotency(a.Step) == db.Idempotency(b.Step); got != same {
			t.Fatalf("%+v and %+v: equal idempotency keys %t, want %t", a, b, got, same)
		}
	})
}

func TestRetriesDoNotStack(t *testing.T) {
	t.Parallel()
	k := Event("survey", "csi-gr", "abc")
	if got, want := k.Retry(1).Retry(2), Instance("survey:csi-gr:event:abc:retry:2"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	base, n := k.Retry(7).Base()
	if base != k || n != 7 {
		t.Errorf("got %q, %d; want %q, 7", base, n, k)
	}
	if base, n = k.Base(); base != k || n != 0 {
		t.Errorf("got %q, %d; want %q, 0", base, n, k)
	}
	if got, want := Event("survey", AnyWorkflow, "abc"), Instance("survey:*:event:abc"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Shows: C8.
func TestDedupStringTellsValuesApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z.]{1,4}`), 1, 3, rapid.ID).Draw(t, "paths")
		plain := rapid.StringMatching(`[^\x1f]{0,5}`) // the separator inside a value is the limit of the source's format
		draw := func(label string) map[string]any {
			values := map[string]any{}
			for _, path := range paths {
				values[path] = plain.Draw(t, label+path)
			}
			return values
		}
		a, b := draw("a"), draw("b")
		lookup := func(values map[string]any) func(string) (any, bool) {
			return func(path string) (any, bool) { v, ok := values[path]; return v, ok }
		}
		textA, missing := DedupString(paths, lookup(a))
		textB, _ := DedupString(paths, lookup(b))
		if len(missing) > 0 {
			t.Fatalf("missing %q of %v", missing, a)
		}
		if got, want := textA == textB, maps.Equal(a, b); got != want {
			t.Fatalf("%v and %v: equal %t, want %t", a, b, got, want)
		}
	})
}

func TestDedupStringOfOtherValues(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"n": json.Number("1.50"), "t": true, "f": false, "null": nil, "list": []any{json.Number("2.0"), "x"},
		"object": map[string]any{"b": nil, "a": json.Number("1e2")},
	}
	got, missing := DedupString([]string{"n", "t", "f", "null", "list", "object", "gone"}, func(path string) (any, bool) {
		v, ok := values[path]
		return v, ok
	})
	want := "n=1.50\x1ft=true\x1ff=false\x1fnull=\x1flist=[2,\"x\"]\x1fobject={\"a\":100,\"b\":null}\x1fgone="
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"null", "gone"}, missing); diff != "" {
		t.Errorf("missing (-want +got)\n%s", diff)
	}
}

func TestCanonicalNumbers(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"80", "80"}, {"80.0", "80"}, {"8e1", "80"}, {"0.8e2", "80"}, {"-0.0", "0"}, {"0", "0"}, {"-1.50", "-1.5"},
		{"1e-3", "0.001"}, {"123456789012345678901234567890", "123456789012345678901234567890"},
		{"0.1", "0.1"}, {"12.340e1", "123.4"}, {"1E+2", "100"}, {"1e999", "1e999"}, {"10e998", "1e999"}, {"1e-999", "1e-999"},
	}
	for _, test := range tests {
		got, err := CanonicalJSON(json.Number(test.in))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v; want %s", test.in, got, err, test.want)
		}
	}
	for _, bad := range []string{"", "-", "1.2.3", "x", "1e", "0x10", "NaN"} {
		if got, err := CanonicalJSON(json.Number(bad)); err == nil {
			t.Errorf("%q was taken as %s", bad, got)
		}
	}
	if _, err := CanonicalJSON(struct{}{}); err == nil {
		t.Error("a struct was taken as JSON")
	}
}

func TestEventHashSeesEveryPart(t *testing.T) {
	t.Parallel()
	base := func() (string, map[string]any, []string, string) {
		return "closed", map[string]any{"a": json.Number("1")}, []string{"x@y", "en", ""}, ""
	}
	kind, payload, who, at := base()
	reference := EventHash(kind, payload, who, at)
	others := map[string]string{
		"kind":      EventHash("open", payload, who, at),
		"payload":   EventHash(kind, map[string]any{"a": json.Number("2")}, who, at),
		"recipient": EventHash(kind, payload, []string{"x@y", "", "en"}, at),
		"instant":   EventHash(kind, payload, who, "2026-05-14T05:12:34Z"),
	}
	for name, hash := range others {
		if hash == reference {
			t.Errorf("another %s gives the same hash", name)
		}
	}
	if EventHash(kind, map[string]any{"a": json.Number("1.0")}, who, at) != reference {
		t.Error("1.0 and 1 are the same number and give different hashes")
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"csi-gr", "a", "A.b_c-9", "events"} {
		if err := Slug(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "retry", "event", "a b", "a:b", "ä", "a|b", strings.Repeat("x", 101)} {
		if err := Slug(bad); err == nil {
			t.Errorf("%q was taken as a name", bad)
		}
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"b":1.0,"a":[true,null,"x\u0001"]}`, `1e-7`, `"é"`, `[[[]]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return
		}
		once, err := CanonicalJSON(v)
		if err != nil {
			return // an exponent that no integer holds
		}
		var again any
		d = json.NewDecoder(strings.NewReader(string(once)))
		d.UseNumber()
		if err := d.Decode(&again); err != nil {
			t.Fatalf("%q became %q, which is not JSON: %v", text, once, err)
		}
		twice, err := CanonicalJSON(again)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%q became %q and then %q, %v", text, once, twice, err)
		}
	})
}

func FuzzDedupString(f *testing.F) {
	f.Add("a.b", "x", "y")
	f.Fuzz(func(t *testing.T, path, a, b string) {
		one := func(value string) string {
			text, _ := DedupString([]string{path}, func(string) (any, bool) { return value, true })
			return text
		}
		if (one(a) == one(b)) != (a == b) {
			t.Fatalf("%q and %q at %q", a, b, path)
		}
	})
}

func BenchmarkNames(b *testing.B) {
	for b.Loop() {
		k := Event("survey", "csi-gr", "6383108901bdd1b187b55f88d5c3ddce0670dfe24a066f34655538f1d4564efa")
		k.Delivery("cust-123", "sms:twilio").Idempotency(1)
	}
}
