package contact_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A contact's own limits change by key, like addresses and attributes.
//
// Shows: A42.
func TestOwnLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		for _, step := range []struct {
			mode              upsert.Mode
			say, outcome, now string
		}{
			{upsert.Merge, `{"cooldown": "2h", "max_per_day": 3}`, "created", `{"cooldown":"2h","max_per_day":3}`},
			{upsert.Merge, `{"max_per_day": 3, "cooldown": "2h"}`, "unchanged", `{"cooldown":"2h","max_per_day":3}`},
			{upsert.Change, `{"cooldown": null, "type_limits": {"alert": 1}}`, "changed", `{"max_per_day":3,"type_limits":{"alert":1}}`},
			{upsert.Change, `{"channels": {"sms": {"max_per_day": 1}}}`, "changed", `{"max_per_day":3,"type_limits":{"alert":1},"channels":{"sms":{"max_per_day":1}}}`},
			{upsert.Replace, `{"max_per_week": 1}`, "changed", `{"max_per_week":1}`},
			{upsert.Change, `null`, "changed", ``},
			{upsert.Change, `{"max_per_week": null}`, "unchanged", ``},
		} {
			got := outcomes(b.write(step.mode, `{"id": "ada", "cadence": `+step.say+`}`))
			if now := b.row("ada").Cadence; got != step.outcome || now != step.now {
				t.Errorf("%s: %s, now %s; want %s, %s", step.say, got, now, step.outcome, step.now)
			}
		}
		for _, refused := range []string{
			`{"max_per_dya": 3}`, `{"max_per_day": -1}`, `{"max_per_day": "3"}`, `{"max_per_day": 1.5}`, `{"cooldown": "2 hours"}`,
			`{"channels": {"sms": {"channels": {}}}}`, `{"channels": {"emial": {"max_per_day": 1}}}`, `{"type_limits": {"alert": "1"}}`,
		} {
			results := b.write(upsert.Merge, `{"id": "ada", "cadence": `+refused+`}`)
			if e := results[0].Error; e == nil || !strings.HasPrefix(e.Field, "cadence") || e.Hint == "" {
				t.Errorf("%s: %+v", refused, e)
			}
		}
		if b.row("ada").Cadence != "" {
			t.Error("something refused was kept")
		}
	})
}

// A persona that is not defined is refused; one that is deleted later stays with its contacts.
//
// Shows: A30, A46.
func TestPersona(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := bundle{enginetest.Setup(t, s, definitions, nil)}
		results := b.write(upsert.Merge, `{"id": "ada", "persona": "Manager"}`)
		if e := results[0].Error; e == nil || e.Field != "persona" || !strings.Contains(e.Hint, "no persona is defined") {
			t.Errorf("none is defined: %+v", e)
		}
		b.Apply("persona: Manager\ncadence: {cooldown: 2h}\n---\npersona: Executive\ncadence: {cooldown: 4h}\n")
		results = b.write(upsert.Merge, `{"id": "ada", "persona": "Manger"}`, `{"id": "bob", "persona": "Manager"}`, `{"id": "cid", "persona": "x"}`)
		if got := outcomes(results); got != `failed persona: no persona named "Manger", created, failed persona: no persona named "x"` {
			t.Errorf("got %s", got)
		}
		if hints := []string{results[0].Error.Hint, results[2].Error.Hint}; !slices.Equal(hints, []string{"did you mean Manager?", "there are Executive, Manager"}) {
			t.Errorf("hints %q", hints)
		}
		b.write(upsert.Merge, `{"id": "ada", "persona": "Executive"}`)
		for persona, want := range map[string]string{"": "bob ada", "Manager": "bob", "Executive": "ada", "manager": ""} {
			rows, err := s.Contacts(t.Context(), b.Workspace.ID, store.ContactFilter{Persona: persona}, store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range rows {
				ids = append(ids, r.ExtID)
			}
			slices.Sort(ids)
			wanted := strings.Fields(want)
			slices.Sort(wanted)
			if !slices.Equal(ids, wanted) {
				t.Errorf("with %q: %q, want %q", persona, ids, wanted)
			}
		}
		if b.write(upsert.Change, `{"id": "bob", "name": "Bob"}`); b.row("bob").Persona != "Manager" {
			t.Error("a change of the name took the persona away")
		}
		if b.write(upsert.Replace, `{"id": "bob", "name": "Bob"}`); b.row("bob").Persona != "" {
			t.Error("replaced without a persona, and has one")
		}
	})
}
