package contact_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/contact"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A person's own limits change by key, like addresses and attributes.
//
// Shows: A42.
func TestOwnLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		for _, step := range []struct {
			mode              contact.Mode
			say, outcome, now string
		}{
			{contact.Merge, `{"cooldown": "2h", "max_per_day": 3}`, "created", `{"cooldown":"2h","max_per_day":3}`},
			{contact.Merge, `{"max_per_day": 3, "cooldown": "2h"}`, "unchanged", `{"cooldown":"2h","max_per_day":3}`},
			{contact.Change, `{"cooldown": null, "type_limits": {"alert": 1}}`, "changed", `{"max_per_day":3,"type_limits":{"alert":1}}`},
			{contact.Change, `{"channels": {"sms": {"max_per_day": 1}}}`, "changed", `{"max_per_day":3,"type_limits":{"alert":1},"channels":{"sms":{"max_per_day":1}}}`},
			{contact.Replace, `{"max_per_week": 1}`, "changed", `{"max_per_week":1}`},
			{contact.Change, `null`, "changed", ``},
			{contact.Change, `{"max_per_week": null}`, "unchanged", ``},
		} {
			got := outcomes(b.write(step.mode, `{"id": "ada", "cadence": `+step.say+`}`))
			if now := b.row("ada").Cadence; got != step.outcome || now != step.now {
				t.Errorf("%s: %s, now %s; want %s, %s", step.say, got, now, step.outcome, step.now)
			}
		}
		for _, refused := range []string{
			`{"max_per_dya": 3}`, `{"max_per_day": -1}`, `{"max_per_day": "3"}`, `{"max_per_day": 1.5}`, `{"cooldown": "2 hours"}`,
			`{"channels": {"sms": {"channels": {}}}}`, `{"type_limits": {"alert": "1"}}`,
		} {
			results := b.write(contact.Merge, `{"id": "ada", "cadence": `+refused+`}`)
			if e := results[0].Error; e == nil || !strings.HasPrefix(e.Field, "cadence") || e.Hint == "" {
				t.Errorf("%s: %+v", refused, e)
			}
		}
		if b.row("ada").Cadence != "" {
			t.Error("something refused was kept")
		}
	})
}

// A persona that is not defined is refused; one that is taken away later stays with its people.
//
// Shows: A30, A46.
func TestPersona(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := bundle{enginetest.Setup(t, s, definitions, nil)}
		results := b.write(contact.Merge, `{"id": "ada", "persona": "Manager"}`)
		if e := results[0].Error; e == nil || e.Field != "persona" || !strings.Contains(e.Hint, "no persona is defined") {
			t.Errorf("none is defined: %+v", e)
		}
	})
}
