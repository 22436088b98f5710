package admission

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
)

// Ahead never returns an instant at which a message cannot leave.
func TestAhead(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
	due := delivery.Row{Status: delivery.Scheduled, SendAt: at}
	with := func(change func(*delivery.Row)) delivery.Row {
		row := due
		change(&row)
		return row
	}
	down := func(r *delivery.Row) { r.Hold, r.Reason = delivery.HoldChannelDown, reason.ChannelDown }
	limited := func(r *delivery.Row) { r.DeferredBy = reason.CadenceDaily }
	for name, c := range map[string]struct {
		row     delivery.Row
		c       Circumstances
		want    Outlook
		planned bool
	}{
		"nothing in the way": {due, Circumstances{}, Outlook{At: at}, true},
		"paused":             {due, Circumstances{Paused: true, AwayUntil: at}, Outlook{Reason: reason.WorkflowPaused, Away: true}, true},
		"parked":             {with(func(r *delivery.Row) { r.Hold = delivery.HoldPaused }), Circumstances{}, Outlook{Reason: reason.WorkflowPaused}, true},
		"switched off":       {due, Circumstances{Off: true}, Outlook{Reason: reason.WorkflowInactive}, true},
		"no channel":         {due, Circumstances{Missing: true}, Outlook{Reason: reason.NoChannel}, true},
		"waits for a person": {with(func(r *delivery.Row) {
			r.SendAt, r.Hold, r.Reason = time.Time{}, delivery.HoldNoChannel, reason.NoChannel
		}), Circumstances{}, Outlook{Reason: reason.NoChannel}, true},
		"breaker":            {due, Circumstances{AwayUntil: at}, Outlook{Reason: reason.ChannelDown, At: at}, true},
		"breaker, and later": {due, Circumstances{AwayUntil: at.Add(-time.Minute)}, Outlook{At: at, Away: true}, true},
		"put off by it":      {with(down), Circumstances{}, Outlook{Reason: reason.ChannelDown, At: at}, true},
		"put off beyond it":  {with(down), Circumstances{AwayUntil: at.Add(-time.Minute)}, Outlook{Reason: reason.ChannelDown, At: at}, true},
		"a limit, away":      {with(limited), Circumstances{AwayUntil: at.Add(-time.Minute)}, Outlook{reason.CadenceDaily, at, true}, true},
		"a limit, then away": {with(limited), Circumstances{AwayUntil: at.Add(time.Minute)}, Outlook{Reason: reason.ChannelDown, At: at}, true},
		"a limit, and off":   {with(limited), Circumstances{Off: true, AwayUntil: at}, Outlook{Reason: reason.WorkflowInactive, Away: true}, true},
		"a retry, away":      {with(func(r *delivery.Row) { r.RetryCount, r.Reason = 1, reason.TemporaryError }), Circumstances{AwayUntil: at.Add(-time.Minute)}, Outlook{reason.TemporaryError, at, true}, true},
		"a limit":            {with(limited), Circumstances{}, Outlook{Reason: reason.CadenceDaily, At: at}, true},
		"a retry":            {with(func(r *delivery.Row) { r.RetryCount, r.Reason = 1, reason.TemporaryError }), Circumstances{}, Outlook{Reason: reason.TemporaryError, At: at}, true},
		"nothing more":       {with(func(r *delivery.Row) { r.SendAt = time.Time{} }), Circumstances{Paused: true}, Outlook{}, false},
		"ended":              {delivery.Row{Status: delivery.Failed, Reason: reason.NoChannel}, Circumstances{Missing: true}, Outlook{}, false},
	} {
		if got, planned := Ahead(c.row, c.c); got != c.want || planned != c.planned {
			t.Errorf("%s: %+v, %v", name, got, planned)
		}
	}
}
