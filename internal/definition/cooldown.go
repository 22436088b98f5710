package definition

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
)

// DefaultCooldown applies when neither the trigger nor a persona of its audience sets a cooldown (A12).
const DefaultCooldown = time.Hour

// Personas returns the names of the personas in the trigger's audience, in the order of the audience, each once.
func (t *Trigger) Personas() []string {
	var names []string
	for _, entry := range t.Audience {
		if entry.Persona != "" && !slices.Contains(names, entry.Persona) {
			names = append(names, entry.Persona)
		}
	}
	return names
}

// LongestCooldown returns the longest cooldown that any context of the set can have.
func LongestCooldown(set *Set) time.Duration {
	longest := DefaultCooldown
	for _, matches := range set.byRecord {
		for _, m := range matches {
			if c := m.Trigger.OnCondition(); c != nil {
				longest = max(longest, c.Cooldown.Length)
				for _, length := range c.Cooldown.Issues {
					longest = max(longest, length)
				}
			}
		}
	}
	for _, p := range set.personas {
		longest = max(longest, p.Cadence.Cooldown)
	}
	return longest
}

// CooldownOf returns the cooldown of a context after it has fired with these issues: the shortest of the issues that have a length
// of their own (A23), else the trigger's own, else the shortest of its audience's personas, so that no persona waits for a slower
// one (product decision 7), else an hour. A trigger without a cooldown has none.
func CooldownOf(set *Set, t *Trigger, issues []string) time.Duration {
	c := t.OnCondition()
	if c == nil {
		return 0
	}
	var shortest time.Duration
	take := func(length time.Duration) {
		if length > 0 && (shortest == 0 || length < shortest) {
			shortest = length
		}
	}
	for _, issue := range issues {
		take(c.Cooldown.Issues[issue])
	}
	if shortest > 0 {
		return shortest
	}
	if c.Cooldown.Length > 0 {
		return c.Cooldown.Length
	}
	for _, name := range t.Personas() {
		if p := set.Persona(name); p != nil {
			take(p.Cadence.Cooldown)
		}
	}
	if shortest > 0 {
		return shortest
	}
	return DefaultCooldown
}

// OfRecord reports whether each context belongs to one record alone.
func (c *Cooldown) OfRecord() bool {
	return slices.ContainsFunc(c.Per, func(p *expr.Program) bool { return p.Source() == PerRecord })
}

// PerRecord is the part of a context that makes it belong to one record.
const PerRecord = "record.id"
