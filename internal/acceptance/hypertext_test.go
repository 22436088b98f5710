package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

func hypertextFiles() []file {
	return []file{
		{"hypertext-scenario.json", kioskScenario, func(d map[string]any) {
			dig(d, "timeline", 1, "expect", "instances", 0, "deliveries", 1)["send_at"] = "2026-05-14T12:05:00Z"
		}},
		{"hypertext-scenario-strict.json", kioskScenarioStrict, func(d map[string]any) {
			dig(d, "expect")["12:00 NOT_CHARGING"] = "2026-05-14T12:00:00Z"
		}},
		{"hypertext-multiple-issues.json", multipleIssues, func(d map[string]any) {
			dig(d, "event_scope", "timeline", 2)["wait_seconds"] = json.Number("6000")
		}},
		{"hypertext-multiple-triggers.json", multipleTriggers, func(d map[string]any) {
			dig(d, "timeline", 3, "state_after")["kiosk_health_status"] = "2026-05-14T10:15:00Z"
		}},
		{"hypertext-cadence-example.json", cadenceExample, func(d map[string]any) {
			dig(d, "timeline", 3, "sent_before")["alert"] = json.Number("3")
		}},
	}
}

func hypertext(t *testing.T, name string) { run(t, hypertextFiles(), name) }

// Shows: A10, A11, A15, A16, A18, A19, A20, A21, A22, A24, A38, A45.
func TestAcceptanceHypertextScenario(t *testing.T) { hypertext(t, "hypertext-scenario.json") }

// Shows: A31.
func TestAcceptanceHypertextScenarioStrict(t *testing.T) {
	hypertext(t, "hypertext-scenario-strict.json")
}

// Shows: A15, A16, A17, A27, A28, A29.
func TestAcceptanceHypertextMultipleIssues(t *testing.T) {
	hypertext(t, "hypertext-multiple-issues.json")
}

// Shows: A7, A8, A12, A14, A17, A48.
func TestAcceptanceHypertextMultipleTriggers(t *testing.T) {
	hypertext(t, "hypertext-multiple-triggers.json")
}

// Shows: A31, A32, A34, A36, A38, A45.
func TestAcceptanceHypertextCadenceExample(t *testing.T) {
	hypertext(t, "hypertext-cadence-example.json")
}

// kiosks writes the source's workflow: its issues, and the persona's rules from the data's config.
func kiosks(config map[string]any, per, cooldown, slot string, audience string) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p(`record_type: kiosk
fields: {project_id: number, charging: bool, screen_state: bool, battery_level: number, connection_status: bool, last_heartbeat_at: datetime}
---
channel: email
provider: memory
---
workflow: %v
type: alert
triggers:
  - id: %v
    record: kiosk
    check: [change, 5m]
    issues:
      NOT_CHARGING: record.charging == false
      SCREEN_OFF: record.screen_state == false
      LOW_BATTERY: record.battery_level < 20
      OFFLINE: record.connection_status == false || age(record.last_heartbeat_at) >= minutes(5)
    cooldown:
      length: %s
      per: %s
audience:
  - %s
channel: email
message:
  email:
    subject: Kiosk {{ record.id }}
    text: "{{ issues | join: ',' }}"`, config["workflow"], config["trigger"], cooldown, per, audience)
	personas, _ := config["persona"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(personas)) {
		rules := personas[name].(map[string]any)
		p("---\npersona: %s\ncadence:\n  cooldown: %vh\n  max_per_day: %v%s", name, rules["cooldown_hours"], rules["max_per_day"], slot)
	}
	return b.String()
}

const scoped = "[record.id, record.project_id, issues]"

// people makes the contacts of a config, each with their persona.
func (w *world) people(contacts map[string]any) {
	w.Helper()
	for id, persona := range contacts {
		w.put("/v1/contacts/"+id, map[string]any{"persona": persona, "addresses": map[string]any{"email": id + "@example.org"}})
	}
}

func (w *world) put(path string, body any) {
	w.Helper()
	if status, answer := w.send(http.MethodPut, path, body); status != http.StatusOK {
		w.Fatalf("PUT %s: %d %v", path, status, answer)
	}
}

// kiosk has a kiosk show exactly these issues.
func (w *world) kiosk(id, project any, issues ...string) {
	w.Helper()
	props := map[string]any{
		"project_id": project, "charging": true, "screen_state": true, "battery_level": 80, "connection_status": true,
		"last_heartbeat_at": w.Now().Format(time.RFC3339),
	}
	for _, issue := range issues {
		switch issue {
		case "NOT_CHARGING":
			props["charging"] = false
		case "SCREEN_OFF":
			props["screen_state"] = false
		case "LOW_BATTERY":
			props["battery_level"] = 15
		case "OFFLINE":
			props["connection_status"] = false
		default:
			w.Fatalf("unknown issue %s", issue)
		}
	}
	w.put(fmt.Sprintf("/v1/records/kiosk/%v", id), map[string]any{"props": props})
}

