// Package retention deletes what ended long ago: events, instances, deliveries and the rows that belong to them, a whole occasion at once (see
// store.Retain); items and runs of digests; subscriptions that have ended, and what is left when nobody subscribes any more. Each kind has a time of its own
// (Keep). It keeps everything that is not over, and keys stay used for ever (P2). The last firing of a context is deleted only when every cooldown in force has
// passed since, too, and an item only when no digest looks back to it any more.
//
// A pass goes over every workspace from the oldest row on, in small batches, so that senders and ingest find the database free in between; then it
// rests. The progress of a pass is not stored: a process that starts begins from the oldest row. Several processes may do the same work; each row is
// deleted once.
package retention

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// DefaultBatch is how many rows a step reads. On SQLite, where writers wait for each other, such a step takes about as long as a step of a sender.
const DefaultBatch = 200

// Rest is the time between two passes. It does not matter whether a row of last year is deleted an hour later.
const Rest = time.Hour

// Keep says how long what is over stays, each kind for itself. 0: for ever.
type Keep struct {
	Occasions     time.Duration // events, instances and deliveries, but for those of digests
	Digests       time.Duration // items, runs of digests, and the instances and deliveries of either
	Messages      time.Duration // the deliveries of items and of runs, with their attempts and texts; the runs and the items stay
	Subscriptions time.Duration // subscriptions that have ended
	Addresses     time.Duration // of people without an id of a caller's who subscribe to nothing, since their last subscription ended and their last message left
	Topics        time.Duration // topics that programs made, without a subscriber
}

// Any reports whether anything is ever deleted.
func (k Keep) Any() bool { return k != Keep{} }

// Reach is how far back the definitions in force look.
type Reach struct {
	Cooldown time.Duration      // the longest cooldown of a context
	Window   time.Duration      // how long before its due instant a run of a digest looks at most
	Digests  []store.RunTrigger // those that have runs
}

// Cutoffs are the instants before which each kind must have been over. live is the start of the oldest window of a digest that is not over, none: there is no such
// digest. What a digest may still tell stays.
func (k Keep) Cutoffs(now time.Time, reach Reach, live time.Time) store.Cutoffs {
	before := func(keep time.Duration) time.Time {
		if keep <= 0 {
			return time.Time{}
		}
		return now.Add(-keep)
	}
	c := store.Cutoffs{
		Occasions: before(k.Occasions), Messages: before(k.Messages), Subscriptions: before(k.Subscriptions), Addresses: before(k.Addresses), Topics: before(k.Topics),
	}
	if k.Occasions > 0 {
		c.Quiet = now.Add(-max(k.Occasions, reach.Cooldown))
	}
	if live.IsZero() || now.Before(live) {
		live = now
	}
	still := live.Add(-reach.Window)
	if k.Subscriptions > 0 || k.Addresses > 0 {
		c.Moved = still
	}
	if k.Digests > 0 {
		c.Digests = before(k.Digests)
		if still.Before(c.Digests) {
			c.Digests = still
		}
	}
	return c
}

// Store is what retention needs of the store.
type Store interface {
	Workspaces(ctx context.Context) ([]store.Workspace, error)
	LiveWindow(ctx context.Context, of []store.RunTrigger) (time.Time, error)
	Retain(ctx context.Context, ws subject.WorkspaceID, now time.Time, before store.Cutoffs, c *store.RetainCursor, limit int) (store.Retained, bool, error)
}

// Rules returns how far back the definitions in force of a workspace look.
type Rules func(ctx context.Context, ws subject.WorkspaceID) (Reach, error)

// Retention is the stage.
type Retention struct {
	store Store
	rules Rules
	keep  Keep
	log   *slog.Logger

	mu        sync.Mutex
	restUntil time.Time
	left      []subject.WorkspaceID // of this pass; the first is in work
	cursor    store.RetainCursor
	total     store.Retained
}

// New makes the stage.
func New(s Store, rules Rules, keep Keep, log *slog.Logger) *Retention {
	return &Retention{store: s, rules: rules, keep: keep, log: log}
}

// Step does the next batch of up to limit rows; more reports that the pass continues.
func (r *Retention) Step(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	if !r.keep.Any() || !r.mu.TryLock() { // a tick runs beside the loop
		return false, nil
	}
	defer r.mu.Unlock()
	if now.Before(r.restUntil) {
		return false, nil
	}
	if len(r.left) == 0 {
		all, err := r.store.Workspaces(ctx)
		if err != nil {
			return false, fmt.Errorf("retention: %w", err)
		}
		for _, ws := range all {
			r.left = append(r.left, ws.ID)
		}
		r.cursor, r.total = store.RetainCursor{}, store.Retained{}
	}
	if len(r.left) > 0 {
		done, err := r.next(ctx, now, limit)
		if err != nil {
			return false, fmt.Errorf("retention: %w", err)
		}
		if done {
			r.left = r.left[1:]
		}
	}
	if len(r.left) > 0 {
		return true, nil
	}
	r.restUntil = now.Add(Rest)
	if t := r.total; t != (store.Retained{}) {
		r.log.InfoContext(ctx, "deleted ended rows", "instances", t.Instances, "deliveries", t.Deliveries, "events", t.Events, "decisions", t.Decisions,
			"throttles", t.Throttles, "definition_versions", t.Definitions, "items", t.Items, "subscriptions", t.Subscriptions, "addresses", t.Addresses, "topics", t.Topics)
	}
	return false, nil
}

// next does the next batch of the workspace that is in work.
func (r *Retention) next(ctx context.Context, now time.Time, limit int) (done bool, err error) {
	ws := r.left[0]
	reach, err := r.rules(ctx, ws)
	if err != nil {
		return false, err
	}
	var live time.Time
	if (r.keep.Digests > 0 || r.keep.Subscriptions > 0 || r.keep.Addresses > 0) && len(reach.Digests) > 0 {
		if live, err = r.store.LiveWindow(ctx, reach.Digests); err != nil {
			return false, err
		}
	}
	deleted, done, err := r.store.Retain(ctx, ws, now, r.keep.Cutoffs(now, reach, live), &r.cursor, limit)
	r.total.Add(deleted)
	return done, err
}
