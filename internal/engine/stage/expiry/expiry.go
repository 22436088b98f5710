// Package expiry ends sent deliveries whose time for an answer has passed (C28, C29), and deletes what is stored for a limited time: the answers to
// requests with an Idempotency-Key.
package expiry

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
)

// Store is what expiry needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
	PruneAnswers(ctx context.Context, now time.Time, limit int) (int, error)
}

// pruneEvery is how often old answers are deleted. They are ignored as soon as they are too old, so that waiting costs only space.
const pruneEvery = time.Hour

// Expirer is the stage.
type Expirer struct {
	store   Store
	catalog *catalog.Catalog
	journal journal.Writer
	pruneAt atomic.Int64 // µs
}

// New makes the stage.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Expirer {
	return &Expirer{store: s, catalog: c, journal: w}
}

// Step expires up to limit deliveries and returns how many there were.
func (s *Expirer) Step(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := s.prune(ctx, now, limit); err != nil {
		return 0, err
	}
	var rows []delivery.Row
	err := s.catalog.Supply(ctx, limit, func(limit int) error {
		return s.store.Write(ctx, func(tx *store.Tx) (err error) {
			if rows, err = tx.ExpireDue(now, limit); err != nil {
				return err
			}
			changes := make([]tell.Change, len(rows))
			for i, row := range rows {
				changes[i] = tell.Change{Was: row, Is: row}
				changes[i].Was.Status = delivery.Scheduled // it was open, in one way or another
			}
			return tell.Deliveries(s.catalog, tell.InForce(s.catalog), tx, now, changes)
		})
	})
	if err != nil {
		return 0, fmt.Errorf("expire deliveries: %w", err)
	}
	for _, row := range rows {
		s.journal.Write(journal.Entry{
			At: now, What: journal.Expired, Workspace: row.Workspace, Workflow: row.Workflow, WorkflowVersion: row.WorkflowVersion,
			Trigger: row.Trigger, Key: row.Key, Event: row.Event, Instance: row.Instance, Delivery: row.ID, Contact: row.CustomerRef,
			Address: row.Address, Channel: row.Channel, Locale: row.Locale, Step: row.Step, Attempt: row.AttemptNo, Reason: row.Reason,
		})
	}
	return len(rows), nil
}

// prune deletes up to limit old answers when it is time. If there are more, the next step continues.
func (s *Expirer) prune(ctx context.Context, now time.Time, limit int) error {
	if now.UnixMicro() < s.pruneAt.Load() {
		return nil
	}
	n, err := s.store.PruneAnswers(ctx, now, limit)
	if err == nil && n < limit {
		s.pruneAt.Store(now.Add(pruneEvery).UnixMicro())
	}
	return err
}
