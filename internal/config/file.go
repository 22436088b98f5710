package config

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition/portable"
)

// maxFile bounds a settings file, in bytes: it has about ten lines.
const maxFile = 64 << 10

// ReadFile reads a settings file: a mapping from the keys of Settings to a value or a list of values, which come
// back as their flag would be written. It is YAML of the subset that definitions are written in; anything else is refused
// with file:line:column.
func ReadFile(path string) (map[string]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: larger than %d KiB", path, maxFile>>10)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(path, string(text))
}

func parse(path, text string) (map[string]string, error) {
	docs, problems := portable.Parse(text)
	values := map[string]string{}
	refuse := func(n *portable.Node, message string) {
		problems = append(problems, portable.Problem{Pos: n.Pos, Message: message})
	}
	if len(docs) > 1 {
		return nil, fmt.Errorf("%s: holds %d documents, not one", path, len(docs))
	}
	for _, doc := range docs {
		if doc.Root.Kind == portable.Scalar || doc.Root.Kind == portable.List {
			refuse(doc.Root, "is not a mapping; write lines such as listen: 127.0.0.1:8080")
		}
		for _, field := range doc.Root.Fields {
			key := field.Key.Text
			value, ok := scalarOrList(field.Value)
			switch {
			case !known(key):
				refuse(field.Key, unknown(key))
			case !ok && field.Value.Kind != portable.Broken:
				refuse(field.Value, key+": is neither a value nor a list of values")
			}
			values[key] = value
		}
	}
	if len(problems) == 0 {
		return values, nil
	}
	first := slices.MinFunc(problems, func(a, b portable.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	if first.Hint != "" {
		first.Message += "; " + first.Hint
	}
	return nil, fmt.Errorf("%s:%d:%d: %s", path, first.Line, first.Column, first.Message)
}

// scalarOrList returns a value, or the values of a list with commas between them.
func scalarOrList(n *portable.Node) (text string, ok bool) {
	items := n.Items
	if n.Kind != portable.List {
		items = []*portable.Node{n}
	}
	parts := make([]string, len(items))
	for i, item := range items {
		if item.Kind != portable.Scalar || item.IsNull() {
			return "", false
		}
		parts[i] = item.Text
	}
	return strings.Join(parts, ","), true
}

func known(key string) bool {
	for _, s := range Settings() {
		if s.Key == key {
			return true
		}
	}
	return false
}

func unknown(key string) string {
	names := make([]string, 0, len(Settings()))
	for _, s := range Settings() {
		names = append(names, s.Key)
	}
	return fmt.Sprintf("unknown setting %q; there are %s", key, strings.Join(names, ", "))
}
