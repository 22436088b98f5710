package gate

import (
	"encoding/json"
	"time"

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
}

// Trace writes that account for a row as it stands, decided at now; until is when it goes on, zero for never.
func Trace(row delivery.Row, timing schedule.Timing, why reason.Reason, now, until time.Time) string {
	t := trace{At: now, Version: row.WorkflowVersion, Reason: why, Step: row.Step + 1, Due: row.Due()}
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
