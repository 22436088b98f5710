package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon/internal/key"
)

// InputConflict sets what an instance was planned by beside what its trigger says now (B23): what its key stands for but does not spell,
// field by field. It is what a person decides by.
type InputConflict struct {
	Known         bool  // what it was planned by was written down
	Defined       bool  // its trigger is defined still
	StoredVersion int64 // of its workflow, by which it was planned
	NewVersion    int64 // that is in force; 0: none is
	Fields        []InputField
}

// InputField is one field of both; a text is empty where there is none.
type InputField struct {
	Name    string
	Stored  string
	New     string
	Differs bool
}

// Agrees reports whether both are the same by now, as after an edit: nothing is in conflict any more, and it is held still.
func (c InputConflict) Agrees() bool {
	return c.Known && c.Defined && !slices.ContainsFunc(c.Fields, func(f InputField) bool { return f.Differs })
}

// CompareInputs compares the two, by the names of their fields; nil: not known, or not defined.
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
		if err != nil { // what was hashed has that form
			return fmt.Sprint(value)
		}
		return string(text)
	}
}
