package admission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// trace describes the latest decision that kept a delivery from leaving as planned: the version of the rules, and the values with their bounds.
// Explain reads it.
type trace struct {
	At      time.Time     `json:"at"`
	Version int64         `json:"version"` // of the workflow
	Reason  reason.Reason `json:"reason"`
	Step    int           `json:"step"`
	Due     time.Time     `json:"due"`                // catch_up counts from it
	Since   *time.Time    `json:"eligible,omitempty"` // since when the message could have left, if that is earlier
	Late    string        `json:"late,omitempty"`
	CatchUp string        `json:"catch_up,omitempty"`
	Until   *time.Time    `json:"until,omitempty"` // when it is decided again
	LimitTrace
}

// LimitTrace are the limits of a contact that kept a message from leaving, as they were at the decision.
type LimitTrace struct {
	Zone   string        `json:"zone,omitempty"` // of the contact's days
	Limits []Limit       `json:"limits,omitempty"`
	Last   reason.Reason `json:"last,omitempty"` // the limit whose end the message waits for; it may come after the others
}

// Limit is one limit of a LimitTrace.
type Limit struct {
	Limit   cadence.Limit `json:"limit"`
	Type    string        `json:"type,omitempty"`
	Used    int           `json:"used,omitempty"`
	Max     int           `json:"max,omitempty"`
	Rolling bool          `json:"rolling,omitempty"`
	FreeAt  *time.Time    `json:"free_at,omitempty"`
	From    cadence.Layer `json:"from,omitempty"` // empty: of the workflow, such as its send window
}

// Trace returns the limits that keep a message from leaving when it asks and has got a verdict. Slots of the rows in without count as free.
func (b *Ledger) Trace(a SlotRequest, v cadence.Verdict, without ...delivery.Row) LimitTrace {
	own, persona := b.rules(a.Set, a.Person.Contact)
	out := LimitTrace{Zone: Zone(b.zones, a.Set, a.Person).String(), Last: v.Last}
	for _, u := range b.blocks(a, without...) {
		l := Limit{Limit: u.Limit, Type: u.Type, Used: u.Used, Max: u.Most, Rolling: u.Rolling}
		if !u.Free.IsZero() {
			l.FreeAt = &u.Free
		}
		if u.Limit != cadence.LimitSendWindow {
			l.From = cadence.LayerOn(Kind(a.Channel), u.Limit, own, persona, a.Set.Workspace.Limits)
		}
		out.Limits = append(out.Limits, l)
	}
	return out
}

// blocks returns these limits, in the order in which they apply.
func (b *Ledger) blocks(a SlotRequest, without ...delivery.Row) []cadence.Use {
	policy, loc := b.Limiting(a), Zone(b.zones, a.Set, a.Person)
	m := a.message()
	if policy.Unlimited() {
		return cadence.NewHistory(nil).Blocks(policy, loc, a.Now, m)
	}
	var blocks []cadence.Use
	history := b.history(a)
	history.Without(places(without, Kind(a.Channel)), func() { blocks = history.Blocks(policy, loc, a.Now, m) })
	return blocks
}

// read reads the trace of a row; false: there is none, or it is of another version of the program.
func read(row delivery.Row) (t trace, ok bool) {
	return t, row.Trace != "" && json.Unmarshal([]byte(row.Trace), &t) == nil
}

// WaitsFor is the limit whose end a message waits for now. It is empty if the message never waited, has been tried, or has ended since. The row's
// DeferredBy stays, and names the first limit in the order of A36, which may end sooner.
func WaitsFor(row delivery.Row) reason.Reason {
	if row.DeferredBy == "" || row.SendAt.IsZero() || row.Status.Final() {
		return ""
	}
	t, ok := read(row)
	switch {
	case !ok && row.RetryCount > 0:
		return ""
	case !ok || row.IsFoldMember() && t.Until != nil: // waits as long as its fold head
		return row.DeferredBy
	case row.Parked(), t.Until == nil, t.Until.Sub(row.SendAt).Abs() >= time.Millisecond, len(t.Limits) == 0 && t.Reason != row.DeferredBy:
		return "" // it is due at another instant than was decided then
	}
	return cmp.Or(t.Last, row.DeferredBy)
}

