package definition

import (
	"fmt"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
)

// Crossing says how a trigger recognises that a threshold is crossed.
type Crossing struct {
	// Rules identifies the rules by which crossings are counted. The thresholds are part of them only if the metric changes with time
	// alone.
	Rules  string
	Moving bool // the metric changes with time alone
}

// Crossing returns the crossing of a trigger with fire: false_to_true, and the zero Crossing for all others.
func (t *Trigger) Crossing() Crossing {
	if p := t.OnPlan(); p != nil {
		return p.crossing
	}
	return Crossing{}
}

// rulesLength is enough of a hash to distinguish the rules of one trigger.
const rulesLength = 8

// crossing is computed when the definitions are compiled: constants that an expression reads are part of the rules.
func (s *Set) crossing(m Match) (c Crossing) {
	w, t := m.Workflow, m.Trigger
	if !t.Crosses() {
		return c
	}
	metric := t.OnPlan().Metric
	rules := map[string]any{"when": t.When.Source(), "timezone": s.Workspace.Timezone, "locale": s.Workspace.Locale}
	paths := t.When.Paths()
	c.Moving = t.When.ReadsNow()
	if metric != nil && metric.Value != nil {
		rules["metric"], paths = metric.Value.Source(), append(paths[:len(paths):len(paths)], metric.Value.Paths()...)
		c.Moving = c.Moving || metric.Value.ReadsNow()
		if names := make([]any, len(metric.Thresholds)); c.Moving {
			for i, at := range metric.Thresholds {
				names[i] = at.Name
			}
			rules["thresholds"] = names
		}
	}
	for _, path := range paths {
		rules["field "+path.String()] = s.meaning(w, t, path)
	}
	text, err := key.CanonicalJSON(rules)
	if err != nil { // values read from JSON have a canonical form
		text = fmt.Append(nil, rules)
	}
	c.Rules = key.Hash(string(text))[:rulesLength]
	return c
}

// meaning returns what the definitions say about a path: the value of a constant, or the type of a field.
func (s *Set) meaning(w *Workflow, t *Trigger, path expr.Path) any {
	const field = 2 // record.field
	switch {
	case path[0] == "vars":
		return w.Vars
	case path[0] == "templateId":
		return w.ExtID
	case path[0] == "record" && len(path) >= field && s.types[t.Watch().Record] != nil:
		return s.types[t.Watch().Record].Declared[path[1]]
	}
	return nil
}
