package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	// clockEvery is how often our clock is held against the database's.
	clockEvery = time.Minute
	// clockWarning is a difference that somebody should look at: leases (30 s) are far above it, lateness is not.
	clockWarning = time.Second
)

// setClock corrects our clock by what the database's is ahead, so that all replicas of one PostgreSQL agree. SQLite
// has no clock of its own.
func (a *App) setClock(ctx context.Context, system *clock.System) error {
	ahead, err := a.store.ClockOffset(ctx, system.Now)
	if err != nil {
		return fmt.Errorf("compare the clocks: %w", err)
	}
	offset := system.Offset() + ahead
	system.SetOffset(offset)
	if offset.Abs() > clockWarning {
		a.log.WarnContext(ctx, "the clocks of this machine and of the database differ", "database_ahead", offset.Round(time.Millisecond))
	}
	return nil
}

func (a *App) keepClock(ctx context.Context, system *clock.System) {
	for system.Sleep(ctx, system.Now().Add(clockEvery)) == nil {
		if err := a.setClock(ctx, system); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "the clock was not corrected", "error", err)
		}
		// What this process would go on to write would be lost; one that is started again opens the new file.
		if err := a.store.Ping(ctx); errors.Is(err, store.ErrReplaced) {
			a.fail(err)
		}
		a.stillItself(ctx)
	}
}
