package gate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// trace is the account of the latest decision that kept a delivery from going as planned: by which version of the
// rules, with which values against which bounds. Explanations are made of it.
type trace struct {
	At      time.Time     `json:"at"`
	Version int64         `json:"version"` // of the workflow
	Reason  reason.Reason `json:"reason"`
	Step    int           `json:"step"`
	Due     time.Time     `json:"due"`
	Late    string        `json:"late,omitempty"`
	CatchUp string        `json:"catch_up,omitempty"`
	Until   *time.Time    `json:"until,omitempty"` // when it is looked at again
	Because
}

// Because are the limits of a person that kept a message from going, as they stood then.
type Because struct {
	Zone   string  `json:"zone,omitempty"` // of the person's days
	Limits []Limit `json:"limits,omitempty"`
}

// Limit is one of them.
type Limit struct {
	Limit   cadence.Limit `json:"limit"`
	Type    string        `json:"type,omitempty"`
	Used    int           `json:"used,omitempty"`
	Max     int           `json:"max,omitempty"`
	Rolling bool          `json:"rolling,omitempty"`
	FreeAt  *time.Time    `json:"free_at,omitempty"`
	From    cadence.Layer `json:"from,omitempty"` // none: of the workflow, as its send window
}

// Because says which limits keep a message from going when it asks. Places of without are as good as free.
func (b *Book) Because(a Ask, without ...delivery.Row) Because {
	own, persona := b.rules(a.Set, a.Person.Contact)
	theirs, its := own.For(Kind(a.Channel)), persona.For(Kind(a.Channel))
	out := Because{Zone: Zone(b.zones, a.Set, a.Person).String()}
	for _, u := range b.blocks(a, without...) {
		l := Limit{Limit: u.Limit, Type: u.Type, Used: u.Used, Max: u.Most, Rolling: u.Rolling}
		if !u.Free.IsZero() {
			l.FreeAt = &u.Free
		}
		if u.Limit != cadence.LimitSendWindow {
			l.From = cadence.LayerOf(u.Limit, theirs, its, a.Set.Workspace.Limits)
		}
		out.Limits = append(out.Limits, l)
	}
	return out
}

// blocks are those limits, the first as they are asked first.
func (b *Book) blocks(a Ask, without ...delivery.Row) []cadence.Use {
	policy, loc := b.Limiting(a), Zone(b.zones, a.Set, a.Person)
	m := cadence.Message{Type: a.Type, Window: a.Limits.SendWindow}
	if policy.Unlimited() {
		return cadence.NewHistory(nil).Blocks(policy, loc, a.Now, m)
	}
	var blocks []cadence.Use
	history := b.history(a)
	history.Without(places(without), func() { blocks = history.Blocks(policy, loc, a.Now, m) })
	return blocks
}

// Explain reads the account of a row in words: what kept it from going as planned, with the values of that moment.
// Instants are written in loc, or where that is nil in the zone of the person.
func Explain(account string, loc *time.Location) []string {
	var t trace
	if account == "" || json.Unmarshal([]byte(account), &t) != nil {
		return nil // of another version of the program: the reason itself is known all the same
	}
	if loc == nil {
		var err error
		if loc, err = civil.LoadZone(t.Zone); err != nil {
			loc = time.UTC
		}
	}
	var lines []string
	if t.Late != "" {
		lines = append(lines, fmt.Sprintf("%s late, catch_up is %s", length(t.Late), length(t.CatchUp)))
	}
	byDefault := false
	for _, l := range t.Limits {
		byDefault = byDefault || l.From == cadence.LayerDefault
		u := cadence.Use{Limit: l.Limit, Type: l.Type, Used: l.Used, Most: l.Max, Rolling: l.Rolling}
		if l.FreeAt != nil {
			u.Free = *l.FreeAt
		}
		lines = append(lines, u.Sentence(t.At, loc))
	}
	if t.later() {
		lines = append(lines, "after that, other limits or what waits already keep it until then")
	}
	if byDefault {
		lines = append(lines, "default limits: set cadence: in the workspace to replace them")
	}
	return lines
}

// later reports whether the decision waits longer than any of the limits that kept it: the next ones took over.
func (t *trace) later() bool {
	if len(t.Limits) == 0 || t.Until == nil {
		return false
	}
	for _, l := range t.Limits {
		if l.FreeAt == nil || !l.FreeAt.Before(*t.Until) {
			return false
		}
	}
	return true
}

// length spells a duration as definitions do; what is none stays as it is.
func length(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	return civil.Duration{Clock: d.Truncate(time.Second)}.String()
}

// Trace writes that account for a row as it stands, decided at now; until is when it goes on, zero for never.
func Trace(row delivery.Row, timing schedule.Timing, why reason.Reason, now, until time.Time, because Because) string {
	t := trace{At: now, Version: row.WorkflowVersion, Reason: why, Step: row.Step + 1, Due: row.Due()}
	if len(because.Limits) > 0 {
		t.Because = because
	}
	if t.Due.IsZero() {
		t.Due = row.NotBefore
	}
	if why == reason.Stale {
		t.Late, t.CatchUp = now.Sub(t.Due).String(), timing.CatchUp.String()
	}
	if !until.IsZero() {
		t.Until = &until
	}
	text, err := json.Marshal(t)
	if err != nil { // instants beyond the year 9999 have no JSON form
		return ""
	}
	return string(text)
}
