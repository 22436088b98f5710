package loader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
)

func fireWords() []string {
	return []string{definition.FireOncePerSource, definition.FireOncePerThreshold, definition.FireOncePerDay, definition.FireFalseToTrue}
}

// metric reads a number and its thresholds.
func (r *reader) metric(n *portable.Node, scope expr.Scope) *definition.Metric {
	if n == nil || n.Kind == portable.Broken {
		return nil
	}
	f, ok := r.fields(n, "metric")
	if !ok {
		return nil
	}
	r.need(f)
	m := &definition.Metric{}
	if name := f.get("name"); name != nil {
		m.Name, _ = r.slug(name)
	}
	value := f.get("value")
	m.Value = r.expression(value, scope, expr.Number)
	list := f.get("thresholds")
	if list != nil && list.Kind == portable.List && len(list.Items) == 0 {
		r.invalid(list.Pos, "a metric needs at least one threshold", "[80, 90]")
	}
	for _, item := range r.items(list) {
		number := r.number(item)
		if number == nil {
			continue
		}
		canonical, err := key.CanonicalJSON(*number)
		if err != nil {
			r.refuse(item, err)
			continue
		}
		at := definition.Threshold{Name: string(canonical), Value: *number}
		if last := len(m.Thresholds) - 1; last >= 0 && m.Thresholds[last].Value >= at.Value {
			r.invalid(item.Pos, "thresholds must ascend", "[80, 90]")
			continue
		}
		if m.Value != nil {
			// The value has passed, and a comparison of it with a number passes too.
			if at.When, err = r.compiler.Line("("+m.Value.Source()+") >= "+strconv.FormatFloat(at.Value, 'f', -1, 64), scope); err != nil {
				r.refuse(value, err)
			}
		}
		m.Thresholds = append(m.Thresholds, at)
	}
	return m
}

// ahead reads the keys of a trigger that plans ahead, except its timing.
func (r *reader) ahead(t *definition.Trigger, check definition.Check, f fields, scope expr.Scope) (m *definition.Metric, fires string) {
	metric, fire, issues, cooldown := f.get("metric"), f.get("fire"), f.get("issues"), f.get("cooldown")
	if metric != nil && present(issues, cooldown) > 0 {
		r.invalid(metric.Pos, fmt.Sprintf("trigger %s: a metric fires by its thresholds, not by issues or a cooldown", t.ID), "remove issues and cooldown, or compare the number in when")
	}
	if fire != nil && issues != nil {
		r.invalid(fire.Pos, fmt.Sprintf("trigger %s: issues have a cooldown, not fire", t.ID), "write a single condition into when, or cooldown instead of fire")
	}
	m = r.metric(metric, scope)
	if m != nil && t.When != nil {
		for i, at := range m.Thresholds {
			if at.When != nil {
				m.Thresholds[i].When = expr.AllOf(t.When, at.When)
			}
		}
	}
	if m != nil && check.Every == 0 {
		for _, at := range m.Thresholds {
			if at.When == nil {
				continue
			}
			if _, bound := at.When.TimeBound(); bound {
				r.invalid(metric.Pos, "it cannot be computed when time alone changes this: "+m.Value.Source(), "write check: [change, 5m], so that it is also evaluated every 5 minutes")
				break
			}
		}
	}
	if fire != nil {
		fires = r.word(fire, "fire", definition.FireOncePerSource, fireWords())
	}
	if fires == definition.FireOncePerThreshold && m == nil && fire.Kind != portable.Broken {
		r.invalid(fire.Pos, fmt.Sprintf("trigger %s: once_per_threshold is for a metric", t.ID), "write metric: with its thresholds, or fire: once_per_source")
	}
	return m, fires
}

