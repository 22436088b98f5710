// Package job defines background jobs over many rows: the stored row and its transitions.
//
//	New ──▶ running ──Advance──▶ running … ──Advance, at the end──▶ done
//	         │  ▲ ▲──Resume── failed ◀──Fail── running
//	         │  └──Resume──┐
//	         └──Cancel──▶ cancelled ◀──Restart: a newer job of its kind and subject──
//	                          ▲────Cancel── failed
//
// A job goes over its rows in the order of their ids; its cursor is the last id that is done.
package job

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Kind is what a job does.
type Kind string

// The kinds.
const (
	// Backfill evaluates every record of a type, because a trigger on it is new or has changed.
	Backfill Kind = "backfill"
	// Limits reschedules what waits for the limits of contacts, because these have changed.
	Limits Kind = "limits"
	// Groups computes who belongs to the groups, because these have changed.
	Groups Kind = "groups"
	// Related evaluates the records that depend on one that was written, or on the zone of a contact.
	Related Kind = "related"
	// Reconcile plans what is missing of the records of a trigger (B42).
	Reconcile Kind = "reconcile"
	// Retry and Cancel do with many deliveries what a person does with one.
	Retry  Kind = "retry"
	Cancel Kind = "cancel"
	// Subscribe, Migrate and Unsubscribe change the subscriptions of many people, and Undo takes back what one of them has done.
	Subscribe   Kind = "subscribe"
	Migrate     Kind = "migrate"
	Unsubscribe Kind = "unsubscribe"
	Undo        Kind = "undo"
)

// Status is the stored state of a job.
type Status string

// The states. Running is the only one that the engine acts on.
const (
	Running   Status = "running"
	Done      Status = "done"
	Failed    Status = "failed"
	Cancelled Status = "cancelled" // by a person, or because a newer job replaced it
)

// Seed is a job that a change starts.
type Seed struct {
	Kind    Kind
	Subject string    // backfill: the type of record; limits: the persona, or nothing for everybody; related: type/id of a record, @contact/id of a contact, or @contact with the ids in the selection; reconcile: workflow/trigger
	Cause   string    // the workflows whose edit starts it, comma-separated
	Since   time.Time // reconcile: records written since then are read, due or not
}

// Row is a job. After a crash it continues at its cursor.
type Row struct {
	Workspace subject.WorkspaceID
	ID        int64
	Seed
	Definitions int64 // number of the set that started it
	Status      Status
	Version     int64  // counts the changes: a change is saved only if no other process has made one meanwhile
	Cursor      int64  // the last id done
	Done        int64  // rows done
	Total       int64  // rows counted at the start; 0: not counted yet
	Changed     int64  // reconcile: occasions that were missing; retry, cancel: deliveries changed; of subscriptions: people
	Selection   string // retry, cancel: which deliveries, as JSON; related: the ids of contacts who have moved, as JSON; of subscriptions: what it does
	Actor       string // of what people start: who did
	LastID      int64  // retry, cancel: the last delivery that existed when it began
	Error       string
	StartedAt   time.Time
	UpdatedAt   time.Time
	FinishedAt  time.Time
}

// New returns a job that begins now, without its id.
func New(ws subject.WorkspaceID, seed Seed, definitions int64, now time.Time) Row {
	return Row{Workspace: ws, Seed: seed, Definitions: definitions, Status: Running, StartedAt: now, UpdatedAt: now}
}

// Step is the progress of a job in one transaction.
type Step struct {
	Cursor  int64 // the last id done
	Done    int   // how many rows were done
	Changed int   // how many were changed
	Total   int   // the number of all rows; 0: unchanged
	End     bool  // no rows are left
}

// Advance returns a running job after a step.
func (r Row) Advance(s Step, now time.Time) Row {
	r.Cursor, r.Done, r.Changed, r.UpdatedAt = s.Cursor, r.Done+int64(s.Done), r.Changed+int64(s.Changed), now
	if s.Total > 0 {
		r.Total = int64(s.Total)
	}
	if s.End {
		r.Status, r.FinishedAt = Done, now
	}
	return r
}

