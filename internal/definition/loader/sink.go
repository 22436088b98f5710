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
	s.When = r.onOutcome(f.get("when"), s.Events, r.writtenQuestions())
	if n := f.get("retry"); n != nil {
		if own, ok := r.fields(n, "sink_retry"); ok {
			s.Backoff = exact(r.durations(own.get("backoff")))
			s.Attempts = r.tries(own.get("attempts"))
			s.Jitter = r.jitter(own.get("jitter"), s.Jitter)
		}
	}
	if raw, err := json.Marshal(root.Value()); err == nil {
		s.Raw = raw
	}
	return s
}

// tries reads a number of tries, of which the first is one.
func (r *reader) tries(n *portable.Node) int {
	if n != nil && n.IsNumber() && n.Text == "0" {
		r.invalid(n.Pos, "attempts is 0, so no outcome would be tried", "write 1 to have each outcome tried once, or remove the line for 8 tries")
		return 0
	}
	return r.count(n)
}

// writtenQuestions returns the ids of the questions of all surveys, as they are written: sinks are read before surveys.
func (r *reader) writtenQuestions() (ids []string) {
	r.each(definition.KindSurvey, func(_ *reader, s *source) {
		list := s.root.Get("questions")
		if list == nil {
			return
		}
		for _, q := range append(slices.Clone(list.Items), list) { // a single one may be written without a list
			if id := q.Get("id"); id != nil && id.Kind == portable.Scalar {
				ids = append(ids, id.Text)
			}
		}
	})
	return ids
}

// sinkRefs reads the routes of a workflow; an undefined sink may be added later.
func (r *reader) sinkRefs(n *portable.Node, set *definition.Set, w *definition.Workflow) []definition.SinkRef {
	var routes []definition.SinkRef
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
		surveys, known, all := asked(set, w)
		s.When = r.onOutcome(f.get("when"), s.Events, known)
		if all && len(surveys) > 0 && !r.stored {
			for _, id := range unknownQuestions(s.When, known) {
				r.report(definition.CodeReference, mention(f.get("when"), "answers"), fmt.Sprintf("survey %s has no question %q", surveys[0], id), suggest.DidYouMean(id, known))
			}
		}
		if name, ok := r.defName(f.get("sink")); ok {
			if s.Sink = name; set.Sink(name) == nil {
				r.unresolved(reference{definition.KindSink, name, name}, f.get("sink").Pos, r.undefined(definition.KindSink, name), true)
			}
			r.deadRoute(f, s, set.Sink(name), w)
		}
		routes = append(routes, s)
	}
	return routes
}

// asked returns the surveys of a workflow and the ids of their questions. All is false if one is not defined: it may be added later.
func asked(set *definition.Set, w *definition.Workflow) (surveys, questions []string, all bool) {
	all = true
	for t := range w.Forms() {
		if t.Message.Survey == "" {
			continue
		}
		s := set.Survey(t.Message.Survey)
		if s == nil {
			all = false
			continue
		}
		surveys = append(surveys, s.Name)
		for _, q := range s.Form.Questions {
			questions = append(questions, q.ID)
		}
	}
	return surveys, questions, all
}

// unknownQuestions returns the ids of the questions whose answers a condition reads, and that are not among known.
func unknownQuestions(c *expr.Condition, known []string) (ids []string) {
	for _, path := range c.Paths() {
		if len(path) >= 2 && path[0] == "answers" && !slices.Contains(known, path[1]) {
			ids = append(ids, path[1])
		}
	}
	return ids
}

// lintSinks warns about conditions of sinks on answers to questions that no workflow asks that routes there.
func (l *loader) lintSinks(set *definition.Set) {
	if l.stored {
		return
	}
	l.each(definition.KindSink, func(r *reader, source *source) {
		sink := set.Sink(source.document.Name)
		if sink == nil {
			return
		}
		var surveys, known []string
		for _, w := range set.Workflows() {
			if !slices.ContainsFunc(w.Sinks, func(route definition.SinkRef) bool { return route.Sink == sink.Name }) {
				continue
			}
			of, questions, all := asked(set, w)
			if !all {
				return
			}
			surveys, known = append(surveys, of...), append(known, questions...)
		}
		if len(surveys) == 0 {
			return
		}
		for _, id := range unknownQuestions(sink.When, known) {
			r.warn(definition.CodeLint, mention(source.root.Get("when"), "answers"),
				fmt.Sprintf("no survey whose answers go to sink %s has a question %q", sink.Name, id), suggest.DidYouMean(id, known))
		}
	})
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
	asks := false
	for t := range w.Forms() {
		asks = asks || t.Message.Survey != ""
	}
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

// onOutcome reads a condition on outcomes of the given types; none stands for all. Only a response has answers, to these questions.
func (r *reader) onOutcome(n *portable.Node, events, questions []string) *expr.Condition {
	r.questions = questions
	c := r.condition(n, outcomeScope())
	r.questions = nil
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
