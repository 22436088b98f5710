// Package cadence is gate 2: it decides when a person may next be interrupted.
//
// A person's messages on one channel are admitted to slots. A slot is an instant; messages admitted to the same
// instant share it, and two different slots are at least the cooldown apart (decision 2). Counted limits count every
// message, sent or still waiting in its slot, in the calendar day, week or month of the slot (decisions 3, 13). A slot
// that has passed while its message waits binds no cooldown; caps go on counting it.
//
//	                 now            free
//	──■──────────────┼──────────────■────────▶
//	  slot           │◀─ blocked ──▶│
//	  ◀───────── cooldown ─────────▶
//
// The package does not know why a message is sent, nor whether it may bypass the gate, and it keeps nothing: the
// history is an argument, and writing the slot down under the person's lock is the caller's part.
//
// Quiet hours and a workflow's send window keep instants free by the wall clock of the person; they concern every
// message, whether its type counts or not.
//
// Invariants:
//   - Decide returns the earliest instant that breaks no limit, never one before now or after until.
//   - A history made of Decide's answers breaks no limit, in whatever order they were asked for.
//   - The reason is the first block in the order cooldown, type, day, week, month, quiet hours, send window (A36).
//   - A History, upon which a batch decides, answers as Decide does, in time that hardly grows with what it holds.
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
	Rolling     bool            // windows of 24 hours, 7 and 30 times 24 hours instead of the calendar's (decision 13)
	ResumeAt    civil.TimeOfDay // a wait for a new day of the calendar ends then; 00:00
	Quiet       civil.Span      // no message at all; zero = none
	SlotGrace   time.Duration   // how old a slot may be at the send; 0 = DefaultSlotGrace
	Total       Total           // caps over all kinds of channels
}

// Total caps the messages of one person on all kinds of channels together. It holds beside the caps of each kind. Its windows
// are of the same calendar as the others.
type Total struct {
	MaxPerDay   int
	MaxPerWeek  int
	MaxPerMonth int
	Types       []string // the types that meet and use up these caps; nil = all
	Count       Count
	Rolling     bool
}

// Empty reports whether there is no cap.
func (t Total) Empty() bool { return t.MaxPerDay == 0 && t.MaxPerWeek == 0 && t.MaxPerMonth == 0 }

// Counts reports whether messages of a type meet and use up these caps.
func (t Total) Counts(typ string) bool { return len(t.Types) == 0 || slices.Contains(t.Types, typ) }

// DefaultSlotGrace is how old a slot may be at the send before it is released and another is taken: long enough for a batch
// that takes its time, and short against every cooldown that people notice.
const DefaultSlotGrace = time.Minute

// Grace returns how old a slot may be at the send.
func (p Policy) Grace() time.Duration { return cmp.Or(p.SlotGrace, DefaultSlotGrace) }

// Rules are the limits of a persona, a person or a workspace: one policy, and others that replace it for some kinds of
// channel (A41).
type Rules struct {
	Policy
	Channels map[string]Policy // by kind of channel; nil when there are none. What is Total there has no effect
}

// For returns the policy for a kind of channel: one of its own replaces the common one whole, but for the total. The total
// counts as the common policy does, and a wait for it ends at the common time of day where the kind has none of its own.
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

// total is the total with the way in which the common policy counts.
func (r Rules) total() Total {
	t := r.Policy.Total
	t.Types, t.Count, t.Rolling = r.Types, r.Count, r.Rolling
	return t
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

// EffectiveOn is Effective for a kind of channel. The total is one for all kinds, and follows from the limits that are set for
// no kind alone: those of the person over the persona's, else the workspace's.
func EffectiveOn(kind string, person, persona, workspace Rules) Policy {
	p := Effective(person.For(kind), persona.For(kind), workspace.For(kind))
	if p.Total = Effective(person.common(), persona.common(), workspace.common()).Total; p.Total.Empty() {
		p.Total = Total{}
	}
	return p
}

// common is the policy of kinds without one of their own.
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

// SentOnly reports whether any of the caps counts only what was sent.
func (p Policy) SentOnly() bool {
	return p.Count == CountSent && !p.free() || p.Total.Count == CountSent && !p.Total.Empty()
}

// Of is the policy as far as it concerns messages of a type: one that the caps do not count keeps the quiet hours alone.
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

// Counts reports whether messages of a type meet and use up the caps. Quiet hours hold for every type.
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

// Check refuses negative limits. The error is a *civil.Error.
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

// under says in which part of the rules an error is.
func under(path string, err error) error {
	var known *civil.Error
	if !errors.As(err, &known) {
		return err
	}
	return &civil.Error{Message: path + ": " + known.Message, Hint: known.Hint}
}
