// Package sweeper ends deliveries that nobody answered and whose time is over (C28, C29).
package sweeper

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/journal"
)

// Store is what the sweeper needs of the store.
type Store interface {
	ExpireDue(ctx context.Context, now time.Time, limit int) ([]delivery.Row, error)
}

// Sweeper is the stage.
type Sweeper struct {
	store   Store
	journal journal.Writer
}

// New makes the stage.
func New(s Store, w journal.Writer) *Sweeper { return &Sweeper{store: s, journal: w} }

// Step expires up to limit deliveries and returns how many there were.
func (s *Sweeper) Step(ctx context.Context, now time.Time, limit int) (int, error) {
	rows, err := s.store.ExpireDue(ctx, now, limit)
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
