package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Retention deletes finished work. Its unit is the occasion: the instance of a key with all its repetitions (key:retry:n),
// their deliveries, attempts and contents, and their events with the decisions about these, once no other occasion needs them.
// An occasion is deleted as a whole. It is kept as a whole while any part of it may still change or has changed since the
// cutoff. One that is too large for a transaction is marked as deleted as a whole, and its rows go in pages (retainlarge.go).
//
// One row of the table spent remains: it records that the key was used. So the same event is a duplicate for ever (P2), a freed
// key is free once, and a repetition never gets the number of an earlier one.

// Cutoffs are the instants before which something must have been over to be deleted, each kind for itself. None: that kind is kept.
type Cutoffs struct {
	Occasions     time.Time // occasions but those of Digests, with their events
	Quiet         time.Time // contexts of cooldowns, by their last firing
	Digests       time.Time // items, runs of digests, and the occasions of either
	Messages      time.Time // the deliveries of these, while their instances stay
	Subscriptions time.Time // subscriptions, by their end
	Addresses     time.Time // of people who were made for them, and neither subscribe to anything nor had a message since
	Moved         time.Time // of Subscriptions and Addresses, if a run ended the subscription: until then digests have what was published before
	Topics        time.Time // topics that programs made, without any subscription
}

// of returns the cutoff of an occasion.
func (c Cutoffs) of(digest bool) time.Time {
	if digest {
		return c.Digests
	}
	return c.Occasions
}

// Retained counts the rows that a step of retention deleted, or blanked.
type Retained struct {
	Instances, Deliveries, Events, Decisions, Throttles, Definitions int64
	Items, Subscriptions, Addresses, Topics                          int64
}

// Add adds the numbers of another step.
func (r *Retained) Add(o Retained) {
	r.Instances += o.Instances
	r.Deliveries += o.Deliveries
	r.Events += o.Events
	r.Decisions += o.Decisions
	r.Throttles += o.Throttles
	r.Definitions += o.Definitions
	r.Items += o.Items
	r.Subscriptions += o.Subscriptions
	r.Addresses += o.Addresses
	r.Topics += o.Topics
}

// RetainCursor is the progress of a pass of retention over one workspace. The zero value is its beginning.
type RetainCursor struct {
	phase    int
	after    int64          // the last row id that was read
	throttle ThrottleRef    // the last throttle that was read; throttles have no row id
	member   CourseMember   // the last member of a course that was read
	large    *largeOccasion // the occasion that is deleted in pages; nil: none
	// Of the messages of the row in after: the instance that is in work, and the last contact of it that was read.
	instance instance.ID
	contact  subject.ContactID
}

// The phases of a pass, in their order.
const (
	retainOccasions = iota
	retainRunMessages
	retainItemMessages
	retainPastSlots
	retainItems
	retainEvents
	retainDecisions
	retainThrottles
	retainMembers
	retainSubscriptions
	retainAddresses
	retainTopics
	retainDefinitions
)

// Retain reads up to limit rows of a workspace, from the cursor on, and deletes those that were over before their cutoff. done reports that the pass
// is finished; the cursor is then at the beginning again.
func (s *Store) Retain(ctx context.Context, ws subject.WorkspaceID, now time.Time, before Cutoffs, c *RetainCursor, limit int) (r Retained, done bool, err error) {
	last, full := *c, false
	switch c.phase {
	case retainAddresses:
		full, err = s.retainAddresses(ctx, ws, now, before, &last, limit, &r)
	case retainTopics:
		full, err = s.retainTopics(ctx, ws, before.Topics, &last, limit, &r)
	case retainDefinitions:
		r.Definitions, err = s.retainDefinitions(ctx, ws)
	default:
		err = s.Write(ctx, func(t *Tx) (err error) {
			r, last = Retained{}, *c
			full, err = t.retain(ws, now, before, &last, limit, &r)
			return err
		})
	}
	switch {
	case err != nil:
		return Retained{}, false, fmt.Errorf("delete what is over: %w", err)
	case full:
		*c = last
	case c.phase == retainDefinitions:
		*c = RetainCursor{}
		return r, true, nil
	default:
		*c = RetainCursor{phase: c.phase + 1}
	}
	return r, false, nil
}

