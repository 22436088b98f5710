// Package instance holds the stored occasions of workflows and their states.
//
// An instance has a deterministic key. The key stays used until a person frees it, also after retention deleted the row. "Processing" is not a stored status: while an
// instance is processed, its row is locked; with retry.lease it is leased.
package instance

import (
	"cmp"
	"time"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// ID is the row id.
type ID int64

// Status is the stored state of an instance (docs/concepts/model.md).
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

// Source is what asked for an instance.
type Source string

// The sources: the kinds of triggers, and a person who started a run by hand.
const (
	FromEvent     Source = "event"
	FromCondition Source = "condition"
	FromPlan      Source = "plan" // a date of a record
	FromSchedule  Source = "schedule"
	FromPerson    Source = "manual"
)

// Hold is why an instance waits for a person.
type Hold string

// The kinds of holds. A row that has ended can be on hold for one of them only: its key came again with other inputs (B23).
const (
	HoldPaused   Hold = "paused" // it is parked until its workflow is resumed
	HoldConflict Hold = "input_conflict"
	HoldRetries  Hold = "retries_used_up"
	HoldCrashes  Hold = "worker_crashed"
	HoldMany     Hold = "too_many_recipients" // more people than its brake lets it take up
)

// Reason returns the reason that explains a hold; empty: there is no hold.
func (h Hold) Reason() reason.Reason {
	switch h {
	case HoldPaused:
		return reason.WorkflowPaused
	case HoldConflict:
		return reason.InputConflict
	case HoldRetries:
		return reason.RetriesUsedUp
	case HoldCrashes:
		return reason.WorkerCrashed
	case HoldMany:
		return reason.TooManyRecipients
	}
	return ""
}

// Delay is what kept a pending instance from being processed when it was due. Such a row does not count as late (R2).
type Delay string

// The kinds of delays; the last one counts.
const (
	DelayedByFailure Delay = "failure"
	DelayedByHold    Delay = "hold"  // it waited for a person, or waits
	DelayedByPause   Delay = "pause" // what comes due during a pause belongs to the backlog of its series
	DelayedByRetry   Delay = "retry" // a person asked for it, and it was not on hold; it keeps its instant
)

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
	Source          Source
	Event           subject.EventID
	Record          subject.RecordID  // the record that it is about; 0: none
	Head            ID                // for the row of one zone: the instance of the occasion, which is due by the zone of each contact
	Round           int               // of a course, from 1; 0: it is no message of a course
	Message         int               // place of the message in the list of its round of a course, from 0; an edit of the list may change it
	MessageDate     string            // the date in its round by which a message of a course is known, such as 2026-05-14; empty: by its place, from before this was stored
	MessageNumber   int               // of the message on MessageDate, from 1
	StartDate       string            // of a course: the day from which its rounds count; empty: unknown, from before this was stored
	Contact         subject.ContactID // the person whose own course it is a message of; 0: it is of everybody
	Episode         int               // number of the condition's episode for the record, from 1
	Context         string            // what gate 1 counts its cooldown by; empty: it has no cooldown
	ExpandCursor    int64             // the last contact of a large audience that the fan-out has handled
	Status          Status
	Hold            Hold      // empty: it is not on hold
	HeldAt          time.Time // since when it is on hold
	Delay           Delay     // empty: nothing delayed it
	DueAt           time.Time
	LocalDate       string // the local date of DueAt, such as 2026-05-14; empty: DueAt does not follow from a date
	Timezone        string // the zone of LocalDate
	NextRetryAt     time.Time
	LeaseUntil      time.Time
	Version         int64
	Attempts        int // in all
	RetryCount      int // since the present backoff began
	Crashes         int
	RetryOf         ID // the instance that an operator repeated with this one; 0: none
	Reason          reason.Reason
	InputHash       string
	Trace           string // JSON: rule version, values, bounds
	CreatedAt       time.Time
	EffectiveAt     time.Time // of a schedule: since when it has been in force as it is; what was due before is not sent
	OpenedAt        time.Time // when the rows of its zones were made; none: they were not, or it has none
	CompletedAt     time.Time
	CancelledAt     time.Time // when a person cancelled it with its deliveries, none of which is sent any more; none: it is not cancelled
	Recipients      int       // how many people it has taken up: for each of them it has made a delivery
	UnbrakedAt      time.Time // when a person released it from its brake, so that it takes up everybody; none: nobody did
}

// Held reports whether the row is on hold.
func (r Row) Held() bool { return r.Hold != "" }

// PutOnHold puts the row on hold until a person decides. A row that is already on hold keeps its HeldAt, and one that has ended keeps its
// reason.
func (r *Row) PutOnHold(h Hold, now time.Time) {
	if !r.Held() {
		r.HeldAt = now
	}
	if r.Hold = h; r.Status == Pending {
		r.Reason = h.Reason()
		r.Delay = h.delay()
	}
}

