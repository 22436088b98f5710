// Package instance holds the durable occasions of workflows: their states and what may follow what.
//
// An instance is named by a deterministic key and never deleted. While a worker holds it, it is processing; that
// is a lease on the row, not a stored status.
package instance

import (
	"encoding/json"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// ID is the row id.
type ID int64

// Status is the stored state of an instance (model.md §3).
type Status string

// The states. Pending is the only one that the engine acts on.
const (
	Pending     Status = "pending"
	Completed   Status = "completed"   // every delivery exists
	Deactivated Status = "deactivated" // withdrawn
	Failed      Status = "failed"      // an error declared permanent
	Cancelled   Status = "cancelled"   // by a person
	Skipped     Status = "skipped"     // too late, or collapsed into a later one
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{Pending, Completed, Deactivated, Failed, Cancelled, Skipped}
}

// Row is one instance as stored. Instants are UTC; the zero time means none.
type Row struct {
	Workspace       subject.WorkspaceID
	ID              ID
	Key             string
	Workflow        string
	WorkflowVersion int64
	Definitions     int64 // number of the definition set it was made from; what pins read
	Type            string
	Trigger         string
	Event           subject.EventID
	Record          subject.RecordID // what it is about; 0 when there is none
	Head            ID               // of the row of one zone: the instance of its occasion, which is due by the zone of each person
	Episode         int              // which time the condition was met for that record, from 1
	Context         string           // by which gate 1 knows it; empty when nothing throttles it
	ExpandCursor    int64            // the last contact of a large audience that is done
	Status          Status
	Held            bool
	HeldAt          time.Time // since when; none: it is not, or a version held it that did not write that down
	DueAt           time.Time
	LocalDate       string // of DueAt where it is meant, such as 2026-05-14; empty when it is no date's
	Timezone        string // where that is
	NextRetryAt     time.Time
	LeaseUntil      time.Time
	Version         int64
	Attempts        int // ever
	RetryCount      int // of this ladder
	Crashes         int
	Reason          reason.Reason
	InputHash       string
	Trace           string // JSON: rule version, values, bounds
	CreatedAt       time.Time
	CompletedAt     time.Time
}

// Hold has a person decide about the row. One that is held already stays so since then.
func (r *Row) Hold(now time.Time) {
	if !r.Held {
		r.Held, r.HeldAt = true, now
	}
}

// Unhold takes that back.
func (r *Row) Unhold() { r.Held, r.HeldAt = false, time.Time{} }

// HeldFor is why a row is held; empty where it is not. What has ended keeps the reason of its end, and can be held for one thing
// only: its key came with other inputs (B23).
func (r Row) HeldFor() reason.Reason {
	switch {
	case !r.Held:
		return ""
	case r.Status != Pending:
		return reason.InputConflict
	}
	return r.Reason
}

// Failure is one of the last failures of a row, as its trace keeps them.
type Failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Failures are those that a trace keeps, the oldest first.
func Failures(trace string) []Failure {
	var kept struct {
		Failures []Failure `json:"failures"`
	}
	if json.Unmarshal([]byte(trace), &kept) != nil { // it has no trace
		return nil
	}
	return kept.Failures
}

// Parked reports whether the row was put aside because its workflow is paused: it is held until that goes on, and by nobody else.
func (r Row) Parked() bool { return r.Held && r.Reason == reason.WorkflowPaused }

// HeldUp reports whether something kept a row that waits from being taken up when it was due: a failure, a hold, a pause. That is
// no lateness (R2).
func (r Row) HeldUp() bool { return r.Status == Pending && r.Reason != "" }

// Processing reports whether a worker holds the row at now.
func (r Row) Processing(now time.Time) bool { return r.Status == Pending && r.LeaseUntil.After(now) }
