// Package cadence decides when the next message may be sent to a person: gate 2 of the engine.
//
// A person's messages on one channel are admitted to slots. A slot is an instant; messages admitted to the same
// instant share it, and two different slots are at least the cooldown apart (product decision 2). Counted limits count every
// message, sent or still waiting in its slot, in the calendar day, week or month of the slot (product decisions 3, 13). A slot
// that has passed while its message waits starts no cooldown; caps still count it.
//
//	                 now            free
//	──■──────────────┼──────────────■────────▶
//	  slot           │◀─ blocked ──▶│
//	  ◀───────── cooldown ─────────▶
//
// The package does not know why a message is sent, or whether it may bypass the limits. It keeps no state: the history is an argument,
// and the caller stores the slot under the person's lock.
//
// Quiet hours and a workflow's send window forbid instants by the wall clock of the person. They apply to every message, whether its
// type counts or not.
//
// Invariants:
//   - Decide returns the earliest instant that breaks no limit, never one before now or after until.
//   - A history of slots that Decide returned breaks no limit, in any order of the decisions.
//   - The reason is the first limit that forbids, in the order cooldown, type, day, week, month, quiet hours, send window (A36).
//   - A History, which batches use, decides as Decide does, in time that hardly grows with the number of its slots.
package cadence

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Count selects the messages of the history that count.
type Count string

const (
	CountCommitted Count = "committed" // sent or admitted; the default, also for "" (product decision 3)
	CountSent      Count = "sent"      // only sent messages, as the source says literally
)

// Policy holds the limits of one person on one channel (A30–A35). A limit of 0 is absent.
type Policy struct {
	Cooldown    time.Duration  // least time between two slots (A31)
	MaxPerDay   int            // A32
	MaxPerWeek  int            // Monday to Sunday; A33
	MaxPerMonth int            // A33
	TypeLimits  map[string]int // type: most per day (A34)
	MaxPerSlot  int            // messages that may share a slot; 1 is the strict reading of product decision 2
	Types       []string       // the types to which these limits apply and which use them up; nil = all (product decision 60)
	Count       Count
	Rolling     bool            // windows of 24 hours, 7 and 30 times 24 hours instead of the calendar's (product decision 13)
	ResumeAt    civil.TimeOfDay // the time of day at which a wait for a new day of the calendar ends
	Quiet       civil.Span      // the hours without messages; zero = none
	SlotGrace   time.Duration   // how old a slot may be when its message leaves; 0 = DefaultSlotGrace
	Total       Total           // caps over all kinds of channels
}

// Total caps the messages of one person on all kinds of channels together, in addition to the caps of each kind. Its windows are those
// of the same calendar.
type Total struct {
	MaxPerDay   int
	MaxPerWeek  int
	MaxPerMonth int
	Types       []string // the types to which these caps apply and which use them up; nil = all
	Count       Count
	Rolling     bool
}

// Empty reports whether there is no cap.
func (t Total) Empty() bool { return t.MaxPerDay == 0 && t.MaxPerWeek == 0 && t.MaxPerMonth == 0 }

// Counts reports whether these caps apply to messages of a type, and count them.
func (t Total) Counts(typ string) bool { return len(t.Types) == 0 || slices.Contains(t.Types, typ) }

// DefaultSlotGrace is how old a slot may be when its message leaves, before the slot is released and another one is taken. It is long
// enough for a slow batch, and short compared with any cooldown that people notice.
const DefaultSlotGrace = time.Minute

// Grace returns how old a slot may be when its message leaves.
func (p Policy) Grace() time.Duration { return cmp.Or(p.SlotGrace, DefaultSlotGrace) }

// Rules are the limits of a persona, a person or a workspace: a common policy, and policies that replace it for some kinds of channel
// (A41).
type Rules struct {
	Policy
	Channels map[string]Policy // by kind of channel; nil if there are none. Their Total has no effect
}

// For returns the policy for a kind of channel. A policy of the kind replaces the whole common policy, except the total. The total
// counts as the common policy does, and a wait for it ends at the common time of day if the kind has none.
func (r Rules) For(kind string) Policy {
	p, ok := r.Channels[kind]
	if !ok {
		p = r.Policy
	} else if !r.Total.Empty() {
		p.ResumeAt = cmp.Or(p.ResumeAt, r.ResumeAt)
	}
	if p.Total = r.Total; !p.Total.Empty() {
		p.Total = r.total()
	}
	return p
}

// total returns the total with the common policy's way to count.
func (r Rules) total() Total {
	t := r.Policy.Total
	t.Types, t.Count, t.Rolling = r.Types, r.Count, r.Rolling
	return t
}

