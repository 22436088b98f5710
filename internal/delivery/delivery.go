// Package delivery holds the promise of one message, with its reminders, to one contact on one channel: its
// states, its retries, and what follows from the result of an attempt.
//
// Everything here is a pure function of rows, results and instants. "Sending" is not a status: a row is being sent while a worker
// holds its lease and its intent is open (docs/concepts/model.md).
package delivery

import (
	"cmp"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// ID is the row id.
type ID int64

// Status is the stored state of a delivery (docs/concepts/model.md).
type Status string

// The states. Scheduled, sent and opened rows may have another message to send. An unknown row waits for the provider or a person. The
// other states are final.
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

// Final reports whether the delivery has ended. A failed delivery may still get an answer.
func (s Status) Final() bool {
	switch s {
	case Scheduled, Sent, Opened, Unknown:
		return false
	case Responded, Expired, Skipped, Failed, Superseded, Cancelled:
	}
	return true
}

// Hold is what keeps the next message of a delivery back, besides the limits of its contact (Row.DeferredBy) and its retries. SendAt stays
// the instant that is planned.
type Hold string

// The kinds of holds. No worker claims a parked delivery before its workflow is resumed, and none without a channel is claimed at all. The
// other holds end at SendAt.
const (
	HoldPaused      Hold = "paused"       // it was due while its workflow was paused: it is parked
	HoldInactive    Hold = "inactive"     // its workflow is switched off
	HoldNoChannel   Hold = "no_channel"   // its channel is not defined; no message is planned
	HoldChannelDown Hold = "channel_down" // the provider of its channel is unavailable
	HoldRate        Hold = "rate"         // it waits for its turn in the rate of its channel
)

// Fold is the part of a delivery in a message that several deliveries share (R7).
type Fold string

// The parts. A folded delivery is skipped, but its end is that of its head's message: if that does not leave, the delivery waits again.
const (
	FoldHead   Fold = "head"   // others leave with its message
	FoldMember Fold = "member" // it is planned to leave with its head, or was
	Folded     Fold = "folded" // it is in its head's message
)

// Row is one delivery as stored. Instants are UTC; the zero time means none.
type Row struct {
	Workspace          subject.WorkspaceID
	ID                 ID
	Key                string
	Instance           instance.ID
	Event              subject.EventID
	Record             subject.RecordID // of its instance; 0: none
	Contact            subject.ContactID
	Topic              subject.TopicID // that the message is about alone; 0: it is about all topics of the contact, or about none
	Workflow           string
	WorkflowVersion    int64
	Definitions        int64  // number of the pinned definition set; 0 = the latest
	SurveySet          int64  // number of the set whose survey it asks, fixed when its first message is sent; 0: Definitions
	Turn               int    // number of the message in its session after the first one; 0: it is no message of a session, or the first one
	Says               Says   // what a message of a session says after the first one
	Asks               string // the question that a message of a session asks
	Type               string
	Trigger            string
	Message            int    // number of the message in the round of a course, from 0
	Channel            string // kind:name
	Address            string
	Locale             string
	CustomerRef        string
	Status             Status
	NotBefore          time.Time
	SendAt             time.Time // none: no message is planned
	Hold               Hold      // empty: nothing keeps the message back
	Slot               time.Time // the slot that it holds in its contact's limits; none: it holds no slot
	DeferredBy         reason.Reason
	LeaseUntil         time.Time
	Version            int64
	Step               int // number of finished messages: accepted, skipped or given up
	AttemptNo          int // attempts so far
	IntentAt           time.Time
	RetryCount         int
	RemindersRemaining int
	LastSentAt         time.Time
	ExpiresAt          time.Time // set while no message is planned and an answer may still come
	Reason             reason.Reason
	StopReason         reason.Reason
	Resent             bool   // a person sent it again, as another delivery under a key of its own
	Trace              string // JSON
	CreatedAt          time.Time
	CompletedAt        time.Time
	UnknownSince       time.Time // the intent of the present step's first attempt with an unknown outcome; none: every outcome is known
	ReportedStep       int       // the step on whose message its provider has reported, so that it has it; 0: none
	FallbackOf         ID        // the delivery that it is a fallback for; 0: none
	Fold               Fold      // empty: it is not folded
	Priority           flow.Priority
	FoldedInto         ID        // the fold head; its own id: it is the fold head itself; 0: it is not folded
	OwnAddress         bool      // Address was one of the contact's own when the delivery was made
	OwnAt              string    // the time of day from its timing, such as "09:00 Europe/Berlin", or "09:00" in the contact's zone; empty: none
	DueAt              time.Time // when the present step was due, if its channel moved SendAt; none: SendAt
	EligibleAt         time.Time // when the present message could have left, if a retry, its channel or a missing channel delays it; none: SendAt
}

// AskedBy returns the number of the set of definitions whose questions the delivery asks; 0: those in force.
func (r Row) AskedBy() int64 { return cmp.Or(r.Definitions, r.SurveySet) }

// Kind returns the kind of the delivery's channel, such as sms.
func (r Row) Kind() string {
	kind, _, _ := strings.Cut(r.Channel, ":")
	return kind
}

// Due returns the instant for which the present step was planned. A delay by its channel does not change it.
func (r Row) Due() time.Time {
	if r.DueAt.IsZero() {
		return r.SendAt
	}
	return r.DueAt
}

// Eligible returns the instant from which the present message could have left; lateness is measured from it. Limits, quiet hours,
// holds and pauses move it. Retries, the breaker or rate of its channel, and a missing channel do not.
func (r Row) Eligible() time.Time {
	if r.EligibleAt.IsZero() {
		return r.SendAt
	}
	return r.EligibleAt
}

// Delayed reports whether the message could have left by now but a retry or its channel delays it, or its channel is not defined.
func (r Row) Delayed() bool {
	waits := r.Status == Scheduled || r.Status == Sent || r.Status == Opened
	return waits && !r.EligibleAt.IsZero() && !r.Parked() && (!r.SendAt.IsZero() || r.Hold == HoldNoChannel)
}

// Parked reports whether the row waits for its paused workflow.
func (r Row) Parked() bool { return r.Hold == HoldPaused }

// Plan plans the next message for an instant. A hold ends.
func (r *Row) Plan(at time.Time) { r.SendAt, r.Hold = at, "" }

// Unplan leaves the row without a message to send.
func (r *Row) Unplan() { r.Plan(time.Time{}) }

// Paused returns the row as it appears while its workflow is paused, also before it is parked: its next message waits for the
// workflow to be resumed.
func (r Row) Paused() Row {
	if (r.Status == Scheduled || r.Status == Sent || r.Status == Opened) && !r.SendAt.IsZero() {
		r.Hold, r.Reason = HoldPaused, reason.WorkflowPaused
	}
	return r
}

// AwaitChannel makes the next message wait until at for its channel, which is unavailable. It stays due, and could have left, since when it was.
func (r *Row) AwaitChannel(at time.Time) {
	r.DueAt, r.EligibleAt = r.Due(), r.Eligible()
	r.SendAt, r.Hold, r.Reason = at, HoldChannelDown, reason.ChannelDown
}

// LeaveFold makes a fold member ask for a slot of its own: it does not leave with its head.
func (r *Row) LeaveFold(now time.Time) {
	r.Status, r.Reason, r.CompletedAt = Scheduled, "", time.Time{}
	r.Plan(now)
	r.SetFold("", 0)
}

// FailOutOfFold ends a fold member that cannot be written.
func (r *Row) FailOutOfFold(why reason.Reason, now time.Time) {
	r.Status, r.Reason, r.CompletedAt = Failed, why, now
	r.Unplan()
	r.SetFold("", 0)
}

// Resume plans the next message of a parked row for now. It does not count as late (R2): it could not have left before.
func (r *Row) Resume(now time.Time) {
	r.Plan(now)
	r.DueAt, r.EligibleAt, r.Reason = time.Time{}, time.Time{}, reason.WorkflowResumed
}

// Planned returns when the next message can leave; none: no message is planned, or the row is parked.
func (r Row) Planned() time.Time {
	if r.Parked() {
		return time.Time{}
	}
	return r.SendAt
}

// IsFoldHead reports whether other messages are folded into the present message of the row (R7).
func (r Row) IsFoldHead() bool { return r.Fold == FoldHead && r.Step == 0 }

// IsFoldMember reports whether the row's message is folded into another one, or was.
func (r Row) IsFoldMember() bool { return r.Fold == FoldMember || r.Fold == Folded }

// Together reports whether the row left as part of its fold head's message, or is planned to.
func (r Row) Together() bool {
	return r.Fold == Folded || r.Fold == FoldMember && r.Status == Scheduled
}

// SetFold gives the row a part in the message of a head; no part: of none.
func (r *Row) SetFold(part Fold, head ID) { r.Fold, r.FoldedInto = part, head }

// FoldMemberDelay is how much later a fold member is due than its fold head. The worker that claims the head also takes the members; a
// member is claimed by itself only if no worker has done so.
const FoldMemberDelay = time.Second

// LeavesAt returns when the next message is expected to leave: a fold member leaves with its head.
func (r Row) LeavesAt() time.Time {
	at := r.Planned()
	if r.IsFoldMember() && r.Status == Scheduled && !at.IsZero() {
		return at.Add(-FoldMemberDelay)
	}
	return at
}

// OutcomeUnknown reports whether the present step has an attempt with an unknown outcome.
func (r Row) OutcomeUnknown() bool { return !r.UnknownSince.IsZero() }

// MayHaveArrived reports whether an attempt of the present step may have reached its contact: its answer was lost or is not settled yet.
func (r Row) MayHaveArrived() bool { return r.OutcomeUnknown() || !r.IntentAt.IsZero() }

// Waits reports whether the row holds its slot for a message that has not left. Ending that message releases the slot.
func (r Row) Waits() bool {
	return !r.Slot.IsZero() && r.Slot.After(r.LastSentAt) && !r.MayHaveArrived()
}

// Outcome is the outcome of one attempt.
type Outcome string

// The outcomes of an attempt. None means that no attempt was made; the entry explains why (C44).
const (
	AttemptDelivered Outcome = "delivered"
	AttemptFailed    Outcome = "failed"
	AttemptUnknown   Outcome = "unknown"
	AttemptNone      Outcome = "none"
)

// Attempt is one try to hand a message to a provider, written once, with its outcome.
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
