package admission

import (
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/trace"
)

// Circumstances are the facts outside of a row that decide whether its next message can leave when it is planned.
type Circumstances struct {
	Paused  bool // a person has paused its workflow
	Off     bool // its workflow is disabled
	Missing bool // its channel is not defined
	// AwayUntil is when this process next tries the channel's provider, which does not answer; zero: it answers.
	AwayUntil time.Time
}

// Outlook is what is known about the next message of a delivery.
type Outlook struct {
	Reason reason.Reason // what keeps it from leaving, or why it is retried; "": nothing
	At     time.Time     // when it leaves, or the earliest instant if there is a reason; zero: unknown
	Away   bool          // its provider is away now, besides the reason, which holds for longer
}

// Ahead returns when the next message of a row leaves, and never an instant at which it cannot. Of several obstacles it names the one that holds
// longest. planned is false if there is no next message.
func Ahead(row delivery.Row, c Circumstances) (o Outlook, planned bool) {
	switch row.Status {
	case delivery.Scheduled, delivery.Sent, delivery.Opened:
	case delivery.Responded, delivery.Expired, delivery.Skipped, delivery.Failed, delivery.Superseded, delivery.Cancelled, delivery.Unknown:
		return o, false
	}
	at, limit, away := row.LeavesAt(), trace.WaitsFor(row), !c.AwayUntil.IsZero()
	switch {
	case row.Hold == delivery.HoldNoChannel:
		return Outlook{Reason: reason.NoChannel}, true
	case row.SendAt.IsZero():
		return o, false
	case c.Paused, row.Parked():
		return Outlook{Reason: reason.WorkflowPaused, Away: away}, true
	case c.Off:
		return Outlook{Reason: reason.WorkflowInactive, Away: away}, true
	case c.Missing:
		return Outlook{Reason: reason.NoChannel}, true
	case away && (!at.After(c.AwayUntil) || limit == "" && row.Hold == delivery.HoldChannelDown):
		return Outlook{Reason: reason.ChannelDown, At: at}, true
	case limit != "":
		return Outlook{limit, at, away}, true
	case row.Hold == delivery.HoldChannelDown, row.Hold == delivery.HoldRate, row.RetryCount > 0:
		return Outlook{row.Reason, at, away}, true
	}
	return Outlook{At: at, Away: away}, true
}
