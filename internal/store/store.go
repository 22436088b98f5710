// Package store keeps the durable state in SQLite or PostgreSQL. It decides nothing, reads no clock and makes no requests.
//
// A stage or a service holds its transaction:
//
//	err := s.Write(ctx, func(tx *store.Tx) error {
//		rows, err := tx.DueRecords(now, limit) // reads and locks, in the order of locks
//		…                                      // a pure decision
//		return tx.WriteEvaluations(now, state, writes)
//	})
//
// Transactions. Write runs its function again, whole, if the database is busy, reports a serialization failure or a deadlock,
// or if a method returns ErrAgain: another transaction has inserted one of the keys, or changed a row that was read without a
// lock. So the function begins with empty results and has no effects but those of tx. Inside it nothing but tx and NewID is
// used: on SQLite another method of the store would wait for this one. WriteHoldingDefinitions also keeps the set of
// definitions in force; LockDefinitions waits for such transactions. After a commit, stages are woken for the earliest
// instant at which one of the written rows is due. Isolation is READ COMMITTED; what must not change after it was read is
// locked, or fenced by its version: the write of a row that another transaction has changed meanwhile finds none.
//
// Locks. A transaction waits for locks in one order (lockOrder), and for rows of one table in the order of their ids or
// names, so that no two transactions wait for each other. Due rows are taken with SKIP LOCKED. SQLite has one writer, and
// these clauses are left out there.
//
// Statements work on sets of rows: their number does not depend on the size of the batch. A rowset is a table of parameters.
// Each statement has one SQL text; type dialect writes its hooks for the database:
//
//	/*ROWS $2 (ws bigint, id bigint)*/ AS r   the rows of a rowset
//	/*NAMES d (delivery)*/                     the columns of a table
//	/*SET r (changed_record)*/                 their new values
//	/*LOCK d*/, /*SKIP LOCKED d*/              locks on rows
//
// Columns. A row type has one table of columns (columnsOf), from which the names in a SELECT, the targets of a scan and the
// cells of a rowset are made. SQL never contains a literal status, kind or reason: use literals.go.
//
// Values. Instants are whole microseconds since 1970 UTC, 0 for none; the instant at which work is due is rounded up, so that
// nothing is found before its time. States and hashes are text. A statement that finds rows by a key names the workspace too.
//
// The schema is made from internal/store/migrations; schema.sql shows it. Tests set strict, which panics where a transaction
// breaks these rules.
package store

