// Package plan computes the occasions that should exist: it matches events and records with the definitions.
//
// It is the only place that makes instances' keys, so that ingest, retry and the simulator agree (B17). It reads no clock and no
// database. Whether an occasion exists already, and who may be notified when, is decided later, in the transaction that writes it.
package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// morning is the time of day of a date without one (docs/concepts/reminders.md).
const morning = civil.TimeOfDay(9 * 3600)

// Occasion is the result of matching one trigger with one event.
type Occasion struct {
	Workflow *definition.Workflow
	Trigger  *definition.Trigger
	// Reason is matched, or why the event makes no occasion.
	Reason  reason.Reason
	Field   string // the missing field, the failing expression
	Clauses []expr.Clause

	// The other fields are set when Reason is matched.
	Key       key.Instance
	InputHash string
	Missing   []string // dedup paths without a value; they count as empty (product decision 40)
	NotBefore time.Time
	Zone      string // the zone of the date that NotBefore follows from; empty: it follows from an instant

	// Course is the course that begins; nil: there is one message. Placed says when its First message is due, or that it has none, and sets
	// NotBefore, Zone, and the trigger as it is for that message.
	Course *EventCourse
	First  Desired
}

// Matched reports whether the occasion should exist.
func (o Occasion) Matched() bool { return o.Reason == reason.Matched }

// Event returns one occasion for each trigger that listens to the event's kind, in the set's order. Several
// triggers of one workflow may name the same key: the first one that is written wins (product decision 39).
func Event(set *definition.Set, ev subject.Event) []Occasion {
	matches := set.ByEvent(ev.Kind)
	if len(matches) == 0 {
		return nil
	}
	var fields map[string]any
	if slices.ContainsFunc(matches, func(m definition.Match) bool { return reads(m.Trigger) }) {
		fields = EventFields(ev)
	}
	occasions := make([]Occasion, len(matches))
	for i, match := range matches {
		occasions[i] = occasion(set, match, ev, fields)
	}
	return occasions
}

// reads reports whether a trigger has expressions that read an event before the occasion is due.
func reads(t *definition.Trigger) bool { return t.When != nil || t.Anchor != nil }

func occasion(set *definition.Set, match definition.Match, ev subject.Event, fields map[string]any) Occasion {
	w, t := match.Workflow, match.Trigger
	o := Occasion{Workflow: w, Trigger: t}
	switch {
	case !w.Enabled:
		o.Reason = reason.WorkflowInactive
		return o
	case !t.Enabled:
		o.Reason = reason.TriggerDisabled
		return o
	}
	var in expr.Input
	if reads(t) {
		in = Input(set, w, fields, ev.ReceivedAt)
	}
	if t.When != nil {
		verdict := t.When.Judge(in)
		o.Clauses = verdict.Clauses
		if !verdict.Met {
			o.Reason, o.Field = verdict.Reason, verdict.Field
			return o
		}
	}
	source := t.OnEvent()
	hash, missing := dedup(source.Dedup, w.ExtID, ev)
	if len(missing) > 0 && source.DedupMissing == definition.DedupReject {
		o.Reason, o.Field = reason.DedupMissing, missing[0]
		return o
	}
	scope := w.Name
	if source.DedupScope == definition.DedupWorkspace {
		scope = key.AnyWorkflow
	}
	o.Key = key.Event(w.Type, scope, hash)
	var why reason.Reason
	if source.Course != nil {
		o.Course, why, o.Field = CourseOf(set, match, ev, o.Key)
	} else {
		o.NotBefore, o.Zone, why, o.Field = notBefore(t, in, ev, set.Workspace.Timezone)
	}
	if why != "" {
		o.Reason, o.Key = why, ""
		return o
	}
	o.Reason, o.Missing, o.InputHash = reason.Matched, missing, t.Inputs()
	return o
}

// dedup returns the hash that identifies an event, and the dedup paths that had no value. Without dedup paths an event is identified
// by its id, else by its content (docs/concepts/keys-and-dedup.md).
func dedup(paths []string, extID string, ev subject.Event) (hash string, missing []string) {
	if paths == nil {
		if ev.ExtID == "" {
			return contentHash(ev), nil
		}
		paths = []string{"id"}
	}
	text, missing := key.DedupString(paths, func(path string) (any, bool) { return Lookup(ev, extID, path) })
	return key.Hash(text), missing
}

func contentHash(ev subject.Event) string {
	var address, locale, ref, occurred string
	if ev.Recipient != nil {
		address, locale, ref = ev.Recipient.Address, ev.Recipient.Locale, ev.Recipient.CustomerRef
	}
	if ev.OccurredGiven {
		occurred = ev.OccurredAt.UTC().Format(time.RFC3339Nano)
	}
	return key.EventHash(ev.Kind, ev.Payload, []string{address, locale, ref}, occurred)
}

// Lookup finds the value of a path such as candidate.wip, recipient.address, templateId or id (C5). A field of the payload whose name
// contains the dot takes precedence over a nested one.
func Lookup(ev subject.Event, extID, path string) (any, bool) {
	switch path {
	case "id":
		return ev.ExtID, ev.ExtID != ""
	case "kind":
		return ev.Kind, true
	case "occurred_at":
		return ev.OccurredAt.UTC().Format(time.RFC3339Nano), ev.OccurredGiven
	case "templateId":
		return extID, true
	}
	root, rest, _ := strings.Cut(path, ".")
	switch root {
	case "recipient":
		return recipientField(ev.Recipient, rest)
	case "candidate", "payload":
		return descend(ev.Payload, rest)
	case "event":
		if value, ok := Lookup(ev, extID, rest); ok {
			return value, true
		}
		return descend(ev.Payload, rest)
	}
	return descend(ev.Payload, path)
}