// retain is the next transaction of a phase. full reports that the phase goes on.
func (t *Tx) retain(ws subject.WorkspaceID, now time.Time, before Cutoffs, c *RetainCursor, limit int, r *Retained) (full bool, err error) {
	switch c.phase {
	case retainOccasions:
		if c.large != nil {
			c.large, err = t.retainLarge(ws, now, before, *c.large, limit*pageOfLimit, r)
			return true, err
		}
		return t.retainOccasions(ws, now, before, c, limit, r)
	case retainRunMessages:
		return t.retainMessages(ws, now, before.Messages, runsBefore, c, limit, r)
	case retainItemMessages:
		return t.retainMessages(ws, now, before.Messages, oldItemInstances, c, limit, r)
	case retainPastSlots:
		return t.retainPastSlots(ws, now, c, limit)
	case retainItems:
		return t.retainItems(ws, before.Digests, c, limit, r)
	case retainEvents:
		c.after, full, err = t.retainEvents(ws, before.Occasions, c.after, limit, r)
	case retainDecisions:
		c.after, full, err = t.retainDecisions(ws, before.Occasions, c.after, limit, r)
	case retainThrottles:
		c.throttle, full, err = t.retainThrottles(ws, before.Quiet, c.throttle, limit, r)
	case retainMembers:
		c.member, full, err = t.retainMembers(ws, before.Occasions, c.member, limit)
	case retainSubscriptions:
		return t.retainSubscriptions(ws, before, limit, r)
	}
	return full, err
}

func latestOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// firstID returns an id that is not greater than any id made at that instant or later, because ids begin with their time.
func firstID(at time.Time) int64 { return at.UnixMicro() << key.NodeBits }

const (
	deleteEvents = `
DELETE FROM event
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)
  AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.event_id = event.id)
  AND NOT EXISTS (SELECT 1 FROM item AS m WHERE m.ws = event.ws AND m.id = event.id)
RETURNING id`

	deleteDecisionsOfEvents = `
DELETE FROM decision
WHERE event_id IN (SELECT r.id FROM /*ROWS $2 (id bigint)*/ AS r) AND /*BY NAME*/ws = $1`
)

func (t *Tx) deleteEvents(ws subject.WorkspaceID, rows *rowset, r *Retained) error {
	gone, err := query(t, scanInt, deleteEvents, rows)
	if err != nil {
		return err
	}
	r.Events += int64(len(gone))
	var ids rowset
	for _, id := range gone {
		ids.row().int(id)
	}
	n, err := t.exec(deleteDecisionsOfEvents, int64(ws), &ids)
	r.Decisions += n
	return err
}

const oldEvents = `
SELECT id FROM event
WHERE ws = $1 AND id > $2 AND id < $3
ORDER BY id
LIMIT $4`