import (
	"encoding/json"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Workspace is one tenant.
type Workspace struct {
	ID          subject.WorkspaceID
	Name        string
	Secret      []byte // 32 bytes; every keyed hash and public id of the workspace is derived from it
	Definitions int64  // number of the definition set in force; 0: none yet
	CreatedAt   time.Time
}

// APIKey is a caller's credential. The key itself is shown once; only its hash is stored.
type APIKey struct {
	ID        int64
	Workspace subject.WorkspaceID
	Name      string
	Hash      string // hex SHA-256 of the key
	Scopes    []string
	CreatedAt time.Time
	RevokedAt time.Time
	ExpiresAt time.Time // the key is refused from this instant on; zero: it does not expire
	UsedAt    time.Time // when it was last used, to the minute; zero: never
	OldHash   string    // hash of the secret before the rotation; empty: it was never rotated
	OldUntil  time.Time // the old secret is refused from this instant on
}

// Definition is one version of one document of a definition set.
type Definition struct {
	Kind    string
	Name    string
	Version int64 // counts the changes of this name, from 1
	Text    string
	Hash    string
}

// Values of DefinitionChange.Action.
const (
	Added     = "added"
	Changed   = "changed"
	Deleted   = "deleted"
	Unchanged = "unchanged"
)

// DefinitionChange is the effect of an apply on one document.
type DefinitionChange struct {
	Kind    string
	Name    string
	Version int64
	Action  string // Added, Changed, Deleted or Unchanged
}

// RecipientRef identifies a person whose contact has not been read yet (R20): the contact with that ExtID, else the contact
// with that address, else, if Create is set, a new contact.
type RecipientRef struct {
	ID          subject.ContactID // a contact that exists; the other fields are then ignored
	ExtID       string            // the caller's id of the person; may be empty
	Address     string            // as given; may be empty
	AddressHash string            // keyed hash of the normal form; empty without an address
	NewExtID    string            // the ext_id of a contact made for it
	Locale      string
	Timezone    string // of a contact made for it
	Create      bool
	Lock        bool // lock the person and load their slots, because the decision may take a slot
}

// Floor returns the oldest instant at which a slot of the person still counts; zero: no slot counts. It must not call the
// store.
type Floor func(subject.WorkspaceID, subject.Contact) time.Time

// ExistingInstance is an instance that has the key of a planned one.
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

// Occasions are the instances that have planned keys. Both maps are by the planned key. Forgotten holds how often a person
// has freed a key, if they have: the occasion's key is then key:retry:n, and Instances holds the row of that key, if there is
// one.
type Occasions struct {
	Instances map[string]ExistingInstance
	Forgotten map[string]int
}

// ManualRun is an occasion that a person asked for (B15).
type ManualRun struct {
	Row     instance.Row
	Created bool // false: it existed already
}

// EventRow is an event with its JSON as it will be stored.
type EventRow struct {
	subject.Event
	PayloadJSON string
	Trace       string // JSON: the result of each trigger
}

// EventRef names an event across workspaces.
type EventRef struct {
	Workspace subject.WorkspaceID
	ID        subject.EventID
}

// Decision records why an occasion made no instance: it was filtered, deduplicated, throttled, and so on.
type Decision struct {
	ID              int64
	At              time.Time
	Event           subject.EventID
	Instance        instance.ID // the existing one; 0: none
	Record          subject.RecordID
	Context         string // of a throttle
	Workflow        string
	WorkflowVersion int64
	Trigger         string
	Reason          reason.Reason
	Trace           string // JSON
}

// OccasionWrites are the rows of occasions that a transaction makes, with the rows that these change.
type OccasionWrites struct {
	Events     []EventRow
	Instances  []instance.Row
	Deliveries []delivery.Row
	Decisions  []Decision
	Ended      []delivery.Row // deliveries of Person.Waiting that are superseded, with their new values
}

// Settlement is the result of one attempt.
type Settlement struct {
	Row      delivery.Row    // new values; the version and the stop are those that were read
	Was      delivery.Status // the status that was read
	Release  bool            // its slot is released
	Attempt  delivery.Attempt
	Content  *Content         // kept when the channel's provider is read from the store
	Said     *SessionMessage  // what a message of a conversation said
	Fallback *delivery.Row    // made when the delivery has failed
	Refold   *delivery.Refold // where its fold members go; nil: they stay
	// Together is the kind of the channel, if the step is retried: retries of the same person in the same slot, on channels
	// of that kind and due within alignWithin, move to the same instant. Empty: the retry comes alone.
	Together string
}

// Unfold is a delivery that was taken out of its fold head before the head leaves: the delivery takes a slot of its own, or has failed.
type Unfold struct {
	Row      delivery.Row // its new values; the version is the one that was read
	Attempt  *delivery.Attempt
	Fallback *delivery.Row // made when it has failed
}

// LeaseRef identifies a claim whose lease is renewed.
type LeaseRef struct {
	Workspace subject.WorkspaceID
	ID        delivery.ID
	Version   int64
}

// Content is what was rendered for one step of a delivery.
type Content struct {
	ID        int64 // assigned by the store
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

// Audit is one privileged change.
type Audit struct {
	ID     int64     // assigned by the store
	At     time.Time // zero: the transaction's now
	Actor  string    // name of the API key
	Action string
	Target string
	Detail json.RawMessage
}

// InstanceFilter narrows a listing; zero fields do not filter.
type InstanceFilter struct {
	Workflow string
	Status   instance.Status
	Held     bool
	Event    subject.EventID
	Record   subject.RecordID
	Key      string
	Reason   reason.Reason
	Made     Span
	Once     bool // list an occasion that has a row for each time zone once, without those rows
}

// DeliveryFilter narrows a listing; zero fields do not filter.
type DeliveryFilter struct {
	Workflow string
	Status   delivery.Status
	Channel  string
	Reason   reason.Reason
	Contact  subject.ContactID
	To       ContactQuery
	Instance instance.ID // its deliveries and those of its rows for single time zones
	Made     Span
}

// EventFilter narrows a listing; zero fields do not filter.
type EventFilter struct {
	Kind string
	To   ContactQuery // the person whom the event names; see maxNamedRead
	Made Span         // when they were received
}

// DecisionFilter narrows a listing; zero fields do not filter.
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
	Sent               int64                   // deliveries of which a message has left, whatever their status is now
	Delayed            map[reason.Reason]int64 // deliveries that could have left, by what delays them
	Held               int64
	FailedResent       int64 // failed deliveries that were retried by hand as new ones
	OldestDue          time.Time
}