// dates reads the timing of a trigger that plans ahead.
func (r *reader) dates(f fields, scope expr.Scope, t *definition.Trigger) definition.Dates {
	scope.Now = false // every evaluation must give the same result
	d := definition.Dates{At: r.at(f.get("at"), scope), KeepZone: !r.bool(f.get("follow_zone"), true)}
	d.Zones, d.ByContact = r.zones(f.get("timezone"), scope)
	if n := f.get("dst"); n != nil {
		d.Rule = r.dst(n)
	}
	for _, n := range r.items(f.get("offset")) {
		text, ok := r.text(n)
		if !ok {
			continue
		}
		offset, err := civil.ParseOffset(text)
		switch {
		case err != nil:
			r.refuse(n, err)
		case slices.Contains(d.Offsets, offset):
			r.invalid(n.Pos, fmt.Sprintf("%s is listed twice", offset), "each offset is an occasion of its own")
		default:
			d.Offsets = append(d.Offsets, offset)
		}
	}
	if len(d.Offsets) == 0 {
		d.Offsets = withoutOffset()
	}
	oncePerDay := t.OnPlan().Fire == definition.FireOncePerDay
	if t.Anchor != nil || dated(f) || isCourse(f) {
		return d
	}
	if d.ByContact && oncePerDay {
		r.invalid(f.get("timezone").Pos, fmt.Sprintf("trigger %s: a day of once_per_day is one for everybody, and so in one zone", t.ID), "write a zone, or record.timezone")
	}
	for _, name := range []string{"at", "timezone", "follow_zone", "dst"} {
		if n := f.get(name); n != nil && (name != "timezone" || !oncePerDay) {
			r.invalid(n.Pos, fmt.Sprintf("trigger %s: %s is for a date", t.ID, name), "write anchor: the date of the record that it counts from")
		}
	}
	if n := f.get("offset"); len(d.Offsets) > 1 {
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: several offsets are for a date", t.ID), "write anchor: the date of the record that they count from")
	}
	return d
}

// withoutOffset are the offsets of a timing that names none.
func withoutOffset() []civil.Duration { return []civil.Duration{{}} }

// dated reports whether a date is written, valid or not.
func dated(f fields) bool { return isDated(f.get("anchor")) }

func isDated(anchor *portable.Node) bool {
	return anchor != nil && anchor.Text != definition.AnchorNow && anchor.Text != occurredAt
}

// at reads a time of day, a random one, or an expression that gives one. A text that begins like a time must be one.
func (r *reader) at(n *portable.Node, scope expr.Scope) definition.At {
	text, ok := r.text(n)
	if !ok {
		return definition.At{}
	}
	if span, random := strings.CutPrefix(text, "random "); random {
		s, err := civil.ParseSpan(span)
		if err != nil {
			r.refuse(n, err)
		}
		return definition.At{Given: true, Random: s}
	}
	if text[0] >= '0' && text[0] <= '9' {
		clock, err := civil.ParseTimeOfDay(text)
		if err != nil {
			r.refuse(n, err)
		}
		return definition.At{Given: true, Time: clock}
	}
	if r.clockField(n, text, scope.RecordType) {
		return definition.At{Given: true}
	}
	return definition.At{Given: true, From: r.expression(n, scope, expr.Any)}
}

// zones reads the zones of dates: names of zones and expressions that give one, or the zone of each contact, with the zones for
// contacts that have none.
func (r *reader) zones(n *portable.Node, scope expr.Scope) (all []definition.Zone, byContact bool) {
	for i, item := range r.items(n) {
		text, ok := r.text(item)
		switch {
		case !ok:
		case ofContact(text) && i == 0:
			byContact = true
		case ofContact(text):
			r.invalid(item.Pos, "the zone of the contact stands first", "[contact.timezone, record.timezone]: the others are for people without a zone")
		case strings.HasPrefix(text, "contact."):
			r.notYet(item.Pos, text, "the zone of a contact is contact.timezone")
		case isZoneName(text):
			if r.zone(item) {
				all = append(all, definition.Zone{Name: text})
			}
		default:
			if p := r.expression(item, scope, expr.Any); p != nil {
				all = append(all, definition.Zone{From: p})
			}
		}
	}
	return all, byContact
}

// dst reads how a local time that does not exist, or exists twice, is resolved.
func (r *reader) dst(n *portable.Node) civil.Rule {
	f, ok := r.fields(n, "dst")
	if !ok {
		return civil.Rule{}
	}
	return civil.Rule{
		Gap:     civil.Gap(r.word(f.get("gap"), "gap", string(civil.GapForward), []string{string(civil.GapForward), string(civil.GapSkip)})),
		Overlap: civil.Overlap(r.word(f.get("overlap"), "overlap", string(civil.OverlapFirst), []string{string(civil.OverlapFirst), string(civil.OverlapSecond)})),
	}
}
