package loader

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/suggest"
)

// Words of keys.
const (
	checkChange       = "change"  // check
	cooldownOfPersona = "persona" // cooldown.length
)

// maxCheck bounds an interval: ticks are counted from midnight UTC of each day.
const maxCheck = 24 * time.Hour

// ofRecords are the keys that only triggers on records have. ofEvents are the keys that say when two events are the same event.
func ofRecords() []string {
	return []string{"issues", "for", "check", "cooldown", "resolved", "metric", "fire", "reconcile"}
}
func ofEvents() []string { return []string{"dedup", "dedup_scope", "dedup_missing"} }

// onRecord reads the keys of a trigger on records, except the blocks that all triggers have.
func (r *reader) onRecord(t *definition.Trigger, f fields, scope expr.Scope) {
	r.onlyWith(f, ofEvents(), t.ID, "an event")
	record, when, issues, cooldown := f.get("record"), f.get("when"), f.get("issues"), f.get("cooldown")
	typ, ok := r.slug(record)
	if ok {
		r.recordRef(record, typ)
	}
	switch {
	case when != nil && issues != nil:
		r.invalid(when.Pos, fmt.Sprintf("trigger %s: when and issues exclude each other", t.ID), "write what must hold for all of them into each issue")
	case when == nil && cooldown != nil && issues == nil && !f.node.Partial:
		r.report(definition.CodeMissing, f.node.Pos, fmt.Sprintf("trigger %s has neither when nor issues", t.ID), "when: record.battery_level < 20")
	}
	condition := &definition.OnCondition{Watch: definition.Watch{Record: typ}, Issues: r.issues(issues, scope)}
	if d, ok := r.duration(f.get("for")); ok {
		condition.For = d.Exact()
	}
	condition.Check = r.check(f.get("check"))
	r.looks(t, condition, when, issues)
	again := issues != nil || cooldown != nil
	if again {
		condition.Cooldown = r.cooldown(cooldown, t.ID, condition.Issues, scope)
	}
	plan := &definition.OnPlan{Watch: condition.Watch, Timetable: definition.Timetable{Dates: definition.Dates{Offsets: withoutOffset()}}}
	plan.Metric, plan.Fire = r.ahead(t, condition.Check, f, scope)
	switch {
	case !ok: // reported
	case again:
		t.Source = condition
	default:
		t.Source = plan
	}
}

// onEvent refuses the keys of triggers on records.
func (r *reader) onEvent(t *definition.Trigger, f fields) {
	r.onlyWith(f, ofRecords(), t.ID, "a record")
}

func (r *reader) onlyWith(f fields, keys []string, id, subject string) {
	for _, name := range keys {
		if n := f.get(name); n != nil {
			r.invalid(n.Pos, fmt.Sprintf("trigger %s: %s is for triggers with %s", id, name, subject), "remove it")
		}
	}
}

// issues reads the named conditions, any of which makes an occasion, ordered by name.
func (r *reader) issues(n *portable.Node, scope expr.Scope) []definition.Issue {
	var all []definition.Issue
	for _, f := range r.named(n, "an issue") {
		if name := f.Key.Text; !isMadeOf(name, "-_.") {
			r.invalid(f.Key.Pos, fmt.Sprintf("%q is not the name of an issue", name), "a name has letters, digits, - _ and dots, such as LOW_BATTERY")
			continue
		}
		all = append(all, definition.Issue{Name: f.Key.Text, When: r.condition(f.Value, withPlaces(scope))})
	}
	slices.SortFunc(all, func(a, b definition.Issue) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// check reads when a trigger evaluates its records.
func (r *reader) check(n *portable.Node) definition.Check {
	if n == nil || n.Kind == portable.Broken {
		return definition.Check{Change: true}
	}
	var c definition.Check
	items := r.items(n)
	if n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, "this trigger is never evaluated", "write change, an interval such as 5m, or both")
	}
	for _, item := range items {
		if item.Kind == portable.Scalar && item.Text == checkChange {
			if c.Change {
				r.invalid(item.Pos, `"change" is listed twice`, "")
			}
			c.Change = true
			continue
		}
		every := r.lengthOr(item, "write change, or an interval such as 5m")
		switch {
		case every == 0:
		case c.Every != 0:
			r.invalid(item.Pos, "a trigger has one interval", "keep one of them")
		case every > maxCheck:
			r.invalid(item.Pos, "an interval is at most 24h", "")
		default:
			c.Every = every
		}
	}
	return c
}

