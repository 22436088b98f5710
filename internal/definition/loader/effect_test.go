package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	goyaml "go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// Every key of everything.yaml has an effect: without it, at one of its places at least, the compiled set differs, or the files are refused.
func TestEveryKeyHasAnEffect(t *testing.T) {
	t.Parallel()
	text := read(t, "testdata/everything.yaml")[0].Text
	var docs []*goyaml.Node
	for d := goyaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc goyaml.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, &doc)
	}
	compiled := func() string {
		var out bytes.Buffer
		e := goyaml.NewEncoder(&out)
		for _, d := range docs {
			if err := e.Encode(d); err != nil {
				t.Fatal(err)
			}
		}
		bundle, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: out.Bytes()}}, loader.Options{})
		if definition.HasErrors(problems) {
			return fmt.Sprint(problems)
		}
		var b strings.Builder
		dump(&b, reflect.ValueOf(bundle.Set), map[uintptr]bool{})
		return b.String()
	}
	whole := compiled()
	if whole != compiled() || strings.Contains(whole, "a.yaml:") {
		t.Fatalf("not the same twice, or refused: %.500s", whole)
	}
	effect := map[string]bool{
		"description": true, // for people
	}
	var leaveOut func(n *goyaml.Node)
	leaveOut = func(n *goyaml.Node) {
		for _, c := range n.Content {
			leaveOut(c)
		}
		if n.Kind != goyaml.MappingNode {
			return
		}
		all := n.Content
		for i := 0; i < len(all); i += 2 {
			if key := all[i].Value; !effect[key] {
				n.Content = slices.Concat(all[:i], all[i+2:])
				effect[key] = compiled() != whole
			}
		}
		n.Content = all
	}
	for _, d := range docs {
		leaveOut(d)
	}
	for _, key := range slices.Sorted(maps.Keys(effect)) {
		if !effect[key] {
			t.Errorf("%s is accepted and changes nothing", key)
		}
	}
}

// dump writes every value that can be reached. Programs of expressions are left out: their texts are beside them.
func dump(b *strings.Builder, v reflect.Value, seen map[uintptr]bool) {
	if v.IsValid() && strings.Contains(v.Type().PkgPath(), "google") {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		dump(b, v.Elem(), seen)
	case reflect.Interface:
		dump(b, v.Elem(), seen)
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			b.WriteString(v.Type().Field(i).Name + ":")
			dump(b, v.Field(i), seen)
			b.WriteByte(' ')
		}
		b.WriteByte('}')
	case reflect.Slice, reflect.Array:
		b.WriteByte('[')
		for i := range v.Len() {
			dump(b, v.Index(i), seen)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
		for _, k := range keys {
			fmt.Fprintf(b, "%v=", k)
			dump(b, v.MapIndex(k), seen)
			b.WriteByte(';')
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Invalid:
	default:
		fmt.Fprint(b, v)
	}
}
