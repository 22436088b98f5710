package cadence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
)

// acceptance reads a file of the acceptance data.
func acceptance(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("CARILLON_ACCEPTANCE_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "acceptance")
	}
	data, err := os.ReadFile(filepath.Join(dir, "sources", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rules are the limits in the form of the acceptance data.
type rules struct {
	CooldownHours float64        `json:"cooldown_hours"`
	MaxPerDay     int            `json:"max_per_day"`
	MaxPerWeek    int            `json:"max_per_week"`
	MaxPerMonth   int            `json:"max_per_month"`
	TypeLimits    map[string]int `json:"type_limits"`
}

func (r rules) policy(count string) cadence.Policy {
	return cadence.Policy{
		Cooldown:    time.Duration(r.CooldownHours * float64(time.Hour)),
		MaxPerDay:   r.MaxPerDay,
		MaxPerWeek:  r.MaxPerWeek,
		MaxPerMonth: r.MaxPerMonth,
		TypeLimits:  r.TypeLimits,
		Count:       cadence.Count(count),
	}
}

// decisions runs the cases of hypertext-cadence-cases.json. Each case is one decision for a given history.
func decisions(t *testing.T, data []byte) (cases int, wrong []string) {
	t.Helper()
	var file struct {
		DefaultRules rules `json:"default_rules"`
		Cases        []struct {
			Name, Timezone, Count, Type string
			Rules                       rules
			History                     []struct {
				Slot         time.Time
				Type, Status string
			}
			At      time.Time
			Allowed bool
			Reason  string
			SendAt  time.Time `json:"send_at"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if got, want := cadence.Default(), file.DefaultRules.policy(""); !sameLimits(got, want) {
		wrong = append(wrong, fmt.Sprintf("default rules: got %+v, want %+v", got, want))
	}
	for _, c := range file.Cases {
		cases++
		var history []cadence.Slot
		for _, s := range c.History {
			history = append(history, cadence.Slot{At: s.Slot, Type: s.Type, N: 1, Sent: s.Status == "sent"})
		}
		v := cadence.Decide(c.Rules.policy(c.Count), history, zone(t, c.Timezone), c.At, c.At.AddDate(1, 0, 0), cadence.Message{Type: c.Type})
		if string(v.Reason) != c.Reason || v.At.Equal(c.At) != c.Allowed || !v.At.Equal(c.SendAt) {
			wrong = append(wrong, fmt.Sprintf("%s: got %v %q, want %v %q", c.Name, v.At, v.Reason, c.SendAt, c.Reason))
		}
	}
	return cases, wrong
}

func sameLimits(a, b cadence.Policy) bool {
	if len(a.TypeLimits) != len(b.TypeLimits) {
		return false
	}
	for typ, n := range a.TypeLimits {
		if b.TypeLimits[typ] != n {
			return false
		}
	}
	return a.Cooldown == b.Cooldown && a.MaxPerDay == b.MaxPerDay && a.MaxPerWeek == b.MaxPerWeek && a.MaxPerMonth == b.MaxPerMonth
}

// example runs the timeline of hypertext-cadence-example.json. Every event is decided with the messages before it as the history. A
// queued message is decided again at its slot, without its own slot in the history.
func example(t *testing.T, data []byte) (cases int, wrong []string) {
	t.Helper()
	type counts struct{ Daily, Alert int }
	var file struct {
		Config struct {
			Persona        rules
			Type, Timezone string
		}
		Timeline []struct {
			At         time.Time
			Event      string
			SentBefore *counts   `json:"sent_before"`
			SentAfter  *counts   `json:"sent_after"`
			SendAt     time.Time `json:"send_at"`
			BlockedBy  string    `json:"blocked_by"`
			Recheck    string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	policy, loc := file.Config.Persona.policy(""), zone(t, file.Config.Timezone)
	var history []cadence.Slot
	left := func(until time.Time) (n counts) {
		for _, s := range history {
			if !s.At.After(until) {
				n.Daily += s.N
				n.Alert += s.N
			}
		}
		return n
	}
	for _, step := range file.Timeline {
		cases++
		until := step.At.AddDate(0, 1, 0)
		differs := func(what string, got, want any) {
			wrong = append(wrong, fmt.Sprintf("%v %s: %s: got %v, want %v", step.At, step.Event, what, got, want))
		}
		if step.Recheck != "" {
			others := slices.DeleteFunc(slices.Clone(history), func(s cadence.Slot) bool { return s.At.Equal(step.At) })
			v := cadence.Decide(policy, others, loc, step.At, until, cadence.Message{Type: file.Config.Type})
			if pass := v == (cadence.Verdict{At: step.At}); pass != (step.Recheck == "pass") {
				differs("recheck", v, step.Recheck)
			}
			if got := left(step.At); got != *step.SentAfter {
				differs("sent after", got, *step.SentAfter)
			}
			continue
		}
		if got := left(step.At); got != *step.SentBefore {
			differs("sent before", got, *step.SentBefore)
		}
		v := cadence.Decide(policy, history, loc, step.At, until, cadence.Message{Type: file.Config.Type})
		if !v.At.Equal(step.SendAt) || string(v.Reason) != step.BlockedBy {
			differs("verdict", v, step.SendAt)
		}
		history = append(history, cadence.Slot{At: v.At, Type: file.Config.Type, N: 1})
	}
	return cases, wrong
}

// Shows: A31, A32, A33, A34, A36, A37.
// Shows: A38, A45.
func TestAcceptanceCadence(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, []byte) (int, []string){
		"hypertext-cadence-cases.json":   decisions,
		"hypertext-cadence-example.json": example,
	} {
		cases, wrong := run(t, acceptance(t, name))
		t.Logf("%s: %d cases", name, cases)
		for _, w := range wrong {
			t.Errorf("%s: %s", name, w)
		}
		if cases == 0 {
			t.Errorf("%s: no cases", name)
		}
	}
}

// A changed expectation makes the acceptance test fail.
func TestAcceptanceBites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run      func(*testing.T, []byte) (int, []string)
		old, new string
	}{
		"hypertext-cadence-cases.json":   {decisions, `"send_at": "2026-05-14T12:00:00Z"`, `"send_at": "2026-05-14T12:00:01Z"`},
		"hypertext-cadence-example.json": {example, `"send_at": "2026-05-14T14:00:00Z"`, `"send_at": "2026-05-14T13:00:00Z"`},
	} {
		data := acceptance(t, name)
		changed := bytes.Replace(data, []byte(c.old), []byte(c.new), 1)
		if _, wrong := c.run(t, changed); bytes.Equal(changed, data) || len(wrong) != 1 {
			t.Errorf("%s: %d differences, want 1", name, len(wrong))
		}
	}
}
