package loader

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/suggest"
)

// persona reads a persona and its limits.
func (r *reader) persona(root *portable.Node) *definition.Persona {
	p := &definition.Persona{Name: r.name}
	if f, ok := r.fields(root, "persona"); ok {
		n, before := f.get("cadence"), len(r.problems)
		p.Cadence = r.cadence(n)
		if n != nil && len(r.problems) == before && !p.HasLimits() {
			r.warn(definition.CodeLint, n.Pos, "persona "+p.Name+" sets no limit, so its people have those of the workspace",
				"leave cadence out; or write a limit that nobody reaches, such as max_per_day: 1000, if they shall have none")
		}
	}
	return p
}

// cadence reads limits. The limits for a kind of channel replace the general ones as a whole, as every block does (A41).
func (r *reader) cadence(n *portable.Node) cadence.Rules {
	var rules cadence.Rules
	if n == nil || n.Kind == portable.Broken {
		return rules
	}
	f, ok := r.fields(n, "cadence")
	if !ok {
		return rules
	}
	rules.Policy = r.policy(f)
	rules.Total = r.total(f.get("total"))
	r.lintTotal(f, rules.Policy)
	for _, own := range r.named(f.get("channels"), "a kind of channel") {
		if kind := own.Key.Text; !isMadeOf(kind, "-_.") {
			r.invalid(own.Key.Pos, fmt.Sprintf("%q is not a kind of channel", kind), "limits are counted by kind: sms is all of sms:NAME")
			continue
		} else if known := definition.KindsWith(r.defined(definition.KindChannel)); !slices.Contains(known, kind) {
			r.report(definition.CodeReference, own.Key.Pos, fmt.Sprintf("there are no channels of kind %q", kind), cmp.Or(suggest.DidYouMean(kind, known), "kinds are "+sentence(known)+", and those of your own: channel: "+kind))
			continue
		}
		f, ok := r.fields(own.Value, "channel_cadence")
		if !ok {
			continue
		}
		if rules.Channels == nil {
			rules.Channels = map[string]cadence.Policy{}
		}
		rules.Channels[own.Key.Text] = r.policy(f)
	}
	return rules
}

// total reads the limits over all kinds of channels.
func (r *reader) total(n *portable.Node) (t cadence.Total) {
	if n == nil || n.Kind == portable.Broken {
		return t
	}
	f, ok := r.fields(n, "total")
	if !ok {
		return t
	}
	for _, limit := range []struct {
		key  string
		into *int
	}{
		{"max_per_day", &t.MaxPerDay}, {"max_per_week", &t.MaxPerWeek}, {"max_per_month", &t.MaxPerMonth},
	} {
		if n := f.get(limit.key); n != nil {
			*limit.into = r.limit(n, "total: "+limit.key)
		}
	}
	return t
}

// lintTotal warns about limits that can never be reached because the total is smaller.
func (r *reader) lintTotal(f fields, p cadence.Policy) {
	warn := func(n *portable.Node, key string, limit int, of string, total int) {
		if n != nil && total > 0 && limit > total {
			r.warn(definition.CodeLint, n.Pos, fmt.Sprintf("%s %d is never reached: %s is %d", key, limit, of, total), "")
		}
	}
	t := p.Total
	warn(f.get("max_per_day"), "max_per_day", p.MaxPerDay, "total: max_per_day", t.MaxPerDay)
	warn(f.get("max_per_week"), "max_per_week", p.MaxPerWeek, "total: max_per_week", t.MaxPerWeek)
	warn(f.get("max_per_month"), "max_per_month", p.MaxPerMonth, "total: max_per_month", t.MaxPerMonth)
	if n := f.get("total"); n != nil && n.Kind == portable.Map {
		warn(n.Get("max_per_day"), "total: max_per_day", t.MaxPerDay, "total: max_per_week", t.MaxPerWeek)
		warn(n.Get("max_per_week"), "total: max_per_week", t.MaxPerWeek, "total: max_per_month", t.MaxPerMonth)
	}
}

// policy reads the limits of one block.
func (r *reader) policy(f fields) cadence.Policy {
	var p cadence.Policy
	if n := f.get("cooldown"); n != nil {
		p.Cooldown = r.gap(n)
	}
	for _, limit := range []struct {
		key  string
		into *int
	}{
		{"max_per_day", &p.MaxPerDay}, {"max_per_week", &p.MaxPerWeek}, {"max_per_month", &p.MaxPerMonth}, {"max_per_slot", &p.MaxPerSlot},
	} {
		if n := f.get(limit.key); n != nil {
			*limit.into = r.limit(n, limit.key)
		}
	}
	if n := f.get("type_limits"); n != nil {
		p.TypeLimits = r.typeLimits(n)
	}
	if n := f.get("types"); n != nil {
		p.Types = r.types(n)
	}
	if span, ok := r.span(f.get("quiet_hours")); ok {
		p.Quiet = span
	}
	if n := f.get("resume_at"); n != nil {
		if text, ok := r.text(n); ok {
			at, err := civil.ParseTimeOfDay(text)
			if err != nil {
				r.refuse(n, err)
			}
			p.ResumeAt = at
		}
	}
	if n := f.get("window"); n != nil {
		p.Rolling = r.word(n, "window", definition.WindowCalendar, []string{definition.WindowCalendar, definition.WindowRolling}) == definition.WindowRolling
	}
	if n := f.get("count"); n != nil {
		p.Count = cadence.Count(r.word(n, "count", string(cadence.CountCommitted), []string{string(cadence.CountCommitted), string(cadence.CountSent)}))
	}
	if d, ok := r.duration(f.get("slot_grace")); ok {
		p.SlotGrace = d.Exact()
	}
	r.lintPolicy(f, p)
	return p
}

