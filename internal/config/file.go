package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a settings file, in bytes: it has about ten lines.
const maxFile = 64 << 10

// ReadFile reads a settings file: a mapping from the keys of Settings to a value or a list of values, which come
// back as their flag would be written. Anything else is refused with file:line:column.
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
	return parse(path, text)
}

func parse(path string, text []byte) (map[string]string, error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	values := map[string]string{}
	if len(file.Docs) > 1 {
		return nil, fmt.Errorf("%s: holds %d documents, not one", path, len(file.Docs))
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return values, nil
	}
	entries, err := mapping(file.Docs[0].Body)
	if err != nil {
		return nil, at(path, file.Docs[0].Body, err)
	}
	for _, entry := range entries {
		key := entry.Key.GetToken().Value
		if !known(key) {
			return nil, at(path, entry.Key, unknown(key))
		}
		if _, twice := values[key]; twice {
			return nil, at(path, entry.Key, fmt.Errorf("%s stands twice", key))
		}
		value, err := scalarOrList(entry.Value)
		if err != nil {
			return nil, at(path, entry.Value, fmt.Errorf("%s: %w", key, err))
		}
		values[key] = value
	}
	return values, nil
}

func mapping(node ast.Node) ([]*ast.MappingValueNode, error) {
	switch node := node.(type) {
	case *ast.MappingNode:
		return node.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, nil
	}
	return nil, errors.New("is not a mapping; write lines such as listen: 127.0.0.1:8080")
}

func scalarOrList(node ast.Node) (string, error) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return scalar(node)
	}
	parts := make([]string, len(list.Values))
	for i, value := range list.Values {
		var err error
		if parts[i], err = scalar(value); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, ","), nil
}

func scalar(node ast.Node) (string, error) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, nil
	}
	return "", errors.New("is neither a value nor a list of values")
}

func at(path string, node ast.Node, err error) error {
	position := node.GetToken().Position
	return fmt.Errorf("%s:%d:%d: %w", path, position.Line, position.Column, err)
}

func known(key string) bool {
	for _, s := range Settings() {
		if s.Key == key {
			return true
		}
	}
	return false
}

func unknown(key string) error {
	names := make([]string, 0, len(Settings()))
	for _, s := range Settings() {
		names = append(names, s.Key)
	}
	return fmt.Errorf("unknown setting %q; there are %s", key, strings.Join(names, ", "))
}
