package cadence

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// Layer is the origin of a limit.
type Layer string

// The values of Layer, in the order of precedence (product decision 11).
const (
	LayerPerson    Layer = "person"
	LayerPersona   Layer = "persona"
	LayerWorkspace Layer = "workspace"
	LayerDefault   Layer = "default" // of a workspace without limits (A37)
)

// Limit names a limit by the persona's key that sets it.
type Limit string

// The values of Limit.
const (
	LimitCooldown    Limit = "cooldown"
	LimitType        Limit = "type_limits"
	LimitMaxPerDay   Limit = "max_per_day"
	LimitMaxPerWeek  Limit = "max_per_week"
	LimitMaxPerMonth Limit = "max_per_month"
	LimitMaxPerSlot  Limit = "max_per_slot"
	LimitQuietHours  Limit = "quiet_hours"
	LimitSendWindow  Limit = "send_window" // of a workflow
	LimitTotalDay    Limit = "total.max_per_day"
	LimitTotalWeek   Limit = "total.max_per_week"
	LimitTotalMonth  Limit = "total.max_per_month"
)

// Total reports whether a limit counts over all kinds of channels.
func (l Limit) Total() bool { return l == LimitTotalDay || l == LimitTotalWeek || l == LimitTotalMonth }

// LayerOn returns the layer of EffectiveOn from which a limit of a kind of channel comes; rest is the layer of the workspace's limits.
func LayerOn(kind string, limit Limit, person, persona Rules, rest Layer) Layer {
	if limit.Total() {
		return LayerOf(limit, person.common(), persona.common(), rest)
	}
	return LayerOf(limit, person.For(kind), persona.For(kind), rest)
}

// LayerOf returns the layer of Effective from which a limit comes; rest is the layer of the workspace's limits.
func LayerOf(limit Limit, person, persona Policy, rest Layer) Layer {
	switch {
	case person.Empty() && persona.Empty():
		return rest
	case person.sets(limit):
		return LayerPerson
	}
	return LayerPersona
}

func (p Policy) sets(limit Limit) bool {
	switch limit {
	case LimitCooldown:
		return p.Cooldown > 0
	case LimitType:
		return len(p.TypeLimits) > 0
	case LimitMaxPerDay:
		return p.MaxPerDay > 0
	case LimitMaxPerWeek:
		return p.MaxPerWeek > 0
	case LimitMaxPerMonth:
		return p.MaxPerMonth > 0
	case LimitMaxPerSlot:
		return p.MaxPerSlot > 0
	case LimitQuietHours:
		return !p.Quiet.IsZero()
	case LimitTotalDay:
		return p.Total.MaxPerDay > 0
	case LimitTotalWeek:
		return p.Total.MaxPerWeek > 0
	case LimitTotalMonth:
		return p.Total.MaxPerMonth > 0
	case LimitSendWindow:
	}
	return false
}

// Use is one limit with its usage at an instant.
type Use struct {
	Limit   Limit
	Type    string        // the type of messages, for a limit by type
	Reason  reason.Reason // the reason of messages that wait for it
	Length  time.Duration // of a cooldown
	Quiet   civil.Span    // the quiet hours, or the hours outside a send window
	Most    int           // messages that a cap allows
	Used    int           // messages that a cap has counted: sent, or admitted to a slot
	Rolling bool          // the cap counts hours, not calendar days
	Free    time.Time     // the earliest instant, not before now, at which this limit alone allows a message
}

// horizon bounds the search for the next free instant. If there is none within it, there is none at all.
const horizon = 366 * 24 * time.Hour

// Usage returns the usage of each limit of a policy at now, in the order in which the limits are tested (A36).
func (h *History) Usage(policy Policy, loc *time.Location, now time.Time) []Use {
	return h.uses(policy, loc, now, Message{}, func(string) bool { return true })
}

