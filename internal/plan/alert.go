package plan

import (
	"encoding/json"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// The content of an alert is fixed when its condition is found to be met: an event of the engine's own holds the record as
// it was, so that texts and the fan-out of a large audience, which come later, read the same values.

// alertNames are the record's own names in the payload of such an event; its fields lie below props.
func alertNames() []string {
	return []string{"id", "type", "closed", "created_at", "updated_at", "last_modified_by"}
}

// Alert returns the payload of the event that an evaluation appends when a context fires or an episode ends.
func (l *Evaluation) Alert(rec subject.Record, now time.Time) map[string]any {
	fields := RecordFields(rec)
	record := map[string]any{"props": fields["props"]}
	for _, name := range alertNames() {
		record[name] = fields[name]
	}
	if rec.Owner != "" {
		record[expr.Owner] = fields[expr.Owner]
	}
	issues := l.Issues()
	if issues == nil {
		issues = []string{}
	}
	payload := map[string]any{"record": record, "issues": issues, "detected_at": now, "trigger": l.Trigger.ID, "episode": l.State.Episodes}
	if related := relatedAmong(l.fields); len(related) > 0 {
		payload["related"] = related
	}
	return payload
}

// Payload returns the payload of the event for an occasion that was planned ahead and is due.
func (l *Evaluation) Payload(rec subject.Record, i Desired, now time.Time) map[string]any {
	payload := l.Alert(rec, now)
	if i.Target != "" {
		payload["target"], payload["timezone"] = i.Target, i.Zone
	}
	if i.Course {
		payload["iteration"] = i.Iteration
	}
	if i.Elsewhere != "" {
		payload[elsewhere] = i.Elsewhere
	}
	if i.Threshold != "" {
		payload["metric"] = map[string]any{"name": l.Trigger.OnPlan().Metric.Name, "value": i.Metric, "threshold": json.Number(i.Threshold)}
	}
	return payload
}

// elsewhere is the payload's key for the zone of contacts without one, when an occasion is due by the zone of each contact.
const elsewhere = "elsewhere"

// Elsewhere returns the zone of contacts without one from the event's payload, or "" when the occasion is due for all at once.
func Elsewhere(ev subject.Event) string {
	zone, _ := ev.Payload[elsewhere].(string)
	return zone
}

// Extra returns the further names that texts can read for such an event at an instant: the metric, the round of a course, and the days
// that are left until the date that the occasion is about.
func Extra(ev subject.Event, now time.Time, zones *civil.Zones) map[string]any {
	extra := map[string]any{}
	if metric, ok := ev.Payload["metric"]; ok {
		extra["metric"] = metric
	}
	if round, ok := ev.Payload["iteration"]; ok {
		extra["iteration"] = round
	}
	target, _ := ev.Payload["target"].(string)
	zone, _ := ev.Payload["timezone"].(string)
	loc, err := zones.Load(zone)
	if err != nil || target == "" {
		return extra
	}
	date, err := civil.ParseDate(target)
	if instant, bad := time.Parse(time.RFC3339Nano, target); err != nil && bad == nil {
		date, _ = civil.DateOf(instant, loc)
	}
	today, _ := civil.DateOf(now, loc)
	extra["days_left"] = today.DaysUntil(date)
	return extra
}

// AlertFields returns what expressions and texts read from such an event; ok is false for an event that a caller sent.
func AlertFields(ev subject.Event) (record map[string]any, issues []string, detectedAt time.Time, ok bool) {
	if !subject.OwnEvent(ev.Kind) || ev.Kind == subject.CalendarDue {
		return nil, nil, time.Time{}, false
	}
	own, _ := ev.Payload["record"].(map[string]any)
	props, _ := own["props"].(map[string]any)
	names := make(map[string]any, len(alertNames()))
	for _, name := range alertNames() {
		names[name] = own[name]
	}
	if owner, owned := own[expr.Owner]; owned {
		names[expr.Owner] = owner
	}
	list, _ := ev.Payload["issues"].([]any)
	for _, issue := range list {
		if name, ok := issue.(string); ok {
			issues = append(issues, name)
		}
	}
	record = expr.Overlay(props, "props", names)
	restore(record, ev.Payload["related"])
	return record, issues, ev.OccurredAt, true
}
