// Package delivery holds the promise of one message, with its reminders, to one contact on one channel: its
// states, the ladder of retries, and what a result makes of it.
//
// Everything here is a pure function of rows, results and instants. "Sending" is not a status: a row is being
// sent while its lease lies ahead and an intent is open (model.md §3).
package delivery

import (
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// ID is the row id.
type ID int64

// Status is the stored state of a delivery (model.md §3).
type Status string

// The states. Scheduled, sent and opened may have something to send; unknown waits for an answer from outside;
// the others are final.
const (
	Scheduled  Status = "scheduled"
	Sent       Status = "sent"
	Opened     Status = "opened"
	Responded  Status = "responded"
	Expired    Status = "expired"
	Skipped    Status = "skipped"
	Failed     Status = "failed"
	Superseded Status = "superseded"
	Cancelled  Status = "cancelled"
	Unknown    Status = "unknown"
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{Scheduled, Sent, Opened, Responded, Expired, Skipped, Failed, Superseded, Cancelled, Unknown}
}

// Final reports whether nothing can follow, but for the answer that a failed delivery may still get.
func (s Status) Final() bool {
	switch s {
	case Scheduled, Sent, Opened, Unknown:
		return false
	case Responded, Expired, Skipped, Failed, Superseded, Cancelled:
	}
	return true
}

// Row is one delivery as stored. Instants are UTC; the zero time means none.
type Row struct {
	Workspace          subject.WorkspaceID
	ID                 ID
	Key                string
	Instance           instance.ID
	Event              subject.EventID
	Contact            subject.ContactID
	Workflow           string
	WorkflowVersion    int64
	Definitions        int64 // number of the definition set that is pinned; 0 = the latest counts
	Type               string
	Trigger            string
	Channel            string // kind:name
	Address            string
	Locale             string
	CustomerRef        string
	Status             Status
	NotBefore          time.Time
	SendAt             time.Time // none: nothing more is planned
	Slot               time.Time // the place it holds in its person's limits; none: holds no place
	DeferredBy         reason.Reason
	LeaseUntil         time.Time
	Version            int64
	Step               int // messages that are over: accepted, skipped or given up
	AttemptNo          int // tries at the provider so far
	IntentAt           time.Time
	RetryCount         int
	RemindersRemaining int
	LastSentAt         time.Time
	ExpiresAt          time.Time // set while nothing more is planned and an answer may still come
	Reason             reason.Reason
	StopReason         reason.Reason
	Trace              string // JSON
	CreatedAt          time.Time
	CompletedAt        time.Time
	UnknownSince       time.Time // the intent of the present step's first attempt that may have arrived without an answer; none: all is known
	FallbackOf         ID        // the delivery that it stands in for; 0 when there is none
	FoldedInto         ID        // the delivery with which it leaves as one message; its own id: it takes others along; 0: it goes alone
	OwnAddress         bool      // Address was one of the contact's own when the delivery was made
	OwnAt              string    // the time of day that its timing gave it, such as "09:00 Europe/Berlin", or "09:00" in the person's zone; empty: none
	DueAt              time.Time // when the present step was due, while its channel has moved SendAt; none: SendAt
	EligibleAt         time.Time // since when the present message could have left, while a retry, its channel or a missing channel delays it; none: SendAt
}

// Due is the instant for which the present step was planned: what the channel lets through later was not planned later.
func (r Row) Due() time.Time {
	if r.DueAt.IsZero() {
		return r.SendAt
	}
	return r.DueAt
}

// Eligible is the instant from which the present message could have left; lateness is measured from it. Limits, quiet hours, holds
// and pauses move it. A retry, the breaker or the rate of its channel, and a channel that is missing do not.
func (r Row) Eligible() time.Time {
	if r.EligibleAt.IsZero() {
		return r.SendAt
	}
	return r.EligibleAt
}

// Delayed reports whether the message could have left and is planned for later, or waits for its channel to be defined.
func (r Row) Delayed() bool {
	waits := r.Status == Scheduled || r.Status == Sent || r.Status == Opened
	return waits && !r.EligibleAt.IsZero() && !r.Parked() && (!r.SendAt.IsZero() || r.Reason == reason.NoChannel)
}

// ParkedUntil is the instant for which a delivery waits that is put aside, because its workflow is paused: it lies among what has
// something to send, and is never due.
func ParkedUntil() time.Time { return time.Date(9000, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Parked reports whether the row was put aside.
func (r Row) Parked() bool { return r.SendAt.Equal(ParkedUntil()) }

// Paused is the row as it stands while its workflow is paused, also before it is put aside: what it has to send waits for that.
func (r Row) Paused() Row {
	if (r.Status == Scheduled || r.Status == Sent || r.Status == Opened) && !r.SendAt.IsZero() {
		r.SendAt, r.Reason = ParkedUntil(), reason.WorkflowPaused
	}
	return r
}

// Planned is when the next message is planned; none: nothing is, or it is put aside.
func (r Row) Planned() time.Time {
	if r.Parked() {
		return time.Time{}
	}
	return r.SendAt
}

// IsFoldHead reports whether the present message of the row takes others along: theirs are folded into it (R7).
func (r Row) IsFoldHead() bool { return r.FoldedInto != 0 && r.FoldedInto == r.ID && r.Step == 0 }

// IsFoldMember reports whether the row leaves with another one, or is to.
func (r Row) IsFoldMember() bool { return r.FoldedInto != 0 && r.FoldedInto != r.ID }

// Together reports whether the row left with another one, as one message, or is to leave with it as things stand.
func (r Row) Together() bool {
	return r.IsFoldMember() && (r.Reason == reason.FoldedInto || r.Status == Scheduled)
}

// RideAfter is how much later a message is due than the one with which it leaves: whoever takes that up, among several
// processes and in large batches, takes this along; only when nobody has is it looked at by itself.
const RideAfter = time.Second

// LeavesAt is when the next message leaves as far as is known: one that rides leaves with its carrier.
func (r Row) LeavesAt() time.Time {
	at := r.Planned()
	if r.IsFoldMember() && r.Status == Scheduled && !at.IsZero() {
		return at.Add(-RideAfter)
	}
	return at
}

// OutcomeUnknown reports whether the present step may have reached its person although nobody was told so.
func (r Row) OutcomeUnknown() bool { return !r.UnknownSince.IsZero() }

// MayHaveArrived reports whether a try of the present step may have reached its person, as far as is known: its answer was lost,
// or nobody has written it yet.
func (r Row) MayHaveArrived() bool { return r.OutcomeUnknown() || !r.IntentAt.IsZero() }

// Waits reports whether the row holds its place for a message that has not left. Whatever ends that message gives the place up.
func (r Row) Waits() bool {
	return !r.Slot.IsZero() && r.Slot.After(r.LastSentAt) && !r.MayHaveArrived()
}

// Outcome is what became of one attempt.
type Outcome string

// The outcomes of an attempt. None: nothing was tried, the entry explains why (C44).
const (
	AttemptDelivered Outcome = "delivered"
	AttemptFailed    Outcome = "failed"
	AttemptUnknown   Outcome = "unknown"
	AttemptNone      Outcome = "none"
)

// Attempt is one try at a provider, written once, with its outcome.
type Attempt struct {
	Workspace      subject.WorkspaceID
	Delivery       ID
	Number         int // from 1; 0 for an entry without a try
	Step           int
	Channel        string
	IdempotencyKey string
	IntentAt       time.Time
	SettledAt      time.Time
	Outcome        Outcome
	Reason         reason.Reason
	ProviderID     string
	Error          string
}