// lengthOr reads a duration or a word; the hint names both.
func (r *reader) lengthOr(n *portable.Node, hint string) time.Duration {
	text, ok := r.text(n)
	if !ok {
		return 0
	}
	if _, err := civil.ParseDuration(text); err != nil {
		r.invalid(n.Pos, err.Error(), hint)
		return 0
	}
	d, _ := r.duration(n)
	return d.Exact()
}

// looks demands an interval when it cannot be computed when time alone changes the result (docs/concepts/conditions.md).
func (r *reader) looks(t *definition.Trigger, c *definition.OnCondition, when, issues *portable.Node) {
	if c.Check.Every != 0 {
		return
	}
	at := func(n *portable.Node, c *expr.Condition) {
		if line, bound := c.TimeBound(); bound {
			r.invalid(n.Pos, "it cannot be computed when time alone changes this: "+line, "write check: [change, 5m], so that it is also evaluated every 5 minutes")
		}
	}
	at(when, t.When)
	for _, issue := range c.Issues {
		at(issues.Get(issue.Name), issue.When)
	}
}

// cooldown reads the cooldown of a trigger; n is nil when issues imply the default one.
func (r *reader) cooldown(n *portable.Node, trigger string, issues []definition.Issue, scope expr.Scope) (c definition.Cooldown) {
	// A context is part of keys, so it must not depend on the instant at which it is computed.
	scope.Now, scope.Issues = false, len(issues) > 0
	var f fields
	if n != nil && n.Kind != portable.Broken {
		f, _ = r.fields(n, "cooldown")
	}
	if length := f.get("length"); length != nil && length.Text != cooldownOfPersona {
		c.Length = r.lengthOr(length, "write a duration such as 2h, or persona: the shortest of the audience's personas")
	}
	if per := f.get("per"); per != nil {
		for _, item := range r.items(per) {
			if p := r.expression(item, scope, expr.Any); p != nil {
				c.Per = append(c.Per, p)
			}
		}
	} else {
		c.Per = r.perRecord(scope)
	}
	c.Issues = r.cooldownOfIssues(f.get("issues"), trigger, issues)
	c.ResetOnClear = r.bool(f.get("reset_on_clear"), false)
	if n := f.get("reset_on_clear"); c.ResetOnClear && !c.OfRecord() && !r.stored && n.Kind != portable.Broken {
		r.invalid(n.Pos, "several records may share this cooldown: one that is well again would end it for those that are not", "add record.id to per, or remove it")
	}
	return c
}

// perRecord returns the default context: a record with its issues (product decision 1).
func (r *reader) perRecord(scope expr.Scope) []*expr.Program {
	sources := []string{definition.PerRecord}
	if scope.Issues {
		sources = append(sources, "issues")
	}
	programs := make([]*expr.Program, 0, len(sources))
	for _, source := range sources {
		if p, err := r.compiler.Compile(source, scope, expr.Any); err == nil { // both names exist in this scope
			programs = append(programs, p)
		}
	}
	return programs
}

