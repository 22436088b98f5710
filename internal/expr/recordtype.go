package expr

import "cel.dev/cel-go/cel"

// RecordType declares the fields of a record, so that a misspelt one is an error when the definition is read.
type RecordType struct {
	Name   string
	Fields map[string]Type
}

// kindOf names the kind of the declared field at p, when p is one.
func (t *RecordType) kindOf(p Path) (string, bool) {
	if t == nil || len(p) != 2 || p[0] != "record" {
		return "", false
	}
	kind, ok := t.Fields[p[1]]
	if !ok || kind == Any {
		return "", false
	}
	return article(kind), true
}

// declarations are what a scope adds to the language.
func (s Scope) declarations() []cel.EnvOption { return nil }
