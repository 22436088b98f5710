// Package converser ends conversations: those that are ending, because all is answered, their person has stopped them or another one has begun, and those whose time is over.
//
// Each ends in a transaction of its own: two of them have nothing in common, and what one waits for delays no other.
package converser

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/conversation"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
)

// Store is what the stage needs of the store.
type Store interface {
	Read(ctx context.Context, work func(*store.Tx) error) error
	Write(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
}

// Converser is the stage.
type Converser struct {
	store   Store
	catalog *catalog.Catalog
	journal journal.Writer
}

// New makes the stage.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Converser { return &Converser{s, c, w} }

// page is how many sessions a step takes at most.
const page = 100

// Step ends up to limit sessions and returns how many there were.
func (c *Converser) Step(ctx context.Context, now time.Time, limit int) (n int, more bool, err error) {
	limit = min(limit, page)
	var due []delivery.Session
	err = c.store.Read(ctx, func(tx *store.Tx) (err error) {
		due, err = tx.DueSessions(now, limit)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("end conversations: %w", err)
	}
	var failed error
	for _, s := range due {
		var entries []journal.Entry
		err := c.catalog.Supply(ctx, 1, func(int) error {
			return c.store.Write(ctx, func(tx *store.Tx) (err error) {
				entries, err = conversation.End(tx, c.catalog, s, c.store.NewID, now)
				return err
			})
		})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("end the conversation of delivery %d: %w", s.Delivery, err))
			continue
		}
		for _, entry := range entries {
			c.journal.Write(entry)
		}
		n++
	}
	return n, n >= limit, failed
}
