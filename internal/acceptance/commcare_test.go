package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
)

func commcareFiles() []file {
	return []file{{
		name: "commcare-appointments.json", run: appointments, wants: []string{"timeline[*].expect.**", "late[*].result"},
		notes: []string{
			"id", "source_system", "timeline[*].expect.note", "timeline[*].do[*].name", "timeline[*].do[*].content",
			// Nothing of ours locks a rule while a run goes over its records: a later edit is taken, and the run goes on with it.
			"timeline[*].expect.rule_locked_during_run", "timeline[*].expect.edit_while_locked.http",
		},
	}}
}

// An appointment that moves, is over, comes back and is missed by a worker that is down.
//
// Shows: B37, B38, B40.
func TestAcceptanceAppointments(t *testing.T) { run(t, "commcare-appointments.json") }

// appointment writes the source's rule in our format.
func appointment(config map[string]any, anchor, text any) string {
	return fmt.Sprintf(`
workflow: %v
type: reminder
triggers:
  - id: t
    record: %v
    timing: {anchor: record.%v, offset: %v, at: %q, timezone: %v}
audience:
  - to: record.id
channel: %v
message: {sms: {text: %q}}
---
record_type: %v
fields: {appointment_date: date, followup_date: date, name: text}
---
channel: %v
provider: memory
`, config["rule"], config["record"], anchor, config["offset"], config["at"], config["timezone"], config["channel"], text, config["record"], config["channel"])
}

// appointments walks through the source's appointments.
func appointments(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	anchor, text := config["anchor"], any("Your appointment")
	w := newWorld(t, open(), appointment(config, anchor, text))
	props, patients := map[string]any{}, map[string]bool{}
	for _, step := range data["timeline"].([]any) {
		step := step.(map[string]any)
		now := at(t, step["at"])
		o.begin("at " + step["at"].(string))
		w.Clock.Set(now)
		before := w.occasions()
		for _, do := range step["do"].([]any) {
			do := do.(map[string]any)
			switch do["op"] {
			case "upsert":
				id := do["id"].(string)
				if !patients[id] {
					w.person(id)
					patients[id] = true
				}
				if len(patients) > 1 {
					o.differ("the walk is about one patient, and not about %s", id)
				}
				body := map[string]any{"props": props}
				for name, value := range do {
					switch name {
					case "op", "id":
					case "type":
						o.equal("type", config["record"], value, nil)
					case "closed":
						body["closed"] = value
					default:
						props[name] = value
					}
				}
				w.must("PUT", fmt.Sprintf("/v1/records/%v/%s", config["record"], id), body)
			case "edit_rule":
				if do["anchor"] != nil {
					anchor = do["anchor"]
				}
				if do["content"] != nil {
					text = do["content"]
				}
				w.Apply(appointment(config, anchor, text))
			case "tick":
			default:
				o.differ("unknown op %v", do["op"])
			}
		}
		w.rest(now)
		want := maps.Clone(step["expect"].(map[string]any))
		for _, name := range []string{"note", "rule_locked_during_run", "edit_while_locked"} {
			delete(want, name)
		}
		o.equal("then", want, becameOf(before, w.occasions(), len(w.Provider.Sent())), nil)
	}
	for _, c := range data["late"].([]any) {
		c := c.(map[string]any)
		o.begin("late " + c["overdue"].(string))
		o.equal("result", c["result"], late(t, open(), config, c["overdue"]), nil)
	}
	return o
}

// becameOf says what became of the occasions in a step.
func becameOf(before, after map[string]instance.Row, sent int) map[string]any {
	active, deactivated, completed, again := []any{}, []any{}, 0, false
	rows := make([]instance.Row, 0, len(after))
	for _, row := range after {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b instance.Row) int { return a.DueAt.Compare(b.DueAt) })
	for _, row := range rows {
		was := before[row.Key].Status
		switch row.Status {
		case instance.Pending:
			active = append(active, instant(row.DueAt))
			again = again || was == instance.Deactivated
		case instance.Deactivated:
			if was == instance.Pending {
				deactivated = append(deactivated, instant(row.DueAt))
			}
		case instance.Completed:
			completed++
		case instance.Failed, instance.Cancelled, instance.Skipped:
		}
	}
	return map[string]any{
		"active": active, "deactivated": deactivated, "new_rows": count(len(after) - len(before)), "sent": count(sent),
		"completed_kept": count(completed), "reactivated_same_key": again,
	}
}

// late has an occasion be overdue by so much when the worker comes back.
func late(t testing.TB, s *store.Store, config map[string]any, overdue any) string {
	w := newWorld(t, s, appointment(config, config["anchor"], "x"))
	w.person("p1")
	w.Clock.Set(time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC))
	w.record(fmt.Sprintf("%v/p1", config["record"]), map[string]any{fmt.Sprint(config["anchor"]): "2026-05-20"})
	w.rest(w.Now())
	by, err := time.ParseDuration(overdue.(string))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range w.occasions() {
		w.rest(row.DueAt.Add(by))
	}
	if len(w.Provider.Sent()) == 1 {
		return "sent late"
	}
	var said []string
	for _, row := range w.occasions() {
		said = append(said, fmt.Sprintf("%s, reason %s", row.Status, row.Reason))
	}
	return strings.Join(said, "; ")
}
