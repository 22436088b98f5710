package plan

import (
	"time"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// What an alert says is fixed when its condition is found to be met: an event of the engine's own holds the record as
// it was, so that texts, and whoever expands a large audience later, read what was seen.

// alertNames are the record's own names in the payload of such an event; its fields lie below props.
func alertNames() []string {
	return []string{"id", "type", "closed", "created_at", "updated_at", "last_modified_by"}
}

// Alert is the payload of the event that a look appends: of what fires, or of what is over.
func (l *Look) Alert(rec subject.Record, now time.Time) map[string]any {
	fields := RecordFields(rec)
	record := map[string]any{"props": fields["props"]}
	for _, name := range alertNames() {
		record[name] = fields[name]
	}
	issues := l.Issues()
	if issues == nil {
		issues = []string{}
	}
	return map[string]any{"record": record, "issues": issues, "detected_at": now, "trigger": l.Trigger.ID, "episode": l.State.Episodes}
}

// AlertFields are what expressions and texts read of such an event; ok is false for an event of a caller's.
func AlertFields(ev subject.Event) (record map[string]any, issues []string, detectedAt time.Time, ok bool) {
	if !subject.OwnEvent(ev.Kind) {
		return nil, nil, time.Time{}, false
	}
	own, _ := ev.Payload["record"].(map[string]any)
	props, _ := own["props"].(map[string]any)
	names := make(map[string]any, len(alertNames()))
	for _, name := range alertNames() {
		names[name] = own[name]
	}
	list, _ := ev.Payload["issues"].([]any)
	for _, issue := range list {
		if name, ok := issue.(string); ok {
			issues = append(issues, name)
		}
	}
	return expr.Overlay(props, "props", names), issues, ev.OccurredAt, true
}
