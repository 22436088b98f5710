// Package journal is the engine's account of what it did, in order: one entry for each decision and outcome.
//
// The live log, the metrics and the expectations of scenarios are all readers of the same entries. An entry is
// written after its transaction has committed; it informs and is never the truth.
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

// What can happen to an event, an instance or a delivery.
const (
	Created      What = "created"       // an instance
	Skipped      What = "skipped"       // an occasion that exists already, a step that came too late
	NoMatch      What = "no_match"      // an event that concerns no workflow
	Rejected     What = "rejected"      // an event that is not valid
	Planned      What = "planned"       // a delivery was made
	Expanded     What = "expanded"      // an instance has all its deliveries
	Deferred     What = "deferred"      // a limit moved a delivery
	Sent         What = "sent"          // a provider accepted a step
	Retried      What = "retried"       // a try failed and another one is planned
	Failed       What = "failed"        // a delivery or a step of it was given up
	Unknown      What = "unknown"       // nobody knows whether a step was accepted
	Held         What = "held"          // a person has to decide
	Cancelled    What = "cancelled"     // by a person or a suppression
	Expired      What = "expired"       // nobody answered
	Reclaimed    What = "reclaimed"     // a delivery whose worker was lost was taken over
	StaleRefused What = "stale_refused" // a result came after its row had been taken over
	Released     What = "released"      // by a person
	Forgotten    What = "forgotten"     // a key was freed
	Throttled    What = "throttled"     // a cooldown kept a context from firing
	Returned     What = "returned"      // a cooldown, since nobody was told of what it is of
	Folded       What = "folded"        // a delivery leaves with another one, as one message
	Withdrawn    What = "withdrawn"     // an occasion that was planned and is asked for no longer
	Moved        What = "moved"         // an occasion that waits is due at another instant
	PassedOver   What = "passed_over"   // the own limits of a person, which this version cannot read
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
	Kind            string // of an event that concerns no workflow
	Instance        instance.ID
	Delivery        delivery.ID
	Contact         string // ext_id
	Address         string
	Channel         string
	Locale          string
	Step            int
	Attempt         int
	Reason          reason.Reason
	Into            string    // key of the delivery with which it leaves
	IntoWorkflow    string    // of that
	Due             time.Time // when it was planned for
	Eligible        time.Time // of an attempt: since when the message could have left
	HandedAt        time.Time // of an attempt: when the provider was given the message; At is when the answer was there
	Until           time.Time // when it is looked at again
	Remaining       int       // reminders
	Subject         string
	Text            string
	HTML            string
	ProviderID      string
	Error           string
	Record          string // type/id
	Context         string // of a condition on a record, as in its key
	Message         string // a line for the log, in the words of a source; empty: the log has its own
	Count           int    // of occasions for which it stands; 0: of its own alone
	Again           bool   // it was told of before and nothing has changed
}

// Writer takes entries; it is called from several goroutines at once and must not block for long. A nil Writer
// drops them.
type Writer func(Entry)

// Write passes an entry on.
func (w Writer) Write(e Entry) {
	if w != nil {
		w(e)
	}
}