func (r *reader) cooldownOfIssues(n *portable.Node, trigger string, issues []definition.Issue) map[string]time.Duration {
	lengths := map[string]time.Duration{}
	names := make([]string, len(issues))
	for i, issue := range issues {
		names[i] = issue.Name
	}
	for _, f := range r.named(n, "an issue") {
		if !slices.Contains(names, f.Key.Text) {
			hint := suggest.DidYouMean(f.Key.Text, names)
			if hint == "" {
				hint = "issues are written below issues: of the trigger"
			}
			r.report(definition.CodeReference, f.Key.Pos, fmt.Sprintf("trigger %s has no issue %q", trigger, f.Key.Text), hint)
			continue
		}
		if d, ok := r.duration(f.Value); ok {
			lengths[f.Key.Text] = d.Exact()
		}
	}
	return lengths
}

// limits reads how the limits of contacts apply to a trigger's messages.
func (r *reader) limits(n *portable.Node, workflowType string, t *definition.Trigger) definition.Limits {
	l := definition.Limits{AtCreate: definition.LimitDefer, AtSend: definition.LimitDefer, Revalidate: workflowType == "reminder" && t.Watch().Record != ""}
	if n == nil || n.Kind == portable.Broken {
		return l
	}
	f, ok := r.fields(n, "limits")
	if !ok {
		return l
	}
	l.Critical = r.bool(f.get("critical"), false)
	l.Uncounted = !r.bool(f.get("counts"), true)
	l.AtCreate = r.word(f.get("at_create"), "at_create", definition.LimitDefer, []string{definition.LimitDefer, definition.LimitSkip, definition.LimitFallback})
	if l.AtCreate == definition.LimitFallback && len(t.Fallback) == 0 {
		r.invalid(f.get("at_create").Pos, fmt.Sprintf("trigger %s has no fallback, so that its messages could only wait", t.ID), "name the channels below fallback:, or leave at_create out")
	}
	l.AtSend = r.word(f.get("at_send"), "at_send", definition.LimitDefer, []string{definition.LimitDefer, definition.LimitFail, definition.LimitFold})
	l.KeepQueued = !r.bool(f.get("supersede"), true)
	l.Revalidate = r.bool(f.get("revalidate"), l.Revalidate)
	if n := f.get("revalidate"); l.Revalidate && n != nil && (t.OnEvent() != nil || t.OnSchedule() != nil) {
		what := "an event"
		if t.OnSchedule() != nil {
			what = "a day of the calendar"
		}
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: %s does not change, so there is nothing to evaluate again", t.ID, what), "revalidate is for triggers with a record")
	}
	if span, ok := r.span(f.get("send_window")); ok {
		l.SendWindow = span
	}
	r.foldable(f.get("at_send"), t, l)
	return l
}

// foldable refuses at_send: fold when several messages cannot become one (R7).
func (r *reader) foldable(n *portable.Node, t *definition.Trigger, l definition.Limits) {
	if l.AtSend != definition.LimitFold {
		return
	}
	refuse := func(what, hint string) {
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: at_send: fold does not go with %s", t.ID, what), hint)
	}
	switch {
	case l.Critical:
		refuse("critical: true", "what is critical waits for nothing, so that there is nothing to fold")
	case l.Uncounted:
		refuse("counts: false", "several messages become one to use up fewer limits, and this one uses up none")
	}
	for _, channel := range append([]string{t.Channel}, t.Fallback...) {
		if kind, _, _ := strings.Cut(channel, ":"); kind == "webhook" {
			refuse(kind, "programs get each message by itself: write at_send: defer")
			break
		}
	}
	if c := t.OnCondition(); len(t.Message.Data) > 0 || c != nil && c.Resolved != nil && len(c.Resolved.Data) > 0 {
		refuse("data", "a report is read by itself: write at_send: defer")
	}
	if t.Message.Survey != "" {
		refuse("a survey", "each is answered by itself: write at_send: defer")
	}
	if len(t.Timing.Reminders) > 0 {
		refuse("reminders", "the reminders of a message that left with another one would never come: write at_send: defer, or leave the reminders out")
	}
}

