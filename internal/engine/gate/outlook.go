package gate

import (
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
)

// Circumstances decide, beside a row itself, whether its next message can leave when it is planned.
type Circumstances struct {
	Paused  bool // a person has paused its workflow
	Off     bool // its workflow is switched off
	Missing bool // its channel is not defined
	Away    bool // this process leaves the provider of its channel alone, because it does not answer
}

// Outlook is what is known about the next message of a delivery.
type Outlook struct {
	Reason reason.Reason // what keeps it from leaving, or why it is tried again; "": nothing
	At     time.Time     // when it leaves, with a reason at the earliest; none: nobody can say
}

// Ahead tells when the next message of a row leaves, and never an instant at which it cannot. planned is false when there is none.
func Ahead(row delivery.Row, c Circumstances) (o Outlook, planned bool) {
	switch row.Status {
	case delivery.Scheduled, delivery.Sent, delivery.Opened:
	case delivery.Responded, delivery.Expired, delivery.Skipped, delivery.Failed, delivery.Superseded, delivery.Cancelled, delivery.Unknown:
		return o, false
	}
	at, limit := row.LeavesAt(), WaitsFor(row)
	switch {
	case row.SendAt.IsZero() && row.Reason == reason.NoChannel && row.CompletedAt.IsZero():
		return Outlook{Reason: reason.NoChannel}, true
	case row.SendAt.IsZero():
		return o, false
	case c.Paused, row.Aside():
		return Outlook{Reason: reason.WorkflowPaused}, true
	case c.Off:
		return Outlook{Reason: reason.WorkflowInactive}, true
	case c.Missing:
		return Outlook{Reason: reason.NoChannel}, true
	case c.Away:
		return Outlook{reason.ChannelDown, at}, true
	case limit != "":
		return Outlook{limit, at}, true
	case row.Reason == reason.ChannelDown, row.Reason == reason.RateLimited, row.RetryCount > 0:
		return Outlook{row.Reason, at}, true
	}
	return Outlook{At: at}, true
}