// gap reads a duration; 0 means none (product decision 10).
func (r *reader) gap(n *portable.Node) time.Duration {
	if n.Kind == portable.Scalar && n.Text == "0" {
		return 0
	}
	d, _ := r.duration(n)
	return d.Exact()
}

// limit reads a number of messages; 0 means no limit, and negative numbers are refused (product decision 10).
func (r *reader) limit(n *portable.Node, key string) int {
	const most = 1_000_000
	if n.Kind == portable.Broken {
		return 0
	}
	value, err := strconv.Atoi(n.Text)
	switch {
	case err != nil || !n.IsNumber() || value > most:
		r.wrong(n, fmt.Sprintf("a whole number from 0 to %d", most), "")
		return 0
	case value < 0:
		r.invalid(n.Pos, key+" is negative", "0 or nothing means no limit")
		return 0
	}
	return value
}

func (r *reader) typeLimits(n *portable.Node) map[string]int {
	limits := map[string]int{}
	for _, f := range r.named(n, "a type") {
		if !slices.Contains(WorkflowTypes(), f.Key.Text) {
			r.noType(f.Key)
			continue
		}
		limits[f.Key.Text] = r.limit(f.Value, "type_limits: "+f.Key.Text)
	}
	return limits
}

func (r *reader) types(n *portable.Node) []string {
	var types []string
	items := r.items(n)
	if n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, "the list of types is empty", "leave it out: every type counts then")
	}
	for _, item := range items {
		switch text, ok := r.text(item); {
		case !ok:
		case !slices.Contains(WorkflowTypes(), text):
			r.noType(item)
		case slices.Contains(types, text):
			r.invalid(item.Pos, fmt.Sprintf("%q is listed twice", text), "")
		default:
			types = append(types, text)
		}
	}
	return types
}

func (r *reader) noType(n *portable.Node) {
	hint := suggest.DidYouMean(n.Text, WorkflowTypes())
	if hint == "" {
		hint = "types are " + sentence(WorkflowTypes())
	}
	r.invalid(n.Pos, fmt.Sprintf("%q is not a type of workflow", n.Text), hint)
}

// lintPolicy warns about limits that can never be reached.
func (r *reader) lintPolicy(f fields, p cadence.Policy) {
	above := func(limit, other int) bool { return other > 0 && limit > other }
	for _, pair := range []struct {
		key, other     string
		limit, smaller int
	}{
		{"max_per_day", "max_per_week", p.MaxPerDay, p.MaxPerWeek}, {"max_per_week", "max_per_month", p.MaxPerWeek, p.MaxPerMonth},
	} {
		if above(pair.limit, pair.smaller) {
			r.warn(definition.CodeLint, f.get(pair.key).Pos, fmt.Sprintf("%s %d is never reached: %s is %d", pair.key, pair.limit, pair.other, pair.smaller), "")
		}
	}
	n := f.get("type_limits")
	if n == nil || n.Kind != portable.Map {
		return
	}
	for _, limit := range n.Fields {
		typ, count := limit.Key.Text, p.TypeLimits[limit.Key.Text]
		switch {
		case above(count, p.MaxPerDay):
			r.warn(definition.CodeLint, limit.Key.Pos, fmt.Sprintf("the limit of %d for %s is never reached: max_per_day is %d", count, typ, p.MaxPerDay), "")
		case count > 0 && len(p.Types) > 0 && !slices.Contains(p.Types, typ):
			r.warn(definition.CodeLint, limit.Key.Pos, fmt.Sprintf("the limit for %s is never reached: types does not name it", typ), "")
		}
	}
}

// named returns the entries of a map whose keys the author chooses.
func (r *reader) named(n *portable.Node, key string) []portable.Field {
	switch {
	case n == nil || n.Kind == portable.Broken:
		return nil
	case n.Kind != portable.Map:
		hint := ""
		if n.Kind == portable.List {
			hint = "write NAME: VALUE, without dashes and brackets"
		}
		r.wrong(n, "a map from "+key+" to its value", hint)
		return nil
	case len(n.Fields) == 0 && !n.Partial:
		r.invalid(n.Pos, "this map is empty", "write a value, or remove the line")
	}
	return n.Fields
}

// span reads a part of the day, which may cross midnight.
func (r *reader) span(n *portable.Node) (civil.Span, bool) {
	text, ok := r.text(n)
	if !ok {
		return civil.Span{}, false
	}
	span, err := civil.ParseSpan(text)
	if err != nil {
		r.refuse(n, err)
		return civil.Span{}, false
	}
	return span, true
}
