package acceptance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
)

func hypertextFiles() []file {
	return []file{
		{name: "hypertext-scenario.json", run: kioskScenario, tried: many, wants: []string{"timeline[*].expect.**"}, notes: []string{
			"config.cooldown", "config.defaults", "tick", // in words; the walk says when it ticks
		}},
		{name: "hypertext-scenario-strict.json", run: kioskScenarioStrict, tried: many, wants: []string{"expect.**"}, notes: []string{"config.cooldown", "config.defaults"}},
		{name: "hypertext-multiple-issues.json", run: multipleIssues, wants: []string{
			"*.timeline[*].result", "*.timeline[*].wait_seconds", "*.timeline[*].message_issues.**", "independent[*].result",
		}, notes: []string{
			"config.recipient", "*.default", "*.source", "*.config", // in words
			"independent[1].kiosk", "independent[2].kiosk", // any that differ
		}},
		{name: "hypertext-multiple-triggers.json", run: multipleTriggers, wants: []string{
			"timeline[*].last_fired_at", "timeline[*].result", "timeline[*].state_after.**", "same_tick.fired.**", "context_scope_difference.result",
		}},
		{name: "hypertext-cadence-example.json", run: cadenceExample, tried: many, wants: []string{
			"timeline[*].sent_before.**", "timeline[*].sent_after.**", "timeline[*].send_at", "timeline[*].blocked_by",
		}, notes: []string{"timeline[*].event"}},
		{name: "hypertext-cadence-cases.json", run: cadenceCases, tried: every, wants: []string{
			"cases[*].allowed", "cases[*].reason", "cases[*].all_reasons.**", "cases[*].send_at", "default_rules.**", "order.**", "layer1_default_cooldown_seconds",
		}, notes: []string{
			"send_time.**", // examples/scenarios/another-channel.yaml
		}},
	}
}

// Shows: A10, A11, A15, A16, A18, A19, A20, A21, A22, A24, A38, A45.
func TestAcceptanceHypertextScenario(t *testing.T) { run(t, "hypertext-scenario.json") }

// Shows: A31.
func TestAcceptanceHypertextScenarioStrict(t *testing.T) {
	run(t, "hypertext-scenario-strict.json")
}

// Shows: A15, A16, A17, A27, A28, A29.
func TestAcceptanceHypertextMultipleIssues(t *testing.T) {
	run(t, "hypertext-multiple-issues.json")
}

// Shows: A7, A8, A12, A14, A17, A48.
func TestAcceptanceHypertextMultipleTriggers(t *testing.T) {
	run(t, "hypertext-multiple-triggers.json")
}

// Shows: A31, A32, A34, A36, A38, A45.
func TestAcceptanceHypertextCadenceExample(t *testing.T) {
	run(t, "hypertext-cadence-example.json")
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
type: %v
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
    text: "{{ issues | join: ',' }}"`, config["workflow"], cmp.Or(config["type"], any("alert")), config["trigger"], cooldown, per, audience)
	personas, _ := config["persona"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(personas)) {
		rules := personas[name].(map[string]any)
		p("---\npersona: %s\ncadence:\n  cooldown: %vh\n  max_per_day: %v%s", name, rules["cooldown_hours"], rules["max_per_day"], slot)
	}
	return b.String()
}

const scoped = "[record.id, record.project_id, issues]"

// people makes the contacts of a config, each with their persona, in a zone or in that of the workspace.
func (w *world) people(contacts map[string]any, zone any) {
	w.Helper()
	for id, persona := range contacts {
		body := map[string]any{"persona": persona, "addresses": map[string]any{"email": id + "@example.org"}}
		if zone != nil {
			body["timezone"] = zone
		}
		w.put("/v1/contacts/"+id, body)
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
	w.people(config["contacts"].(map[string]any), config["timezone"])
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
		o.begin(where)
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
	w.people(config["contacts"].(map[string]any), config["timezone"])
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
		o.begin(label)
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
