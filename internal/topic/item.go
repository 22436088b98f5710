package topic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Names of the fields of an item that its topics are found by, and of those that have a form of their own. An item has any others besides.
const (
	FieldID          = "id"
	FieldVersion     = "version"
	FieldTags        = "tags"
	FieldLinks       = "links"
	FieldFields      = "fields"
	FieldContentID   = "content_id"
	FieldTopics      = "topics"
	FieldUrgent      = "urgent"
	FieldPublishedAt = "published_at"
	FieldExcept      = "except"
)

// Blank returns the fields that every item has, without a value: texts and conditions can read them of any item.
func Blank() map[string]any {
	return map[string]any{
		FieldVersion: "", "title": "", "summary": "", "change_note": "", "url": "", FieldContentID: "", FieldUrgent: false,
		FieldTags: map[string]any{}, FieldLinks: map[string]any{}, FieldFields: map[string]any{}, FieldTopics: []any{},
	}
}

// Field is what is wrong with a field of an item.
type Field struct {
	Path    string
	Message string
	Hint    string
}

// ItemOf returns what rules read of an item, and the topics that it names itself. wrong is set if a field cannot be read.
func ItemOf(fields map[string]any) (item Item, names []string, wrong *Field) {
	if item.Tags, wrong = manyValues(FieldTags, fields[FieldTags]); wrong != nil {
		return item, nil, wrong
	}
	if item.Links, wrong = manyValues(FieldLinks, fields[FieldLinks]); wrong != nil {
		return item, nil, wrong
	}
	if item.Fields, wrong = oneValue(fields[FieldFields]); wrong != nil {
		return item, nil, wrong
	}
	if value := fields[FieldContentID]; value != nil {
		if item.ContentID, wrong = textOf(FieldContentID, value); wrong != nil {
			return item, nil, wrong
		}
	}
	if value := fields[FieldTopics]; value != nil {
		if names, wrong = textsOf(FieldTopics, value); wrong != nil {
			return item, nil, wrong
		}
	}
	if value := fields[FieldTo]; value != nil {
		if item.To, wrong = choiceOf(value); wrong != nil {
			return item, nil, wrong
		}
	}
	if value := fields[FieldExcept]; value != nil {
		if _, wrong = textsOf(FieldExcept, value); wrong != nil {
			return item, nil, wrong
		}
	}
	if value := fields[FieldUrgent]; value != nil {
		if _, ok := value.(bool); !ok {
			return item, nil, &Field{FieldUrgent, "is neither true nor false", ""}
		}
	}
	if value := fields[FieldPublishedAt]; value != nil {
		text, ok := value.(string)
		if _, err := time.Parse(time.RFC3339Nano, text); !ok || err != nil {
			return item, nil, &Field{FieldPublishedAt, "is not an instant", "write it like 2026-05-14T05:12:34Z or 2026-05-14T08:12:34+03:00"}
		}
	}
	return item, names, nil
}

// ExceptOf returns the ids of the contacts whom an item is not for. Its fields were checked.
func ExceptOf(fields map[string]any) []string {
	if fields[FieldExcept] == nil {
		return nil
	}
	ids, _ := textsOf(FieldExcept, fields[FieldExcept])
	return ids
}

// manyValues reads tags or links: by name a value or a list of them.
func manyValues(field string, value any) (map[string][]string, *Field) {
	if value == nil {
		return nil, nil
	}
	by, ok := value.(map[string]any)
	if !ok {
		return nil, &Field{field, "is not an object", fmt.Sprintf(`"%s": {"policy": ["tax"]}`, field)}
	}
	all := make(map[string][]string, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		path := field + "." + name
		if wrong := nameOf(path, name); wrong != nil {
			return nil, wrong
		}
		values, wrong := textsOf(path, by[name])
		if wrong != nil {
			return nil, wrong
		}
		all[name] = values
	}
	return all, nil
}

// oneValue reads the fields of an item that rules compare. One that is null is as if it were not there, and a list or an object is nothing that a rule
// can name.
func oneValue(value any) (map[string]string, *Field) {
	if value == nil {
		return nil, nil
	}
	by, ok := value.(map[string]any)
	if !ok {
		return nil, &Field{FieldFields, "is not an object", `"fields": {"document_type": "guide"}`}
	}
	all := make(map[string]string, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if wrong := nameOf(FieldFields+"."+name, name); wrong != nil {
			return nil, wrong
		}
		if text, wrong := textOf(FieldFields+"."+name, by[name]); wrong == nil {
			all[name] = text
		}
	}
	return all, nil
}

func nameOf(path, name string) *Field {
	if problem := CheckText(name); problem != "" || name == "" {
		return &Field{path, "has a name that " + orEmpty(problem), ""}
	}
	return nil
}

func orEmpty(problem string) string {
	if problem == "" {
		return "is empty"
	}
	return problem
}

// textsOf reads a value or a list of values.
func textsOf(path string, value any) ([]string, *Field) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	texts := make([]string, 0, len(list))
	for i, one := range list {
		at := path
		if ok {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		text, wrong := textOf(at, one)
		if wrong != nil {
			return nil, wrong
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// textOf reads a value that rules compare: a text, or a number or a truth value as JSON writes it.
func textOf(path string, value any) (string, *Field) {
	text := ""
	switch value := value.(type) {
	case string:
		text = value
	case json.Number:
		text = value.String()
	case bool:
		text = fmt.Sprint(value)
	default:
		return "", &Field{path, "is neither a text nor a number", ""}
	}
	if problem := CheckText(text); problem != "" || text == "" {
		return "", &Field{path, orEmpty(problem), ""}
	}
	return text, nil
}
