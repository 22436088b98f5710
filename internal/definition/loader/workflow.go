package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/suggest"
)

// ownEvents is the prefix of the engine's own condition events. Callers cannot post them, and no trigger can listen to them: triggers
// evaluate the records themselves.
const ownEvents = "condition."

// blocks are the blocks of a workflow that a trigger may replace as a whole.
type blocks struct{ timing, audience, channel, fallback, message, resolved, limits, priority *portable.Node }

func blocksOf(f fields) blocks {
	return blocks{
		f.get("timing"), f.get("audience"), f.get("channel"), f.get("fallback"), f.get("message"), f.get("resolved"), f.get("limits"), f.get("priority"),
	}
}

// each returns pointers to the blocks, in a fixed order.
func (b *blocks) each() []**portable.Node {
	return []**portable.Node{&b.timing, &b.audience, &b.channel, &b.fallback, &b.message, &b.resolved, &b.limits, &b.priority}
}

// over returns the blocks, replaced by those of a trigger where it has them.
func (b blocks) over(own blocks) blocks {
	for i, block := range own.each() {
		if *block != nil {
			*b.each()[i] = *block
		}
	}
	return b
}

// without drops the blocks that a trigger inherits, so that they count as read.
func (b blocks) without(own blocks) blocks {
	for i, block := range own.each() {
		if *block == nil {
			*b.each()[i] = nil
		}
	}
	return b
}

