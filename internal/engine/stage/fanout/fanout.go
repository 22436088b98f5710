// Package fanout turns due instances into deliveries, one for each contact of the audience.
//
// A step takes a bounded batch in one transaction. Row locks hold the batch, so a crash loses nothing and a second process skips these rows. A large
// audience is expanded in chunks, one transaction each. An instance that fails is retried and then put on hold; see retry.go. If the definition sets
// retry.lease, a transaction of its own takes the instance under a lease first, so that the death of its worker is noticed.
package fanout

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Store is what the fan-out needs of the store.
type Store interface {
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
	// GivenUpUntil is set when the database is a restored copy: what was due up to this instant is not sent.
	GivenUpUntil() time.Time
}

// The names of the failpoints.
const (
	AfterTaken   = "after_taken"   // instances are under a lease, and nothing else is done
	BeforeCommit = "before_commit" // the chunk is written, and not committed
	AfterChunk   = "after_chunk"   // the chunk is committed, and its journal entries are not written
)

// Fanout is the stage.
type Fanout struct {
	// Found is called when a step knows which instances are due, for measurements; nil: nothing is measured.
	Found func()

	store     Store
	catalog   *catalog.Catalog
	journal   journal.Writer
	failpoint func(point string) error
}

// New makes the stage. An error of failpoint ends a step there as if the process had died; nil = never.
func New(s Store, c *catalog.Catalog, w journal.Writer, failpoint func(point string) error) *Fanout {
	if failpoint == nil {
		failpoint = func(string) error { return nil }
	}
	return &Fanout{store: s, catalog: c, journal: w, failpoint: failpoint}
}

// Step expands up to limit due instances and returns how many it took.
func (x *Fanout) Step(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := x.catalog.Refresh(ctx); err != nil {
		return 0, err
	}
	n, taken, err := x.loaded(ctx, now, limit, false, func(tx *store.Tx, limit int) ([]store.DueInstance, error) { return tx.DueInstances(now, limit) })
	if err != nil || len(taken) == 0 {
		return n, err
	}
	if err := x.failpoint(AfterTaken); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // giving up here would look like a worker that has died
	for done := 0; done < len(taken); {
		n, _, err := x.loaded(ctx, now, len(taken)-done, true, func(tx *store.Tx, limit int) ([]store.DueInstance, error) {
			return tx.TakenInstances(taken[done:min(done+limit, len(taken))])
		})
		if err != nil {
			return 0, err
		}
		if n == 0 { // the lease had run out, and others have the rest
			break
		}
		done += n
	}
	return n, nil
}

// loaded runs one transaction, again with the definitions that it lacks, and then writes its journal entries. took are the instances of which it only
// took the lease.
func (x *Fanout) loaded(
	ctx context.Context, now time.Time, limit int, taken bool, find func(tx *store.Tx, limit int) ([]store.DueInstance, error),
) (n int, took []store.TakenInstance, err error) {
	var r run
	calls := &expr.Calls{}
	err = x.catalog.Supply(ctx, limit, func(limit int) error {
		r = run{taken: taken, calls: calls, facts: facts{
			now: now, zones: &x.catalog.Zones, givenUpUntil: x.store.GivenUpUntil(), newID: func() int64 { return x.store.NewID(now) },
		}}
		return x.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			due, err := find(tx, limit)
			if x.Found != nil {
				x.Found()
			}
			if n = len(due); err != nil || n == 0 {
				return err
			}
			if n, err = x.step(tx, &r, due); err != nil {
				return err
			}
			return x.failpoint(BeforeCommit)
		})
	})
	if err != nil {
		return 0, nil, fmt.Errorf("expand due instances: %w", err)
	}
	if n == 0 {
		return 0, nil, nil // r holds the results of a try that was not committed
	}
	if err := x.failpoint(AfterChunk); err != nil {
		return 0, nil, err
	}
	for _, e := range r.entries {
		x.journal.Write(e)
	}
	return n, r.took, nil
}

