package delivery

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Response is the answers to the survey of a delivery, as stored. A delivery has one at most.
type Response struct {
	Workspace   subject.WorkspaceID
	ID          int64
	Delivery    ID
	Workflow    string
	Survey      string
	Definitions int64 // number of the set whose questions were answered
	Locale      string
	Answers     map[string]any // by question; JSON values
	AgentID     string         // who answered on the contact's behalf; empty: the contact
	CreatedAt   time.Time

	// Address and CustomerRef are those of the delivery. They are read with the answers, not stored with them.
	Address, CustomerRef string
}

// InFlight reports whether a worker is sending the row's message at now. What others decide about the row meanwhile, the result of
// the attempt applies.
func (r Row) InFlight(now time.Time) bool { return !r.IntentAt.IsZero() && r.LeaseUntil.After(now) }

// Answering says what the link to a survey leads to.
type Answering string

// What a link leads to.
const (
	TakesAnswer Answering = "takes_answer"
	Answered    Answering = "answered" // the person has answered
	Closed      Answering = "closed"   // it ended without an answer
)

// Answering returns what the link of a delivery leads to; rows are the deliveries of its instance and contact. One answer is
// enough for all of them. A delivery that failed takes an answer: its link may have come another way. An expired one takes an answer
// if late answers are accepted (product decision 44).
func (r Row) Answering(rows []Row, late bool) Answering {
	if slices.ContainsFunc(rows, func(o Row) bool { return o.Status == Responded }) {
		return Answered
	}
	switch r.Status {
	case Scheduled, Sent, Opened, Unknown, Failed:
		return TakesAnswer
	case Expired:
		if late {
			return TakesAnswer
		}
	case Responded:
		return Answered
	case Skipped, Superseded, Cancelled:
	}
	return Closed
}

// Open returns the row after a person has opened its survey, and whether that changes it. Reminders go on (C31). A row of which
// no message can have arrived stays scheduled, so that what ends a message before it is sent still ends this one; an unknown one
// still waits for a decision.
func (r Row) Open() (Row, bool) {
	if r.Status != Sent && !(r.Status == Scheduled && r.MayHaveArrived()) {
		return r, false
	}
	r.Status = Opened
	return r, true
}

// Answer returns the rows that an answer to one of them changes; rows are the deliveries of its instance and contact. The answered
// one has nothing more to send (C33), nor have the others.
func Answer(rows []Row, id ID, now time.Time) []Row {
	var changed []Row
	for _, r := range rows {
		if r.ID == id {
			changed = append(changed, r.answer(now))
		} else if r.Turn > 0 { // of the session that it began
			if other, ok := r.Heard(now); ok {
				changed = append(changed, other)
			}
		} else if other, ok := r.Cancel(reason.AnsweredElsewhere, now); ok {
			changed = append(changed, other)
		}
	}
	return changed
}

func (r Row) answer(now time.Time) Row {
	r.end(now)
	r.Status, r.Reason = Responded, reason.Answered
	return r
}

// Cancel returns the row after its message has become unnecessary, and whether that changes it. What has ended stays as it is, and
// so does what was sent with nothing more to send or to wait for. A row in flight is only marked: the result decides.
func (r Row) Cancel(why reason.Reason, now time.Time) (Row, bool) {
	switch {
	case r.Status.Final(), r.Status == Sent && r.SendAt.IsZero() && !r.CompletedAt.IsZero():
		return r, false
	case r.InFlight(now):
		if r.StopReason != "" {
			return r, false
		}
		r.StopReason = why
	default:
		r.end(now)
		r.Status, r.Reason = Cancelled, why
	}
	return r, true
}

// Shown returns the row as people are shown it. If its occasion was cancelled at an instant, it is cancelled too, whether the row is ended yet or
// not; zero: it was not. A row with an open intent stays as it is: its message is on its way, or its outcome is not known.
func (r Row) Shown(cancelled time.Time) Row {
	if cancelled.IsZero() || !r.IntentAt.IsZero() {
		return r
	}
	if r.CreatedAt.After(cancelled) {
		cancelled = r.CreatedAt // it has joined the occasion since
	}
	r, _ = r.Cancel(reason.CancelledByPerson, cancelled)
	return r
}

// end leaves nothing to send and nothing to wait for. A message that waits for its slot gives it back.
func (r *Row) end(now time.Time) {
	if r.Waits() {
		r.Slot = time.Time{}
	}
	r.Unplan()
	r.ExpiresAt, r.CompletedAt = time.Time{}, now
}
