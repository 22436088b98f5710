package record

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/suggest"
)

// fits checks the fields of a record against its declared type. A removed field need not be declared: fields that a type no longer has can be
// removed.
func fits(t *expr.RecordType, props map[string]any) *upsert.Error {
	if t == nil {
		return nil
	}
	for _, name := range sorted(props) {
		value := props[name]
		if value == nil {
			continue
		}
		field := "props." + name
		declared, known := t.Declared[name]
		if !known {
			names := slices.Sorted(maps.Keys(t.Declared))
			hint := suggest.DidYouMean(name, names)
			if hint == "" {
				hint = "the type " + t.Name + " has " + strings.Join(names, ", ")
			}
			return invalid(field, "the type "+t.Name+" has no such field", hint)
		}
		if hint, ok := is(declared, value); !ok {
			return invalid(field, "is "+said(declared, value)+", and the type "+t.Name+" says "+declared, hint)
		}
	}
	return nil
}

// is reports whether a JSON value fits a declared type; hint shows how such a value is written.
func is(declared string, value any) (hint string, ok bool) {
	kind, _, _ := strings.Cut(declared, "(")
	text, isText := value.(string)
	switch kind {
	case "text":
		return `put it in quotes`, isText
	case "number":
		n, isNumber := value.(json.Number)
		if isNumber {
			f, err := strconv.ParseFloat(string(n), 64)
			return "no larger than 1.8e308", err == nil && !math.IsInf(f, 0)
		}
		return "write it without quotes, like 15 or 0.5", false
	case "bool":
		_, ok = value.(bool)
		return "write true or false, without quotes", ok
	case "date":
		return `write it like "2026-05-14"`, isText && isDate(text)
	case "datetime":
		return `write it like "2026-05-14T08:12:34Z"`, isText && isInstant(text)
	case "time":
		_, err := civil.ParseTimeOfDay(text)
		return `write it like "09:30"`, isText && err == nil
	case "contact", "place", "record":
		return "write its id in quotes", isText
	case "list":
		_, ok = value.([]any)
		return "write [ … ]", ok
	case "object":
		_, ok = value.(map[string]any)
		return "write { … }", ok
	}
	return "", true // a type of a newer program: that program has checked the definition
}

func isDate(text string) bool {
	_, err := civil.ParseDate(text)
	return err == nil
}

// isInstant accepts what expressions read as an instant: with an offset, or local without one.
func isInstant(text string) bool {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}

// said describes a value that does not fit its declared type.
func said(declared string, value any) string {
	what := article(value)
	if names := map[string]string{"date": "day", "datetime": "instant", "time": "time of day"}[declared]; names != "" && what == "a text" {
		what += " that names no " + names
	}
	return what
}

// article names the kind of a JSON value, never the value.
func article(value any) string {
	switch value := value.(type) {
	case string:
		if isDate(value) {
			return "a date"
		}
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	}
	return "an object"
}

func sorted[V any](fields map[string]V) []string { return slices.Sorted(maps.Keys(fields)) }