// step expands as many of the due instances as one transaction may, and returns how many. The rest is left to the next one.
func (x *Fanout) step(tx *store.Tx, r *run, found []store.DueInstance) (int, error) {
	list, err := gather(tx, found)
	if err != nil {
		return 0, err
	}
	if r.addresses, err = x.define(list); err != nil {
		return 0, err
	}
	if err := r.backlogs(tx, list); err != nil {
		return 0, err
	}
	if r.related, err = relate(tx, list); err != nil {
		return 0, err
	}
	if err := r.locate(tx, list); err != nil {
		return 0, err
	}
	audiences := r.resolve(list)
	if err := r.calls.Wanted(); err != nil {
		return 0, err
	}
	if err := r.readBrakes(tx, list[:len(audiences)]); err != nil {
		return 0, err
	}
	tx.GroupBy(r.groups)
	withContext := slices.ContainsFunc(list, func(in due) bool { return in.Context != "" })
	people, err := tx.People(r.now, audiences, func(i int) subject.WorkspaceID { return list[i].Workspace }, r.floor(), withContext)
	if err != nil {
		return 0, err
	}
	if err := r.readMembers(tx, people); err != nil {
		return 0, err
	}
	if err := r.readDigests(tx, list, people); err != nil {
		return 0, err
	}
	if r.stops, err = r.stopped(tx, list, people); err != nil {
		return 0, err
	}
	writes, successors := r.decide(list, people)
	if err := r.calls.Wanted(); err != nil {
		return 0, err
	}
	n := len(writes.Patches)
	tx.LeaveInstances(r.now, found[n:])
	if err := tx.WriteInstances(r.now, writes); err != nil {
		return 0, err
	}
	if err := r.digestWrites(tx, writes.Patches); err != nil {
		return 0, err
	}
	if err := x.tell(tx, r.now, list[:n], writes.Patches); err != nil {
		return 0, err
	}
	rows := make([]iter.Seq[instance.Row], len(successors))
	for i, s := range successors {
		rows[i] = s.rows
	}
	made, err := tx.EnsureOccasions(rows)
	for _, m := range made {
		r.entries = append(r.entries, successors[m.Of].entry(m.Row, r.now))
	}
	return n, err
}

// tell writes the outcomes of instances.
func (x *Fanout) tell(tx *store.Tx, now time.Time, list []due, patches []store.InstancePatch) error {
	inForce := map[subject.WorkspaceID]*definition.Set{}
	changes := make([]tell.InstanceChange, len(patches))
	for i, p := range patches {
		inForce[p.Row.Workspace] = list[i].live
		changes[i] = tell.InstanceChange{Was: p.Row, Is: p.Row.With(p.Patch, now)}
	}
	sets := func(ws subject.WorkspaceID) (*definition.Set, error) { return inForce[ws], nil }
	return tell.Instances(x.catalog, sets, tx, now, changes)
}

// due is a due instance with what is read of it before anything is decided.
type due struct {
	store.DueInstance
	EventRow store.EventRow   // zero when the instance has no event
	Source   *store.RecordRow // the record that it was planned by, while it has not begun; nil: none
	About    *store.RecordRow // the same once it has begun, of a message of a course; nil: none
	// Own is whose own course it is a message of; no contact: it is of everybody, or that person has no course any more.
	Own   store.CourseMember
	Later bool // of a calendar: a later occasion of its series exists
	// Occasion is the status of the occasion, if the row is the row of one zone; empty: it is not.
	Occasion instance.Status
	Behind   bool            // of a zone: it belongs to the backlog of the occasion before it there, which only that one decides
	Contact  subject.Contact // the recipient of the event of a course that follows their zone
	Except   []string        // of an item: the ids, as they are now, of the contacts whom it is not for

	live *definition.Set // in force
	own  *definition.Set // that it was made with, if it may belong to that; else nil
}

