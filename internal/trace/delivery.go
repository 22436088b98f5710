package trace

import (
	"cmp"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// Of is the trace of a delivery that does not leave as planned, as it is stored; until is when the row goes on, zero for never.
func Of(row delivery.Row, timing schedule.Timing, why reason.Reason, now, until time.Time, because Limits) string {
	t := Trace{At: now, Version: row.WorkflowVersion, Reason: why, Step: row.Step + 1, Due: row.Due(), Until: until}
	if len(because.Limits) > 0 {
		t.Limits = because
	}
	if t.Due.IsZero() {
		t.Due = row.NotBefore
	}
	if since := row.Eligible(); since.Before(t.Due) {
		t.Since = since
	}
	if why == reason.Stale {
		t.Late, t.CatchUp = now.Sub(t.Due).String(), timing.CatchUp.String()
	}
	return t.String()
}

// WaitsFor is the limit whose end a message waits for now. It is empty if the message never waited, has been tried, or has ended since. The row's
// DeferredBy stays, and names the first limit in the order of A36, which may end sooner.
func WaitsFor(row delivery.Row) reason.Reason {
	if row.DeferredBy == "" || row.SendAt.IsZero() || row.Status.Final() {
		return ""
	}
	t, ok := Read(row.Trace)
	switch {
	case !ok && row.RetryCount > 0:
		return ""
	case !ok || row.IsFoldMember() && !t.Until.IsZero(): // waits as long as its fold head
		return row.DeferredBy
	case row.Parked(), t.Until.IsZero(), t.Until.Sub(row.SendAt).Abs() >= time.Millisecond, len(t.Limits.Limits) == 0 && t.Reason != row.DeferredBy:
		return "" // it is due at another instant than was decided then
	}
	return cmp.Or(t.Last, row.DeferredBy)
}

// Explain puts the trace of a row into words: what kept it from leaving as planned, with the values of that moment. Instants are in the zone of the
// decision, which is named.
func Explain(row delivery.Row) []string {
	t, ok := Read(row.Trace)
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
	for _, l := range t.Limits.Limits {
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
	if waits != "" && !row.IsFoldMember() && t.Last != "" && (len(t.Limits.Limits) > 1 || t.later()) {
		line := fmt.Sprintf("waits for %s until %s %s", cadence.Called(t.Last), cadence.ClockTime(t.Until, t.At, loc), loc)
		if t.later() {
			line = "after that, other limits or what waits already keep it: " + line
		}
		lines = append(lines, line)
	}
	if len(t.Limits.Limits) > 0 && waits == "" && row.Reason != t.Reason { // its result has another reason
		lines[0] = "had to wait at " + cadence.ClockTime(t.At, time.Time{}, loc) + " " + loc.String() + ": " + lines[0]
	}
	if byDefault {
		lines = append(lines, "default limits: set cadence: in the workspace to replace them")
	}
	return lines
}

// later reports whether the decision waits longer than any of the limits in the trace: the next ones took over.
func (t *Trace) later() bool {
	if len(t.Limits.Limits) == 0 || t.Until.IsZero() {
		return false
	}
	for _, l := range t.Limits.Limits {
		if l.FreeAt == nil || !l.FreeAt.Before(t.Until) {
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
