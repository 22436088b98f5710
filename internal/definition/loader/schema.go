package loader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// shape gives the JSON Schema of a value.
type shape func() map[string]any

// Every shape except a list, a block and a choice of words has a title, which editors and the reference page show.

// A text may be written as a number or a boolean; it is then the text as written.
func aText() map[string]any {
	return map[string]any{"title": "text", "type": []any{"string", "number", "boolean"}}
}

func aBool() map[string]any   { return map[string]any{"title": "true or false", "type": "boolean"} }
func aNumber() map[string]any { return map[string]any{"title": "number", "type": "number"} }
func aCount() map[string]any {
	return map[string]any{"title": "whole number", "type": "integer", "minimum": 1}
}

func anExpression() map[string]any {
	return map[string]any{"title": "expression", "type": []any{"string", "boolean", "number"}}
}
func anything() map[string]any { return map[string]any{"title": "any value"} }
func anyMap() map[string]any   { return map[string]any{"title": "map", "type": "object"} }

func patterned(title, pattern string) map[string]any {
	return map[string]any{"title": title, "anyOf": []any{
		map[string]any{"type": "string", "pattern": pattern}, map[string]any{"type": []any{"number", "boolean"}},
	}}
}

func aSlug() map[string]any { return patterned("slug", `^[A-Za-z0-9._-]+$`) }
func aName() map[string]any { return patterned("name", `^[A-Za-z0-9._:-]+$`) }
func aChannel() map[string]any {
	return patterned("channel", `^[A-Za-z0-9._-]+(:[A-Za-z0-9._-]+)?$`)
}

func aLocale() map[string]any {
	return map[string]any{"title": "locale", "type": "string", "pattern": `^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$`}
}

func aDuration() map[string]any {
	return map[string]any{"title": "duration", "type": "string", "pattern": `^([0-9]+(y|mo|w|d|h|m|s))+$`}
}

// A gap is a duration, or 0 for none.
func aGap() map[string]any {
	return map[string]any{"title": "duration", "anyOf": []any{aDuration(), map[string]any{"enum": []any{0, "0"}}}}
}

func aCooldown() map[string]any {
	return map[string]any{"title": "duration or `persona`", "anyOf": []any{map[string]any{"enum": []any{cooldownOfPersona}}, aDuration()}}
}

func aCheck() map[string]any {
	return map[string]any{"title": "`change`, duration", "anyOf": []any{map[string]any{"enum": []any{checkChange}}, aDuration()}}
}

func aSpan() map[string]any {
	return map[string]any{"title": "span of the day", "type": "string", "pattern": `^[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2}$`}
}

func aTimeOfDay() map[string]any {
	return map[string]any{"title": "time of day", "type": "string", "pattern": `^[0-9]{2}:[0-9]{2}$`}
}

// A limit of 0 is none (product decision 10).
func aLimit() map[string]any {
	return map[string]any{"title": "whole number", "type": "integer", "minimum": 0}
}

func aTrue() map[string]any { return map[string]any{"title": "`true`", "const": true} }

func aFieldType() map[string]any {
	return map[string]any{"title": "type of a field", "type": "string", "pattern": `^(` + strings.Join(fieldTypes(), "|") + `|record\([A-Za-z0-9._-]+\))$`}
}

func aRate() map[string]any {
	return map[string]any{"title": "rate", "type": "string", "pattern": `^[0-9]+/[smh]$`}
}

func aTimes() map[string]any {
	return map[string]any{"title": "whole number or `forever`", "anyOf": []any{aCount(), map[string]any{"enum": []any{forever}}}}
}

// A day of a round is counted from its first day, or in months from their end.
func aDay() map[string]any {
	return map[string]any{"title": "whole number", "type": "integer", "minimum": -28}
}

func anOffset() map[string]any {
	return map[string]any{"title": "offset", "type": "string", "pattern": `^[-+]?([0-9]+(y|mo|w|d|h|m|s))+$`}
}

// A localized text is one text or a map from locales to texts.
func localized() map[string]any {
	byLocale := map[string]any{"type": "object", "minProperties": 1, "propertyNames": aLocale(), "additionalProperties": aText()}
	return map[string]any{"title": "template", "anyOf": []any{aText(), byLocale}}
}

func oneOf(words ...string) shape {
	return func() map[string]any {
		list := make([]any, len(words))
		for i, w := range words {
			list[i] = w
		}
		return map[string]any{"enum": list}
	}
}

// listOf is a list; a list of one may be written bare.
func listOf(item shape) shape {
	return func() map[string]any {
		return map[string]any{"anyOf": []any{item(), map[string]any{"type": "array", "items": item()}}}
	}
}

// someOf is a list that is not empty; a list of one may be written bare.
func someOf(item shape) shape {
	return func() map[string]any {
		return map[string]any{"anyOf": []any{item(), map[string]any{"type": "array", "items": item(), "minItems": 1}}}
	}
}

// headers are templates by the names of headers.
func headers() map[string]any {
	return map[string]any{
		"title": "templates by name", "type": "object", "additionalProperties": localized(),
		"propertyNames": map[string]any{"pattern": `^[A-Za-z][A-Za-z0-9-]*$`},
	}
}

// metadata are templates by names of the author's own.
func metadata() map[string]any {
	return map[string]any{
		"title": "templates by name", "type": "object", "minProperties": 1, "maxProperties": maxMetadata, "additionalProperties": localized(),
		"propertyNames": map[string]any{"pattern": `^[A-Za-z][A-Za-z0-9_]{0,39}$`},
	}
}

// byName is a map from names of the author's own to values of one kind.
func byName(title string, value shape) shape {
	return func() map[string]any {
		return map[string]any{"title": title, "type": "object", "minProperties": 1, "additionalProperties": value()}
	}
}

func ref(name string) shape {
	return func() map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }
}

// Schema returns a JSON Schema (draft 2020-12) of one document, made from the tables that the loader uses. It knows
// the shapes of values; expressions, templates, references and rules between keys only the loader checks.
func Schema() ([]byte, error) {
	t := newTables()
	defs := map[string]any{}
	for name, b := range t {
		defs[name] = b.schema()
	}
	fields := defs["condition"]
	defs["condition"] = map[string]any{"anyOf": []any{
		anExpression(), map[string]any{"type": "array", "items": ref("condition")(), "minItems": 1}, fields,
	}}
	secret := func(key string) map[string]any {
		return map[string]any{
			"type": "object", "properties": map[string]any{key: map[string]any{"type": "string"}},
			"required": []any{key}, "additionalProperties": false,
		}
	}
	defs["settings"] = map[string]any{"type": "object", "additionalProperties": map[string]any{"anyOf": []any{aText(), secret("secret"), secret("env"), secret("file")}}}
	defs["scenario"] = map[string]any{"type": "object", "required": []any{"scenario"}}
	var kinds []any
	for _, kind := range builtKinds() {
		kinds = append(kinds, ref(string(kind))())
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "A Carillon definition", "anyOf": kinds, "$defs": defs,
	})
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return out.Bytes(), nil
}

// schema writes a block's built keys; what is known and refused is left out, as the loader refuses it.
func (b *block) schema() map[string]any {
	properties, needed := map[string]any{}, []any{}
	for _, e := range b.entries {
		if e.later {
			continue
		}
		value := e.value()
		if e.doc != "" {
			value["description"] = e.doc
		}
		properties[e.name] = value
		if e.required {
			needed = append(needed, e.name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		s["required"] = needed
	}
	return s
}