// uses is Usage for a message. It leaves out limits by type for which asked returns false.
func (h *History) uses(policy Policy, loc *time.Location, now time.Time, m Message, asked func(typ string) bool) []Use {
	var uses []Use
	one := func(types []string) string {
		if len(types) > 0 {
			return types[0]
		}
		return ""
	}
	counted := one(policy.Types)
	free := func(alone Policy, typ string) time.Time {
		alone.ResumeAt = policy.ResumeAt
		return h.Decide(alone, loc, now, now.Add(horizon), Message{Type: typ, At: m.At, Zone: m.Zone}).At
	}
	add := func(u Use, alone Policy, typ string) {
		alone.Types, alone.Count, alone.Rolling = policy.Types, policy.Count, policy.Rolling
		u.Rolling = policy.Rolling && u.Most > 0
		u.Free = free(alone, typ)
		uses = append(uses, u)
	}
	v := h.view(policy, loc)
	used := func(typ string, length int) int { return v.used(now, policy.Rolling, length, typ) }
	total := policy.Total
	addTotal := func(u Use, length int, alone Total) {
		if u.Most == 0 {
			return
		}
		alone.Types, alone.Count, alone.Rolling = total.Types, total.Count, total.Rolling
		u.Rolling, u.Used = total.Rolling, h.overall(total, loc, one(total.Types)).used(now, total.Rolling, length, "")
		u.Free = free(Policy{Total: alone}, one(total.Types))
		uses = append(uses, u)
	}
	if policy.Cooldown > 0 || policy.MaxPerSlot > 0 {
		u := Use{Limit: LimitCooldown, Reason: reason.CadenceCooldown, Length: policy.Cooldown}
		if policy.Cooldown == 0 {
			u.Limit, u.Most = LimitMaxPerSlot, policy.MaxPerSlot
		}
		add(u, Policy{Cooldown: policy.Cooldown, MaxPerSlot: policy.MaxPerSlot}, counted)
	}
	for _, typ := range slices.Sorted(maps.Keys(policy.TypeLimits)) {
		if most := policy.TypeLimits[typ]; most > 0 && policy.Counts(typ) && asked(typ) {
			u := Use{Limit: LimitType, Type: typ, Reason: reason.CadenceTypeDaily, Most: most, Used: used(typ, day)}
			add(u, Policy{TypeLimits: map[string]int{typ: most}}, typ)
		}
	}
	if most := policy.MaxPerDay; most > 0 {
		add(Use{Limit: LimitMaxPerDay, Reason: reason.CadenceDaily, Most: most, Used: used("", day)}, Policy{MaxPerDay: most}, counted)
	}
	addTotal(Use{Limit: LimitTotalDay, Reason: reason.CadenceDaily, Most: total.MaxPerDay}, day, Total{MaxPerDay: total.MaxPerDay})
	if most := policy.MaxPerWeek; most > 0 {
		add(Use{Limit: LimitMaxPerWeek, Reason: reason.CadenceWeekly, Most: most, Used: used("", week)}, Policy{MaxPerWeek: most}, counted)
	}
	addTotal(Use{Limit: LimitTotalWeek, Reason: reason.CadenceWeekly, Most: total.MaxPerWeek}, week, Total{MaxPerWeek: total.MaxPerWeek})
	if most := policy.MaxPerMonth; most > 0 {
		add(Use{Limit: LimitMaxPerMonth, Reason: reason.CadenceMonthly, Most: most, Used: used("", month)}, Policy{MaxPerMonth: most}, counted)
	}
	addTotal(Use{Limit: LimitTotalMonth, Reason: reason.CadenceMonthly, Most: total.MaxPerMonth}, month, Total{MaxPerMonth: total.MaxPerMonth})
	if !policy.Quiet.IsZero() {
		add(Use{Limit: LimitQuietHours, Reason: reason.QuietHours, Quiet: policy.Quiet}, Policy{Quiet: policy.Quiet}, counted)
	}
	return uses
}

// used returns the number of messages in the window that contains now; typ selects the messages of one type.
func (v *view) used(now time.Time, rolling bool, length int, typ string) int {
	if rolling {
		return v.most(now, typ, rollingLength[length])
	}
	w := v.window(length, now)
	if typ != "" {
		return w.of(v, typ)
	}
	return w.all
}

// most returns the highest number of messages in any rolling window that contains now; typ selects the messages of one type.
func (v *view) most(now time.Time, typ string, length time.Duration) int {
	of := func(s Slot) int {
		if typ != "" && s.Type != typ {
			return 0
		}
		return s.N
	}
	most, n := v.sum(typ, now, now.Add(length)), 0
	first := v.from(now.Add(-length + instant))
	for next := first; first < len(v.slots) && !v.slots[first].At.After(now); first++ {
		for end := v.slots[first].At.Add(length); next < len(v.slots) && v.slots[next].At.Before(end); next++ {
			n += of(v.slots[next])
		}
		most = max(most, n)
		n -= of(v.slots[first])
	}
	return most
}

// Blocks returns the limits that forbid a message at now, with their usage, in the order in which they are tested. The first one is the
// reason of a deferral.
func (h *History) Blocks(policy Policy, loc *time.Location, now time.Time, m Message) []Use {
	var blocks []Use
	uses := h.uses(policy, loc, now, m, func(typ string) bool { return typ == m.Type })
	if !m.Window.IsZero() {
		uses = append(uses, Use{
			Limit: LimitSendWindow, Reason: reason.SendWindow, Quiet: m.Window.Rest(), Free: Decide(Policy{}, nil, loc, now, now.Add(horizon), m).At,
		})
	}
	for _, u := range uses {
		always := u.Limit == LimitQuietHours || u.Limit == LimitSendWindow
		concerned := always || policy.Counts(m.Type) && cmp.Or(u.Type, m.Type) == m.Type
		if u.Limit.Total() {
			concerned = policy.Total.Counts(m.Type)
		}
		if concerned && !u.Free.Equal(now) {
			blocks = append(blocks, u)
		}
	}
	return blocks
}
