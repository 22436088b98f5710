package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/strictjson"
)

const depth = 32

// oracle reads by the tokens of encoding/json, and checks each.
func oracle(raw []byte) (any, *strictjson.Error) {
	if !utf8.Valid(raw) {
		return nil, &strictjson.Error{Kind: strictjson.NotUTF8}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	value, err := oracleValue(raw, d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, end := d.Token(); !errors.Is(end, io.EOF) {
		return nil, &strictjson.Error{Kind: strictjson.Behind}
	}
	return value, nil
}

func oracleValue(raw []byte, d *json.Decoder, path string, level int) (any, *strictjson.Error) {
	wrong := func(kind strictjson.Kind, path string) *strictjson.Error {
		return &strictjson.Error{Kind: kind, Path: path}
	}
	from := d.InputOffset()
	token, err := d.Token()
	if err != nil {
		return nil, wrong(strictjson.Syntax, path)
	}
	switch token := token.(type) {
	case json.Delim:
		if level >= depth {
			return nil, wrong(strictjson.TooDeep, path)
		}
		if token == '[' {
			list := []any{}
			for d.More() {
				v, err := oracleValue(raw, d, fmt.Sprintf("%s[%d]", path, len(list)), level+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			if _, err := d.Token(); err != nil {
				return nil, wrong(strictjson.Syntax, path)
			}
			return list, nil
		}
		fields := map[string]any{}
		for d.More() {
			from := d.InputOffset()
			token, err := d.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return nil, wrong(strictjson.Syntax, path)
			}
			below := name
			if path != "" {
				below = path + "." + name
			}
			if _, twice := fields[name]; twice {
				return nil, wrong(strictjson.Twice, below)
			}
			keys := map[strictjson.Kind]strictjson.Kind{strictjson.Zero: strictjson.ZeroKey, strictjson.Half: strictjson.HalfKey}
			if kind := unfit(raw[from:d.InputOffset()]); kind != "" {
				return nil, wrong(keys[kind], path)
			}
			v, bad := oracleValue(raw, d, below, level+1)
			if bad != nil {
				return nil, bad
			}
			fields[name] = v
		}
		if _, err := d.Token(); err != nil {
			return nil, wrong(strictjson.Syntax, path)
		}
		return fields, nil
	case string:
		if kind := unfit(raw[from:d.InputOffset()]); kind != "" {
			return nil, wrong(kind, path)
		}
		return token, nil
	}
	return token, nil
}

var escapes = regexp.MustCompile(`\\(u([0-9a-fA-F]{4})|.)`)

// unfit looks for the first part of a JSON string that strictjson does not accept in a text.
func unfit(raw []byte) strictjson.Kind {
	open := -1 // where the second half of a pair has to stand
	for _, m := range escapes.FindAllSubmatchIndex(raw, -1) {
		n := uint64(1)
		if m[4] >= 0 {
			n, _ = strconv.ParseUint(string(raw[m[4]:m[5]]), 16, 32)
		}
		second := n >= 0xdc00 && n < 0xe000
		if open >= 0 && (m[0] != open || !second) || open < 0 && second {
			return strictjson.Half
		}
		open = -1
		switch {
		case n == 0:
			return strictjson.Zero
		case n >= 0xd800 && n < 0xdc00:
			open = m[1]
		}
	}
	if open >= 0 {
		return strictjson.Half
	}
	return ""
}

// agree holds everything that the reader says against the oracle. Where several things are wrong, the two may meet
// them in another order; that something is wrong they must agree on.
func agree(t *testing.T, raw []byte) {
	t.Helper()
	over := strictjson.NewReader(raw, strictjson.MaxDepth)
	skipped := over.Skip()
	if skipped == nil {
		skipped = over.End()
	}
	if (skipped == nil) != json.Valid(raw) {
		t.Fatalf("%q: skipping it: %v", raw, skipped)
	}
	got, err := strictjson.Parse(raw, depth)
	want, wrong := oracle(raw)
	if (err == nil) != (wrong == nil) {
		t.Fatalf("%q: got %v, the oracle %v", raw, err, wrong)
	}
	if err != nil {
		if json.Valid(raw) && err.Kind != strictjson.NotUTF8 && *err != *wrong {
			t.Fatalf("%q: got %v, the oracle %v", raw, err, wrong)
		}
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: got %#v, the oracle %#v", raw, got, want)
	}
	r := strictjson.NewReader(raw, depth)
	_, text, err := r.Text()
	var short bytes.Buffer
	if e := json.Compact(&short, raw); err != nil || e != nil || short.String() != string(text) {
		t.Fatalf("%q: its text is %q, want %q, %v", raw, text, &short, err)
	}
}

func samples() []string {
	return []string{
		`{"a": [1, -0.5e+7, 2E3, true, false, null, "x\u00e9\ud83d\ude00\n\/"], "b": {"c": {}}, "": []}`,
		`"\ud800"`, `"\ud83d\ude00"`, `"\ude00\ud83d\ude00"`, `"\ud83d\ud83d\ude00"`, `"\\ud800"`, `"\ufffd"`, `"\ud83d x\ude00"`, `{"a": ["b", "c\udfff"]}`, `{"a": {"\ud800": 1}}`, `"\ud800\u0000"`, `"\u0000\ud800"`, `"\ud800`, `"\ud800\x"`,
		`"\ud800\u0041"`, `"\udc00\ud800"`, `"\u0000"`, `"\u0000`, `{"\u0000": 1}`, `{"a\u0000b": 1}`, `["\u00"]`, `"\x"`, "\"\t\"", "\"\x7f\u2028\"",
		`{"a": 1, "a": 2}`, `{"x": {"a": 1, "b": [{"a": 1, "\u0061": 2}]}}`, `{"a.b": {"c": {"d": "\u0000"}}}`, `[[["\u0000"]]]`,
		`01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `-0`, `1 2`, `tru`, `nulll`, `truefalse`, ``, ` `, "\xef\xbb\xbf{}", "\xff", `{"a":}`, `{"a"}`, `{a:1}`, `[1,]`, `{"a":1,}`, `[,1]`, `[1 2]`,
		`{"a":1 "b":2}`, `[1}`, `{]`, `{} {}`, `{}x`, ` [ 1 , 2 ] `, `{"a" : "b c" , "d" : [ ] }`,
		strings.Repeat("[", depth) + strings.Repeat("]", depth), strings.Repeat("[", depth+1) + strings.Repeat("]", depth+1),
		strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat(`{"a":`, depth+1) + "1" + strings.Repeat("}", depth+1), `"` + strings.Repeat("x", 5000) + `\"` + `"`,
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for _, text := range samples() {
		agree(t, []byte(text))
		for i := range min(len(text), 80) { // cut off anywhere
			agree(t, []byte(text[:i]))
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, text := range samples() {
		f.Add([]byte(text))
	}
	f.Fuzz(agree)
}

func BenchmarkParse(b *testing.B) {
	event := []byte(`{"id": "e-1", "kind": "service-visit-closed", "payload": {"wip": "40956", "dealerId": "1", "jobType": "GR", "VIN": "JTMABBBJ2N4024400"},
		"recipient": {"address": "+964 770 000 0001", "locale": "ar", "customer_ref": "cust-123"}}`)
	for _, reader := range []struct {
		name string
		read func([]byte) error
	}{
		{"one pass", func(raw []byte) error {
			if _, err := strictjson.Parse(raw, depth); err != nil {
				return err
			}
			return nil
		}},
		{"tokens", func(raw []byte) error {
			if _, err := oracle(raw); err != nil {
				return err
			}
			return nil
		}},
	} {
		b.Run(reader.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(event)))
			for b.Loop() {
				if err := reader.read(event); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
