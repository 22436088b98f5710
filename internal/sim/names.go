package sim

import (
	"fmt"
	"os"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/suggest"
	"github.com/carillonhq/carillon/internal/topic"
)

// An expectation with a name that does not exist can never be met, or is met by mistake if it expects none. So the names in
// expectations are checked: reasons and statuses when a file is read, names of definitions before it is run.

// wordsOf returns the values that a field of a list may have; nil: any.
func wordsOf(list listSpec, name string) []string {
	var words []string
	switch {
	case list.name == "runs":
	case name == "event":
		words = definition.Outcomes()
	case list.name == "outbox" && name == "status":
		for _, s := range outbox.Statuses() {
			words = append(words, string(s))
		}
	case list.name == "subscriptions" && name == "status":
		words = []string{string(topic.StatusActive), string(topic.StatusEnded), string(topic.StatusPending)}
	case list.name == "sessions" && name == "status":
		for _, s := range delivery.SessionStatuses() {
			words = append(words, string(s))
		}
	case list.name == "subscriptions" && name == "reason":
		for _, why := range topic.EndReasons() {
			words = append(words, string(why))
		}
	case list.name == "upcoming" && name == "status":
		for _, s := range plan.OccurrenceStatuses() {
			words = append(words, string(s))
		}
	case name == "reason":
		for _, r := range reason.All() {
			words = append(words, string(r.Reason))
		}
	case name == "status":
		if list.name != "pending" {
			for _, s := range delivery.Statuses() {
				words = append(words, string(s))
			}
		}
		if list.name == "pending" || list.name == "held" {
			for _, s := range instance.Statuses() {
				words = append(words, string(s))
			}
		}
	}
	return words
}

// names are the names of the definitions of a scenario, at its start or later.
type names struct {
	workflows, channels, triggers, sinks []string
	all                                  bool // every trigger has an id
}

// checkNames finds the actions and expectations that name a workflow, a trigger, a channel or a sink that is never defined.
func (w *world) checkNames() error {
	docs := slices.Clone(w.docs)
	for _, step := range w.scenario.Steps {
		for _, a := range step.Do {
			if a.Apply == nil {
				continue
			}
			text, err := os.ReadFile(w.scenario.path(a.Apply.file))
			if err != nil {
				return err
			}
			docs = append(docs, documentsOf([]definition.File{{Text: text}})...)
		}
	}
	known := namesOf(docs)
	var problems []definition.Problem
	do := slices.Clone(w.scenario.Given)
	for _, step := range w.scenario.Steps {
		do = append(do, step.Do...)
	}
	for _, a := range do {
		if o := a.Operator; o != nil && o.workflow != "" {
			f := field{fieldSpec: fieldSpec{name: "workflow"}, pos: o.workflowAt, text: o.workflow}
			if p := known.check(f); p != nil {
				p.File = w.scenario.File
				problems = append(problems, *p)
			}
		}
	}
	for _, step := range w.scenario.Steps {
		for _, a := range step.Do {
			for _, name := range a.sinks() {
				f := field{fieldSpec: fieldSpec{name: "sink"}, pos: a.pos, text: name}
				if p := known.check(f); p != nil {
					p.File = w.scenario.File
					problems = append(problems, *p)
				}
			}
		}
		for _, e := range slices.Concat(step.expect, step.state) {
			for _, r := range e.rows {
				for _, f := range r.fields {
					if p := known.check(f); p != nil {
						p.File = w.scenario.File
						problems = append(problems, *p)
					}
				}
			}
		}
	}
	if len(problems) > 0 {
		return ProblemsError(problems)
	}
	return nil
}

// sinks returns the sinks that an action names.
func (a *Action) sinks() []string {
	switch {
	case a.Sink != nil:
		return []string{a.Sink.name}
	case a.Operator != nil && a.Operator.sink != "":
		return []string{a.Operator.sink}
	}
	return nil
}

func namesOf(docs []document) names {
	n := names{all: true}
	for _, d := range docs {
		if d.kind == string(definition.KindChannel) {
			n.channels = append(n.channels, d.name)
		}
		if d.kind == string(definition.KindSink) {
			n.sinks = append(n.sinks, d.name)
		}
		if d.kind != string(definition.KindWorkflow) {
			continue
		}
		n.workflows = append(n.workflows, d.name)
		n.channels = append(n.channels, channelsOf(d.root)...)
		list := d.root.Get("triggers")
		if list == nil || list.Kind != portable.List {
			n.all = false
			continue
		}
		for _, item := range list.Items {
			if id := item.Get("id"); id != nil {
				n.triggers = append(n.triggers, id.Text)
			} else {
				n.all = false
			}
		}
	}
	return n
}

// channelsOf returns the channels that a workflow names. One of them may be missing on purpose.
func channelsOf(root *portable.Node) (list []string) {
	for _, field := range []string{"channel", "fallback"} {
		switch n := root.Get(field); {
		case n == nil:
		case n.Kind == portable.Scalar:
			list = append(list, channelKey(n.Text))
		case n.Kind == portable.List:
			for _, item := range n.Items {
				list = append(list, channelKey(item.Text))
			}
		}
	}
	return list
}

// check returns the problem of an expected value that names nothing, or nil.
func (n names) check(f field) *definition.Problem {
	var known []string
	text := f.text
	switch {
	case f.name == "workflow":
		known = n.workflows
	case f.name == "trigger" && n.all:
		known = n.triggers
	case f.name == "sink":
		known = n.sinks
	case f.kind == fieldChannel:
		known, text = n.channels, channelKey(text)
	default:
		return nil
	}
	if text == "none" || slices.Contains(known, text) {
		return nil
	}
	p := definition.Problem{
		Line: f.pos.Line, Column: f.pos.Column, Code: definition.CodeUnknownKey,
		Message: fmt.Sprintf("there is no %s %q in the definitions of this scenario", f.name, f.text),
	}
	if near := suggest.Nearest(text, known); near != "" {
		p.Hint = "did you mean " + near + "?"
	}
	return &p
}