// Default returns the limits for people without any (A37). They apply to the source's four types only (product decision 60).
func Default() Policy {
	return Policy{
		Cooldown:   time.Hour,
		MaxPerDay:  1,
		MaxPerWeek: 2,
		TypeLimits: map[string]int{"report": 2, "alert": 5, "story_so_far": 1, "custom": 2},
		Types:      []string{"report", "alert", "story_so_far", "custom"},
	}
}

// Effective returns the policy for a person: the person's own fields replace those of their persona. If neither has a limit, it is the
// workspace's default as a whole (product decision 11). TypeLimits count as one field.
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
	set(&p.Rolling, person.Rolling)
	set(&p.ResumeAt, person.ResumeAt)
	set(&p.Quiet, person.Quiet)
	set(&p.SlotGrace, person.SlotGrace)
	if len(person.TypeLimits) > 0 {
		p.TypeLimits = person.TypeLimits
	}
	if len(person.Types) > 0 {
		p.Types = person.Types
	}
	set(&p.Total.MaxPerDay, person.Total.MaxPerDay)
	set(&p.Total.MaxPerWeek, person.Total.MaxPerWeek)
	set(&p.Total.MaxPerMonth, person.Total.MaxPerMonth)
	set(&p.Total.Count, person.Total.Count)
	set(&p.Total.Rolling, person.Total.Rolling)
	if len(person.Total.Types) > 0 {
		p.Total.Types = person.Total.Types
	}
	return p
}

// EffectiveOn is Effective for a kind of channel. The total is the same for all kinds. It follows from the common limits: the person's
// replace the persona's; if neither has any, the workspace's count.
func EffectiveOn(kind string, person, persona, workspace Rules) Policy {
	p := Effective(person.For(kind), persona.For(kind), workspace.For(kind))
	if p.Total = Effective(person.common(), persona.common(), workspace.common()).Total; p.Total.Empty() {
		p.Total = Total{}
	}
	return p
}

// common returns the policy of kinds without their own policy.
func (r Rules) common() Policy {
	p := r.Policy
	p.Total = r.total()
	return p
}

func set[T comparable](field *T, own T) {
	var absent T
	if own != absent {
		*field = own
	}
}

// Check returns an error for negative limits (product decision 10), which is a *civil.Error.
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
		{"slot_grace", int64(p.SlotGrace)},
		{"total: max_per_day", int64(p.Total.MaxPerDay)},
		{"total: max_per_week", int64(p.Total.MaxPerWeek)},
		{"total: max_per_month", int64(p.Total.MaxPerMonth)},
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
func (p Policy) Empty() bool { return p.Unlimited() && p.Quiet.IsZero() }

// Unlimited reports whether the policy has neither a cooldown nor a cap: a decision needs no history.
func (p Policy) Unlimited() bool { return p.free() && p.Total.Empty() }

// SentOnly reports whether any of the caps counts only sent messages.
func (p Policy) SentOnly() bool {
	return p.Count == CountSent && !p.free() || p.Total.Count == CountSent && !p.Total.Empty()
}

// Of returns the part of the policy that applies to messages of a type. For a type that the caps do not count, only the quiet hours
// remain.
func (p Policy) Of(typ string) Policy {
	of := p
	if !p.free() && !p.Counts(typ) {
		of = Policy{Quiet: p.Quiet, SlotGrace: p.SlotGrace, ResumeAt: p.ResumeAt, Total: p.Total}
	}
	if !p.Total.Counts(typ) {
		of.Total = Total{}
	}
	return of
}

// free reports whether nothing is limited on the kind of channel itself.
func (p Policy) free() bool {
	if p.Cooldown != 0 || p.MaxPerSlot != 0 || p.MaxPerDay != 0 || p.MaxPerWeek != 0 || p.MaxPerMonth != 0 {
		return false
	}
	for _, n := range p.TypeLimits {
		if n != 0 {
			return false
		}
	}
	return true
}

// Counts reports whether the caps apply to messages of a type, and count them. Quiet hours apply to every type.
func (p Policy) Counts(typ string) bool { return len(p.Types) == 0 || slices.Contains(p.Types, typ) }

// Empty reports whether nothing is limited on any channel.
func (r Rules) Empty() bool {
	for _, p := range r.Channels {
		if !p.Empty() {
			return false
		}
	}
	return r.Policy.Empty()
}

// Check returns an error for negative limits, which is a *civil.Error.
func (r Rules) Check() error {
	if err := r.Policy.Check(); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Channels)) {
		if err := r.Channels[kind].Check(); err != nil {
			return under("channels: "+kind, err)
		}
	}
	return nil
}

// under adds the part of the rules to an error.
func under(path string, err error) error {
	var known *civil.Error
	if !errors.As(err, &known) {
		return err
	}
	return &civil.Error{Message: path + ": " + known.Message, Hint: known.Hint}
}
