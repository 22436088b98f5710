package definition

import (
	"cmp"
	"fmt"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
)

// KeyInputs returns what the keys of a trigger's occasions depend on but do not contain (decision 20), by name: the expression of a
// date or a metric, the parts of a context, the length of a period, or the dedup paths. All of it is text of the definition, not of
// a record, an event or a channel.
func (t *Trigger) KeyInputs() map[string]any {
	switch {
	case t.Ahead():
		inputs := map[string]any{}
		if t.Anchor != nil {
			inputs["anchor"] = t.Anchor.Source()
		}
		if t.Metric != nil && t.Metric.Value != nil {
			inputs["metric"] = t.Metric.Value.Source()
		}
		return inputs
	case t.Record != "":
		return map[string]any{"per": sources(t.Cooldown.Per)}
	case t.Schedule != nil:
		return map[string]any{"period": t.Schedule.Calendar.Period.Length.String()}
	}
	paths := make([]any, len(t.Dedup))
	for i, path := range t.Dedup {
		paths[i] = path
	}
	return map[string]any{"dedup": paths}
}

// Inputs returns the hash of KeyInputs. It is computed when the definitions are compiled, because every event and every evaluation
// needs it.
func (t *Trigger) Inputs() string { return cmp.Or(t.inputs, key.Hash(t.InputsJSON())) }

// InputsJSON is KeyInputs in the form that is hashed.
func (t *Trigger) InputsJSON() string {
	text, err := key.CanonicalJSON(t.KeyInputs())
	if err != nil { // texts and lists of them always have a canonical form
		panic(fmt.Sprintf("definition: what the keys of trigger %s stand for: %v", t.ID, err))
	}
	return string(text)
}

func sources(list []*expr.Program) []any {
	texts := make([]any, len(list))
	for i, p := range list {
		texts[i] = p.Source()
	}
	return texts
}
