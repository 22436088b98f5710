package definition

import (
	"fmt"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
)

// KeyInputs returns what the keys of a trigger's occasions depend on but do not contain (product decision 20), by name: the expression of a
// date or a metric, the parts of a context, the length of a period, or the dedup paths. All of it is text of the definition, not of
// a record, an event or a channel.
func (t *Trigger) KeyInputs() map[string]any {
	switch s := t.Source.(type) {
	case *OnPlan:
		inputs := map[string]any{}
		if t.Anchor != nil {
			inputs["anchor"] = t.Anchor.Source()
		}
		if s.Metric != nil && s.Metric.Value != nil {
			inputs["metric"] = s.Metric.Value.Source()
		}
		return inputs
	case *OnCondition:
		return map[string]any{"per": sources(s.Cooldown.Per)}
	case *OnSchedule:
		return map[string]any{"period": s.Calendar.Period.Length.String()}
	case *OnEvent:
		paths := make([]any, len(s.Dedup))
		for i, path := range s.Dedup {
			paths[i] = path
		}
		return map[string]any{"dedup": paths}
	}
	return map[string]any{"dedup": []any{}}
}

// Inputs returns the hash of KeyInputs. It is computed when the definitions are compiled, because every event and every evaluation
// needs it.
func (t *Trigger) Inputs() string {
	if t.inputs == "" {
		return key.Hash(t.InputsJSON())
	}
	return t.inputs
}

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