// Fail returns a running job that cannot continue.
func (r Row) Fail(cause error, now time.Time) Row {
	r.Status, r.Error, r.UpdatedAt, r.FinishedAt = Failed, cause.Error(), now, now
	return r
}

// StateError means that the state of a job does not allow the request.
type StateError struct {
	Status Status
	Newer  bool // a newer one of its kind and subject exists
	Final  bool // what it does cannot be taken back
}

func (e *StateError) Error() string { return "the run is " + string(e.Status) }

// Cancel ends a job where it is: its changes stay, and the workflows that it locks can be edited. A failed one keeps its error; it does not
// wait for a person any more. A job that was cancelled before stays as it is. The error is a *StateError for one that is done.
func (r Row) Cancel(now time.Time) (Row, error) {
	switch r.Status {
	case Cancelled:
		return r, nil
	case Running, Failed:
		r.Status, r.UpdatedAt, r.FinishedAt = Cancelled, now, now
		return r, nil
	case Done:
	}
	return r, &StateError{Status: r.Status}
}

// Resume continues a cancelled or failed job where it ended, by the definitions that started it. A running job stays as it
// is. The error is a *StateError for one that is done, and if a newer one of its kind and subject exists.
func (r Row) Resume(newer bool, now time.Time) (Row, error) {
	switch {
	case r.Status == Running:
		return r, nil
	case r.Status == Done || newer:
		return r, &StateError{Status: r.Status, Newer: newer}
	}
	r.Status, r.Error, r.UpdatedAt, r.FinishedAt = Running, "", now, time.Time{}
	return r, nil
}

// Workflows returns the workflows whose edit started the job.
func (s Seed) Workflows() []string {
	return strings.FieldsFunc(s.Cause, func(c rune) bool { return c == ',' })
}

// same reports whether two jobs do the same work: the later one replaces the other.
func (s Seed) same(o Seed) bool { return s.Kind == o.Kind && s.Subject == o.Subject }

// Restart returns the seeds to begin with, each kind and subject once, and the open jobs that they replace, which are
// cancelled. A new job keeps the causes of the one that it replaces, because the edits that started that one are not done.
func Restart(open []Row, seeds []Seed, now time.Time) (begun []Seed, replaced []Row) {
	begun = union(seeds)
	for _, r := range open {
		i := slices.IndexFunc(begun, r.Seed.same)
		if i < 0 {
			continue
		}
		begun[i].Cause = union([]Seed{begun[i], r.Seed})[0].Cause
		if ended, err := r.Cancel(now); err == nil {
			replaced = append(replaced, ended)
		}
	}
	return begun, replaced
}

// union joins seeds of the same kind and subject; each keeps all workflows that start it.
func union(seeds []Seed) (all []Seed) {
	seeds = slices.SortedStableFunc(slices.Values(seeds), func(a, b Seed) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Subject, b.Subject))
	})
	for _, s := range seeds {
		if last := len(all) - 1; last >= 0 && all[last].same(s) {
			causes := append(all[last].Workflows(), s.Workflows()...)
			slices.Sort(causes)
			all[last].Cause = strings.Join(slices.Compact(causes), ",")
			continue
		}
		all = append(all, s)
	}
	return all
}

// LockedError means that a workflow cannot be edited while a job of its last edit runs (product decision 48).
type LockedError struct {
	Workflow string
	Job      int64
}

func (e *LockedError) Error() string {
	return "workflow " + e.Workflow + " is locked: a run goes over what its last edit has changed"
}

// Unlocked returns a *LockedError if one of the open jobs locks one of the workflows.
func Unlocked(open []Row, workflows []string) error {
	for _, r := range open {
		for _, name := range r.Workflows() {
			if slices.Contains(workflows, name) {
				return &LockedError{Workflow: name, Job: r.ID}
			}
		}
	}
	return nil
}
