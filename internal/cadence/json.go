package cadence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/strictjson"
)

const (
	// maxLimit bounds a cap. No person gets as many messages in a month.
	maxLimit = 1_000_000
	// maxNames bounds lists and maps, because every decision reads them.
	maxNames = 100
	// jsonDepth is the depth of the deepest value: a limit by type of a kind of channel.
	jsonDepth = 4
)

const (
	windowCalendar = "calendar"
	windowRolling  = "rolling"
)

// wire is a policy in JSON, with a persona's keys in a fixed order.
type wire struct {
	Cooldown    string         `json:"cooldown,omitempty"`
	MaxPerDay   int            `json:"max_per_day,omitempty"`
	MaxPerWeek  int            `json:"max_per_week,omitempty"`
	MaxPerMonth int            `json:"max_per_month,omitempty"`
	MaxPerSlot  int            `json:"max_per_slot,omitempty"`
	TypeLimits  map[string]int `json:"type_limits,omitempty"`
	QuietHours  string         `json:"quiet_hours,omitempty"`
	ResumeAt    string         `json:"resume_at,omitempty"`
	Types       []string       `json:"types,omitempty"`
	Window      string         `json:"window,omitempty"`
	Count       Count          `json:"count,omitempty"`
	SlotGrace   string         `json:"slot_grace,omitempty"`
	Total       *wireTotal     `json:"total,omitempty"` // only in common rules
}

type wireTotal struct {
	MaxPerDay   int `json:"max_per_day,omitempty"`
	MaxPerWeek  int `json:"max_per_week,omitempty"`
	MaxPerMonth int `json:"max_per_month,omitempty"`
}

// ParseRules reads rules in JSON with a persona's keys, such as {"cooldown": "2h", "max_per_day": 5}. It refuses unknown and repeated
// keys. An empty text gives no rules. The error is a *civil.Error that names the field.
func ParseRules(text string) (Rules, error) {
	if text == "" {
		return Rules{}, nil
	}
	v, bad := strictjson.Parse([]byte(text), jsonDepth)
	if bad != nil {
		return Rules{}, &civil.Error{Message: strings.TrimPrefix(bad.Error(), ": "), Hint: "limits are a JSON object whose keys stand once"}
	}
	return RulesOf(v)
}

// RulesOf is ParseRules for a decoded value: an object, with numbers as json.Number.
func RulesOf(v any) (Rules, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return Rules{}, &civil.Error{Message: "limits are not a JSON object", Hint: `write {"max_per_day": 3}`}
	}
	var r Rules
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch name {
		case "channels":
			continue
		case "total":
			if err := r.Total.read(fields[name]); err != nil {
				return Rules{}, err
			}
			continue
		}
		if err := r.read(name, fields[name]); err != nil {
			return Rules{}, err
		}
	}
	channels, ok := fields["channels"]
	if !ok {
		return r, nil
	}
	kinds, ok := channels.(map[string]any)
	if !ok || len(kinds) > maxNames {
		return Rules{}, wrong("channels", "an object of kinds of channel and their limits", `write {"channels": {"sms": {"max_per_day": 2}}}`)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		path := "channels." + kind
		own, ok := kinds[kind].(map[string]any)
		if !ok || kind == "" || strings.ContainsAny(kind, ": ;") {
			return Rules{}, wrong(path, "a kind of channel and its limits", `write {"channels": {"sms": {"max_per_day": 2}}}`)
		}
		var p Policy
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if err := p.read(name, own[name]); err != nil {
				return Rules{}, under(path, err)
			}
		}
		if r.Channels == nil {
			r.Channels = map[string]Policy{}
		}
		r.Channels[kind] = p
	}
	return r, nil
}

// read sets one field.
func (p *Policy) read(name string, v any) error {
	switch name {
	case "cooldown":
		return length(name, v, &p.Cooldown)
	case "slot_grace":
		return length(name, v, &p.SlotGrace)
	case "max_per_day":
		return limit(name, v, &p.MaxPerDay)
	case "max_per_week":
		return limit(name, v, &p.MaxPerWeek)
	case "max_per_month":
		return limit(name, v, &p.MaxPerMonth)
	case "max_per_slot":
		return limit(name, v, &p.MaxPerSlot)
	case "type_limits":
		return p.typeLimits(name, v)
	case "types":
		return p.types(name, v)
	case "quiet_hours":
		return parsed(name, v, `a span such as "20:00-07:00"`, civil.ParseSpan, &p.Quiet)
	case "resume_at":
		return parsed(name, v, `a time such as "08:00"`, civil.ParseTimeOfDay, &p.ResumeAt)
	case "window":
		return parsed(name, v, "calendar or rolling", func(word string) (bool, error) {
			return word == windowRolling, oneOf(word, windowCalendar, windowRolling)
		}, &p.Rolling)
	case "count":
		return parsed(name, v, "committed or sent", func(word string) (Count, error) {
			return Count(word), oneOf(word, string(CountCommitted), string(CountSent))
		}, &p.Count)
	}
	return &civil.Error{Message: strconv.Quote(name) + " is not a limit", Hint: "limits are " + strings.Join(Keys(), ", ")}
}

