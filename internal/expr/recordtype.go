package expr

import (
	"maps"
	"slices"

	"cel.dev/cel-go/common/ast"
)

// RecordType declares the fields of a record, so that a misspelt field is an error when the definition is read. A field that names
// another record or a place has the type Any.
type RecordType struct {
	Name   string
	Fields map[string]Type
	// Declared are the types as they are written: text, datetime, record(centre). They are more precise than the types of expressions.
	// The values of records are checked by them.
	Declared map[string]string
	// Related are the types of the records that fields name, by field; nil if that type is not declared.
	Related map[string]*RecordType
}

// kindOf returns the kind of the declared field at p; ok is false if there is none.
func (t *RecordType) kindOf(p Path) (string, bool) {
	if t == nil || len(p) != 2 || p[0] != "record" {
		return "", false
	}
	kind, ok := t.Fields[p[1]]
	if !ok && p[1] == Owner { // with its kind and id
		return article(Object), true
	}
	if !ok || kind == Any {
		return "", false
	}
	return article(kind), true
}

// lacks reports whether p reads a field that no record of the type has.
func (t *RecordType) lacks(p Path) bool {
	if t == nil || len(p) < 2 || p[0] != "record" {
		return false
	}
	_, declared := t.Fields[p[1]]
	return !declared && !slices.Contains(recordNames(), p[1])
}

// names returns all names that can be read of a record of the type.
func (t *RecordType) names() []string {
	return slices.Concat(slices.Sorted(maps.Keys(t.Fields)), recordNames())
}

// RecordNames returns the names that every record has besides its fields.
func RecordNames() []string { return recordNames() }

// recordNames are the names that every record has besides its fields.
func recordNames() []string {
	return []string{
		"id", "type", "closed", "created_at", "updated_at", "timezone", "owner", "parent", "parents", "children",
		"last_modified_by", "props",
	}
}

// firstStep returns the node of the first field of a path.
func firstStep(e ast.Expr) ast.Expr {
	for {
		var below ast.Expr
		switch e.Kind() {
		case ast.SelectKind:
			below = e.AsSelect().Operand()
		case ast.CallKind:
			below = e.AsCall().Args()[0]
		default:
			return e
		}
		if below.Kind() == ast.IdentKind {
			return e
		}
		e = below
	}
}
