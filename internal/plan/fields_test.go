package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pick reads the same values as a decoder, and refuses objects of a shape that encoding/json does not write.
func TestPickedFieldsAreThoseOfTheText(t *testing.T) {
	t.Parallel()
	f := fieldPicker{wanted: map[string]bool{"a": true, "b c": true, "d": true, "": true}}
	rapid.Check(t, func(t *rapid.T) {
		var draw func(depth int) any
		draw = func(depth int) any {
			switch kind := rapid.IntRange(0, 8).Draw(t, "kind"); {
			case kind == 0 && depth < 3:
				list := []any{}
				for range rapid.IntRange(0, 3).Draw(t, "items") {
					list = append(list, draw(depth+1))
				}
				return list
			case kind == 1 && depth < 3:
				object := map[string]any{}
				for range rapid.IntRange(0, 3).Draw(t, "fields") {
					object[rapid.StringN(0, 3, -1).Draw(t, "name")] = draw(depth + 1)
				}
				return object
			case kind == 2:
				return nil
			case kind == 3:
				return rapid.Bool().Draw(t, "bool")
			case kind == 4:
				return rapid.Float64Range(-1e9, 1e9).Draw(t, "decimal")
			case kind == 5:
				return rapid.Int64().Draw(t, "whole")
			}
			return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`"`, `\`, `{"a":1}`, `],`, "ü\u2028", `\\"`, "\x01"})).Draw(t, "text")
		}
		object := map[string]any{}
		for range rapid.IntRange(0, 5).Draw(t, "fields") {
			object[rapid.SampledFrom([]string{"a", "b c", "d", "e", "", "f\"g"}).Draw(t, "name")] = draw(0)
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(rapid.Bool().Draw(t, "escaped"))
		if err := e.Encode(object); err != nil {
			t.Fatal(err)
		}
		stored := strings.TrimSpace(text.String())
		got, want := map[string]any{}, map[string]any{}
		_, escaped := object["f\"g"]
		if ok := f.pick(stored, got); ok == escaped {
			t.Fatalf("%s is read: %t", stored, ok)
		} else if !ok {
			return
		}
		d := json.NewDecoder(strings.NewReader(stored))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		for name := range want {
			if !f.wanted[name] {
				delete(want, name)
			}
		}
		if diff := cmp.Diff(rendered(want), rendered(got)); diff != "" {
			t.Fatalf("%s (-want +got)\n%s", stored, diff)
		}
	})
	for _, text := range []string{
		``, `{`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1}x`, `{"a":1,}`, `{ "a":1}`, `{"a": 1}`, `[]`, `"a"`, `{a:1}`, `{"a":1]`, `{"a":"x}`, `{"a":"x\"}`, `{"a":[1}`, `{"a":[}`,
		`{"a":"x` + "\\", `{"a":tru}`, `{"a":{"b":1]}`,
	} {
		if f.pick(text, map[string]any{}) {
			t.Errorf("%q was read", text)
		}
	}
}

// rendered writes values so that those from pick and from a decoder can be compared.
func rendered(fields map[string]any) map[string]string {
	out := map[string]string{}
	for name, v := range fields {
		if n, ok := v.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				out[name] = fmt.Sprint(i)
			} else if f, err := n.Float64(); err == nil {
				out[name] = fmt.Sprint(f)
			}
			continue
		}
		out[name] = fmt.Sprint(v)
	}
	return out
}