// read sets the caps over all kinds of channels.
func (t *Total) read(v any) error {
	caps, ok := v.(map[string]any)
	if !ok {
		return wrong("total", "an object of caps over all kinds of channels", `write {"total": {"max_per_day": 3}}`)
	}
	for _, name := range slices.Sorted(maps.Keys(caps)) {
		var into *int
		switch name {
		case "max_per_day":
			into = &t.MaxPerDay
		case "max_per_week":
			into = &t.MaxPerWeek
		case "max_per_month":
			into = &t.MaxPerMonth
		default:
			return under("total", &civil.Error{
				Message: strconv.Quote(name) + " is not a limit over all kinds of channels", Hint: "these are " + strings.Join(TotalKeys(), ", "),
			})
		}
		if err := limit(name, caps[name], into); err != nil {
			return under("total", err)
		}
	}
	return nil
}

// TotalKeys returns the names of the limits over all kinds of channels.
func TotalKeys() []string { return []string{"max_per_day", "max_per_week", "max_per_month"} }

// Keys returns the names of all limits, as definitions and contacts write them.
func Keys() []string {
	return []string{
		"cooldown", "max_per_day", "max_per_week", "max_per_month", "max_per_slot", "type_limits", "quiet_hours", "resume_at",
		"types", "window", "count", "slot_grace", "total", "channels",
	}
}

func wrong(name, want, hint string) error {
	return &civil.Error{Message: name + " is not " + want, Hint: hint}
}

func oneOf(word string, known ...string) error {
	if slices.Contains(known, word) {
		return nil
	}
	return &civil.Error{Message: strconv.Quote(word) + " is not known", Hint: "write " + strings.Join(known, " or ")}
}

func parsed[T any](name string, v any, want string, parse func(string) (T, error), into *T) error {
	text, ok := v.(string)
	if !ok {
		return wrong(name, want, "write it in quotes")
	}
	value, err := parse(text)
	if err != nil {
		return under(name, err)
	}
	*into = value
	return nil
}

func length(name string, v any, into *time.Duration) error {
	return parsed(name, v, `a duration such as "2h"`, func(s string) (time.Duration, error) {
		d, err := civil.ParseDuration(s)
		return d.Exact(), err
	}, into)
}

func limit(name string, v any, into *int) error {
	number, ok := v.(json.Number)
	n, err := strconv.Atoi(string(number))
	switch {
	case !ok || err != nil:
		return wrong(name, "a whole number", "0 or nothing means no limit")
	case n < 0:
		return &civil.Error{Message: name + " is negative", Hint: "0 or nothing means no limit"}
	case n > maxLimit:
		return &civil.Error{Message: fmt.Sprintf("%s is more than %d", name, maxLimit), Hint: "0 or nothing means no limit"}
	}
	*into = n
	return nil
}

func (p *Policy) typeLimits(name string, v any) error {
	limits, ok := v.(map[string]any)
	if !ok || len(limits) > maxNames {
		return wrong(name, "an object of types and their limits a day", `write {"type_limits": {"alert": 3}}`)
	}
	for _, typ := range slices.Sorted(maps.Keys(limits)) {
		n := 0
		if err := limit(name+"."+typ, limits[typ], &n); err != nil {
			return err
		}
		if n == 0 { // no limit
			continue
		}
		if p.TypeLimits == nil {
			p.TypeLimits = map[string]int{}
		}
		p.TypeLimits[typ] = n
	}
	return nil
}

func (p *Policy) types(name string, v any) error {
	list, ok := v.([]any)
	if !ok || len(list) > maxNames {
		return wrong(name, "a list of types", `write {"types": ["alert", "report"]}`)
	}
	for _, one := range list {
		typ, ok := one.(string)
		if !ok || typ == "" {
			return wrong(name, "a list of types", `write {"types": ["alert", "report"]}`)
		}
		if !slices.Contains(p.Types, typ) {
			p.Types = append(p.Types, typ)
		}
	}
	slices.Sort(p.Types)
	return nil
}

// JSON returns the canonical text of the rules, which ParseRules reads back; empty for no rules. Equal rules have equal texts.
func (r Rules) JSON() string {
	type rules struct {
		wire
		Channels map[string]wire `json:"channels,omitempty"`
	}
	out := rules{wire: r.Policy.wire()}
	if t := r.Total; !t.Empty() {
		out.Total = &wireTotal{t.MaxPerDay, t.MaxPerWeek, t.MaxPerMonth}
	}
	for kind, p := range r.Channels {
		if out.Channels == nil {
			out.Channels = map[string]wire{}
		}
		out.Channels[kind] = p.wire()
	}
	text, err := json.Marshal(out)
	if err != nil { // texts, numbers and maps of them always have a JSON form
		panic(fmt.Sprintf("cadence: limits in JSON: %v", err))
	}
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

func (p Policy) wire() wire {
	w := wire{
		Cooldown: written(p.Cooldown), MaxPerDay: p.MaxPerDay, MaxPerWeek: p.MaxPerWeek, MaxPerMonth: p.MaxPerMonth,
		MaxPerSlot: p.MaxPerSlot, TypeLimits: maps.Clone(p.TypeLimits), QuietHours: p.Quiet.String(), Types: p.Types, Count: p.Count,
		SlotGrace: written(p.SlotGrace),
	}
	maps.DeleteFunc(w.TypeLimits, func(_ string, n int) bool { return n == 0 })
	if p.ResumeAt != 0 {
		w.ResumeAt = p.ResumeAt.String()
	}
	if p.Rolling {
		w.Window = windowRolling
	}
	if p.Count == CountCommitted { // the default
		w.Count = ""
	}
	return w
}

func written(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return civil.Duration{Clock: d}.String()
}
