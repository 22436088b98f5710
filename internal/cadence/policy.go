// Package cadence is gate 2: it decides when a person may next be interrupted.
//
// A person's messages on one channel are admitted to slots. A slot is an instant; messages admitted to the same
// instant share it, and two different slots are at least the cooldown apart (decision 2). Counted limits count every
// message, sent or still waiting in its slot, in the calendar day, week or month of the slot (decisions 3, 13).
//
//	                 now            free
//	──■──────────────┼──────────────■────────▶
//	  slot           │◀─ blocked ──▶│
//	  ◀───────── cooldown ─────────▶
//
// The package does not know why a message is sent, nor whether it may bypass the gate, and it keeps nothing: the
// history is an argument, and writing the slot down under the person's lock is the caller's part.
//
// Invariants:
//   - Decide returns the earliest instant that breaks no limit, never one before now or after until.
//   - A history made of Decide's answers breaks no limit, in whatever order they were asked for.
//   - The reason is the first block in the order cooldown, type, day, week, month (A36).
package cadence

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Count says which messages of the history count.
type Count string

const (
	CountCommitted Count = "committed" // sent or admitted; the default, also for "" (decision 3)
	CountSent      Count = "sent"      // only what was sent, the source's literal reading
)

// Policy holds the limits of one person on one channel (A30–A35). A limit of 0 is absent.
type Policy struct {
	Cooldown    time.Duration  // least time between two slots (A31)
	MaxPerDay   int            // A32
	MaxPerWeek  int            // Monday to Sunday; A33
	MaxPerMonth int            // A33
	TypeLimits  map[string]int // type: most per day (A34)
	MaxPerSlot  int            // messages that may share a slot; 1 is the strict reading of decision 2
	Types       []string       // the types that meet and use up these limits; nil = all (decision 60)
	Count       Count
	ResumeAt    civil.TimeOfDay // a wait for a new day ends then; 00:00
	Quiet       civil.Span      // nothing leaves then, in the person's zone
	Rolling     bool            // windows end now, and are no calendar days, weeks and months (decision 13)
	SlotGrace   time.Duration   // how late a slot still holds; 0 = a minute
}

// Rules are the limits of a persona, a person or a workspace: one policy, and others that replace it for some kinds of
// channel (A41).
type Rules struct {
	Policy
	Channels map[string]Policy // by kind of channel; nil when there are none
}

// For returns the policy for a kind of channel.
func (r Rules) For(kind string) Policy {
	if own, ok := r.Channels[kind]; ok {
		return own
	}
	return r.Policy
}

// Default returns the rules for people without any (A37). They concern the source's four types only (decision 60).
func Default() Policy {
	return Policy{
		Cooldown:   time.Hour,
		MaxPerDay:  1,
		MaxPerWeek: 2,
		TypeLimits: map[string]int{"report": 2, "alert": 5, "story_so_far": 1, "custom": 2},
		Types:      []string{"report", "alert", "story_so_far", "custom"},
	}
}

// Effective returns the policy that holds for a person: the person's own fields over those of their persona or, if
// neither has any rule, the workspace's default as a whole (decision 11). TypeLimits count as one field.
func Effective(person, persona, workspace Policy) Policy {
	if person.Empty() && persona.Empty() {
		return workspace
	}
	p := persona
	set(&p.Cooldown, person.Cooldown)
	set(&p.MaxPerDay, person.MaxPerDay)
	set(&p.MaxPerWeek, person.MaxPerWeek)
	set(&p.MaxPerMonth, person.MaxPerMonth)
	set(&p.MaxPerSlot, person.MaxPerSlot)
	set(&p.Count, person.Count)
	set(&p.ResumeAt, person.ResumeAt)
	if len(person.TypeLimits) > 0 {
		p.TypeLimits = person.TypeLimits
	}
	if len(person.Types) > 0 {
		p.Types = person.Types
	}
	return p
}

func set[T comparable](field *T, own T) {
	var absent T
	if own != absent {
		*field = own
	}
}

// Check refuses negative limits (decision 10). The error is a *civil.Error.
func (p Policy) Check() error {
	type limit struct {
		name string
		n    int64
	}
	limits := []limit{
		{"cooldown", int64(p.Cooldown)},
		{"max_per_day", int64(p.MaxPerDay)},
		{"max_per_week", int64(p.MaxPerWeek)},
		{"max_per_month", int64(p.MaxPerMonth)},
		{"max_per_slot", int64(p.MaxPerSlot)},
	}
	for _, typ := range slices.Sorted(maps.Keys(p.TypeLimits)) {
		limits = append(limits, limit{"type_limits: " + strconv.Quote(typ), int64(p.TypeLimits[typ])})
	}
	for _, l := range limits {
		if l.n < 0 {
			return &civil.Error{Message: l.name + " is negative", Hint: "0 or nothing means no limit"}
		}
	}
	return nil
}

// Empty reports whether the policy limits nothing.
func (p Policy) Empty() bool {
	return p.Cooldown == 0 && p.MaxPerSlot == 0 && p.MaxPerDay == 0 && p.MaxPerWeek == 0 && p.MaxPerMonth == 0 &&
		len(p.TypeLimits) == 0
}

// counts reports whether messages of a type meet and use up the limits.
func (p Policy) counts(typ string) bool { return len(p.Types) == 0 || slices.Contains(p.Types, typ) }