func (h Hold) delay() Delay {
	if h == HoldPaused {
		return DelayedByPause
	}
	return DelayedByHold
}

// Unhold takes the row off hold.
func (r *Row) Unhold() { r.Hold, r.HeldAt = "", time.Time{} }

// Parked reports whether the row is parked because its workflow is paused: it waits until the workflow is resumed.
func (r Row) Parked() bool { return r.Hold == HoldPaused }

// OfZone reports whether the row is for one zone of an occasion.
func (r Row) OfZone() bool { return r.Head != 0 }

// OfPerson reports whether the row is a message of one person's own course.
func (r Row) OfPerson() bool { return r.Contact != 0 }

// InSeries reports whether the row is an occasion of a schedule's series. Rows of single zones and repetitions are not.
func (r Row) InSeries() bool { return r.Source == FromSchedule && !r.OfZone() && r.RetryOf == 0 }

// InCourse reports whether the row is a message of a course. A repetition is not.
func (r Row) InCourse() bool { return r.Round > 0 && r.RetryOf == 0 }

// Beside reports whether the row waits for a person, or a person has decided about it: what follows it exists since it was put on hold, and it
// goes on beside that. A parked row is not: it is still the one that waits.
func (r Row) Beside() bool { return r.Status == Pending && r.Delay == DelayedByHold }

// Passed reports whether a search for what is next passes over a pending row: what follows it exists. So it is beside a person's decision, and for a
// message of a record's course whose first deliveries are made.
func (r Row) Passed() bool {
	return r.Beside() || r.Status == Pending && r.Source == FromPlan && r.InCourse() && r.Event != 0
}

// FollowsEvent reports whether the row is a later message of the course after an event, or a repetition of one. The first message has the key
// of the event.
func (r Row) FollowsEvent() bool {
	if r.Source != FromEvent || r.Round == 0 {
		return false
	}
	event, _ := key.Instance(r.Key).OfEvent()
	return string(event) != r.Key
}

// HeldUp reports whether a failure, a hold or a pause kept a pending row from being processed when it was due. Such a row does not
// count as late (R2).
func (r Row) HeldUp() bool { return r.Status == Pending && r.Delay != "" }

// Processing reports whether a worker holds a lease on the row at now.
func (r Row) Processing(now time.Time) bool { return r.Status == Pending && r.LeaseUntil.After(now) }

// Patch is what a worker changes in a row that it holds.
type Patch struct {
	Status      Status
	Hold        Hold  // from now on, with its reason and delay
	Delay       Delay // of a row without a hold
	Reason      reason.Reason
	NextRetryAt time.Time
	RetryCount  int
	Crashes     int       // 0: unchanged
	LeaseUntil  time.Time // zero: the row is free, and one more attempt is over
	Trace       string    // empty: unchanged
	Cursor      subject.ContactID
	Recipients  int             // how many people it has taken up besides
	Event       subject.EventID // 0: unchanged
	Definitions int64           // 0: unchanged
	OpenedAt    time.Time       // zero: unchanged
	Round       int             // with Message, where the list of the messages of its course has it now; 0: unchanged
	Message     int
}

// With returns the row as a worker leaves it.
func (r Row) With(p Patch, now time.Time) Row {
	r.Unhold()
	if p.Cursor != 0 && int64(p.Cursor) != r.ExpandCursor { // a page is done: who died before it did not die of what is left
		r.Crashes = 0
	}
	r.Status, r.Reason, r.Delay, r.NextRetryAt, r.RetryCount, r.LeaseUntil, r.ExpandCursor = p.Status, p.Reason, p.Delay, p.NextRetryAt, p.RetryCount, p.LeaseUntil, int64(p.Cursor)
	if p.Hold != "" {
		r.PutOnHold(p.Hold, now)
	}
	if p.LeaseUntil.IsZero() {
		r.Attempts++
	}
	r.CompletedAt = time.Time{}
	if r.Status != Pending {
		r.CompletedAt = now
	}
	r.Recipients += p.Recipients
	r.Crashes, r.Event, r.Definitions = cmp.Or(p.Crashes, r.Crashes), cmp.Or(p.Event, r.Event), cmp.Or(p.Definitions, r.Definitions)
	if p.Trace != "" {
		r.Trace = p.Trace
	}
	if !p.OpenedAt.IsZero() {
		r.OpenedAt = p.OpenedAt
	}
	if p.Round > 0 {
		r.Round, r.Message = p.Round, p.Message
	}
	return r
}

// TakingUp reports whether an occasion has begun to take up its audience and has more of it to come. Its rows are that of the occasion, and those for single
// time zones.
func TakingUp(occasion []Row, deliveries int) bool {
	if head := occasion[0]; head.Status == Cancelled || !head.CancelledAt.IsZero() {
		return false
	}
	for _, r := range occasion {
		if r.Status == Pending && (deliveries > 0 || r.ExpandCursor != 0) {
			return true
		}
	}
	return false
}
