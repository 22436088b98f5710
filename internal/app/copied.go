package app

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
)

// acceptedEvery is how often a process that holds a copy looks whether somebody has accepted it.
const acceptedEvery = 2 * time.Second

// copyNotice is what people read of a copy.
const copyNotice = "This database is a copy: restored, cloned or moved. Nothing is sent from it until somebody runs carillon accept-restore."

// errCopied ends a process under which the database was exchanged; the next one holds back.
var errCopied = errors.New("the database was exchanged for an earlier state of itself")

// recognise finds out whether the database is a copy, of which nothing is sent before somebody has accepted it.
func (a *App) recognise(ctx context.Context) error {
	c, err := a.store.Recognise(ctx, a.clock.Now())
	if err == nil && c.Restored() {
		a.log.WarnContext(ctx, copyNotice, "why", c.Why, "last_at_work", c.AliveAt, "found_at", c.RestoredAt)
	}
	return err
}

// stillItself asks again, once a minute. A process that was at work when the database became a copy ends: what it holds in
// memory is of another time.
func (a *App) stillItself(ctx context.Context) {
	before := a.store.Restored()
	if err := a.recognise(ctx); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "whether the database is a copy is not known", "error", err)
	}
	if !before && a.store.Restored() {
		a.fail(errCopied)
	}
}

// accepted waits until the database is none, or somebody has accepted it; false: ctx ended.
func (a *App) accepted(ctx context.Context, system *clock.System) bool {
	held := a.store.Restored()
	for a.store.Restored() {
		if system.Sleep(ctx, system.Now().Add(acceptedEvery)) != nil {
			return false
		}
		if c, err := a.store.Copied(ctx); err != nil || c.Restored() {
			continue // keepClock reports it
		}
		if _, err := a.store.Recognise(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "whether the database is a copy is not known", "error", err)
		}
	}
	if held {
		var overdue []any
		if until := a.store.GivenUpUntil(); !until.IsZero() {
			overdue = []any{"given_up_until", until}
		}
		a.log.InfoContext(ctx, "the copy was accepted", overdue...)
	}
	return true
}

// notice stands above every page of the console.
func (a *App) notice() string {
	if a.store.Restored() {
		return copyNotice
	}
	return a.config.Notice
}

// errTickOfCopy is what a caller hears who drives the engine of a copy.
func errTickOfCopy() error {
	return &client.Problem{Status: 409, Code: client.CodeNotPossible, Detail: "the database is a copy of which nothing is sent before somebody has accepted it", Hint: "carillon accept-restore"}
}
