package definition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// lint warns about dedup paths that work but are probably not what the author means (C14, decision 39).
func (l *loader) lint(set *Set) {
	type use struct {
		r *reader
		w *Workflow
		t *Trigger
	}
	byRecipe := map[string]use{} // event and recipe → the first trigger with them
	l.each(KindWorkflow, func(r *reader, s *source) {
		w := set.workflows[s.document.Name]
		if w == nil {
			return
		}
		for _, t := range w.Trigger {
			source := t.OnEvent()
			if source == nil {
				continue
			}
			at := source.dedupAt
			if at == (portable.Pos{}) {
				at = t.at
			}
			r.lintRecipe(t, source.Dedup, at)
			recipe := source.Kind + "\n" + strings.Join(source.Dedup, "\n")
			first, shared := byRecipe[recipe]
			switch {
			case !shared:
				byRecipe[recipe] = use{r, w, t}
			case first.w == w:
				r.warn(CodeLint, at, fmt.Sprintf("triggers %s and %s make the same event one occasion: only the first that fires sends", first.t.ID, t.ID),
					"make their when exclude each other, or give them recipes of their own")
			case source.Dedup != nil && !slices.Contains(source.Dedup, "templateId"):
				r.warn(CodeLint, at, fmt.Sprintf("workflow %s has the same recipe for the same event", first.w.Name),
					"add templateId, so that the hashes of the two differ")
			}
		}
	})
}

// LimitedByDefault returns the types of the workflows whose messages are subject to the default limits: the workspace sets none, and
// the audience is not limited to personas that do (A37).
func (s *Set) LimitedByDefault() []string {
	if s.Workspace.Limits != cadence.LayerDefault {
		return nil
	}
	types := map[string]bool{}
	for _, w := range s.workflows {
		if !s.Workspace.Cadence.Counts(w.Type) {
			continue
		}
		for _, t := range w.Trigger {
			kind, _, _ := strings.Cut(t.Channel, ":")
			if !t.Limits.Critical && slices.ContainsFunc(t.Audience, func(a Audience) bool { return !s.limits(a.Persona, kind) }) {
				types[w.Type] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// limits reports whether a persona has limits of its own for a kind of channel.
func (s *Set) limits(persona, kind string) bool {
	p := s.personas[persona]
	return p != nil && !p.Cadence.For(kind).Empty()
}

// lintRecipe follows C14: too few dedup paths lose events, too many never find a duplicate.
func (r *reader) lintRecipe(t *Trigger, recipe []string, at portable.Pos) {
	if recipe == nil {
		return
	}
	address, natural := false, false
	for _, path := range recipe {
		root, _, _ := strings.Cut(path, ".")
		switch {
		case root == "recipient":
			address = address || path == "recipient.address" || path == "recipient.customer_ref" || path == "recipient.customerRef"
		case path == "event.occurred_at" || path == "occurred_at" || path == "event.received_at" || path == "received_at":
			r.warn(CodeLint, at, fmt.Sprintf("%s differs every time, so no event is ever the same", path), "leave it out of the recipe")
		case path != "templateId" && path != "kind" && path != "event.kind":
			natural = true
		}
	}
	toRecipient := slices.ContainsFunc(t.Audience, func(a Audience) bool { return a.EventRecipient })
	switch {
	case !natural:
		r.warn(CodeLint, at, "the recipe has no id of the event itself: a second event for the same person is lost", "add id or a field of the payload, such as candidate.wip")
	case !address && toRecipient && !slices.Contains(recipe, "id"):
		r.warn(CodeLint, at, "the recipe has no recipient.address: the same event for another person is lost", "add recipient.address")
	}
}
