package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store"
)

// Which limit keeps a message, which others do too, and when it may leave.
//
// Shows: A31, A32, A33, A34, A36, A37.
func TestAcceptanceCadenceCases(t *testing.T) { run(t, "hypertext-cadence-cases.json") }

// limitsOf are the limits of a case as a persona has them.
func limitsOf(t testing.TB, rules map[string]any) cadence.Policy {
	t.Helper()
	ours := map[string]any{}
	for name, value := range rules {
		if name == "cooldown_hours" {
			name, value = "cooldown", fmt.Sprintf("%vh", value)
		}
		if value != json.Number("0") && value != "0h" { // 0 is no limit
			ours[name] = value
		}
	}
	parsed, err := cadence.RulesOf(ours)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.For("email")
}

// known demands a type of message that the defaults name: another one would meet no limit by type.
func known(t testing.TB, data map[string]any, typ any) {
	t.Helper()
	if _, ok := data["default_rules"].(map[string]any)["type_limits"].(map[string]any)[typ.(string)]; !ok {
		t.Fatalf("unknown type %v", typ)
	}
}

// cadenceCases has each case decided upon its history.
func cadenceCases(t testing.TB, _ func() *store.Store, data map[string]any) outcome {
	var o outcome
	o.begin("defaults")
	own := cadence.Default()
	types := map[string]any{}
	for typ, n := range own.TypeLimits {
		types[typ] = count(n)
	}
	o.equal("default_rules", data["default_rules"], map[string]any{
		"cooldown_hours": json.Number(fmt.Sprint(own.Cooldown.Hours())), "max_per_day": count(own.MaxPerDay), "max_per_week": count(own.MaxPerWeek),
		"max_per_month": count(own.MaxPerMonth), "type_limits": types,
	}, nil)
	o.equal("layer1_default_cooldown_seconds", data["layer1_default_cooldown_seconds"], count(int(definition.DefaultCooldown.Seconds())), nil)
	order := []any{} // of the case that all limits keep
	for _, c := range data["cases"].([]any) {
		c := c.(map[string]any)
		o.begin(c["name"].(string))
		loc, err := civil.LoadZone(c["timezone"].(string))
		if err != nil {
			t.Fatal(err)
		}
		var history []cadence.Slot
		for _, s := range c["history"].([]any) {
			s := s.(map[string]any)
			if s["status"] != "sent" && s["status"] != "scheduled" {
				t.Fatalf("unknown status %v", s["status"])
			}
			known(t, data, s["type"])
			history = append(history, cadence.Slot{At: at(t, s["slot"]), Type: s["type"].(string), N: 1, Sent: s["status"] == "sent"})
		}
		known(t, data, c["type"])
		rules := maps.Clone(c["rules"].(map[string]any))
		rules["count"] = c["count"]
		policy := limitsOf(t, rules)
		now, message := at(t, c["at"]), cadence.Message{Type: c["type"].(string)}
		v := cadence.Decide(policy, history, loc, now, now.AddDate(1, 0, 0), message)
		all, first := []any{}, any(nil)
		for _, u := range cadence.NewHistory(history).Blocks(policy, loc, now, message) {
			all = append(all, string(u.Reason))
		}
		if len(all) > len(order) {
			order = all
		}
		if v.Reason != "" {
			first = string(v.Reason)
		}
		o.equal("allowed", c["allowed"], v.At.Equal(now), nil)
		o.equal("reason", c["reason"], first, nil)
		o.equal("all_reasons", c["all_reasons"], all, nil)
		o.equal("send_at", c["send_at"], v.At.UTC().Format(time.RFC3339), nil)
	}
	o.begin("order")
	o.equal("order", data["order"], order, nil)
	return o
}
