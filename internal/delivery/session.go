package delivery

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Says is what a message of a session says after its first one, which asks the first question.
type Says string

// What messages say.
const (
	SaysQuestion Says = "question" // the next question
	SaysInvalid  Says = "invalid"  // that a reply was no answer
	SaysClosing  Says = "closing"  // that all questions are answered
	SaysStopped  Says = "stopped"  // that the person gets nothing more
)

// Repeats reports whether the message asks a question, which is repeated when nobody answers it.
func (s Says) Repeats() bool { return s == SaysQuestion || s == SaysInvalid }

// SessionStatus is how far a session is.
type SessionStatus string

// The states. A waiting session takes no reply: its first message could not be sent yet, or is being sent while another session is open, which it then replaces. An ending
// session takes no reply any more, and its answers are handed on next.
const (
	SessionWaiting SessionStatus = "waiting"
	SessionOpen    SessionStatus = "open"
	SessionEnding  SessionStatus = "ending"
	SessionEnded   SessionStatus = "ended"
)

// SessionStatuses lists the states.
func SessionStatuses() []SessionStatus {
	return []SessionStatus{SessionWaiting, SessionOpen, SessionEnding, SessionEnded}
}

// Session is a conversation with a contact on a kind of channel, of which a contact has one at a time. It begins with the intent of the first message of a delivery and
// has its id. What people write is decided by the question that stands, and by when it was asked.
type Session struct {
	Workspace   subject.WorkspaceID
	Delivery    ID // whose message began it
	Instance    instance.ID
	Contact     subject.ContactID
	Kind        string // of the channel
	AddressHash string // of where its messages go
	Status      SessionStatus
	Reason      reason.Reason // why it ends: answered, no_response, session_replaced, opted_out, or that of its delivery; empty: it is open
	Question    string        // that stands
	AskedAt     time.Time     // the intent of the message that asked it first; zero: it is not asked yet, or could not be sent
	Repeats     int           // how often the question was repeated because of replies that were none
	Turns       int           // messages after the first one
	Answers     map[string]any
	OpenedAt    time.Time
	ExpiresAt   time.Time // of an ending one: when it began to end
	EndedAt     time.Time
}

// End has an open session end for a reason.
func (s *Session) End(why reason.Reason, now time.Time) {
	s.Status, s.Reason, s.ExpiresAt = SessionEnding, why, now
}

// SessionOver returns why the session that a row began is over, if the row has ended without it: by a person, by an answer on its page, or because its message was refused.
func (r Row) SessionOver() (why reason.Reason, over bool) {
	return cmp.Or(r.Reason, reason.Answered), r.Status.Final()
}

// Person returns with whom the session is, on which kind of channel.
func (s *Session) Person() PersonKind {
	return PersonKind{PersonRef: PersonRef{Workspace: s.Workspace, ID: s.Contact}, Kind: s.Kind}
}

// Hears returns why something that was written at an instant answers nothing; empty: it is for the question that stands. Providers write instants to the second.
func (s *Session) Hears(written time.Time) reason.Reason {
	switch {
	case s.Status == SessionWaiting:
		return reason.NoSession
	case s.AskedAt.IsZero() || written.Before(s.AskedAt.Truncate(time.Second)):
		return reason.AlreadyAnswered
	}
	return ""
}

// Unasked reports whether the row asks a question first, and certainly has not sent it.
func (r Row) Unasked() bool {
	return r.Asks != "" && r.Says != SaysInvalid && r.LastSentAt.IsZero() && !r.MayHaveArrived()
}

// Spoken returns what the message of a row says in a session; ok is false if it belongs to none, or has not left yet.
func (r Row) Spoken() (says Says, ok bool) {
	if r.Turn == 0 && r.Asks != "" {
		return SaysQuestion, true
	}
	return r.Says, r.Turn > 0
}

// EndSession returns the rows that the end of the session of a delivery changes; rows are those of its instance and contact. With answers the delivery is answered, for a
// reason, and the others have nothing more to send. Without it expires, unless it has ended or its person
// wants no more. What the session says at its end still leaves.
func EndSession(rows []Row, id ID, answered bool, why reason.Reason, now time.Time) (first Row, changed []Row) {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.ID == id })
	if i < 0 {
		return first, nil
	}
	own := rows[i].Channel
	for _, r := range rows {
		switch {
		case r.ID == id && answered:
			r = r.answer(now)
			r.Reason = why
			first, changed = r, append(changed, r)
		case r.ID == id:
			first = r
			if r.Status.Final() || !r.CompletedAt.IsZero() {
				continue
			}
			if why == reason.OptedOut || why == reason.Suppressed {
				if stopped, ok := r.StoppedFor(why, now); ok {
					first, changed = stopped, append(changed, stopped)
				}
				continue
			}
			if r.InFlight(now) {
				if r.StopReason == "" {
					r.StopReason = why
					changed = append(changed, r)
				}
				continue
			}
			r.end(now)
			r.Status, r.Reason = Expired, why
			first, changed = r, append(changed, r)
		case r.Turn > 0 && r.OutcomeUnknown() && r.SendAt.IsZero(): // nobody has answered it
		case r.Turn > 0:
			if next, ok := r.Heard(now); ok && r.Says.Repeats() && (answered || r.Channel == own) {
				changed = append(changed, next)
			}
		case answered:
			if next, ok := r.Cancel(reason.AnsweredElsewhere, now); ok {
				changed = append(changed, next)
			}
		}
	}
	return first, changed
}

// Heard returns a row of a session once its person has replied to it: nothing more of it is sent. The first row of the session waits for its end. changed is
// false if nothing more of the row would have been sent.
func (r Row) Heard(now time.Time) (row Row, changed bool) {
	switch {
	case r.Turn > 0 && r.SendAt.IsZero() && r.Status != Unknown && !r.InFlight(now):
		return r, false
	case r.Turn > 0 && r.OutcomeUnknown() && !r.InFlight(now) && !r.Status.Final(): // it has arrived, since it is answered
		r.Unplan()
		r.Status, r.Reason, r.ExpiresAt, r.CompletedAt = Sent, "", time.Time{}, now
		return r, true
	case r.Turn > 0:
		return r.StoppedFor(reason.Answered, now)
	case r.Status.Final():
		return r, false
	case r.InFlight(now):
		if r.StopReason != "" {
			return r, false
		}
		r.StopReason = reason.Answered
		return r, true
	}
	if r.Waits() {
		r.Slot = time.Time{}
	}
	r.Unplan()
	r.Status, r.Reason, r.RemindersRemaining = Opened, "", 0
	return r, true
}
