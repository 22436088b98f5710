package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// multipleIssues holds each way of scoping the cooldown against its table.
func multipleIssues(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	start := func(per string) *world {
		names := map[string]any{"workflow": "kiosk-health-alert", "trigger": "kiosk_health_status"}
		w := newWorld(t, open(), strings.Replace(kiosks(names, per, fmt.Sprint(config["cooldown"]), "", "to: '\"ops\"'"),
			"channel: email\nmessage:", "limits: {critical: true}\nchannel: email\nmessage:", 1)) // gate 1 only
		w.people(map[string]any{"ops": ""}, nil)
		return w
	}
	fired := func(w *world, known map[string]bool, entries []journal.Entry, context string) (result string, wait any, said any) {
		for _, in := range w.made(known) {
			if contextOf(in) == context {
				result = "fired"
			}
		}
		for _, e := range entries {
			if e.What == journal.Throttled && e.Context == context {
				result, wait = result+"blocked", json.Number(fmt.Sprint(int(e.Until.Sub(e.At).Seconds())))
			}
		}
		for _, out := range w.Provider.Sent() {
			if said == nil {
				said = []any{}
			}
			for _, issue := range strings.Split(out.Text, ",") {
				said = append(said.([]any), issue)
			}
		}
		return result, wait, said
	}
	for scope, per := range map[string]string{"context_scope": scoped, "event_scope": "[]"} {
		w, known := start(per), map[string]bool{}
		for _, row := range data[scope].(map[string]any)["timeline"].([]any) {
			row := row.(map[string]any)
			o.begin(fmt.Sprintf("%s at %v", scope, row["at"]))
			w.Clock.Set(at(t, row["at"]))
			w.kiosk(config["kiosk"], config["project"], texts(row["issues"])...)
			w.Journal()
			w.tick()
			result, wait, said := fired(w, known, w.Journal(), row["context"].(string))
			where := fmt.Sprintf("%s at %v", scope, row["at"])
			o.equal(where+": result", row["result"], result, nil)
			o.equal(where+": issues", row["message_issues"], said, nil)
			if want, ok := row["wait_seconds"]; ok {
				o.equal(where+": wait", want, wait, nil)
			}
		}
	}
	w, known := start(scoped), map[string]bool{}
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	for i, row := range data["independent"].([]any) {
		row := row.(map[string]any)
		o.begin(fmt.Sprintf("independent %d", i+1))
		w.Clock.Set(now.Add(time.Duration(i) * 5 * time.Minute))
		issues := texts(row["issues"])
		w.kiosk(row["kiosk"], row["project"], issues...)
		w.Journal()
		w.tick()
		context := fmt.Sprintf("kiosk_health_status:%v:%v:%s", row["kiosk"], row["project"], strings.Join(issues, ","))
		result, _, _ := fired(w, known, w.Journal(), context)
		o.equal(fmt.Sprintf("independent %d", i+1), row["result"], result, nil)
	}
	return o
}