func recipientField(r *subject.Recipient, name string) (any, bool) {
	if r == nil {
		return nil, false
	}
	switch name {
	case "address":
		return r.Address, r.Address != ""
	case "locale":
		return r.Locale, r.Locale != ""
	case "customer_ref", "customerRef":
		return r.CustomerRef, r.CustomerRef != ""
	}
	return nil, false
}

func descend(fields map[string]any, path string) (any, bool) {
	if value, ok := fields[path]; ok {
		return value, true
	}
	head, rest, nested := strings.Cut(path, ".")
	if !nested {
		return nil, false
	}
	below, ok := fields[head].(map[string]any)
	if !ok {
		return nil, false
	}
	return descend(below, rest)
}

// notBefore returns when the first message is due. Days and longer units are calendar units for a date, and exact for an instant
// (docs/reference/definitions.md, Values).
func notBefore(t *definition.Trigger, in expr.Input, ev subject.Event, zone string) (at time.Time, of string, why reason.Reason, field string) {
	at, of, why, field = anchored(t, in, ev, zone)
	if why == "" && (at.Year() < 0 || at.Year() > 9999) { // such an instant has no form in JSON (RFC 3339)
		field = "timing.offset"
		if t.Anchor != nil {
			field = t.Anchor.Source()
		}
		return time.Time{}, "", reason.ExpressionFailed, field
	}
	return at, of, why, field
}

// anchored returns the instant that follows from the anchor, and the zone if the anchor is a date.
func anchored(t *definition.Trigger, in expr.Input, ev subject.Event, zone string) (at time.Time, of string, why reason.Reason, field string) {
	if t.Anchor == nil {
		return t.Timing.NotBefore(ev.OccurredAt), "", "", ""
	}
	value, err := t.Anchor.Eval(in)
	if err != nil {
		return time.Time{}, "", reason.ExpressionFailed, t.Anchor.Source()
	}
	switch value := value.(type) {
	case time.Time:
		return t.Timing.NotBefore(value.UTC().Truncate(time.Microsecond)), "", "", ""
	case civil.Date:
		loc, err := civil.LoadZone(zone)
		if err != nil {
			return time.Time{}, "", reason.ExpressionFailed, zone
		}
		offset := t.Timing.Offset
		at, _ := civil.Resolve(value.Add(offset), morning, loc, civil.Rule{}) // a gap moves it forward, so it exists
		return at.Add(offset.Clock).UTC(), zone, "", ""
	case nil:
		return time.Time{}, "", reason.ValueMissing, t.Anchor.Source()
	}
	return time.Time{}, "", reason.ExpressionFailed, t.Anchor.Source()
}

// EventFields returns an event as expressions and texts see it.
func EventFields(ev subject.Event) map[string]any {
	own := map[string]any{
		"id": ev.ExtID, "kind": ev.Kind, "occurred_at": ev.OccurredAt, "received_at": ev.ReceivedAt,
	}
	if r := ev.Recipient; r != nil {
		own["recipient"] = map[string]any{"address": r.Address, "locale": r.Locale, "customer_ref": r.CustomerRef}
	}
	return expr.Overlay(ev.Payload, "payload", own)
}

// ItemFields returns an item as expressions and texts see it: its own fields, and when it came.
func ItemFields(ev subject.Event) map[string]any { return itemOf(EventFields(ev)) }

// itemOf returns the item that an event is, as EventFields has it; nil: it is no item.
func itemOf(event map[string]any) map[string]any {
	if event["kind"] != definition.ItemPublished {
		return nil
	}
	fields := topic.Blank()
	if payload, ok := event["payload"].(map[string]any); ok {
		maps.Copy(fields, payload)
	}
	fields["published_at"], fields["received_at"] = event["occurred_at"], event["received_at"]
	return fields
}

// RecordFields returns a record as expressions and texts see it: its own fields, and the same fields again under props.
func RecordFields(r subject.Record) map[string]any {
	own := make(map[string]any, len(alertNames()))
	for _, name := range alertNames() {
		own[name] = ownField(r, name)
	}
	if r.Owner != "" {
		own[expr.Owner] = ownerFields(r.Owner)
	}
	return expr.Overlay(r.Props, "props", own)
}

// ownField returns the value of one of alertNames.
func ownField(r subject.Record, name string) any {
	switch name {
	case "id":
		return r.ExtID
	case "type":
		return r.Type
	case "closed":
		return r.Closed
	case "created_at":
		return r.CreatedAt
	case "updated_at":
		return r.UpdatedAt
	}
	return r.ModifiedBy
}

// Input returns what the expressions of a workflow may read.
func Input(set *definition.Set, w *definition.Workflow, event map[string]any, now time.Time) expr.Input {
	return expr.Input{
		Event: event, Item: itemOf(event), Vars: w.Vars, TemplateID: w.ExtID, Now: now,
		Workspace: map[string]any{"timezone": set.Workspace.Timezone, "locale": set.Workspace.Locale},
	}
}

// ContactFields returns a contact as expressions and texts see it. Address is the address under which the contact was created, else
// one of its own.
func ContactFields(c subject.Contact) map[string]any {
	fields := map[string]any{
		"id": c.ExtID, "address": cmp.Or(c.Address, c.AddressOn("")), "name": c.Name, "locale": c.Locale, "timezone": c.Timezone,
		"persona": c.Persona, "place": c.Place, "attributes": c.Attributes,
	}
	for _, kind := range subject.AddressKinds() {
		fields[kind] = c.Addresses[kind]
	}
	return fields
}