// Explain puts the trace of a row into words: what kept it from leaving as planned, with the values of that moment. Instants are in the zone of the
// decision, which is named.
func Explain(row delivery.Row) []string {
	t, ok := read(row)
	if !ok {
		return nil // the reason itself is known all the same
	}
	loc, err := civil.LoadZone(t.Zone)
	if err != nil {
		loc = time.UTC
	}
	var lines []string
	if t.Late != "" {
		lines = append(lines, fmt.Sprintf("%s late, catch_up is %s", length(t.Late), length(t.CatchUp)))
	}
	byDefault := false
	for _, l := range t.Limits {
		byDefault = byDefault || l.From == cadence.LayerDefault
		u := cadence.Use{Limit: l.Limit, Type: l.Type, Used: l.Used, Most: l.Max, Rolling: l.Rolling}
		line := ""
		if l.FreeAt == nil {
			line = u.Sentence(t.At, loc)
		} else {
			u.Free = *l.FreeAt
			line = u.Sentence(t.At, loc) + " " + loc.String()
		}
		lines = append(lines, line)
	}
	waits := WaitsFor(row)
	if waits != "" && !row.IsFoldMember() && t.Last != "" && (len(t.Limits) > 1 || t.later()) {
		line := fmt.Sprintf("waits for %s until %s %s", Called(t.Last), cadence.ClockTime(*t.Until, t.At, loc), loc)
		if t.later() {
			line = "after that, other limits or what waits already keep it: " + line
		}
		lines = append(lines, line)
	}
	if len(t.Limits) > 0 && waits == "" && row.Reason != t.Reason { // its result has another reason
		lines[0] = "had to wait at " + cadence.ClockTime(t.At, time.Time{}, loc) + " " + loc.String() + ": " + lines[0]
	}
	if byDefault {
		lines = append(lines, "default limits: set cadence: in the workspace to replace them")
	}
	return lines
}

// Called is a limit in words, as what a message waits for.
func Called(limit reason.Reason) string {
	return cmp.Or(map[reason.Reason]string{
		reason.CadenceCooldown: "the cooldown", reason.CadenceTypeDaily: "the day's limit of its type", reason.CadenceDaily: "the day's limit",
		reason.CadenceWeekly: "the week's limit", reason.CadenceMonthly: "the month's limit",
		reason.QuietHours: "the end of the quiet hours", reason.SendWindow: "the send window",
	}[limit], string(limit))
}

// later reports whether the decision waits longer than any of the limits in the trace: the next ones took over.
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

// length formats a duration as definitions do; other texts stay as they are.
func length(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	return civil.Duration{Clock: d.Truncate(time.Second)}.String()
}

// Trace encodes the trace for a row, decided at now; until is when the row goes on, zero for never.
func Trace(row delivery.Row, timing schedule.Timing, why reason.Reason, now, until time.Time, because LimitTrace) string {
	t := trace{At: now, Version: row.WorkflowVersion, Reason: why, Step: row.Step + 1, Due: row.Due()}
	if len(because.Limits) > 0 {
		t.LimitTrace = because
	}
	if t.Due.IsZero() {
		t.Due = row.NotBefore
	}
	if since := row.Eligible(); !since.IsZero() && since.Before(t.Due) {
		t.Since = &since
	}
	if why == reason.Stale {
		t.Late, t.CatchUp = now.Sub(t.Due).String(), timing.CatchUp.String()
	}
	if !until.IsZero() {
		t.Until = &until
	}
	text, err := json.Marshal(t)
	if err != nil { // instants after the year 9999 have no JSON form
		return ""
	}
	return string(text)
}
