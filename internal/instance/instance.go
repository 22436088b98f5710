// Package instance holds the stored occasions of workflows and their states.
//
// An instance has a deterministic key and is never deleted. "Processing" is not a stored status: a worker holds a lease on the row.
package instance

import (
	"cmp"
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
	Completed   Status = "completed"   // in ally delivery exists
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
	Definitions     int64 // number of the definition set that it was made from, which pinned workflows read
	Type            string
	Trigger         string
	Event           subject.EventID
	Record          subject.RecordID // the record that it is about; 0: none
	Head            ID               // for the row of one zone: the instance of the occasion, which is due by the zone of each contact
	Episode         int              // number of the condition's episode for the record, from 1
	Context         string           // what gate 1 counts its cooldown by; empty: it has no cooldown
	ExpandCursor    int64            // the last contact of a large audience that the fan-out has handled
	Status          Status
	Held            bool
	HeldAt          time.Time // since when it is on hold; none: it is not, or an older version put it on hold without storing the instant
	DueAt           time.Time
	LocalDate       string // the local date of DueAt, such as 2026-05-14; empty: DueAt does not follow from a date
	Timezone        string // the zone of LocalDate
	NextRetryAt     time.Time
	LeaseUntil      time.Time
	Version         int64
	Attempts        int // in all
	RetryCount      int // since the present backoff began
	Crashes         int
	Reason          reason.Reason
	InputHash       string
	Trace           string // JSON: rule version, values, bounds
	CreatedAt       time.Time
	CompletedAt     time.Time
}

// Hold puts the row on hold until a person decides. A row that is already on hold keeps its HeldAt.
func (r *Row) Hold(now time.Time) {
	if !r.Held {
		r.Held, r.HeldAt = true, now
	}
}

// Unhold takes the row off hold.
func (r *Row) Unhold() { r.Held, r.HeldAt = false, time.Time{} }

// HeldFor returns why a row is on hold, or "" when it is not. A row that has ended keeps the reason of its end and can be on hold for
// one reason only: its key came again with other inputs (B23).
func (r Row) HeldFor() reason.Reason {
	switch {
	case !r.Held:
		return ""
	case r.Status != Pending:
		return reason.InputConflict
	}
	return r.Reason
}

// Parked reports whether the row is parked because its workflow is paused: it waits until the workflow is resumed.
func (r Row) Parked() bool { return r.Held && r.Reason == reason.WorkflowPaused }

// HeldUp reports whether a failure, a hold or a pause kept a pending row from being processed when it was due. Such a row does not
// count as late (R2).
func (r Row) HeldUp() bool { return r.Status == Pending && r.Reason != "" }

// Processing reports whether a worker holds a lease on the row at now.
func (r Row) Processing(now time.Time) bool { return r.Status == Pending && r.LeaseUntil.After(now) }

// Patch is what a worker changes in a row that it holds.
type Patch struct {
	Status      Status
	Held        bool // from now on
	Reason      reason.Reason
	NextRetryAt time.Time
	RetryCount  int
	Crashes     int       // 0: unchanged
	LeaseUntil  time.Time // zero: the row is free, and one more attempt is over
	Trace       string    // empty: unchanged
	Cursor      subject.ContactID
	Event       subject.EventID // 0: unchanged
	Definitions int64           // 0: unchanged
}

// With returns the row as a worker leaves it.
func (r Row) With(p Patch, now time.Time) Row {
	r.Unhold()
	if p.Held {
		r.Hold(now)
	}
	r.Status, r.Reason, r.NextRetryAt, r.RetryCount, r.LeaseUntil, r.ExpandCursor = p.Status, p.Reason, p.NextRetryAt, p.RetryCount, p.LeaseUntil, int64(p.Cursor)
	if p.LeaseUntil.IsZero() {
		r.Attempts++
	}
	r.CompletedAt = time.Time{}
	if r.Status != Pending {
		r.CompletedAt = now
	}
	r.Crashes, r.Event, r.Definitions = cmp.Or(p.Crashes, r.Crashes), cmp.Or(p.Event, r.Event), cmp.Or(p.Definitions, r.Definitions)
	if p.Trace != "" {
		r.Trace = p.Trace
	}
	return r
}