// reachable refuses a send window that lies completely in the quiet hours of a persona of the audience.
func (r *reader) reachable(n *portable.Node, set *definition.Set, t *definition.Trigger) {
	if r.stored || n == nil || t.Limits.SendWindow.IsZero() || t.Limits.Critical {
		return
	}
	kind, _, _ := strings.Cut(t.Channel, ":")
	at, common := n.Get("send_window").Pos, set.Workspace.Cadence.For(kind)
	for _, name := range t.Personas() {
		p := set.Persona(name)
		if p == nil {
			continue
		}
		whose, own := "has", p.Cadence.For(kind)
		if own.Empty() { // it uses the workspace's limits
			whose = "has the workspace's"
		}
		if quiet := cadence.Effective(cadence.Policy{}, own, common).Quiet; covers(quiet, t.Limits.SendWindow) {
			r.invalid(at, fmt.Sprintf("persona %s %s quiet hours %s, which cover all of the send window", name, whose, quiet), "nothing could ever leave: move one of them")
		}
	}
	if others := slices.ContainsFunc(t.Audience, func(a definition.Audience) bool { return a.Persona == "" }); others && covers(common.Quiet, t.Limits.SendWindow) {
		r.warn(definition.CodeLint, at, fmt.Sprintf("the workspace has quiet hours %s, which cover all of the send window", common.Quiet), "nothing could ever leave for people without other limits: move one of them")
	}
}

// covers reports whether every moment of inner lies in outer.
func covers(outer, inner civil.Span) bool {
	const day = 24 * 60 * 60
	if outer.IsZero() || inner.IsZero() {
		return false
	}
	length := func(s civil.Span) int { return (int(s.To) - int(s.From) + day) % day }
	begins := (int(inner.From) - int(outer.From) + day) % day
	return begins+length(inner) <= length(outer)
}

// fallback reads the channels that are tried after the first one.
func (r *reader) fallback(n *portable.Node, set *definition.Set, first string) []string {
	var all []string
	for _, item := range r.items(n) {
		name, ok := r.channelKey(item)
		switch {
		case !ok:
		case name == first:
			r.invalid(item.Pos, fmt.Sprintf("%s is the channel already", item.Text), "name another one, or remove it")
		case slices.Contains(all, name):
			r.invalid(item.Pos, fmt.Sprintf("%s is listed twice", item.Text), "")
		default:
			if set.Channel(name) == nil {
				r.unresolved(reference{definition.KindChannel, name, item.Text}, item.Pos, r.noChannel(name), false)
			}
			all = append(all, name)
		}
	}
	return all
}

// personaRef names the persona of an entry of the audience.
func (r *reader) personaRef(n *portable.Node, set *definition.Set) string {
	name, ok := r.defName(n)
	if ok && set.Persona(name) == nil {
		r.unresolved(reference{definition.KindPersona, name, name}, n.Pos, r.undefined(definition.KindPersona, name), false)
	}
	return name
}

// timingOnRecord reads when the occasions of a record are due, and refuses keys that need a date to count from.
func (r *reader) timingOnRecord(f fields, scope expr.Scope, t *definition.Trigger) {
	plan := t.OnPlan()
	if plan != nil {
		before := len(r.problems)
		plan.Dates = r.dates(f, scope, t)
		r.course(f, scope, t, before)
		t.StopWhen = r.condition(f.get("stop_when"), withPlaces(scope))
		if n := f.get("stop_when"); n != nil && t.StopWhen != nil && plan.Check.Every == 0 {
			if line, bound := t.StopWhen.TimeBound(); bound {
				r.invalid(n.Pos, "it cannot be computed when time alone changes this: "+line, "write check: [change, 5m], so that it is also evaluated every 5 minutes")
			}
		}
	} else {
		if n := f.get("anchor"); n != nil && n.Kind != portable.Broken {
			r.invalid(n.Pos, fmt.Sprintf("trigger %s: a cooldown and a date exclude each other", t.ID), "leave cooldown out: by a date it fires once; or the anchor: a message counts from the moment at which the condition is met")
		}
		r.onlyAhead(f)
	}
	before := t.Timing.Offset.Negative() || plan != nil && !dated(f) && plan.Dates.Offsets[0].Negative()
	if n := f.get("offset"); n != nil && before {
		r.invalid(n.Pos, "nothing can leave before the condition is met", "write an offset such as 10m, or for: how long it must have held")
	}
}

