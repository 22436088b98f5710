package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// DueRecord is a record that is due for evaluation. Its row is locked until the transaction ends.
type DueRecord struct {
	Workspace subject.WorkspaceID
	RecordRow
	InForce int64 // number of the workspace's definition set in force, which stays so until the transaction ends
	Err     error // why its fields cannot be read; such a record cannot be evaluated
}

// ThrottleRef names a context of a workflow.
type ThrottleRef struct {
	Workspace subject.WorkspaceID
	Workflow  string
	Context   string
}

// Throttle is the last firing of a context (gate 1).
type Throttle struct {
	ThrottleRef
	Trigger  string
	Record   subject.RecordID
	Instance instance.ID // the latest
	FiredAt  time.Time   // nominal; zero: it was reset
	VoidAt   time.Time   // its cooldown stops counting then, because the alert reached nobody; zero: it counts
	Issues   []string    // that were true
	InFlight bool        // the instance does not have all its deliveries yet
}

// EpisodeRef names an episode of a record under a trigger.
type EpisodeRef struct {
	Workspace subject.WorkspaceID
	Record    subject.RecordID
	Workflow  string
	Trigger   string
	Episode   int
}

// Episode holds the rows that were made in an episode, locked.
type Episode struct {
	Instances  []instance.Row // pending ones
	Deliveries []delivery.Row
}

// EvaluateState is what a decision about records reads, locked.
type EvaluateState struct {
	Throttles map[ThrottleRef]Throttle // those that ever fired
	Episodes  map[EpisodeRef]Episode
	Plans     map[PlanRef]Plan
	Related   Related // the records that the due ones depend on, not locked
}

// EvaluateWrites is the result of a decision about records.
type EvaluateWrites struct {
	Evaluated []Evaluated                            // at least one
	Made      map[subject.WorkspaceID]OccasionWrites // events, instances, deliveries and decisions
	Fired     []Throttle
	Reset     []Throttle     // reset to never fired, unless they have fired since
	Ended     []delivery.Row // of the episodes, with their new values
	Withdrawn []instance.Row // likewise
	Links     []Links        // of records whose related records have changed since the last evaluation
	Planned   []instance.Row // of the plans, with their new values
	Unplanned []delivery.Row // likewise
}

// Evaluated is the result of an evaluation in the record's row.
type Evaluated struct {
	Workspace  subject.WorkspaceID
	ID         subject.RecordID
	State      string
	EvaluateAt time.Time // zero: when the record is next written
	Failures   int       // failed evaluations in a row, this one included
}

const dueRecords = `
SELECT /*NAMES rec (` + recordSpec + `)*/, rec.ws, (SELECT w.definitions FROM workspace AS w WHERE w.id = rec.ws)
FROM record AS rec
WHERE rec.evaluate_at > 0 AND rec.evaluate_at <= $1 AND (rec.evaluate_at, rec.id) > ($3, $4)
ORDER BY rec.evaluate_at, rec.id
LIMIT $2
/*SKIP LOCKED*/`

const updateEvaluated = `
UPDATE record SET state = r.state, evaluate_at = r.evaluate_at, changed_at = 0, evaluated_at = $1, failures = r.failures
FROM /*ROWS $2 (ws bigint, id bigint, state text, evaluate_at bigint, failures bigint)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id`

// DueRecords locks up to limit records of all workspaces that are due for evaluation, and passes over those that other
// transactions hold. A worker that dies leaves them unchanged.
func (t *Tx) DueRecords(now time.Time, limit int) ([]DueRecord, error) {
	due, err := takeUp(t, &t.s.dueRecords, dueMicros(now), limit, func(from scanPosition) ([]DueRecord, scanPosition, error) {
		rows, err := query(t, scanDueRecord, dueRecords, dueMicros(now), int64(limit), from.at, from.id)
		var last scanPosition
		if n := len(rows); n > 0 {
			last = scanPosition{dueMicros(rows[n-1].EvaluateAt), int64(rows[n-1].ID)}
		}
		return rows, last, err
	})
	if err != nil {
		return nil, fmt.Errorf("find due records: %w", err)
	}
	return due, nil
}

