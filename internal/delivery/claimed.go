package delivery

import (
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Claim is a delivery that this process has leased and whose intent is about to be committed.
type Claim struct {
	Row                  // Version is the fence; AttemptNo counts this attempt; IntentAt is its intent
	LostIntent time.Time // the intent of an earlier attempt whose outcome was never written; zero: there is none
	PausedAt   time.Time // when its workflow was paused; zero: it is not paused
	// CancelledAt is when a person cancelled its occasion; zero: it is not cancelled.
	CancelledAt time.Time
	Person      Person
	// Folded are the deliveries that leave with it, in the order in which they were due.
	Folded []Row
}

// PersonRef names a contact.
type PersonRef struct {
	Workspace subject.WorkspaceID
	ID        subject.ContactID
}

// PersonKind names the deliveries of a person on channels of one kind.
type PersonKind struct {
	PersonRef
	Kind string
}

// PaceRef names a channel of a workspace.
type PaceRef struct {
	Workspace subject.WorkspaceID
	Channel   string // kind:name
}

// WorkflowRef names a workflow of a workspace.
type WorkflowRef struct {
	Workspace subject.WorkspaceID
	Workflow  string
}

// AddressRef names an address of a workspace by its hash.
type AddressRef struct {
	Workspace subject.WorkspaceID
	Hash      string
}

// Refold says where the fold members of a delivery go that does not leave.
type Refold struct {
	Workspace subject.WorkspaceID
	From      ID
	Into      ID // 0: each takes a slot of its own
}

// PersonOf names the contact of a delivery.
func PersonOf(row Row) PersonRef { return PersonRef{row.Workspace, row.Contact} }

// WorkflowOf names the workflow of a delivery.
func WorkflowOf(row Row) WorkflowRef { return WorkflowRef{row.Workspace, row.Workflow} }

// PaceOf names the channel of a delivery.
func PaceOf(row Row) PaceRef { return PaceRef{row.Workspace, row.Channel} }
