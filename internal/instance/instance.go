// Package instance holds the durable occasions of workflows: their states and what may follow what.
//
// An instance is named by a deterministic key and never deleted. While a worker holds it, it is processing; that
// is a lease on the row, not a stored status.
package instance

import (
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
	Episode         int              // which time the condition was met for that record, from 1
	Context         string           // by which gate 1 knows it; empty when nothing throttles it
	ExpandCursor    int64            // the last contact of a large audience that is done
	Status          Status
	Held            bool
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

// Aside reports whether the row was put aside because its workflow is paused: it is held until that goes on, and by nobody else.
func (r Row) Aside() bool { return r.Held && r.Reason == reason.WorkflowPaused }

// HeldUp reports whether something kept a row that waits from being taken up when it was due: a failure, a hold, a pause. That is
// no lateness (R2).
func (r Row) HeldUp() bool { return r.Status == Pending && r.Reason != "" }

// Processing reports whether a worker holds the row at now.
func (r Row) Processing(now time.Time) bool { return r.Status == Pending && r.LeaseUntil.After(now) }