// LeaveRecords leaves due records to another transaction, which begins at once. Their locks end with this one.
func (t *Tx) LeaveRecords(now time.Time, rest []DueRecord) {
	if len(rest) > 0 {
		t.s.dueRecords.due(dueMicros(rest[0].EvaluateAt))
		t.due(WorkRecords, dueMicros(now))
	}
}

func scanDueRecord(rows *sql.Rows) (d DueRecord, err error) {
	d.RecordRow, err = scanRecordRow(rows, &d.Workspace, &d.InForce)
	d.Err = d.Unreadable
	return d, err
}

const throttleColumns = `th.ws, th.workflow, th.context, th.trigger, th.record_id, th.instance_id, th.fired_at, th.issues, th.void_at`

func scanThrottle(rows *sql.Rows) (Throttle, error) { return scanThrottleAnd(rows) }

func scanThrottleAnd(rows *sql.Rows, after ...any) (th Throttle, err error) {
	var issues string
	err = rows.Scan(append([]any{
		&th.Workspace, &th.Workflow, &th.Context, &th.Trigger, &th.Record, &th.Instance, instant{&th.FiredAt}, &issues, instant{&th.VoidAt},
	}, after...)...)
	if issues != "" {
		th.Issues = strings.Split(issues, ",")
	}
	return th, err
}

const throttlesByContext = `
SELECT ` + throttleColumns + `
FROM /*ROWS $1 (ws bigint, workflow text, context text)*/ AS r CROSS JOIN throttle AS th
WHERE /*BY NAME*/th.ws = r.ws AND th.context = r.context AND th.workflow = r.workflow`

// In the order of contexts, so that no two transactions wait for each other.
const lockThrottles = throttlesByContext + `
ORDER BY th.context, th.workflow, th.ws
/*LOCK th*/`

// A separate statement after the lock, as for slots.
const pendingInstances = `
SELECT i.id
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.id = r.id AND i.status = ` + sqlPending + ` AND i.hold = ''`

func compareThrottles(a, b ThrottleRef) int {
	return cmp.Or(strings.Compare(a.Context, b.Context), strings.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Workspace, b.Workspace))
}

// LockThrottles locks and returns the contexts that have ever fired. If another transaction fires one of the others
// meanwhile, this one runs again.
func (t *Tx) LockThrottles(refs []ThrottleRef) (map[ThrottleRef]Throttle, error) {
	throttles, err := t.throttles(lockThrottles, refs)
	if err != nil {
		return nil, fmt.Errorf("lock throttles: %w", err)
	}
	return throttles, nil
}

// ThrottlesOf returns the contexts that have ever fired, as they are now.
func (s *Store) ThrottlesOf(ctx context.Context, refs []ThrottleRef) (throttles map[ThrottleRef]Throttle, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		throttles, err = t.Firings(refs)
		return err
	})
	return throttles, err
}

func (t *Tx) throttles(text string, refs []ThrottleRef) (map[ThrottleRef]Throttle, error) {
	var wanted rowset
	for _, r := range slices.Compact(slices.SortedFunc(slices.Values(refs), compareThrottles)) {
		wanted.row().int(int64(r.Workspace)).text(r.Workflow).text(r.Context)
	}
	found, err := query(t, scanThrottle, text, &wanted)
	if err != nil {
		return nil, err
	}
	if err := t.rearmCooldown(found); err != nil {
		return nil, err
	}
	var latest rowset
	for _, th := range found {
		latest.row().int(int64(th.Workspace)).int(int64(th.Instance))
	}
	pending, err := query(t, scanInt, pendingInstances, &latest)
	if err != nil {
		return nil, fmt.Errorf("look for instances in flight: %w", err)
	}
	throttles := make(map[ThrottleRef]Throttle, len(found))
	for _, th := range found {
		th.InFlight = slices.Contains(pending, int64(th.Instance))
		throttles[th.ThrottleRef] = th
	}
	return throttles, nil
}

