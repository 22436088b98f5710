package loader

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/suggest"
)

func (r *reader) sink(root *portable.Node) *definition.Sink {
	s := &definition.Sink{Name: r.name, Jitter: DefaultJitter}
	f, ok := r.fields(root, "sink")
	if !ok {
		return s
	}
	r.need(f)
	r.configured(root, f, r.opts.Sinks, &s.Provider, &s.Settings)
	s.Events = r.outcomes(f.get("events"), "takes all that is routed to it")
	s.When = r.onOutcome(f.get("when"), s.Events)
	if n := f.get("retry"); n != nil {
		if own, ok := r.fields(n, "sink_retry"); ok {
			s.Backoff = exact(r.durations(own.get("backoff")))
			s.Attempts = r.count(own.get("attempts"))
			s.Jitter = r.jitter(own.get("jitter"), s.Jitter)
		}
	}
	if raw, err := json.Marshal(root.Value()); err == nil {
		s.Raw = raw
	}
	return s
}

// sinkRefs reads the routes of a workflow; an undefined sink may be added later.
func (r *reader) sinkRefs(n *portable.Node, set *definition.Set, w *definition.Workflow) []definition.SinkRef {
	var all []definition.SinkRef
	for _, item := range r.items(n) {
		f, ok := r.fields(item, "sink_ref")
		if !ok {
			continue
		}
		r.need(f)
		s := definition.SinkRef{Events: r.outcomes(f.get("events"), "takes response.completed")}
		if f.get("events") == nil {
			s.Events = []string{definition.OutcomeResponseCompleted}
		}
		s.When = r.onOutcome(f.get("when"), s.Events)
		r.knownQuestions(f.get("when"), s.When, set, w)
		if name, ok := r.defName(f.get("sink")); ok {
			if s.Sink = name; set.Sink(name) == nil {
				r.unresolved(reference{definition.KindSink, name, name}, f.get("sink").Pos, r.undefined(definition.KindSink, name), true)
			}
			r.deadRoute(f, s, set.Sink(name), w)
		}
		all = append(all, s)
	}
	return all
}

// knownQuestions refuses a condition of a route on answers to questions that the surveys of its workflow have not.
func (r *reader) knownQuestions(n *portable.Node, c *expr.Condition, set *definition.Set, w *definition.Workflow) {
	if c == nil || r.stored {
		return
	}
	var asked, known []string
	for _, t := range w.Trigger {
		if t.Message.Survey == "" {
			continue
		}
		s := set.Survey(t.Message.Survey)
		if s == nil { // it may be added later
			return
		}
		asked = append(asked, s.Name)
		for _, q := range s.Form.Questions {
			known = append(known, q.ID)
		}
	}
	if len(asked) == 0 {
		return
	}
	for _, path := range c.Paths() {
		if len(path) < 2 || path[0] != "answers" || slices.Contains(known, path[1]) {
			continue
		}
		r.report(definition.CodeReference, mention(n, "answers"), fmt.Sprintf("survey %s has no question %q", asked[0], path[1]), suggest.DidYouMean(path[1], known))
	}
}

// deadRoute warns about a route by which nothing ever goes.
func (r *reader) deadRoute(f fields, route definition.SinkRef, sink *definition.Sink, w *definition.Workflow) {
	if r.stored || len(route.Events) == 0 {
		return
	}
	at := f.get("sink").Pos
	if events := f.get("events"); events != nil {
		at = events.Pos
	}
	if sink != nil && !slices.ContainsFunc(route.Events, sink.Takes) {
		r.warn(definition.CodeLint, at, fmt.Sprintf("sink %s takes %s, and this route has %s", sink.Name, only(sink.Events), only(route.Events)),
			"name an outcome in both, or remove events from the sink: it takes all that is routed to it then")
		return
	}
	asks := slices.ContainsFunc(w.Trigger, func(t *definition.Trigger) bool { return t.Message.Survey != "" })
	if len(w.Trigger) > 0 && !asks && slices.Equal(route.Events, []string{definition.OutcomeResponseCompleted}) {
		r.warn(definition.CodeLint, at, fmt.Sprintf("workflow %s asks no survey, so it has no response.completed", w.Name),
			"write events: with others, such as delivery.failed")
	}
}

func only(events []string) string {
	if len(events) == 1 {
		return "only " + events[0]
	}
	return "only " + sentence(events)
}

// outcomes reads types of outcomes; without says what its block does that has none.
func (r *reader) outcomes(n *portable.Node, without string) []string {
	var all []string
	if n != nil && n.Kind == portable.List && len(n.Items) == 0 {
		r.invalid(n.Pos, "this list of outcomes is empty", "name some, or remove the line: without events it "+without)
	}
	for _, item := range r.items(n) {
		name := item.Text
		if !r.stored || item.Kind != portable.Scalar { // one that this program does not know, of a set that another one stored, has no effect
			name = r.word(item, "events", "", definition.Outcomes())
		}
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// outcomeScope returns what the condition of a sink or a route may read.
func outcomeScope() expr.Scope {
	return expr.Scope{Event: true, Answers: true, Contact: true, Vars: true, Workspace: true, Now: true}
}

// onOutcome reads a condition on outcomes of the given types; none stands for all. Only a response has answers.
func (r *reader) onOutcome(n *portable.Node, events []string) *expr.Condition {
	c := r.condition(n, outcomeScope())
	if c == nil || r.stored || len(events) == 0 || slices.Contains(events, definition.OutcomeResponseCompleted) {
		return c
	}
	if slices.ContainsFunc(c.Paths(), func(p expr.Path) bool { return p[0] == "answers" }) {
		r.report(definition.CodeExpression, mention(n, "answers"), fmt.Sprintf("%s has no answers", alternatives(events)),
			"only response.completed has: add it to events, or do not read answers")
	}
	return c
}

// mention returns where a condition says a word first.
func mention(n *portable.Node, word string) portable.Pos {
	if n.Kind == portable.Scalar {
		return n.At(max(strings.Index(n.Text, word), 0))
	}
	below := slices.Clone(n.Items)
	for _, f := range n.Fields {
		below = append(below, f.Value)
	}
	for _, b := range below {
		if says(b, word) {
			return mention(b, word)
		}
	}
	return n.Pos
}

func says(n *portable.Node, word string) bool {
	return n.Kind == portable.Scalar && strings.Contains(n.Text, word) || slices.ContainsFunc(n.Items, func(i *portable.Node) bool { return says(i, word) }) ||
		slices.ContainsFunc(n.Fields, func(f portable.Field) bool { return says(f.Value, word) })
}