func (b blocks) lacking() []string {
	var names []string
	for _, p := range []struct {
		name string
		node *portable.Node
	}{{"audience", b.audience}, {"channel", b.channel}, {"message", b.message}} {
		if p.node == nil && !b.ofEachMessage(p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// workflow reads a workflow and resolves what its triggers replace.
func (r *reader) workflow(root *portable.Node, set *definition.Set) *definition.Workflow {
	f, _ := r.fields(root, "workflow")
	r.vars, r.anyVar = r.constantsOf(f.get("vars"))
	w := &definition.Workflow{
		Name: r.name, Type: r.word(f.get("type"), "type", "", WorkflowTypes()), Enabled: r.bool(f.get("enabled"), true),
		ExtID: r.name, Locale: r.locale(f.get("locale")), Vars: r.vars,
	}
	if n := f.get("ext_id"); n != nil {
		w.ExtID, _ = r.text(n)
	}
	r.text(f.get("description"))
	w.Digest = r.digest(f.get("digest"), w.Type)
	retry := set.Workspace.Retry
	if n := f.get("retry"); n != nil {
		retry = r.retry(n)
	}
	shared := blocksOf(f)
	var problems []string
	problems = append(problems, r.missing(f)...)

	triggers := f.get("triggers")
	items := r.triggers(triggers)
	if (triggers == nil || len(r.items(triggers)) == 0) && !f.node.Partial {
		problems = append(problems, shared.lacking()...)
	}
	ids := map[string]bool{}
	var lacking []lack
	unused, scope := shared, ofAnything()
	for _, item := range items {
		t, own := r.trigger(item, ids, set, len(items) == 1)
		t.Retry, t.Pin = retry, r.bool(f.get("pin"), t.Watch().Record == "" && t.OnSchedule() == nil) // product decision 55
		whole := shared.over(own)
		unused, scope = unused.without(own), r.scope(item, set)
		if !f.node.Partial && item.Kind == portable.Map && !item.Partial {
			lacking = append(lacking, lack{t.ID, item.Pos, whole.lacking()})
		}
		if t.Watch().Record == "" { // reported by canClear, or by the trigger itself
			whole.resolved = nil
		}
		r.blocks(whole, scope, set, w, t)
		dated := whole.timing != nil && whole.timing.Get("anchor") != nil
		r.occasion(item, t, dated)
		if s := t.OnSchedule(); s != nil && s.ByContact && w.Type == "report" {
			r.invalid(item.Get("schedule").Get("timezone").Pos, fmt.Sprintf("trigger %s: a report is about one period, and so in one zone", t.ID), "write a zone, or another type such as broadcast")
		}
		r.digestTrigger(t, w, item, whole.timing)
		r.repairs(t, item.Get("reconcile"), scope, dated)
		w.Trigger = append(w.Trigger, t)
	}
	if n := f.get("retry"); n != nil && !f.node.Partial {
		r.expands(n, w)
	}
	problems = append(problems, r.lacking(lacking)...)
	r.blocks(unused, scope, set, w, &definition.Trigger{}) // the mistakes of blocks that every trigger replaces
	r.canClear(shared.resolved, w)
	if len(problems) > 0 {
		r.report(definition.CodeMissing, root.Pos, fmt.Sprintf("workflow %s has no %s", r.name, sentence(problems)), suchAs(problems, scope))
	}
	if n := f.get("digest"); n != nil && w.Digest != nil && len(w.Trigger) > 0 && !f.node.Partial && !slices.ContainsFunc(w.Trigger, func(t *definition.Trigger) bool { return t.Digest != nil }) {
		r.invalid(n.Pos, "no trigger makes digests", "add a trigger with a schedule, or remove digest")
	}
	w.MaxSends = r.maxSends(shared.limits, items)
	w.Sinks = r.sinkRefs(f.get("sinks"), set, w)
	return w
}

// triggers returns the triggers of a workflow, and reports a list that is none or empty.
func (r *reader) triggers(n *portable.Node) []*portable.Node {
	items := r.items(n)
	if first := r.namedTrigger(n); first != "" {
		r.invalid(n.Pos, "triggers are a list", fmt.Sprintf("write - id: %s, and its other keys in the column of id", first))
		return nil
	}
	if n != nil && n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, "a workflow needs at least one trigger", "")
	}
	return items
}

// repairs reads how often what a trigger on records plans is compared with the records.
func (r *reader) repairs(t *definition.Trigger, n *portable.Node, scope expr.Scope, dated bool) {
	if t.Watch().Record == "" {
		return
	}
	repair := r.reconcile(t, n, scope, dated)
	if plan := t.OnPlan(); plan != nil {
		plan.Reconcile = repair
	}
}

// namedTrigger returns the name of the first trigger when triggers are written, by mistake, as a map by name.
func (r *reader) namedTrigger(n *portable.Node) string {
	if n == nil || n.Kind != portable.Map || len(n.Fields) == 0 {
		return ""
	}
	first := n.Fields[0]
	if r.tables["trigger"].entry(first.Key.Text) != nil || first.Value.Kind != portable.Map {
		return ""
	}
	return first.Key.Text
}

// suchAs shows how the first of the missing keys is written.
func suchAs(missing []string, scope expr.Scope) string {
	if missing[0] == "type" {
		return "type is " + alternatives(WorkflowTypes())
	}
	lines := map[string]string{
		"triggers": "triggers: [{id: placed, event: order-placed}]",
		"audience": "audience: {to: event.recipient}", "channel": "channel: inbox", "message": "message: {inbox: {text: Hello}}",
	}
	if !scope.Event {
		lines["audience"] = "audience: {persona: Manager}"
	}
	if line := lines[missing[0]]; line != "" {
		return "write it like " + line
	}
	return ""
}

// lack lists the blocks that a trigger has neither of its own nor from its workflow.
type lack struct {
	id     string
	at     portable.Pos
	blocks []string
}

// lacking returns the blocks that every trigger lacks, and reports those that only some lack.
func (r *reader) lacking(all []lack) []string {
	var everywhere []string
	if len(all) > 0 {
		everywhere = slices.DeleteFunc(slices.Clone(all[0].blocks), func(block string) bool {
			return slices.ContainsFunc(all, func(l lack) bool { return !slices.Contains(l.blocks, block) })
		})
	}
	for _, l := range all {
		own := slices.DeleteFunc(l.blocks, func(block string) bool { return slices.Contains(everywhere, block) })
		if len(own) > 0 {
			r.report(definition.CodeMissing, l.at, fmt.Sprintf("trigger %s has no %s", l.id, sentence(own)), "write it here, or once for the whole workflow")
		}
	}
	return everywhere
}

// constantsOf reads the constants of a workflow. If some could not be read, any name is accepted.
func (r *reader) constantsOf(n *portable.Node) (vars map[string]any, anyVar bool) {
	if n == nil {
		return nil, false
	}
	if n.Kind != portable.Map {
		r.wrong(n, "a map of names and values", "")
		return nil, true
	}
	for _, f := range n.Fields {
		if name := f.Key.Text; !isMadeOf(name, "_") || '0' <= name[0] && name[0] <= '9' {
			r.invalid(f.Key.Pos, fmt.Sprintf("%q is not a name that an expression can read", name), "it has letters, digits and _, and does not begin with a digit")
		}
	}
	vars, _ = n.Value().(map[string]any)
	return vars, n.Partial
}

// ofAnything returns the names that exist when it is unknown whether a trigger is on an event, on records or on a schedule.
func ofAnything() expr.Scope {
	return expr.Scope{
		Event: true, Record: true, Item: true, Vars: true, Workspace: true, Now: true, Metric: true, Issues: true, Period: true, Iteration: true,
	}
}

// withPlaces returns a scope in which the places above those of the record are known: that of conditions that are evaluated with the record.
func withPlaces(s expr.Scope) expr.Scope {
	s.RecordPlaces = s.Record
	return s
}

// isOfAnything reports whether the kind of a trigger is unknown, which was already reported.
func isOfAnything(s expr.Scope) bool { return s.Event && s.Record }

// scope says which names exist in the expressions of a trigger.
func (r *reader) scope(trigger *portable.Node, set *definition.Set) expr.Scope {
	s := expr.Scope{Vars: true, Workspace: true, Now: true}
	switch record := trigger.Get("record"); {
	case present(record, trigger.Get("event"), trigger.Get("schedule")) != 1, record != nil && key.Slug(record.Text) != nil:
		return ofAnything()
	case record != nil:
		s.Record = true
		if !r.stored { // an accepted document is not refused because a type has changed
			s.RecordType = set.RecordType(record.Text)
		}
	case trigger.Get("schedule") != nil: // an iteration is counted from the first day
		s.Period, s.Iteration = trigger.Get("schedule").Get("period") != nil, trigger.Get("schedule").Get("from") != nil
	default:
		s.Event = true
	}
	if event := trigger.Get("event"); event != nil {
		s.Event, s.Item = true, event.Text == definition.ItemPublished
	}
	return s
}

// trigger reads a trigger's own keys and blocks.
func (r *reader) trigger(n *portable.Node, ids map[string]bool, set *definition.Set, sole bool) (*definition.Trigger, blocks) {
	t := &definition.Trigger{Enabled: true}
	r.triggerAt[t] = n.Pos
	f, ok := r.fields(n, "trigger")
	if !ok {
		return t, blocks{}
	}
	r.nameless(n, f, sole)
	if id := f.get("id"); id != nil {
		t.ID, _ = r.slug(id)
		if t.ID != "" && ids[t.ID] {
			r.report(definition.CodeDuplicate, id.Pos, fmt.Sprintf("there are two triggers %s", t.ID), "give each an id of its own")
		}
		ids[t.ID] = true
	}
	r.text(f.get("description"))
	t.Enabled = r.bool(f.get("enabled"), true)
	event, record, schedule := f.get("event"), f.get("record"), f.get("schedule")
	switch given := present(event, record, schedule); {
	case given == 0 && !f.node.Partial:
		r.report(definition.CodeMissing, n.Pos, fmt.Sprintf("trigger %s has neither event nor record nor schedule", t.ID), "event: the kind of event that makes an occasion, record: the type of records to evaluate, or schedule: when it recurs")
	case given > 1:
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: event, record and schedule exclude each other", t.ID), "make a trigger of each")
	}
	source := &definition.OnEvent{}
	if name, ok := r.defName(event); ok {
		if strings.HasPrefix(name, ownEvents) {
			r.notYet(event.Pos, name, "this product does not emit events of its own yet")
		} else {
			source.Kind, t.Source = name, source
		}
	}
	scope := r.scope(n, set)
	t.When = r.condition(f.get("when"), withPlaces(scope))
	r.laterInTrigger(f, t.ID)
	switch {
	case record != nil && event == nil && schedule == nil:
		r.onRecord(t, f, scope)
	case schedule != nil && event == nil && record == nil:
		r.onSchedule(t, f)
	case event != nil && record == nil:
		r.onEvent(t, f)
	}
	source.DedupScope = r.word(f.get("dedup_scope"), "dedup_scope", definition.DedupWorkflow, []string{definition.DedupWorkflow, definition.DedupWorkspace})
	source.DedupMissing = r.word(f.get("dedup_missing"), "dedup_missing", definition.DedupAllow, []string{definition.DedupAllow, definition.DedupReject})
	if dedup := f.get("dedup"); dedup != nil {
		r.dedupAt[source] = dedup.Pos
		source.Dedup = r.dedup(dedup)
	}
	return t, blocksOf(f)
}

func present(nodes ...*portable.Node) int {
	count := 0
	for _, n := range nodes {
		if n != nil {
			count++
		}
	}
	return count
}

// dedup reads the dedup paths into the event (C8).
func (r *reader) dedup(n *portable.Node) []string {
	var paths []string
	before := len(r.problems)
	if n.Kind == portable.List && len(n.Items) == 0 {
		r.invalid(n.Pos, "the recipe is empty", "leave it out: an event is known by its id then")
	}
	for _, item := range r.items(n) {
		path, ok := r.text(item)
		if !ok {
			continue
		}
		root, field, _ := strings.Cut(path, ".")
		recipient := []string{"address", "locale", "customer_ref", "customerRef"}
		switch {
		case strings.ContainsAny(path, " \t\n=") || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, ".."):
			r.invalid(item.Pos, fmt.Sprintf("%q is not a path", path), "a path is written candidate.wip, recipient.address, templateId or id")
		case root == "recipient" && !slices.Contains(recipient, field):
			hint := suggest.DidYouMean(field, recipient)
			if hint == "" {
				hint = "a recipient has " + sentence(recipient[:3])
			}
			r.invalid(item.Pos, fmt.Sprintf("a recipient has no %q", field), hint)
		case path != "templateId" && strings.EqualFold(path, "templateId"):
			r.invalid(item.Pos, fmt.Sprintf("%q is not a path", path), "did you mean templateId?")
		case slices.Contains(paths, path):
			r.invalid(item.Pos, fmt.Sprintf("%q is listed twice in the recipe", path), "")
		default:
			paths = append(paths, path)
		}
	}
	if len(r.problems) > before {
		return nil
	}
	return paths
}