// gather reads what belongs to due instances. It locks no records: a write of such a record requests an evaluation, which waits for the locked
// occasion until its fan-out is done.
func gather(tx *store.Tx, found []store.DueInstance) ([]due, error) {
	list, rows := make([]due, len(found)), make([]instance.Row, len(found))
	var events []store.EventRef
	var wholes []instance.KeyRef
	var records []store.RecordKey
	for i, in := range found {
		list[i].DueInstance, rows[i] = in, in.Row
		if in.Event != 0 {
			events = append(events, store.EventRef{Workspace: in.Workspace, ID: in.Event})
		}
		if in.Record != 0 && (in.Event == 0 || in.Round > 0) {
			records = append(records, store.RecordKey{Workspace: in.Workspace, ID: in.Record})
		}
		if whole := wholeOf(in.Row); whole.Key != in.Key {
			wholes = append(wholes, whole)
		}
	}
	eventOf, err := tx.EventsByID(events)
	if err != nil {
		return nil, err
	}
	later, err := tx.LaterOccasions(rows)
	if err != nil {
		return nil, err
	}
	statusOf, err := tx.StatusByKey(wholes)
	if err != nil {
		return nil, err
	}
	recordOf, err := tx.RecordsByID(records)
	if err != nil {
		return nil, err
	}
	own, err := tx.OwnCourses(rows)
	if err != nil {
		return nil, err
	}
	for i := range list {
		in := &list[i]
		in.Own = own[in.ID]
		in.EventRow, in.Later = eventOf[store.EventRef{Workspace: in.Workspace, ID: in.Event}], later[in.ID]
		if whole := wholeOf(in.Row); whole.Key != in.Key {
			in.Occasion = statusOf[whole]
		}
		if in.EventRow.Event.Kind == definition.ItemPublished {
			if in.Except, err = tx.Survivors(in.Workspace, topic.ExceptOf(in.EventRow.Payload)); err != nil {
				return nil, err
			}
		}
		if record, ok := recordOf[store.RecordKey{Workspace: in.Workspace, ID: in.Record}]; ok && in.Event == 0 {
			in.Source = &record
		} else if ok && in.Round > 0 {
			in.About = &record
		}
	}
	return list, nil
}

// wholeOf names the occasion of a row, which may be the row of one zone.
func wholeOf(row instance.Row) instance.KeyRef {
	return instance.KeyRef{Workspace: row.Workspace, Key: string(key.Instance(row.Key).Everywhere())}
}

// define gives instances the definition sets that they may belong to, and returns the functions by which addresses of their workspaces are found.
func (x *Fanout) define(list []due) (map[subject.WorkspaceID]key.Keyed, error) {
	addresses := map[subject.WorkspaceID]key.Keyed{}
	for i := range list {
		in := &list[i]
		ws, err := x.catalog.Workspace(in.Workspace)
		if err != nil {
			return nil, err
		}
		addresses[in.Workspace] = ws.Addresses
		if in.live, err = x.catalog.Loaded(in.Workspace, in.InForce); err != nil {
			return nil, err
		}
		if in.live.Workflow(in.Workflow) == nil || in.followsLatest() && in.ExpandCursor == 0 {
			continue
		}
		if in.own, err = x.catalog.Loaded(in.Workspace, in.Definitions); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// followsLatest reports whether an instance has not begun: until then it follows its definition.
func (in *due) followsLatest() bool { return in.Source != nil || ofCalendar(*in) }

// facts are what decisions about due instances need besides the instances and their people.
type facts struct {
	now       time.Time
	zones     *civil.Zones
	addresses map[subject.WorkspaceID]key.Keyed
	related   map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record // the records that those of the instances name
	// givenUpUntil is set when the database is a restored copy: what was due up to this instant is not sent.
	givenUpUntil time.Time
	newID        func() int64
}

// run is one attempt of a step; its functions may be called again from the beginning. It decides by facts, and reads no store and no clock.
type run struct {
	facts
	taken   bool                                    // the instances are already under a lease
	live    map[subject.WorkspaceID]*definition.Set // in force
	planned []planned
	types   []string // of the expanded instances
	entries []journal.Entry
	took    []store.TakenInstance  // those of which it only took the lease
	stops   admission.Stops        // of the addresses of their people
	brakes  map[instance.ID]*brake // of occasions that have rows of zones, by the row of the occasion
	meter   expr.Meter             // of what resolve or decide evaluates
	calls   *expr.Calls
}
