package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon/internal/key"
)

// InputConflict compares the inputs that an instance was planned with and the inputs of its trigger now (B23), field by field. Inputs
// are what the key depends on but does not contain. A person decides by this comparison.
type InputConflict struct {
	Known         bool  // the inputs that it was planned with were stored
	Defined       bool  // its trigger is still defined
	StoredVersion int64 // the version of the workflow that planned it
	NewVersion    int64 // the version in force; 0: none
	Fields        []InputField
}

// InputField is one field with both values; a value is empty when it is missing.
type InputField struct {
	Name    string
	Stored  string
	New     string
	Differs bool
}

// Agrees reports whether stored and present inputs are equal, as after another edit. The instance is still on hold then.
func (c InputConflict) Agrees() bool {
	return c.Known && c.Defined && !slices.ContainsFunc(c.Fields, func(f InputField) bool { return f.Differs })
}

// CompareInputs compares stored and present inputs by field name. Stored is nil when it is unknown, now when the trigger is not defined.
func CompareInputs(stored, now map[string]any) InputConflict {
	c := InputConflict{Known: stored != nil, Defined: now != nil}
	names := slices.Concat(slices.Collect(maps.Keys(stored)), slices.Collect(maps.Keys(now)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		f := InputField{Name: name, Stored: inputText(stored, name), New: inputText(now, name)}
		f.Differs = c.Known && c.Defined && f.Stored != f.New
		c.Fields = append(c.Fields, f)
	}
	return c
}

func inputText(inputs map[string]any, name string) string {
	switch value := inputs[name].(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		text, err := key.CanonicalJSON(value)
		if err != nil { // inputs that were hashed have a JSON form
			return fmt.Sprint(value)
		}
		return string(text)
	}
}