// exceptAhead is the hint for keys that only triggers on events and those that plan ahead have.
const exceptAhead = "except for triggers on events, and for those on records that have neither issues nor a cooldown"

// exceptPlanned is the hint for keys that only triggers have that plan ahead.
const exceptPlanned = "except for triggers on records that have neither issues nor a cooldown"

// onlyAhead refuses the keys that only triggers on events and those that plan ahead have.
func (r *reader) onlyAhead(f fields) {
	for _, name := range append(ofCourses(), "at", "timezone", "follow_zone", "dst", "stop_when", "missing_day", "late_joiner") {
		if n := f.get(name); n != nil && n.Kind != portable.Broken {
			hint := exceptAhead
			switch name {
			case "late_joiner", "reset_on", "follow_zone": // an event does not change afterwards
				hint = exceptPlanned
			case "stop_when":
				hint = exceptPlanned + ", and for those with a schedule"
			}
			r.notYet(n.Pos, name, hint)
		}
	}
}

// occasion demands that a trigger that plans ahead says what makes its occasions.
func (r *reader) occasion(n *portable.Node, t *definition.Trigger, dated bool) {
	plan := t.OnPlan()
	switch {
	case t.OnSchedule() != nil && t.Pin:
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: pin: true is for events: what a schedule makes follows its definition", t.ID), "remove pin")
	case plan == nil || n.Partial:
	case t.Anchor == nil && n.Get("when") == nil && n.Get("metric") == nil && !dated:
		r.report(definition.CodeMissing, n.Pos, fmt.Sprintf("trigger %s has neither when nor issues, nor a metric, nor an anchor in its timing", t.ID), "when: record.battery_level < 20")
	case t.Anchor != nil && plan.Metric != nil:
		r.invalid(n.Get("metric").Pos, fmt.Sprintf("trigger %s: a metric and a date exclude each other", t.ID), "make a trigger of each")
	case t.Anchor != nil && plan.Fire != "" && plan.Fire != definition.FireOncePerSource:
		r.invalid(n.Get("fire").Pos, fmt.Sprintf("trigger %s: by a date it fires once for each date and offset", t.ID), "remove fire")
	case plan.Course != nil && plan.Metric != nil:
		r.invalid(n.Get("metric").Pos, fmt.Sprintf("trigger %s: a metric and a course exclude each other", t.ID), "make a trigger of each")
	case plan.Course != nil && plan.Fire == definition.FireOncePerDay:
		r.invalid(n.Get("fire").Pos, fmt.Sprintf("trigger %s: a course begins once for each record, or with false_to_true each time that its condition becomes true", t.ID),
			"remove fire, or write fire: false_to_true")
	case t.Pin:
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: pin: true is for events: what is planned by a record follows its definition", t.ID), "remove pin")
	}
	if own := n.Get("resolved"); own != nil && plan != nil {
		r.invalid(own.Pos, fmt.Sprintf("trigger %s: resolved is for issues, and for when with a cooldown", t.ID), "remove it: a reminder is withdrawn where it no longer holds")
	}
}

// canClear checks that a workflow with a resolved message has a trigger whose condition can clear.
func (r *reader) canClear(resolved *portable.Node, w *definition.Workflow) {
	if resolved == nil || len(w.Trigger) == 0 || slices.ContainsFunc(w.Trigger, func(t *definition.Trigger) bool { return t.OnCondition() != nil }) {
		return
	}
	r.invalid(resolved.Pos, fmt.Sprintf("workflow %s: resolved is for triggers on records with issues or a cooldown", r.name), "remove it: an event is never over, and a reminder is withdrawn where it no longer holds")
}
