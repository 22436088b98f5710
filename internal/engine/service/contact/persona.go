package contact

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/suggest"
)

// MaxCadence bounds a contact's own limits, in bytes of JSON: they are read for every message to the contact.
const MaxCadence = 4 << 10

// known refuses a persona that is not defined. A contact whose persona was deleted keeps it, so that the same contact can be written again.
func (w *writing) known(old, persona string) *upsert.Error {
	if persona == "" || persona == old || w.set.Persona(persona) != nil {
		return nil
	}
	var names []string
	for _, p := range w.set.Personas() {
		names = append(names, p.Name)
	}
	hint := suggest.DidYouMean(persona, names)
	switch {
	case hint != "":
	case len(names) == 0:
		hint = "no persona is defined; write one that begins with persona: " + persona + ", and apply it"
	default:
		hint = "there are " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return invalid("persona", fmt.Sprintf("no persona named %q", persona), hint)
}

func limits(value any) (map[string]any, *upsert.Error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("cadence", "is not an object", `{"cooldown": "2h", "max_per_day": 5}`)
	}
	return fields, nil
}

// limit checks one key against the known limits.
func limit(name string, value any) *upsert.Error {
	field := "cadence." + name
	rules, err := cadence.RulesOf(map[string]any{name: value})
	if err != nil && suggest.DidYouMean(name, cadence.Keys()) != "" && !slices.Contains(cadence.Keys(), name) {
		return invalid(field, "is not a limit", suggest.DidYouMean(name, cadence.Keys()))
	}
	var wrong *civil.Error
	switch {
	case errors.As(err, &wrong):
		return invalid(field, wrong.Message, wrong.Hint)
	case err != nil:
		return invalid(field, err.Error(), "")
	}
	policies := []cadence.Policy{rules.Policy}
	for _, kind := range slices.Sorted(maps.Keys(rules.Channels)) {
		policies = append(policies, rules.Channels[kind])
	}
	for _, p := range policies {
		for _, typ := range append(slices.Sorted(maps.Keys(p.TypeLimits)), p.Types...) {
			if types := loader.WorkflowTypes(); !slices.Contains(types, typ) {
				hint := cmp.Or(suggest.DidYouMean(typ, types), "types are "+strings.Join(types, ", "))
				return invalid(field, fmt.Sprintf("%q is not a type of workflow", typ), hint)
			}
		}
	}
	return nil
}

// kinds refuses limits for an unknown kind of channel. A contact that has limits for a kind that was removed keeps them.
func (w *writing) kinds(before string, rules cadence.Rules) *upsert.Error {
	had, err := cadence.ParseRules(before)
	for _, kind := range slices.Sorted(maps.Keys(rules.Channels)) {
		known := w.set.ChannelKinds()
		if _, ok := had.Channels[kind]; slices.Contains(known, kind) || ok && err == nil {
			continue
		}
		return invalid("cadence.channels."+kind, "is not a kind of channel", cmp.Or(suggest.DidYouMean(kind, known), "kinds are "+strings.Join(known, ", ")))
	}
	return nil
}

// merged is a contact's own limits after the item: a limit that the item mentions changes, all others stay. before are the stored limits.
func (w *writing) merged(before, old string, item Item) (string, *upsert.Error) {
	if item.NoCadence {
		return "", nil
	}
	if len(item.Cadence) == 0 {
		return old, nil
	}
	all := map[string]any{}
	if old != "" {
		d := json.NewDecoder(strings.NewReader(old))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			return old, invalid("cadence", "cannot be read as it is kept", `say it whole: first {"cadence": null}`)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.Cadence)) {
		value := item.Cadence[name]
		if value == nil {
			delete(all, name)
			continue
		}
		if err := limit(name, value); err != nil {
			return old, err
		}
		all[name] = value
	}
	rules, err := cadence.RulesOf(all)
	if err != nil {
		return old, invalid("cadence", err.Error(), "")
	}
	if item.Cadence["channels"] != nil {
		if err := w.kinds(before, rules); err != nil {
			return old, err
		}
	}
	text := rules.JSON()
	if len(text) > MaxCadence {
		return old, invalid("cadence", fmt.Sprintf("is larger than %d KiB", MaxCadence>>10), "")
	}
	return text, nil
}