// The predicate equals that of the index.
const lockEpisodes = `
SELECT /*NAMES i (` + instanceSpec + `)*/
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text, episode bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.record_id = r.record_id AND i.record_id > 0 AND +i.ws = r.ws
  AND i.workflow = r.workflow AND i.trigger = r.trigger AND i.episode = r.episode
ORDER BY i.id
/*LOCK i*/`

const lockEpisodeDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE +d.ws = r.ws AND d.instance_id = r.id
ORDER BY d.id
/*LOCK d*/`

// LockOccasions locks and returns the rows of episodes, and what was planned by records. Their records are locked. The keys
// of a plan are those that may be inserted. Instances are locked before deliveries.
func (t *Tx) LockOccasions(episodes []EpisodeRef, plans map[PlanRef][]key.Instance) (map[EpisodeRef]Episode, map[PlanRef]Plan, error) {
	ofEpisodes, ids, err := t.lockEpisodes(episodes)
	if err != nil {
		return nil, nil, err
	}
	planned, err := t.planInstances(plans, true)
	if err != nil {
		return nil, nil, err
	}
	deliveries, err := query(t, scanDelivery, lockEpisodeDeliveries, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("lock deliveries of episodes: %w", err)
	}
	of := map[instance.ID]EpisodeRef{}
	for ref, e := range ofEpisodes {
		for _, i := range e.Instances {
			of[i.ID] = ref
		}
	}
	for _, d := range deliveries {
		e := ofEpisodes[of[d.Instance]]
		e.Deliveries = append(e.Deliveries, d)
		ofEpisodes[of[d.Instance]] = e
	}
	if err := t.planDeliveries(planned); err != nil {
		return nil, nil, err
	}
	if err := t.ownOfPlans(planned, plans); err != nil {
		return nil, nil, err
	}
	return ofEpisodes, planned.plans, t.spentOfPlans(planned, plans)
}

// lockEpisodes locks the instances of episodes and also returns their ids.
func (t *Tx) lockEpisodes(refs []EpisodeRef) (map[EpisodeRef]Episode, *rowset, error) {
	var wanted, ids rowset
	for _, r := range refs {
		wanted.row().int(int64(r.Workspace)).int(int64(r.Record)).text(r.Workflow).text(r.Trigger).int(int64(r.Episode))
	}
	instances, err := query(t, scanInstance, lockEpisodes, &wanted)
	if err != nil {
		return nil, nil, fmt.Errorf("lock episodes: %w", err)
	}
	episodes := make(map[EpisodeRef]Episode, len(refs))
	for _, i := range instances {
		ref := EpisodeRef{i.Workspace, i.Record, i.Workflow, i.Trigger, i.Episode}
		ids.row().int(int64(i.Workspace)).int(int64(i.ID))
		e := episodes[ref]
		e.Instances = append(e.Instances, i)
		episodes[ref] = e
	}
	return episodes, &ids, nil
}

// WriteEvaluations writes what a decision about records made and changed, and when they are evaluated next. state is what
// the decision read.
func (t *Tx) WriteEvaluations(now time.Time, state EvaluateState, w EvaluateWrites) error {
	if err := t.holdRelated(now, state.Related, &w); err != nil {
		return err
	}
	for _, ws := range sortedKeys(w.Made) {
		if err := t.WriteOccasions(ws, w.Made[ws]); err != nil {
			return err
		}
	}
	if err := t.fire(state, w); err != nil {
		return err
	}
	var old []delivery.Row
	pending := map[instance.ID]instance.Row{}
	for _, e := range state.Episodes {
		old = append(old, e.Deliveries...)
		for _, i := range e.Instances {
			pending[i.ID] = i
		}
	}
	for _, p := range state.Plans {
		old = append(old, p.Deliveries...)
	}
	if ended := slices.Concat(w.Ended, w.Unplanned); len(ended) > 0 {
		if err := t.UpdateDeliveries(now, old, ended); err != nil {
			return err
		}
	}
	if err := t.writePlans(w.Planned); err != nil {
		return err
	}
	if err := t.writeLinks(w.Links); err != nil {
		return err
	}
	for _, i := range w.Withdrawn { // few: large audiences with offsets only
		if err := t.UpdateInstance(now, pending[i.ID], i); err != nil {
			return err
		}
	}
	var evaluated rowset
	for _, l := range w.Evaluated {
		at := dueMicros(l.EvaluateAt)
		evaluated.row().int(int64(l.Workspace)).int(int64(l.ID)).text(l.State).int(at).int(int64(l.Failures))
		t.due(WorkRecords, at)
	}
	return t.updateAll("write evaluations", updateEvaluated, &evaluated, micros(now))
}

const throttleSpec = `ws bigint, workflow text, context text, trigger text, record_id bigint, instance_id bigint, fired_at bigint,
  issues text`

const insertThrottles = `
INSERT INTO throttle (/*NAMES (` + throttleSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + throttleSpec + `)*/ AS r
WHERE true
ON CONFLICT (context, workflow, ws) DO NOTHING`

const updateThrottles = `
UPDATE throttle SET trigger = r.trigger, record_id = r.record_id, instance_id = r.instance_id, fired_at = r.fired_at,
  issues = r.issues, void_at = 0
FROM /*ROWS $1 (` + throttleSpec + `)*/ AS r
WHERE throttle.ws = r.ws AND throttle.context = r.context AND throttle.workflow = r.workflow`

// A reset throttle keeps its row, as one that never fired.
const resetThrottles = `
UPDATE throttle SET fired_at = 0, void_at = 0
FROM /*ROWS $1 (ws bigint, workflow text, context text, record_id bigint, fired_at bigint)*/ AS r
WHERE throttle.ws = r.ws AND throttle.context = r.context AND throttle.workflow = r.workflow
  AND throttle.record_id = r.record_id AND throttle.fired_at = r.fired_at`

// fire writes the contexts that fired, for several firings of one context the last, and resets others that did not fire now.
func (t *Tx) fire(state EvaluateState, w EvaluateWrites) error {
	var reset, made, changed rowset
	for _, th := range slices.SortedFunc(slices.Values(w.Reset), CompareThrottles) {
		reset.row().int(int64(th.Workspace)).text(th.Workflow).text(th.Context).int(int64(th.Record)).time(th.FiredAt)
	}
	if _, err := t.exec(resetThrottles, &reset); err != nil {
		return fmt.Errorf("reset throttles: %w", err)
	}
	fired := slices.SortedStableFunc(slices.Values(w.Fired), CompareThrottles)
	for i, th := range fired {
		if i+1 < len(fired) && fired[i+1].ThrottleRef == th.ThrottleRef {
			continue
		}
		rows := &made
		if _, known := state.Throttles[th.ThrottleRef]; known {
			rows = &changed
		}
		rows.row().int(int64(th.Workspace)).text(th.Workflow).text(th.Context).text(th.Trigger).int(int64(th.Record)).int(int64(th.Instance)).time(th.FiredAt).
			text(strings.Join(th.Issues, ","))
	}
	if err := t.updateAll("stamp throttles", updateThrottles, &changed); err != nil {
		return err
	}
	return t.insertNew("stamp throttles", insertThrottles, &made)
}

// CompareThrottles orders contexts, and the firings of one context.
func CompareThrottles(a, b Throttle) int {
	return cmp.Or(compareThrottles(a.ThrottleRef, b.ThrottleRef), a.FiredAt.Compare(b.FiredAt))
}