func texts(list any) []string {
	var out []string
	for _, one := range list.([]any) {
		out = append(out, fmt.Sprint(one))
	}
	return out
}

// made are the instances of the API that were not known before, oldest first, with their deliveries.
func (w *world) made(known map[string]bool) (fresh []map[string]any) {
	w.Helper()
	_, page := w.send(http.MethodGet, "/v1/instances?limit=100", nil)
	items := page["items"].([]any)
	slices.Reverse(items)
	for _, item := range items {
		id := item.(map[string]any)["id"].(string)
		if !known[id] {
			known[id] = true
			_, detail := w.send(http.MethodGet, "/v1/instances/"+id, nil)
			fresh = append(fresh, detail)
		}
	}
	return fresh
}

// contextOf is the context in the key of an instance: alert:WORKFLOW:TYPE:ID:TRIGGER:context:CONTEXT:FIRED-AT.
func contextOf(in map[string]any) string {
	_, rest, _ := strings.Cut(in["key"].(string), ":context:")
	return rest[:max(strings.LastIndex(rest, ":"), 0)]
}

// leaves is when a delivery left or, as long as it waits, is to leave.
func leaves(d map[string]any) any {
	if at, ok := d["last_sent_at"]; ok {
		return at
	}
	return d["send_at"]
}

func personOf(d map[string]any) string {
	name, _, _ := strings.Cut(d["address"].(string), "@")
	return name
}

