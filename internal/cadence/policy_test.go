package cadence_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

// Shows: A30, A35, A37.
func TestEffective(t *testing.T) {
	t.Parallel()
	manager := cadence.Policy{Cooldown: 2 * time.Hour, MaxPerDay: 5, TypeLimits: map[string]int{"alert": 3}}
	for _, c := range []struct {
		name                  string
		person, persona, want cadence.Policy
	}{
		{"nobody has rules: the default, as a whole", cadence.Policy{}, cadence.Policy{}, cadence.Default()},
		{"a persona is not topped up from the default", cadence.Policy{}, manager, manager},
		{"neither is a person", cadence.Policy{MaxPerDay: 3}, cadence.Policy{}, cadence.Policy{MaxPerDay: 3}},
		{
			"a person's field over the persona's",
			cadence.Policy{MaxPerDay: 1, MaxPerSlot: 1},
			manager,
			cadence.Policy{Cooldown: 2 * time.Hour, MaxPerDay: 1, MaxPerSlot: 1, TypeLimits: map[string]int{"alert": 3}},
		},
		{
			"limits by type are one field",
			cadence.Policy{TypeLimits: map[string]int{"report": 1}},
			manager,
			cadence.Policy{Cooldown: 2 * time.Hour, MaxPerDay: 5, TypeLimits: map[string]int{"report": 1}},
		},
	} {
		if got := cadence.Effective(c.person, c.persona, cadence.Default()); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Each field of a person's own limits replaces the persona's, and leaves the other fields unchanged.
//
// Shows: A42.
func TestEveryFieldOfAPerson(t *testing.T) {
	t.Parallel()
	own := cadence.Policy{
		Cooldown: time.Hour, MaxPerDay: 1, MaxPerWeek: 2, MaxPerMonth: 3, MaxPerSlot: 4, Count: cadence.CountSent, Rolling: true, ResumeAt: 60,
		Quiet: civil.Span{From: 60, To: 120}, SlotGrace: time.Second, TypeLimits: map[string]int{"alert": 5}, Types: []string{"alert"},
		Total: cadence.Total{MaxPerDay: 1, MaxPerWeek: 2, MaxPerMonth: 3, Types: []string{"alert"}, Count: cadence.CountSent, Rolling: true},
	}
	persona := cadence.Policy{
		Cooldown: 2 * time.Hour, MaxPerDay: 6, MaxPerWeek: 7, MaxPerMonth: 8, MaxPerSlot: 9, Count: cadence.CountCommitted, ResumeAt: 600,
		Quiet: civil.Span{From: 600, To: 660}, SlotGrace: time.Minute, TypeLimits: map[string]int{"report": 1}, Types: []string{"report"},
		Total: cadence.Total{MaxPerDay: 6, MaxPerWeek: 7, MaxPerMonth: 8, Types: []string{"report"}, Count: cadence.CountCommitted},
	}
	for i := range reflect.TypeFor[cadence.Policy]().NumField() {
		field := reflect.ValueOf(own).Field(i)
		if field.IsZero() {
			t.Fatalf("%s is not tried", reflect.TypeFor[cadence.Policy]().Field(i).Name)
		}
		person, want := cadence.Policy{}, persona
		reflect.ValueOf(&person).Elem().Field(i).Set(field)
		reflect.ValueOf(&want).Elem().Field(i).Set(field)
		if got := cadence.Effective(person, persona, cadence.Default()); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestEveryFieldOfATotal(t *testing.T) {
	t.Parallel()
	own := cadence.Total{MaxPerDay: 1, MaxPerWeek: 2, MaxPerMonth: 3, Types: []string{"alert"}, Count: cadence.CountSent, Rolling: true}
	persona := cadence.Policy{Total: cadence.Total{
		MaxPerDay: 6, MaxPerWeek: 7, MaxPerMonth: 8, Types: []string{"report"}, Count: cadence.CountCommitted,
	}}
	for i := range reflect.TypeFor[cadence.Total]().NumField() {
		person, want := cadence.Policy{}, persona
		reflect.ValueOf(&person.Total).Elem().Field(i).Set(reflect.ValueOf(own).Field(i))
		reflect.ValueOf(&want.Total).Elem().Field(i).Set(reflect.ValueOf(own).Field(i))
		if got := cadence.Effective(person, persona, cadence.Default()); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// The total is the same for all kinds of channels, also for kinds with their own limits, and counts as the common limits do.
func TestTotalOnEveryKind(t *testing.T) {
	t.Parallel()
	rules := func(text string) cadence.Rules {
		r, err := cadence.ParseRules(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	persona := `{"max_per_day": 5, "resume_at": "08:00", "count": "sent", "types": ["alert"], "total": {"max_per_day": 3}, "channels": {"sms": {"max_per_day": 2}}}`
	workspace := `{"max_per_day": 1, "total": {"max_per_week": 9}}`
	counted := cadence.Total{MaxPerDay: 3, Types: []string{"alert"}, Count: cadence.CountSent}
	for _, c := range []struct {
		name, person, persona, kind string
		want                        cadence.Policy
	}{
		{"common limits", "", persona, "email", cadence.Policy{
			MaxPerDay: 5, ResumeAt: 8 * 3600, Count: cadence.CountSent, Types: []string{"alert"}, Total: counted,
		}},
		{"those of a kind", "", persona, "sms", cadence.Policy{MaxPerDay: 2, ResumeAt: 8 * 3600, Total: counted}},
		{"their own over the persona's", `{"total": {"max_per_month": 30, "max_per_day": 4}}`, persona, "sms", cadence.Policy{
			MaxPerDay: 2, ResumeAt: 8 * 3600,
			Total: cadence.Total{MaxPerDay: 4, MaxPerMonth: 30, Types: []string{"alert"}, Count: cadence.CountSent},
		}},
		{"a persona with a total alone has no limits of the workspace", "", `{"total": {"max_per_day": 3}}`, "sms", cadence.Policy{
			Total: cadence.Total{MaxPerDay: 3},
		}},
		{"who has no limits has the workspace's", "", "", "sms", cadence.Policy{MaxPerDay: 1, Total: cadence.Total{MaxPerWeek: 9}}},
		{"the limits of one kind take no total away", "", `{"channels": {"sms": {"max_per_day": 2}}}`, "sms", cadence.Policy{
			MaxPerDay: 2, Total: cadence.Total{MaxPerWeek: 9},
		}},
	} {
		got := cadence.EffectiveOn(c.kind, rules(c.person), rules(c.persona), rules(workspace))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy cadence.Policy
		want   string
	}{
		{cadence.Policy{}, ""},
		{cadence.Default(), ""},
		{cadence.Policy{Cooldown: -1}, "cooldown is negative"},
		{cadence.Policy{MaxPerDay: -1}, "max_per_day is negative"},
		{cadence.Policy{MaxPerWeek: -1}, "max_per_week is negative"},
		{cadence.Policy{MaxPerMonth: -1}, "max_per_month is negative"},
		{cadence.Policy{MaxPerSlot: -1}, "max_per_slot is negative"},
		{cadence.Policy{Total: cadence.Total{MaxPerWeek: -1}}, "total: max_per_week is negative"},
		{cadence.Policy{TypeLimits: map[string]int{"alert": -1}}, `type_limits: "alert" is negative`},
	} {
		err := c.policy.Check()
		if got := new(civil.Error); c.want == "" && err != nil || c.want != "" && (!errors.As(err, &got) || got.Message != c.want) {
			t.Errorf("%+v: got %v, want %q", c.policy, err, c.want)
		}
	}
}
