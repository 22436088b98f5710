// Package journal records what the engine did, in order: one entry for each decision and outcome.
//
// The live log, the metrics and the expectations of scenarios read the same entries. An entry is written after its transaction has committed. It is
// information only; the database is the truth.
package journal

import (
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// What names what happened.
type What string

// The values of What.
const (
	Created      What = "created"       // an instance
	Skipped      What = "skipped"       // an occasion that exists already, or a step that came too late
	NoMatch      What = "no_match"      // an event that matches no workflow
	Rejected     What = "rejected"      // an invalid event
	Planned      What = "planned"       // a delivery was made
	Expanded     What = "expanded"      // an instance has all its deliveries
	Deferred     What = "deferred"      // a limit moved a delivery
	Sent         What = "sent"          // a provider accepted a step
	Retried      What = "retried"       // a try failed and another one is planned
	Failed       What = "failed"        // a delivery, or a step of it, failed for good
	Unknown      What = "unknown"       // outcome unknown: a step may have been accepted
	Held         What = "held"          // a person has to decide
	Cancelled    What = "cancelled"     // by a person or a suppression
	Opened       What = "opened"        // a person opened a survey
	Responded    What = "responded"     // a survey was answered
	Expired      What = "expired"       // no answer came in time
	Reclaimed    What = "reclaimed"     // a delivery whose worker was lost was taken over
	StaleRefused What = "stale_refused" // a result came after its row had been taken over
	Released     What = "released"      // by a person
	Forgotten    What = "forgotten"     // a key was freed
	Throttled    What = "throttled"     // a cooldown kept a context from firing
	Returned     What = "returned"      // a cooldown was refunded, because its alert reached nobody
	Folded       What = "folded"        // a delivery leaves with another one, as one message
	Withdrawn    What = "withdrawn"     // a planned occasion that is asked for no longer
	Moved        What = "moved"         // a waiting occasion is due at another instant
	PassedOver   What = "passed_over"   // a contact's own limits, which this version cannot read
	Replied      What = "replied"       // somebody wrote back

	Dispatched     What = "dispatched"      // a sink accepted an outbox event
	DispatchFailed What = "dispatch_failed" // a sink did not, and another try is planned
	Dead           What = "dead"            // no further try of an outbox event follows at a sink
)

// Entry is one thing that happened. Only the fields that apply are set.
type Entry struct {
	At              time.Time
	What            What
	Workspace       subject.WorkspaceID
	Workflow        string
	WorkflowVersion int64
	Trigger         string
	Key             string // of the instance or delivery
	Event           subject.EventID
	Kind            string // of an event that matches no workflow; of an outbox event
	Sink            string // of an outbox event
	Instance        instance.ID
	Delivery        delivery.ID
	Contact         string // ext_id
	Address         string
	Channel         string
	Locale          string
	Step            int
	Attempt         int
	Reason          reason.Reason
	Into            string    // key of the fold head
	IntoWorkflow    string    // of the fold head
	Due             time.Time // the planned instant
	Eligible        time.Time // of an attempt: since when the message could have left
	HandedAt        time.Time // of an attempt: when the message was handed to the provider; At is when the answer came
	Until           time.Time // when the row is decided again
	Remaining       int       // reminders
	Subject         string
	Text            string
	HTML            string
	Headers         map[string]string // of a mail
	Sections        []Section         // of a digest
	Answers         map[string]any    // to a survey; no log has them
	ProviderID      string
	Error           string
	Record          string // type/id
	Context         string // of a condition on a record, as in its key
	Message         string // a log line in the words of a data source; empty: the log uses its own words
	Count           int    // of the occasions that the entry represents; 0: only its own
	Again           bool   // it was reported before and nothing has changed
}

// Section is what a digest tells of one topic: the ids of items, and those that stand in an earlier section.
type Section struct {
	Topic      string
	Items, See []string
}

// Stopped is the entry of a delivery of which a person is to get nothing more.
func Stopped(d delivery.Row, why reason.Reason, contact string, now time.Time) Entry {
	return Entry{
		At: now, What: Cancelled, Workspace: d.Workspace, Workflow: d.Workflow, WorkflowVersion: d.WorkflowVersion,
		Trigger: d.Trigger, Key: d.Key, Event: d.Event, Instance: d.Instance, Delivery: d.ID, Contact: contact,
		Address: d.Address, Channel: d.Channel, Step: d.Step + 1, Reason: why, Remaining: d.RemindersRemaining,
	}
}

// Writer takes entries. It is called from several goroutines at once and must not block for long. A nil Writer drops the entries.
type Writer func(Entry)

// Write passes an entry to the writer.
func (w Writer) Write(e Entry) {
	if w != nil {
		w(e)
	}
}
