package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// lint warns about dedup paths that work but are probably not what the author means (C14, product decision 39).
func (l *loader) lint(set *definition.Set) {
	type use struct {
		r *reader
		w *definition.Workflow
		t *definition.Trigger
	}
	byRecipe := map[string]use{} // event and recipe → the first trigger with them
	l.each(definition.KindWorkflow, func(r *reader, s *source) {
		w := set.Workflow(s.document.Name)
		if w == nil {
			return
		}
		for _, t := range w.Trigger {
			source := t.OnEvent()
			if source == nil {
				continue
			}
			at, ok := l.dedupAt[source]
			if !ok {
				at = l.triggerAt[t]
			}
			r.lintRecipe(t, source.Dedup, at)
			recipe := source.Kind + "\n" + strings.Join(source.Dedup, "\n")
			first, shared := byRecipe[recipe]
			switch {
			case !shared:
				byRecipe[recipe] = use{r, w, t}
			case first.w == w && source.Kind == definition.ItemPublished && first.t.When != nil: // meant so: what is urgent comes first
			case first.w == w && source.Kind == definition.ItemPublished:
				r.warn(definition.CodeLint, at, fmt.Sprintf("trigger %s takes every item, so that trigger %s never sends", first.t.ID, t.ID),
					fmt.Sprintf("write %s, with its when, above %s", t.ID, first.t.ID))
			case first.w == w:
				r.warn(definition.CodeLint, at, fmt.Sprintf("triggers %s and %s make the same event one occasion: only the first that fires sends", first.t.ID, t.ID),
					"make their when exclude each other, or give them recipes of their own")
			case source.Dedup != nil && !slices.Contains(source.Dedup, "templateId"):
				r.warn(definition.CodeLint, at, fmt.Sprintf("workflow %s has the same recipe for the same event", first.w.Name),
					"add templateId, so that the hashes of the two differ")
			}
		}
	})
}

// lintRecipe follows C14: too few dedup paths lose events, too many never find a duplicate.
func (r *reader) lintRecipe(t *definition.Trigger, recipe []string, at portable.Pos) {
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
			r.warn(definition.CodeLint, at, fmt.Sprintf("%s differs every time, so no event is ever the same", path), "leave it out of the recipe")
		case path != "templateId" && path != "kind" && path != "event.kind":
			natural = true
		}
	}
	toRecipient := slices.ContainsFunc(t.Audience, func(a definition.Audience) bool { return a.EventRecipient })
	switch {
	case !natural:
		r.warn(definition.CodeLint, at, "the recipe has no id of the event itself: a second event for the same person is lost", "add id or a field of the payload, such as candidate.wip")
	case !address && toRecipient && !slices.Contains(recipe, "id"):
		r.warn(definition.CodeLint, at, "the recipe has no recipient.address: the same event for another person is lost", "add recipient.address")
	}
}

// lintMidnight warns about triggers whose messages may make telephones ring at midnight. See RingsByDefault for the default limits.
func (l *loader) lintMidnight(set *definition.Set) {
	if l.stored {
		return
	}
	l.each(definition.KindWorkflow, func(r *reader, s *source) {
		w := set.Workflow(s.document.Name)
		if w == nil {
			return
		}
		for t := range w.Forms() {
			kind, _, _ := strings.Cut(t.Channel, ":")
			whose, limit, found := set.WaitsForMidnight(w, t, kind)
			if !found || whose == "" && set.Workspace.Limits == cadence.LayerDefault {
				continue
			}
			of := "the workspace"
			if whose != "" {
				of = "persona " + whose
			}
			r.warn(definition.CodeLint, l.triggerAt[t], fmt.Sprintf("trigger %s: what waits for %s of %s comes by %s at 00:00", t.ID, limit, of, kind),
				`write resume_at: "08:00" beside the limits, quiet_hours, or limits: {send_window: "08:00-20:00"} in the workflow`)
		}
	})
}
