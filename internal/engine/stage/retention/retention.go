// Package retention deletes what ended long ago: events, instances, deliveries and the rows that belong to them, a whole occasion at once (see
// store.Retain). It keeps everything that is not over, and keys stay used for ever (P2). The last firing of a context is deleted only when every
// cooldown in force has passed since, too.
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

// Store is what retention needs of the store.
type Store interface {
	Workspaces(ctx context.Context) ([]store.Workspace, error)
	Retain(ctx context.Context, ws subject.WorkspaceID, now, cutoff, quiet time.Time, c *store.RetainCursor, limit int) (store.Retained, bool, error)
}

// Cooldown returns the longest cooldown that a context of a workspace may have by the definitions in force.
type Cooldown func(ctx context.Context, ws subject.WorkspaceID) (time.Duration, error)

// Retention is the stage.
type Retention struct {
	store    Store
	cooldown Cooldown
	keep     time.Duration
	log      *slog.Logger

	mu        sync.Mutex
	restUntil time.Time
	left      []subject.WorkspaceID // of this pass; the first is in work
	cursor    store.RetainCursor
	total     store.Retained
}

// New makes the stage; keep is how long ended rows stay, 0 = for ever.
func New(s Store, cooldown Cooldown, keep time.Duration, log *slog.Logger) *Retention {
	return &Retention{store: s, cooldown: cooldown, keep: keep, log: log}
}

// Step does the next batch of up to limit rows; more reports that the pass continues.
func (r *Retention) Step(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	if r.keep <= 0 || !r.mu.TryLock() { // a tick runs beside the loop
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
		longest, err := r.cooldown(ctx, r.left[0])
		if err != nil {
			return false, fmt.Errorf("retention: %w", err)
		}
		deleted, done, err := r.store.Retain(ctx, r.left[0], now, now.Add(-r.keep), now.Add(-max(r.keep, longest)), &r.cursor, limit)
		if err != nil {
			return false, fmt.Errorf("retention: %w", err)
		}
		r.total.Add(deleted)
		if done {
			r.left = r.left[1:]
		}
	}
	if len(r.left) > 0 {
		return true, nil
	}
	r.restUntil = now.Add(Rest)
	if r.total != (store.Retained{}) {
		r.log.InfoContext(ctx, "deleted ended rows", "older_than", r.keep, "instances", r.total.Instances, "deliveries", r.total.Deliveries,
			"events", r.total.Events, "decisions", r.total.Decisions, "throttles", r.total.Throttles, "definition_versions", r.total.Definitions)
	}
	return false, nil
}
