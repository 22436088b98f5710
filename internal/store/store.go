// Package store keeps the durable state on SQLite or PostgreSQL: one schema, one SQL text a query.
//
// A method that needs a decision takes it as a function: it locks and loads what the decision needs for a whole
// batch, calls the function, writes what it returned, and commits, all in one transaction. When the database asks
// for it (busy, serialization failure, deadlock, a key that another transaction inserted meanwhile) the whole is
// done again, so a decision may run more than once and must have no effects; of the store it may call NewID only. An error
// of a decision rolls back and is returned, wrapped. Statements are set-based: a batch of any size costs the same
// number of them.
//
// Instants are stored as whole microseconds since 1970 UTC, 0 for none; states and hashes as text. The store
// never decides, never reads a clock and never calls out.
package store

import (
	"encoding/json"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Workspace is one tenant.
type Workspace struct {
	ID          subject.WorkspaceID
	Name        string
	Secret      []byte // 32 bytes; every keyed hash and public id of the workspace comes from it
	Definitions int64  // number of the definition set that is in force; 0 = none yet
	CreatedAt   time.Time
}

// APIKey is a caller's credential; the key itself is shown once and only its hash is kept.
type APIKey struct {
	ID        int64
	Workspace subject.WorkspaceID
	Name      string
	Hash      string // hex SHA-256 of the key
	Scopes    []string
	CreatedAt time.Time
	RevokedAt time.Time
	ExpiresAt time.Time // from when on it is refused; zero: never
	UsedAt    time.Time // when it was last used, to the minute; zero: never
	OldHash   string    // of the secret before it was rotated; empty: it was not
	OldUntil  time.Time // from when on that one is refused
}

// Definition is one version of one document of a definition set.
type Definition struct {
	Kind    string
	Name    string
	Version int64 // counts the changes of this name, from 1
	Text    string
	Hash    string
	Runs    []RunSeed // what applying it brings with it when it is new or changed
	Inputs  []string  // what the input hashes of its instances are hashes of, kept when it is new or changed
}

// What an edit does to a definition.
const (
	Added     = "added"
	Changed   = "changed"
	Deleted   = "deleted"
	Unchanged = "unchanged"
)

// DefinitionChange says what applying did to one document.
type DefinitionChange struct {
	Kind    string
	Name    string
	Version int64
	Action  string // Added, Changed, Deleted or Unchanged
}

// RecipientRef names a person before their contact is known (R20): the contact with that ExtID, else the one with
// that address, else, when Create is set, a new one.
type RecipientRef struct {
	ID          subject.ContactID // a contact that exists; the rest is then not asked for
	ExtID       string            // the caller's id of the person; may be empty
	Address     string            // as given; may be empty
	AddressHash string            // keyed hash of the normal form; empty without an address
	NewExtID    string            // the ext_id of a contact made for it
	Locale      string
	Timezone    string // of a contact made for it
	Create      bool
	Lock        bool // a slot of this person may be taken: lock them and load their slots
}

// Slot is a place in a person's limits that is taken.
type Slot struct {
	At      time.Time
	Type    string
	Channel string // kind:name
	N       int
	Waits   bool // the message is still to be sent in it: it has not left, may not have left and is not on the wire
}

// Person is a contact as a decision sees it. Slots are loaded for locked persons, and where a decision about an intent
// asks for them; they go back as far as the Floor of the transaction says.
type Person struct {
	subject.Contact
	Found     bool // false: no such contact, and none was made
	Locked    bool
	SlotsRead bool
	Slots     []Slot
	Waiting   []Waiting      // of locked persons, where the occasions of the transaction have a context
	FoldHeads []delivery.Row // of locked persons, where the transaction asks for them: what waits and takes along what is folded into it
	Folding   bool           // Carriers are read
}

// Waiting is a delivery that waits for its slot to come and was never sent, of an instance with a context. Its row is
// locked.
type Waiting struct {
	Row     delivery.Row
	Context string
}

// Floor is the oldest instant whose slots of a person matter; zero: none do. It must not call the store.
type Floor func(subject.WorkspaceID, subject.Contact) time.Time

// PastSlot is a place in a person's limits that a delivery had for an earlier message than the one it is at.
type PastSlot struct {
	Workspace subject.WorkspaceID
	Contact   subject.ContactID
	Delivery  delivery.ID
	Slot      time.Time
	Type      string
	Channel   string
}

// IngestRequest is what has to be locked and loaded before events can be decided.
type IngestRequest struct {
	At          time.Time
	Definitions int64 // the set that the plan was made with; another one in force gives ErrStaleDefinitions
	Keys        []string
	Recipients  []RecipientRef
	Floor       Floor // nil: slots are loaded as far back as any limit may look
	Fold        bool  // what is made may be folded: the persons' foldHeads are read

	// Answers name the requests that are to take effect once. When there are any, their stored answers are found first,
	// and Unanswered returns what the transaction is for: nothing is locked or made for a request that was answered before.
	Answers    []AnswerKey
	Unanswered func(stored map[string]KeptAnswer) IngestRequest
}

// ExistingInstance is an instance that a planned key met.
type ExistingInstance struct {
	ID         instance.ID
	Key        string
	Status     instance.Status
	InputHash  string
	Deliveries []ExistingDelivery
}

// ExistingDelivery is a delivery of an existing instance.
type ExistingDelivery struct {
	ID      delivery.ID
	Channel string
	Status  delivery.Status
}

// IngestState is what a decision about events may look at. Persons stand in the order of the request's
// recipients. Instances are found by the planned key. For a key that a person has freed, Forgotten says how
// often: the occasion's key is then key:retry:n, and Instances holds the row of that key, if there is one, under
// the planned key.
type IngestState struct {
	Persons   []Person
	Instances map[string]ExistingInstance
	Forgotten map[string]int
	Answers   map[string]KeptAnswer // by AnswerKey.Key: these requests have taken effect before
}

// EventRow is an event with its JSON as it will be stored.
type EventRow struct {
	subject.Event
	PayloadJSON string
	Trace       string // JSON: what each trigger made of it
}

// EventRef names an event across workspaces.
type EventRef struct {
	Workspace subject.WorkspaceID
	ID        subject.EventID
}

// Decision is a decision that left no instance behind: filtered, deduplicated, throttled …
type Decision struct {
	ID              int64
	At              time.Time
	Event           subject.EventID
	Instance        instance.ID // the one it met; 0 = none
	Record          subject.RecordID
	Context         string // of a throttle
	Workflow        string
	WorkflowVersion int64
	Trigger         string
	Reason          reason.Reason
	Trace           string // JSON
}

// IngestWrites is what a decision about events wants written, in one transaction.
type IngestWrites struct {
	Events     []EventRow
	Instances  []instance.Row
	Deliveries []delivery.Row
	Decisions  []Decision
	Ended      []delivery.Row // of Person.Waiting: those that are superseded, as they are now
	Held       []HeldInstance
	Answers    []KeptAnswer
}

// HeldInstance raises the held flag of a row whose key came again with other inputs.
type HeldInstance struct {
	ID     instance.ID
	Reason reason.Reason
}

// DueInstance is a pending instance whose time has come, with its event. Its row is locked until the transaction
// ends.
type DueInstance struct {
	instance.Row
	EventRow EventRow   // zero when the instance has no event
	Source   *RecordRow // the record that it was planned by, unless it has begun; nil: it has none
	InForce  int64      // number of its workspace's definition set in force, which stays so until the transaction ends
	Later    bool       // of the calendar: its series has gone on past it
	// Occasion is what has become of the occasion of which the row is that of one zone; empty: it is no such row.
	Occasion instance.Status
	PausedAt time.Time // since when its workflow is paused; none: it is not
}

// FanoutResult is what became of one due instance.
type FanoutResult struct {
	Status      instance.Status // completed, failed, deactivated, skipped; pending for another try
	Held        bool
	Reason      reason.Reason
	NextRetryAt time.Time
	RetryCount  int
	Crashes     int       // 0: as many as before
	LeaseUntil  time.Time // it is taken up until then, and nothing else is done; none: it is free
	Trace       string
	Cursor      subject.ContactID // the last one of the audience's pages that is done; 0: none, or all are
	Deliveries  []delivery.Row    // those whose key exists already are left out silently: an earlier chunk made them
	Ended       []delivery.Row    // of Person.Waiting: those that are superseded, as they are now
	Event       *EventRow         // of one that begins: its record as it was seen
	Evaluate    bool              // its record has to be looked at
	Successors  []Successor       // what follows it on the calendar
	Definitions int64             // the set with which it goes on, once it has begun; 0: as it is
}

// Claim is a delivery that this process holds and whose intent is about to be committed.
type Claim struct {
	delivery.Row           // Version is the fence; AttemptNo counts this attempt; IntentAt is its intent
	LostIntent   time.Time // the intent of an attempt whose result never came; none: there was none
	PausedAt     time.Time // since when its workflow is paused; none: it is not
	Person       Person
	// AddressStopped reports whether the address is that of somebody who must not be messaged, as far as the decision asked
	// for it: then AddressRead is set, and whose address it is stays locked.
	AddressStopped bool
	AddressRead    bool
	Pace           *flow.Pace     // of its channel, locked; nil unless the decision asked for it
	FoldMembers    []delivery.Row // what waits to be folded into it, locked; where the decision asked for it
	Folded         []delivery.Row // of what goes out: what is folded into it, in the order in which it was due
}

// IntentVerdict is the decision about one claim. The zero value lets it go as claimed.
type IntentVerdict struct {
	// NeedLock asks for the same decision again, with the person locked and their slots loaded. Only meaningful
	// in the first round.
	NeedLock bool
	// NeedFold, with NeedLock, asks for what takes others along of the person, and for what waits to be folded into the
	// claim.
	NeedFold bool
	// NeedSlots asks for the same decision again, with the person's slots loaded, without a lock.
	NeedSlots bool
	// NeedDue, of a person who is locked or with NeedLock, asks for whatever else of the person is due, or waits for a channel whose provider is away, on
	// channels of this kind and has a place that is not ahead: it is claimed too, and decided with the others.
	NeedDue string
	// NeedAddress asks for the same decision again, with what is known of the address that has this hash. Only meaningful
	// in the first round.
	NeedAddress string
	// NeedPace asks for the same decision again, with the pace of the claim's channel locked and loaded. Only meaningful
	// in the first round.
	NeedPace bool
	// Pace is the channel's pace after this claim; that of its last claim is kept. nil: as it was.
	Pace *flow.Pace
	// Move changes the row instead of, or besides, sending it.
	Move *IntentMove
	// Attempts are entries to be logged: the lost one, or why nothing was tried.
	Attempts []delivery.Attempt
	// Folded are those of the claim's riders that leave with it, as they are then.
	Folded []delivery.Row
	// Past is the place that the delivery had for an earlier message, when it takes a new one; nil: it had none.
	Past *PastSlot
	// Fallback is the delivery that stands in for this one; one that exists already is left out.
	Fallback *delivery.Row
}

// IntentMove is a change of a claimed row in the transaction of its intent.
type IntentMove struct {
	Send         bool   // the attempt goes out all the same (its slot moved to now)
	Address      string // where it goes from now on; empty: where it went so far
	Status       delivery.Status
	SendAt       time.Time
	Slot         time.Time
	ExpiresAt    time.Time
	DeferredBy   reason.Reason
	Reason       reason.Reason
	AttemptNo    int
	Step         int // counts skipped steps too
	Remaining    int // reminders
	Trace        string
	Completed    bool      // sets completed_at
	UnknownSince time.Time // none: the outcome of every try of the step is known
	DueAt        time.Time // none: send_at is when the step is due
	EligibleAt   time.Time // since when the message could have left, while its channel delays it; none: send_at
	FoldedInto   delivery.ID
	LeaseUntil   time.Time // without Send: nobody takes the row up before; none: it is free at once
}

// Settlement is the result of one attempt, guarded by the claim's version.
type Settlement struct {
	Workspace    subject.WorkspaceID
	ID           delivery.ID
	Version      int64
	Accepted     bool      // last_sent_at = now
	Step         int       // steps that are over: accepted, skipped or given up
	LeaseUntil   time.Time // none: the lease ends; else nobody takes the row up before (retry: next tick, C45)
	Status       delivery.Status
	SendAt       time.Time
	ExpiresAt    time.Time
	RetryCount   int
	Remaining    int // reminders
	Reason       reason.Reason
	Completed    bool
	Release      bool      // a definite failure gives the slot back
	UnknownSince time.Time // none: the outcome of every try of the step is known
	EligibleAt   time.Time // since when the message could have left, while a retry delays it; none: send_at
	DueAt        time.Time // when the step was due that is tried again; none: SendAt
	Attempt      delivery.Attempt
	Content      *Content      // kept when the channel's provider is read from the store
	Fallback     *delivery.Row // made when the delivery has failed: it stands in for it
	FoldHead     bool          // others are folded into it: those of one that has failed leave with what stands in for it
	Unfold       bool          // what is folded into it asks for places of its own
	// Together is the kind of its channel, where it is tried again: what else of its person waits for a retry in the same place,
	// on channels of that kind and for nearly as long, comes with it. Empty: it comes alone.
	Together string
}

// Unfold takes a delivery out of the message that it was folded into, before that leaves: it asks for a place of its
// own, or has failed.
type Unfold struct {
	Row      delivery.Row // as it becomes; its version is the one that was read
	Attempt  *delivery.Attempt
	Fallback *delivery.Row // made when it has failed: it stands in for it
}

// LeaseRef names a claim for renewal.
type LeaseRef struct {
	Workspace subject.WorkspaceID
	ID        delivery.ID
	Version   int64
}

// Release gives a claim back whose request has not begun.
type Release struct {
	LeaseRef
	SendAt time.Time // the row is moved there, and stays due when it was; none: it is free at once
	Reason reason.Reason
	Trace  string
}

// Content is what was rendered for one step of a delivery.
type Content struct {
	ID        int64 // given by the store
	Workspace subject.WorkspaceID
	Delivery  delivery.ID
	Step      int
	At        time.Time
	Channel   string
	Address   string
	Locale    string
	Subject   string
	Text      string
	HTML      string
}

// OperatorState is an instance with everything that hangs on it, locked.
type OperatorState struct {
	Instance   instance.Row
	Deliveries []delivery.Row
	Retries    int         // highest n of key:retry:n in use for the instance's base key
	InForce    int64       // number of the definition set in force, which stays so until the transaction ends
	Later      bool        // of the calendar: its series has gone on past it
	RetriedBy  instance.ID // by which a person had it done again; 0: nobody has
}

// OperatorChange is what a person's action changes, in one transaction with its audit entry. Rows are written
// whole (state columns only) and guarded by the version that was read.
type OperatorChange struct {
	Instance      *instance.Row
	Deliveries    []delivery.Row
	NewInstance   *instance.Row
	NewDeliveries []delivery.Row
	NewEvent      *EventRow   // of the new instance
	Again         bool        // the new instance is the old one, done again
	Forget        bool        // frees the key (decision 64)
	Successors    []Successor // what follows the instance on the calendar
	Job           *JobStep    // the job over many deliveries that does this
	Audit         Audit
}

// None reports whether nothing is changed.
func (c OperatorChange) None() bool {
	return c.Instance == nil && len(c.Deliveries) == 0 && c.NewInstance == nil && len(c.NewDeliveries) == 0 && !c.Forget
}

// Audit is one privileged change.
type Audit struct {
	ID     int64     // given by the store
	At     time.Time // zero: the transaction's now
	Actor  string    // name of the API key
	Action string
	Target string
	Detail json.RawMessage
}

// InstanceFilter narrows a listing; zero fields do not.
type InstanceFilter struct {
	Workflow string
	Status   instance.Status
	Held     bool
	Event    subject.EventID
	Record   subject.RecordID
	Key      string
	Reason   reason.Reason
	Made     Span
	Once     bool // an occasion that is due by the zone of each person is there once, without its rows of zones
}

// DeliveryFilter narrows a listing; zero fields do not.
type DeliveryFilter struct {
	Workflow string
	Status   delivery.Status
	Channel  string
	Reason   reason.Reason
	Contact  subject.ContactID
	To       ContactQuery
	Instance instance.ID // and of its rows of zones
	Made     Span
}

// EventFilter narrows a listing; zero fields do not.
type EventFilter struct {
	Kind string
	To   ContactQuery // the person whom the event names; see MaxNamedRead
	Made Span         // when they were received
}

// DecisionFilter narrows a listing; zero fields do not.
type DecisionFilter struct {
	Event    subject.EventID
	Record   subject.RecordID
	Workflow string
	Reason   reason.Reason
	Made     Span
}

// Page asks for at most Limit rows with ids below Before (0 = from the newest).
type Page struct {
	Before int64
	Limit  int
}

// Counts is the state of a workspace in numbers.
type Counts struct {
	Events             int64
	InstancesByStatus  map[instance.Status]int64
	DeliveriesByStatus map[delivery.Status]int64
	Sent               int64                   // deliveries of which a message has left, whatever became of them since
	Delayed            map[reason.Reason]int64 // deliveries that could have left, by what delays them
	Held               int64
	FailedResent       int64 // of the failed deliveries, sent again by hand as another one
	OldestDue          time.Time
}