// multipleTriggers walks through a workflow of three triggers, each with a cooldown of its own.
func multipleTriggers(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	fire := config["fire"].(map[string]any)
	names := texts(config["triggers"])
	definitions := func(per string) string {
		conditions := map[string]string{
			"kiosk_offline":        "    when: record.offline == true",
			"morale_drop_baseline": "    when: record.morale < 50",
			"kiosk_health_status":  "    issues: {NOT_CHARGING: record.charging == false, SCREEN_OFF: record.screen_state == false}",
		}
		var b strings.Builder
		b.WriteString("channel: email\nprovider: memory\n---\nworkflow: three\ntype: alert\ntriggers:\n")
		for _, name := range names {
			fmt.Fprintf(&b, "  - id: %s\n    record: kiosk\n    check: [5m]\n%s\n    cooldown: {length: %v%s}\n", name, conditions[name], fire["cooldown"], per)
		}
		b.WriteString("limits: {critical: true}\naudience:\n  - to: '\"ops\"'\nchannel: email\nmessage:\n  email: {subject: s, text: t}\n")
		return b.String()
	}
	const sourceScope = ", per: []" // one cooldown for the trigger; ours is one for each record and its issues
	start := func(per string) *world {
		w := newWorld(t, open(), definitions(per))
		w.people(map[string]any{"ops": ""}, nil)
		return w
	}
	// show has the kiosk meet the conditions of these triggers and of no other.
	show := func(w *world, screen bool, triggers ...string) {
		props := map[string]any{"offline": false, "morale": 80, "charging": true, "screen_state": true}
		for _, name := range triggers {
			switch {
			case name == "kiosk_offline":
				props["offline"] = true
			case name == "morale_drop_baseline":
				props["morale"] = 20
			case screen:
				props["screen_state"] = false
			default:
				props["charging"] = false
			}
		}
		w.put("/v1/records/kiosk/123", map[string]any{"props": props})
	}
	triggersOf := func(made []map[string]any) []any {
		fired := []any{}
		for _, in := range made {
			fired = append(fired, in["trigger"])
		}
		return fired
	}
	walk := func(w *world, until any, compare func(where string, row map[string]any, stamp any, result string)) {
		known := map[string]bool{}
		for i, row := range data["timeline"].([]any) {
			row := row.(map[string]any)
			w.Clock.Set(at(t, row["at"]))
			stamp := w.stamps()[fmt.Sprint(row["event_key"])]
			show(w, i%2 == 1, fmt.Sprint(row["event_key"])) // other issues than the row before
			w.Journal()
			w.tick()
			result := "blocked"
			if fired := triggersOf(w.made(known)); len(fired) == 1 && fired[0] == row["event_key"] {
				result = "fired"
			} else if len(fired) > 0 || !slices.ContainsFunc(w.Journal(), func(e journal.Entry) bool {
				return e.What == journal.Throttled && e.Trigger == row["event_key"] && e.Reason == reason.Throttled
			}) {
				result = fmt.Sprintf("fired %v", fired)
			}
			compare("at "+row["at"].(string), row, stamp, result)
			if row["at"] == until {
				return
			}
		}
	}
	w := start(sourceScope)
	walk(w, nil, func(where string, row map[string]any, stamp any, result string) {
		o.begin(where)
		o.equal(where+": last fired", row["last_fired_at"], stamp, nil)
		o.equal(where, row["result"], result, nil)
		state := map[string]any{}
		stamps := w.stamps()
		for _, name := range names {
			state[name] = stamps[name]
		}
		o.equal(where+": state", row["state_after"], state, nil)
	})
	same := data["same_tick"].(map[string]any)
	o.begin("same tick")
	w = start(sourceScope)
	w.Clock.Set(at(t, same["at"]))
	show(w, false, names...)
	w.tick()
	o.equal("same tick", same["fired"], triggersOf(w.made(map[string]bool{})), nil)

	difference := data["context_scope_difference"].(map[string]any)
	o.begin("with the default scope")
	reached := false
	walk(start(""), difference["at"], func(where string, row map[string]any, _ any, result string) {
		if row["at"] == difference["at"] {
			reached = true
			o.equal("with the default scope "+where, difference["result"], result, nil)
		}
	})
	if !reached {
		o.differ("no row is at %v", difference["at"])
	}
	return o
}

// cadenceExample walks through one person's day.
func cadenceExample(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	rules := config["persona"].(map[string]any)
	w := newWorld(t, open(), fmt.Sprintf(`
channel: %v
provider: memory
---
persona: Manager
cadence:
  cooldown: %vh
  max_per_day: %v
  type_limits: {alert: %v}
---
workflow: alert-on-event
type: %v
triggers: [{id: any, event: alert}]
audience: [{persona: Manager}]
channel: %v
message: {email: {subject: Alert, text: Alert}}
`, config["channel"], rules["cooldown_hours"], rules["max_per_day"], rules["type_limits"].(map[string]any)["alert"], config["type"], config["channel"]))
	w.people(map[string]any{"alice": "Manager"}, config["timezone"])
	// used is how much of the limits is used up, by the API.
	used := func() map[string]any {
		_, limits := w.send(http.MethodGet, "/v1/contacts/alice/limits", nil)
		counts := map[string]any{}
		for _, kind := range limits["channels"].([]any) {
			kind := kind.(map[string]any)
			for _, u := range kind["limits"].([]any) {
				u := u.(map[string]any)
				switch {
				case kind["kind"] != config["channel"]:
				case u["limit"] == "max_per_day":
					counts["daily"] = u["used"]
				case u["limit"] == "type_limits":
					counts[u["type"].(string)] = u["used"]
				}
			}
		}
		return counts
	}
	known := map[string]bool{}
	for _, step := range data["timeline"].([]any) {
		step := step.(map[string]any)
		o.begin("at " + step["at"].(string))
		where := "at " + step["at"].(string)
		w.Clock.Set(at(t, step["at"]))
		if step["recheck"] != nil {
			w.tick()
			result := "pass"
			if len(w.Provider.Sent()) != 1 {
				result = "not sent"
			}
			o.equal(where, step["recheck"], result, nil)
			o.equal(where+": after", step["sent_after"], used(), nil)
			continue
		}
		o.equal(where+": before", step["sent_before"], used(), nil)
		if status, answer := w.post("/v1/events", map[string]any{"kind": "alert", "id": step["at"]}); status != http.StatusOK {
			t.Fatalf("%s: %d %v", where, status, answer)
		}
		w.tick()
		w.Provider.Sent()
		made := w.made(known)
		if len(made) != 1 || len(made[0]["deliveries"].([]any)) != 1 {
			o.differ("%s: made %v", where, made)
			continue
		}
		d := made[0]["deliveries"].([]any)[0].(map[string]any)
		o.equal(where, map[string]any{"send_at": step["send_at"], "blocked_by": step["blocked_by"]},
			map[string]any{"send_at": leaves(d), "blocked_by": d["deferred_by"]}, nil)
	}
	return o
}