// blocks reads the blocks of a workflow into a trigger.
func (r *reader) blocks(b blocks, scope expr.Scope, set *definition.Set, w *definition.Workflow, t *definition.Trigger) {
	before := len(r.problems)
	r.about, r.around = subjectsOf(scope), scope
	if b.timing != nil {
		r.timing(b.timing, scope, t)
	}
	if t.ID == "" && t.OnSchedule() == nil { // the mistakes of blocks that belong to no trigger
		r.about.metric, r.about.date, r.about.digest, r.about.subscribers, r.about.manage, r.about.confirm = true, true, true, true, true, true
	} else if plan := t.OnPlan(); plan != nil {
		r.about.metric, r.about.date = plan.Metric != nil, t.Anchor != nil || b.timing != nil && isDated(b.timing.Get("anchor"))
	}
	if t.Course() != nil {
		r.about.count = true
	}
	t.Audience = r.audience(b.audience, scope, set)
	if w.Digest != nil && t.OnSchedule() != nil {
		r.about.digest, r.about.subscribers = true, true
	} else if scope.Item && !slices.ContainsFunc(t.Audience, func(a definition.Audience) bool { return a.Topics == "" }) {
		r.about.subscribers = true
	}
	on := t.OnEvent()
	r.about.confirm = r.about.confirm || on != nil && on.Kind == definition.SubscriptionRequested
	r.about.manage = r.about.manage || r.about.subscribers || on != nil && (on.Kind == definition.LinkRequested || on.Kind == definition.SubscriptionRequested)
	if key, ok := r.channelRef(b.channel, set); ok {
		t.Channel = key
	}
	t.Fallback = r.fallback(b.fallback, set, t.Channel)
	channels := append([]string{t.Channel}, t.Fallback...)
	if b.message != nil {
		t.Message = r.message(b.message, set, channels...)
	}
	if t.Timing.AcceptLate && b.message != nil && t.Message.Survey == "" {
		r.invalid(b.timing.Get("accept_late").Pos, "accept_late is for a message with a survey", "remove it: nobody can answer this message")
	}
	r.reminded(b.timing, t)
	if b.resolved != nil {
		resolved := r.message(b.resolved, set, channels...)
		if t.Message.Converses || resolved.Converses {
			r.invalid(b.resolved.Pos, "a conversation has no resolved message, and is none", "remove resolved, or ask by a page: mode: link")
		}
		if c := t.OnCondition(); c != nil {
			c.Resolved = &resolved
		}
	}
	r.addressed(t, channels)
	t.Limits = r.limits(b.limits, w.Type, t)
	t.Priority = r.priority(b.priority, w.Digest != nil && t.OnSchedule() != nil)
	r.brakes(b.limits, t)
	r.reachable(b.limits, set, t)
	r.forms(b, scope, set, t)
	r.person(b.timing, set, t, definition.HasErrors(r.problems[before:]))
	r.ownZone(b.timing, t)
}
