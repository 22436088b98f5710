package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/textdiff"
)

// Preview is what would follow from an edit, as far as it can be predicted.
type Preview struct {
	Refused   bool     // the caller may not make the secret changes
	Effects   []Effect // by workflow
	Evaluated []string // types of records that would all be evaluated, sorted
	Limits    bool     // messages that wait for limits would be planned again
	Groups    bool     // the groups of contacts would be computed
}

// Effect is what an edit does to the waiting messages and occasions of one workflow. The counts are those of this moment.
type Effect struct {
	Workflow string
	Action   string // what the edit does to it: store.Added, Changed or Deleted; Unchanged: another definition affects it
	// Deliveries that would follow the new version, that keep their version (pin), and that would be withdrawn.
	Follow, Keep, Withdrawn int64
	// Instances that have not begun and would follow the new version, or be withdrawn.
	Instances, InstancesWithdrawn int64
	// Occasions of the calendar that would be made, moved and withdrawn.
	Made, Moved, Ended int
}

// diffs writes into each change the difference between the text in force and the new one.
func diffs(changes []DefinitionChange, known []definition.Stored, docs []definition.Document) {
	before, after := map[definition.Ref]definition.Stored{}, map[definition.Ref]string{}
	for _, d := range known {
		before[definition.Ref{Kind: d.Kind, Name: d.Name}] = d
	}
	for _, d := range docs {
		after[definition.Ref{Kind: d.Kind, Name: d.Name}] = d.Text
	}
	for i, c := range changes {
		if c.Action == store.Unchanged {
			continue
		}
		ref := definition.Ref{Kind: definition.Kind(c.Kind), Name: c.Name}
		name := func(version int64) string { return fmt.Sprintf("%s %s version %d", c.Kind, c.Name, version) }
		var from, to string
		if old, found := before[ref]; found {
			from = name(old.Version)
		}
		if c.Action != store.Deleted {
			to = name(c.Version)
		}
		changes[i].Diff = textdiff.Unified(from, to, before[ref].Text, after[ref])
	}
}

// preview computes what would happen to waiting messages and occasions.
func (e *Engine) preview(ctx context.Context, changes []DefinitionChange, edit *definitionEdit) (*Preview, error) {
	waiting, err := e.config.Store.WaitingOfWorkflows(ctx, edit.ws)
	if err != nil {
		return nil, err
	}
	return previewOf(changes, waiting, edit), nil
}

func previewOf(changes []DefinitionChange, waiting []store.WaitingOfWorkflow, edit *definitionEdit) *Preview {
	p, effects := &Preview{}, map[string]*Effect{}
	of := func(workflow string) *Effect {
		if effects[workflow] == nil {
			effects[workflow] = &Effect{Workflow: workflow, Action: store.Unchanged}
		}
		return effects[workflow]
	}
	any := false
	for _, c := range changes {
		any = any || c.Action != store.Unchanged
		if c.Kind == string(definition.KindWorkflow) && c.Action != store.Unchanged {
			of(c.Name).Action = c.Action
		}
	}
	if !any {
		return p
	}
	for _, entry := range edit.calendar.entries {
		switch entry.What {
		case journal.Created:
			of(entry.Workflow).Made++
		case journal.Moved:
			of(entry.Workflow).Moved++
		case journal.Withdrawn:
			of(entry.Workflow).Ended++
		default:
		}
	}
	for _, w := range waiting {
		effect := effects[w.Workflow]
		switch {
		case effect == nil:
		case effect.Action == store.Deleted:
			effect.Withdrawn, effect.InstancesWithdrawn = w.Follow+w.Keep, w.Instances
		default:
			effect.Follow, effect.Keep, effect.Instances = w.Follow, w.Keep, w.Instances
		}
	}
	for _, name := range slices.Sorted(maps.Keys(effects)) {
		p.Effects = append(p.Effects, *effects[name])
	}
	for _, c := range changes {
		if c.Action == store.Unchanged {
			continue
		}
		for _, seed := range edit.effects[store.DefinitionRef{Kind: c.Kind, Name: c.Name}].jobs {
			switch seed.Kind {
			case job.Backfill:
				p.Evaluated = append(p.Evaluated, seed.Subject)
			case job.Limits:
				p.Limits = true
			case job.Groups:
				p.Groups = true
			case job.Related, job.Reconcile, job.Retry, job.Cancel, job.Subscribe, job.Migrate, job.Unsubscribe, job.Undo:
			}
		}
	}
	slices.SortFunc(p.Evaluated, strings.Compare)
	p.Evaluated = slices.Compact(p.Evaluated)
	return p
}
