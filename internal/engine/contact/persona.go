package contact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/slip"
)

// MaxCadence bounds a person's own limits, in bytes of JSON: they are read for every message to them.
const MaxCadence = 4 << 10

// known refuses a persona that is not defined. Whoever has one that was taken away keeps it, so that the same contact
// can be said again.
func (w *writing) known(old, persona string) *Error {
	if persona == "" || persona == old || w.set.Persona(persona) != nil {
		return nil
	}
	var names []string
	for _, p := range w.set.Personas() {
		names = append(names, p.Name)
	}
	hint := slip.DidYouMean(persona, names)
	switch {
	case hint != "":
	case len(names) == 0:
		hint = "no persona is defined; write one that begins with persona: " + persona + ", and apply it"
	default:
		hint = "there are " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return invalid("persona", fmt.Sprintf("no persona named %q", persona), hint)
}

func limits(value any) (map[string]any, *Error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("cadence", "is not an object", `{"cooldown": "2h", "max_per_day": 5}`)
	}
	return fields, nil
}

// merged is a person's own limits as the item wants them: what it mentions changes, what it does not stays.
func merged(old string, item Item) (string, *Error) {
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
	for name, value := range item.Cadence {
		if value == nil {
			delete(all, name)
			continue
		}
		all[name] = value
	}
	if len(all) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		return old, invalid("cadence", "cannot be kept", "")
	}
	return check(bytes.TrimSpace(b.Bytes()))
}

// check refuses limits that do not mean anything; raw is JSON with the keys in order.
func check(raw []byte) (string, *Error) {
	if len(raw) > MaxCadence {
		return "", invalid("cadence", fmt.Sprintf("is larger than %d KiB", MaxCadence>>10), "")
	}
	type policy struct {
		Cooldown    string         `json:"cooldown"`
		MaxPerDay   uint           `json:"max_per_day"`
		MaxPerWeek  uint           `json:"max_per_week"`
		MaxPerMonth uint           `json:"max_per_month"`
		MaxPerSlot  uint           `json:"max_per_slot"`
		TypeLimits  map[string]int `json:"type_limits"`
		Types       []string       `json:"types"`
	}
	var limits struct {
		policy
		Channels map[string]policy `json:"channels"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&limits); err != nil {
		return "", invalid("cadence", strings.TrimPrefix(err.Error(), "json: "), "limits are written as a persona's: cooldown, max_per_day, type_limits …")
	}
	if c := limits.Cooldown; c != "" {
		if _, err := civil.ParseDuration(c); err != nil {
			return "", invalid("cadence.cooldown", "is not a duration", "write it like 2h")
		}
	}
	return string(raw), nil
}
