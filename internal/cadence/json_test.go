package cadence_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

func TestParseRules(t *testing.T) {
	t.Parallel()
	const text = `{"cooldown":"2h","max_per_day":5,"max_per_week":20,"max_per_month":80,"max_per_slot":1,"type_limits":{"alert":3},` +
		`"quiet_hours":"20:00-07:00","resume_at":"08:00","types":["alert","report"],"window":"rolling","count":"sent","slot_grace":"30s",` +
		`"total":{"max_per_day":6,"max_per_week":30,"max_per_month":90},"channels":{"sms":{"max_per_day":2}}}`
	want := cadence.Rules{
		Policy: cadence.Policy{
			Cooldown: 2 * time.Hour, MaxPerDay: 5, MaxPerWeek: 20, MaxPerMonth: 80, MaxPerSlot: 1, TypeLimits: map[string]int{"alert": 3},
			Quiet: civil.Span{From: 20 * 3600, To: 7 * 3600}, ResumeAt: 8 * 3600, Types: []string{"alert", "report"}, Rolling: true,
			Count: cadence.CountSent, SlotGrace: 30 * time.Second,
			Total: cadence.Total{MaxPerDay: 6, MaxPerWeek: 30, MaxPerMonth: 90},
		},
		Channels: map[string]cadence.Policy{"sms": {MaxPerDay: 2}},
	}
	got, err := cadence.ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.JSON() != text {
		t.Errorf("written as %s", got.JSON())
	}
	for _, none := range []string{"", "{}", `{"max_per_day": 0, "cooldown": "0s", "types": [], "type_limits": {"alert": 0}, "channels": {}, "window": "calendar", "count": "committed", "total": {"max_per_day": 0}}`} {
		if r, err := cadence.ParseRules(none); err != nil || !r.Empty() || r.JSON() != "" {
			t.Errorf("%s: got %+v, %v", none, r, err)
		}
	}
}

func TestParseRulesRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:                                       "syntax",
		`[]`:                                      "limits are not a JSON object",
		`{"max_per_day": 1, "max_per_day": 2}`:    "max_per_day: twice",
		`{"max_per_dya": 1}`:                      `"max_per_dya" is not a limit`,
		`{"total": 3}`:                            "total is not an object of caps over all kinds of channels",
		`{"total": {"cooldown": "1h"}}`:           `total: "cooldown" is not a limit over all kinds of channels`,
		`{"total": {"max_per_day": -1}}`:          "total: max_per_day is negative",
		`{"channels": {"sms": {"total": {}}}}`:    `channels.sms: "total" is not a limit`,
		`{"max_per_day": -1}`:                     "max_per_day is negative",
		`{"max_per_day": 1.5}`:                    "max_per_day is not a whole number",
		`{"max_per_day": "1"}`:                    "max_per_day is not a whole number",
		`{"max_per_day": null}`:                   "max_per_day is not a whole number",
		`{"max_per_day": 1e3}`:                    "max_per_day is not a whole number",
		`{"max_per_day": 1000001}`:                "max_per_day is more than 1000000",
		`{"cooldown": 2}`:                         `cooldown is not a duration such as "2h"`,
		`{"cooldown": "2 hours"}`:                 `cooldown: "2 hours" is not a duration`,
		`{"cooldown": "-2h"}`:                     `cooldown: "-2h" is not a duration`,
		`{"quiet_hours": "20-7"}`:                 `quiet_hours: "20-7" is not a span of the day`,
		`{"quiet_hours": "07:00-07:00"}`:          `quiet_hours: "07:00-07:00" ends where it begins`,
		`{"resume_at": "8"}`:                      `resume_at: "8" is not a time of day`,
		`{"window": "sliding"}`:                   `window: "sliding" is not known`,
		`{"count": ""}`:                           `count: "" is not known`,
		`{"types": "alert"}`:                      "types is not a list of types",
		`{"types": [1]}`:                          "types is not a list of types",
		`{"type_limits": [3]}`:                    "type_limits is not an object of types and their limits a day",
		`{"type_limits": {"alert": -3}}`:          "type_limits.alert is negative",
		`{"channels": {"sms": 1}}`:                "channels.sms is not a kind of channel and its limits",
		`{"channels": {"sms:main": {}}}`:          "channels.sms:main is not a kind of channel and its limits",
		`{"channels": {"sms": {"a": 1}}}`:         `channels.sms: "a" is not a limit`,
		`{"channels": {"sms": {"channels": {}}}}`: `channels.sms: "channels" is not a limit`,
	} {
		_, err := cadence.ParseRules(text)
		if got := new(civil.Error); !errors.As(err, &got) || got.Message != want || got.Hint == "" {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// Every policy that is written is read back unchanged.
func TestRulesComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := cadence.Rules{Policy: policies.Draw(t, "policy")}
		for _, kind := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"sms", "email"}), rapid.ID).Draw(t, "kinds") {
			if r.Channels == nil {
				r.Channels = map[string]cadence.Policy{}
			}
			r.Channels[kind] = policies.Draw(t, "own policy")
		}
		text := r.JSON()
		back, err := cadence.ParseRules(text)
		if err != nil || back.JSON() != text {
			t.Fatalf("%s: got %s, %v", text, back.JSON(), err)
		}
	})
}

func FuzzParseRules(f *testing.F) {
	f.Add(`{"cooldown":"2h","max_per_day":5,"type_limits":{"alert":3},"channels":{"sms":{"max_per_day":2}}}`)
	f.Add(`{"quiet_hours":"20:00-07:00","types":["a","a"],"window":"rolling"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := cadence.ParseRules(text)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error without a word")
			}
			return
		}
		if err := r.Check(); err != nil {
			t.Fatalf("it was read and is refused: %v", err)
		}
		back, err := cadence.ParseRules(r.JSON())
		if err != nil || back.JSON() != r.JSON() {
			t.Fatalf("%s: got %s, %v", r.JSON(), back.JSON(), err)
		}
	})
}
