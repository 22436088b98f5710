// Package outbox decides how outbox events reach sinks: when a try follows, when none does any more, which event may leave now, and
// when a sink gets no more events.
//
// An outbox event is a fact for other systems, such as a response. It is written in the transaction that made it, with one row for each
// sink it goes to. Each row has a state of its own, so that a sink that fails delays no other one, and a repeat reaches only the sinks
// that have failed (product decision 42):
//
//	           accepted
//	pending ───────────────► dispatched
//	  ▲  │  ▲  failed: waits, at most Policy.Attempts tries
//	  │  └──┘
//	  │  │ refused permanently, no try is left, or no sink of its name is defined
//	  │  ▼
//	  dead      redrive, by a person
//
// Delivery is at least once. A try counts when it begins, so that a process that dies while it sends does not get it for free; the
// receiver drops a second message with the same id (C37).
//
// At one sink the events of one group leave in their order: one waits while an earlier one is pending. A dead one does not block.
//
// The package has no database, no clock and no chance: jitter is drawn from the row's key.
package outbox

import (
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Status is the state of an event at one sink, and of a whole event.
type Status string

// The values of Status.
const (
	Pending    Status = "pending"    // it waits for its first or its next try
	Dispatched Status = "dispatched" // the sink has accepted it
	Dead       Status = "dead"       // no try follows until a person redrives it; the sources call it Failed (C38)
)

// Statuses lists every status.
func Statuses() []Status { return []Status{Pending, Dispatched, Dead} }

// Row is one event at one sink.
type Row struct {
	Workspace subject.WorkspaceID
	EventID   int64  // those of one group ascend in the order of their transactions
	Sink      string // the sink's name
	Group     int64  // the event's delivery or instance: events of one group arrive in order
	Status    Status
	// Attempts counts the tries that have begun since the event was made or last redriven.
	Attempts int
	// AttemptNo counts all tries, also those before a redrive. It is the token of a try: a result is written only while it is
	// unchanged, so that a process that was frozen while it sent cannot overwrite the result of a later try.
	AttemptNo int
	NextAt    time.Time // no try begins before
	Reason    reason.Reason
	EndedAt   time.Time // when it was dispatched or given up

	// Behind is when the next try of the event before it in its group may begin; zero: none is pending before it. It is read, not stored.
	Behind time.Time
}

// Event is an outbox event as stored: a fact for other systems.
type Event struct {
	Workspace subject.WorkspaceID
	ID        int64
	Type      string // such as response.completed
	MessageID string // receivers drop a second message with the same one (C37)
	Workflow  string
	Delivery  delivery.ID // 0: it is about an instance
	Instance  instance.ID
	Body      string // a CloudEvent in JSON
	CreatedAt time.Time
}

// Group returns the number by which the events of one delivery or instance are kept in order.
func (e Event) Group() int64 {
	if e.Delivery != 0 {
		return int64(e.Delivery)
	}
	return int64(e.Instance)
}

// Attempt is one try of an event at one sink, as logged.
type Attempt struct {
	Workspace subject.WorkspaceID
	EventID   int64
	Sink      string
	Number    int // Row.AttemptNo
	BeganAt   time.Time
	EndedAt   time.Time
	Outcome   Outcome
	Reason    reason.Reason
	Error     string // in the sink's words; empty: none
}

// Patch is what a decision changes in a row.
type Patch struct {
	Status    Status
	Attempts  int
	AttemptNo int
	NextAt    time.Time // zero unless the row is pending
	Reason    reason.Reason
}

// With returns the row after a patch.
func (r Row) With(p Patch) Row {
	r.Status, r.Attempts, r.AttemptNo, r.NextAt, r.Reason = p.Status, p.Attempts, p.AttemptNo, p.NextAt, p.Reason
	return r
}

// same is the patch that changes nothing.
func (r Row) same() Patch {
	return Patch{Status: r.Status, Attempts: r.Attempts, AttemptNo: r.AttemptNo, NextAt: r.NextAt, Reason: r.Reason}
}

// Draw returns the draws of a row's jitter under the workspace's secret. They are the same in every replay, and differ between events, sinks
// and tries.
func (r Row) Draw(secret key.Keyed) func(limit uint64) uint64 {
	return func(limit uint64) uint64 {
		return secret.Uniform(limit, "outbox", r.Sink, strconv.FormatInt(r.EventID, 10), strconv.Itoa(r.AttemptNo))
	}
}

// Whole returns the status of an event from its statuses at its sinks (C35): pending while any of them is, else dead if any is, else
// dispatched. An event without a sink is dispatched.
func Whole(sinks []Status) Status {
	whole := Dispatched
	for _, s := range sinks {
		switch s {
		case Pending:
			return Pending
		case Dead:
			whole = Dead
		case Dispatched:
		}
	}
	return whole
}
