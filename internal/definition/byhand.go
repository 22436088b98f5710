package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/expr"
)

// ByHand finds the trigger that a run by hand uses: the first that needs nothing from an event or a record. If there is none, it
// returns nil and the reason.
func (s *Set) ByHand(w *Workflow) (t *Trigger, why string) {
	for _, t := range w.Trigger {
		needs := s.needs(t)
		if needs == "" {
			return t, ""
		}
		if why == "" {
			why = needs
			if t.ID != "" {
				why = fmt.Sprintf("trigger %s: %s", t.ID, needs)
			}
		}
	}
	return nil, why
}

// needs returns what a trigger needs that a run by hand cannot provide, or "".
func (s *Set) needs(t *Trigger) string {
	if typ := t.Watch().Record; typ != "" {
		return "it is about a record of type " + typ
	}
	for _, entry := range t.Audience {
		if entry.EventRecipient {
			return "its audience is the recipient of an event"
		}
		var paths []expr.Path
		for _, p := range []*expr.Program{entry.To, entry.Address} {
			if p != nil {
				paths = append(paths, p.Paths()...)
			}
		}
		if entry.Where != nil {
			paths = append(paths, entry.Where.Paths()...)
		}
		for _, path := range paths {
			if slices.Contains(eventNames(), path[0]) {
				return "its audience reads " + path[0]
			}
		}
	}
	for _, d := range t.Message.Data {
		for _, path := range d.paths() {
			if slices.Contains(eventNames(), path[0]) {
				return fmt.Sprintf("its data.%s reads %s", d.Name, path[0])
			}
		}
	}
	texts := t.Message.Variables()
	if survey := s.Survey(t.Message.Survey); survey != nil {
		texts = append(texts, survey.Invitation.Variables()...)
	}
	for _, path := range texts {
		if root := path[:strings.IndexAny(path+".", ".[")]; root == "event" || root == "candidate" {
			return "its texts read " + path
		}
	}
	return ""
}

// eventNames are the names that only an event gives.
func eventNames() []string { return []string{"event", "candidate", "recipient", "item", "templateId"} }