// retainEvents deletes events that have no instance.
func (t *Tx) retainEvents(ws subject.WorkspaceID, cutoff time.Time, after int64, limit int, r *Retained) (last int64, full bool, err error) {
	found, err := query(t, scanInt, oldEvents, int64(ws), after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	var rows rowset
	for _, id := range found {
		rows.row().int(int64(ws)).int(id)
	}
	return found[len(found)-1], len(found) == limit, t.deleteEvents(ws, &rows, r)
}

const oldDecisions = `
SELECT id FROM decision
WHERE ws = $1 AND id > $2 AND id < $3
ORDER BY id
LIMIT $4`

const deleteDecisions = `
DELETE FROM decision
WHERE ws = $1 AND id > $2 AND id <= $3 AND at < $4
  AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.ws = decision.ws AND i.id = decision.instance_id)
  AND NOT EXISTS (SELECT 1 FROM event AS e WHERE e.ws = decision.ws AND e.id = decision.event_id)`

// retainDecisions deletes decisions whose event and instance do not exist.
func (t *Tx) retainDecisions(ws subject.WorkspaceID, cutoff time.Time, after int64, limit int, r *Retained) (last int64, full bool, err error) {
	found, err := query(t, scanInt, oldDecisions, int64(ws), after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	last = found[len(found)-1]
	r.Decisions, err = t.exec(deleteDecisions, int64(ws), after, last, micros(cutoff))
	return last, len(found) == limit, err
}

const nextThrottles = `
SELECT th.context, th.workflow, CASE WHEN th.fired_at < $5 THEN 1 ELSE 0 END
FROM throttle AS th
WHERE (th.context, th.workflow) > ($1, $2) AND th.ws = $3
ORDER BY th.context, th.workflow
LIMIT $4`

// A context is kept while the instance that it fired last exists, because that may not have been sent yet. A transaction that
// fires the context meanwhile has locked it first, and fired_at is then too late for this statement.
const deleteThrottles = `
DELETE FROM throttle
WHERE (context, workflow, ws) IN (SELECT r.context, r.workflow, r.ws FROM /*ROWS $2 (ws bigint, workflow text, context text)*/ AS r)
  AND fired_at < $1
  AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.ws = throttle.ws AND i.id = throttle.instance_id)`

// retainThrottles deletes contexts that fired so long ago that no cooldown counts them any more. Until then they are kept,
// independently of the cutoff.
func (t *Tx) retainThrottles(ws subject.WorkspaceID, quiet time.Time, after ThrottleRef, limit int, r *Retained) (last ThrottleRef, full bool, err error) {
	var old []ThrottleRef
	last.Workspace = ws
	found, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var over bool
		if err = rows.Scan(&last.Context, &last.Workflow, &over); over {
			old = append(old, last)
		}
		return v, err
	}, nextThrottles, after.Context, after.Workflow, int64(ws), int64(limit), micros(quiet))
	if err != nil || len(old) == 0 {
		return last, len(found) == limit, err
	}
	if _, err := t.LockThrottles(old); err != nil { // in the order in which all transactions lock them
		return last, false, err
	}
	var rows rowset
	for _, th := range old {
		rows.row().int(int64(ws)).text(th.Workflow).text(th.Context)
	}
	r.Throttles, err = t.exec(deleteThrottles, micros(quiet), &rows)
	return last, len(found) == limit, err
}

// The set of the oldest instance. An instance that an operator's retry made may refer to an earlier set, so this query only
// shows whether it is worth reading all instances.
const firstSet = `
SELECT definitions FROM instance
WHERE ws = $1
ORDER BY id
LIMIT 1`

const replacedBefore = `
SELECT COUNT(*) FROM definition
WHERE ws = $1 AND removed_in > 0 AND removed_in <= $2`

const oldestSet = `
SELECT COALESCE(MIN(definitions), 0) FROM instance
WHERE ws = $1`

const deleteReplaced = `
DELETE FROM definition
WHERE ws = $1 AND removed_in > 0 AND removed_in <= $2`

// retainDefinitions deletes versions that were replaced before the oldest set to which an instance refers. It reads that set
// outside the transaction, so that other transactions need not wait. This is safe, because a new instance refers to the set in
// force or to the set of an existing instance.
func (s *Store) retainDefinitions(ctx context.Context, ws subject.WorkspaceID) (n int64, err error) {
	oldest, err := s.DefinitionsNumber(ctx, ws)
	if err != nil {
		return 0, err
	}
	if set, found, err := first(ctx, s, "find the oldest instance", scanInt, firstSet, int64(ws)); err != nil {
		return 0, err
	} else if found {
		oldest = min(oldest, set)
	}
	if replaced, err := one(ctx, s, "count replaced definitions", scanInt, replacedBefore, int64(ws), oldest); err != nil || replaced == 0 {
		return 0, err
	}
	if set, err := one(ctx, s, "find the oldest set in use", scanInt, oldestSet, int64(ws)); err != nil {
		return 0, err
	} else if set > 0 {
		oldest = min(oldest, set)
	}
	err = s.Write(ctx, func(t *Tx) (err error) {
		n, err = t.exec(deleteReplaced, int64(ws), oldest)
		return err
	})
	return n, err
}