// throttled are the contexts that gate 1 kept from firing since the journal was last read, and for how long.
func (w *world) throttled(entries []journal.Entry) []any {
	blocked := []any{}
	for _, e := range entries {
		if e.What == journal.Throttled {
			blocked = append(blocked, map[string]any{
				"context": e.Context, "wait_seconds": json.Number(fmt.Sprint(int(e.Until.Sub(e.At).Seconds()))),
			})
		}
	}
	slices.SortFunc(blocked, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return blocked
}

// stamps are when each context fired last, by the API.
func (w *world) stamps() map[string]any {
	w.Helper()
	status, page := w.send(http.MethodGet, "/v1/throttles?limit=100", nil)
	if status != http.StatusOK {
		w.Fatalf("throttles: %d %v", status, page)
	}
	last := map[string]any{}
	for _, item := range page["items"].([]any) {
		item := item.(map[string]any)
		last[item["context"].(string)] = item["fired_at"]
	}
	return last
}

// kioskScenario walks through the source's real-world scenario, tick by tick.
func kioskScenario(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	w := newWorld(t, open(), kiosks(config, scoped, "persona", "", "persona: Manager"))
	w.people(config["contacts"].(map[string]any))
	known, projects := map[string]bool{}, map[string]any{}
	for _, step := range data["timeline"].([]any) {
		step := step.(map[string]any)
		where := "at " + step["at"].(string)
		w.Clock.Set(at(t, step["at"]))
		w.Journal()
		for _, action := range step["do"].([]any) {
			action := action.(map[string]any)
			switch action["op"] {
			case "set_kiosks":
				shown := map[string][]string{}
				for _, k := range action["unhealthy"].([]any) {
					k := k.(map[string]any)
					id := fmt.Sprint(k["id"])
					projects[id], shown[id] = k["project_id"], texts(k["issues"])
				}
				for _, id := range slices.Sorted(maps.Keys(projects)) {
					w.kiosk(id, projects[id], shown[id]...)
				}
			case "tick":
				w.tick()
			default:
				o.differ("%s: unknown op %v", where, action["op"])
			}
		}
		o.cases++
		entries, sent := w.Journal(), map[string]any{}
		for contact := range config["contacts"].(map[string]any) {
			sent[contact] = json.Number("0")
		}
		counts := map[string]int{}
		for _, out := range w.Provider.Sent() {
			name, _, _ := strings.Cut(out.Address, "@")
			counts[name]++
			sent[name] = json.Number(fmt.Sprint(counts[name]))
		}
		instances := []any{}
		for _, in := range w.made(known) {
			deliveries := []any{}
			for _, d := range in["deliveries"].([]any) {
				d := d.(map[string]any)
				deliveries = append(deliveries, map[string]any{
					"contact": personOf(d), "channel": strings.TrimSuffix(d["channel"].(string), ":default"), "send_at": leaves(d), "status": d["status"],
					"deferred_by": d["deferred_by"],
				})
			}
			slices.SortFunc(deliveries, func(a, b any) int {
				return strings.Compare(fmt.Sprint(a.(map[string]any)["contact"]), fmt.Sprint(b.(map[string]any)["contact"]))
			})
			instances = append(instances, map[string]any{
				"n": json.Number(fmt.Sprint(len(known) - 1)), "context": contextOf(in), "deliveries": deliveries,
			})
		}
		number(instances, len(known))
		o.equal(where, step["expect"], map[string]any{
			"instances": instances, "blocked": w.throttled(entries), "sent_in_this_tick": sent, "throttle_last_fired_at": w.stamps(),
		}, nil)
		for _, e := range entries {
			want := fmt.Sprintf("Rate limit not yet reached for workflow %v, trigger '%v'. Skipping delivery.", config["workflow"], config["trigger"])
			if e.What == journal.Throttled && e.Message != want {
				o.differ("%s: logged %q, want %q", where, e.Message, want)
			}
		}
	}
	return o
}

// number counts instances on, the last of them being the total-th.
func number(instances []any, total int) {
	for i, in := range instances {
		in.(map[string]any)["n"] = json.Number(fmt.Sprint(total - len(instances) + i + 1))
	}
}

// kioskScenarioStrict is the same walk where a slot holds one message.
func kioskScenarioStrict(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	slot := fmt.Sprintf("\n  max_per_slot: %v", config["cadence"].(map[string]any)["max_per_slot"])
	w := newWorld(t, open(), kiosks(config, scoped, "persona", slot, "persona: Manager"))
	w.people(config["contacts"].(map[string]any))
	known, got := map[string]bool{}, map[string]map[string]bool{}
	for _, step := range []struct {
		at, label string
		kiosks    map[string]string
	}{
		{"10:00", "10:00", map[string]string{"123": "NOT_CHARGING"}},
		{"10:05", "10:05", map[string]string{"123": "LOW_BATTERY"}},
		{"12:00", "", map[string]string{"123": "NOT_CHARGING", "456": "LOW_BATTERY"}},
		{"14:00", "", nil},
		{"16:00", "", nil},
	} {
		w.Clock.Set(at(t, "2026-05-14T"+step.at+":00Z"))
		for _, id := range slices.Sorted(maps.Keys(step.kiosks)) {
			w.kiosk(id, 45, step.kiosks[id])
		}
		if step.kiosks == nil { // all is well again; what waits leaves all the same (A47)
			w.kiosk("123", 45)
			w.kiosk("456", 45)
		}
		w.tick()
		for _, in := range w.made(known) {
			label := step.label
			if label == "" {
				parts := strings.Split(contextOf(in), ":")
				label = step.at + " " + parts[len(parts)-1]
				if parts[1] != "123" {
					label = step.at + " " + parts[1] + " " + parts[len(parts)-1]
				}
			}
			for _, d := range in["deliveries"].([]any) {
				id := d.(map[string]any)["id"].(string)
				if got[label] == nil {
					got[label] = map[string]bool{}
				}
				got[label][id] = true
			}
		}
	}
	for label, want := range data["expect"].(map[string]any) {
		o.cases++
		if len(got[label]) != len(config["contacts"].(map[string]any)) {
			o.differ("%s: %d deliveries", label, len(got[label]))
		}
		for id := range got[label] {
			_, d := w.send(http.MethodGet, "/v1/deliveries/"+id, nil)
			o.equal(label, want, leaves(d), nil)
		}
	}
	return o
}

// multipleIssues holds each way of scoping the cooldown against its table.
func multipleIssues(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	start := func(per string) *world {
		names := map[string]any{"workflow": "kiosk-health-alert", "trigger": "kiosk_health_status"}
		w := newWorld(t, open(), strings.Replace(kiosks(names, per, fmt.Sprint(config["cooldown"]), "", "to: '\"ops\"'"),
			"channel: email\nmessage:", "limits: {critical: true}\nchannel: email\nmessage:", 1)) // gate 1 only
		w.people(map[string]any{"ops": ""})
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
			o.cases++
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
		o.cases++
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
		w.people(map[string]any{"ops": ""})
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
	walk := func(w *world, until any, compare func(where string, row map[string]any, result string)) {
		known := map[string]bool{}
		for i, row := range data["timeline"].([]any) {
			row := row.(map[string]any)
			w.Clock.Set(at(t, row["at"]))
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
			compare("at "+row["at"].(string), row, result)
			if row["at"] == until {
				return
			}
		}
	}
	w := start(sourceScope)
	walk(w, nil, func(where string, row map[string]any, result string) {
		o.cases++
		o.equal(where, row["result"], result, nil)
		state := map[string]any{}
		stamps := w.stamps()
		for _, name := range names {
			state[name] = stamps[name]
		}
		o.equal(where+": state", row["state_after"], state, nil)
	})
	same := data["same_tick"].(map[string]any)
	o.cases++
	w = start(sourceScope)
	w.Clock.Set(at(t, same["at"]))
	show(w, false, names...)
	w.tick()
	o.equal("same tick", same["fired"], triggersOf(w.made(map[string]bool{})), nil)

	difference := data["context_scope_difference"].(map[string]any)
	o.cases++
	walk(start(""), difference["at"], func(where string, row map[string]any, result string) {
		if row["at"] == difference["at"] {
			o.equal("with the default scope "+where, difference["result"], result, nil)
		}
	})
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
	w.people(map[string]any{"alice": "Manager"})
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
		o.cases++
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
