package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/store"
)

const (
	// DefaultSlowPoll is how often the database is polled while notifications arrive. A process notifies after its commit, so the poll finds the work
	// of a process that died in between. With a lease (30 s) the interval stays below the 45 s within which lost work must resume.
	DefaultSlowPoll = 5 * time.Second
	// announceEvery is the least time between two notifications of one process. Each takes a lock of the whole database server, and a process that
	// was woken takes all due work.
	announceEvery = time.Second
	// firstRetry and lastRetry are the pauses before listening again.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Announce notifies the other processes of the database when a commit of this one made work that they would find late by themselves, until ctx ends.
// Run does so too; Announce is for a process that does no work. A process that ends at once may lose its last notification: the others' poll finds
// that work.
func (e *Engine) Announce(ctx context.Context) {
	failing := false
	for {
		select {
		case <-e.news:
		case <-ctx.Done():
			return
		}
		err := e.config.Store.Notify(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			e.config.Log.WarnContext(ctx, "other processes are not notified of new work; they find it by their poll", "error", err)
		}
		failing = err != nil
		if e.config.Clock.Sleep(ctx, e.config.Clock.Now().Add(announceEvery)) != nil {
			return
		}
	}
}

// worth is called after every commit of this process that made work, and remembers what other processes should know.
func (e *Engine) worth(due store.Due) {
	if due.Earliest().After(e.config.Clock.Now().Add(e.config.SlowPoll)) {
		return
	}
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// listen receives the notifications of other processes until ctx ends; the poll is slower meanwhile.
func (l *runner) listen(ctx context.Context) {
	wait := firstRetry
	failing := false
	for {
		err := l.config.Store.Listen(ctx, func() {
			wait, failing = firstRetry, false
			l.listening.Store(true)
			l.wakeWatch()
		}, l.wakeWatch)
		l.listening.Store(false)
		l.wakeWatch()
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrSilent):
			return
		case errors.Is(err, store.ErrPooled):
			l.config.Log.WarnContext(ctx, "no notifications: a pooler stands before the database; what other processes write is found by the poll",
				"poll", l.config.Poll, "remedy", "give the server's own address by --db-direct")
			return
		case !failing:
			l.config.Log.WarnContext(ctx, "no notifications; what other processes write is found by the poll", "poll", l.config.Poll, "error", err)
		}
		failing = true
		if l.config.Clock.Sleep(ctx, l.config.Clock.Now().Add(wait)) != nil {
			return
		}
		wait = min(2*wait, lastRetry)
	}
}

// wakeWatch makes the alarm query the database at once.
func (l *runner) wakeWatch() {
	select {
	case l.sooner <- struct{}{}:
	default:
	}
}

// poll is how long the alarm sleeps at most.
func (l *runner) poll() time.Duration {
	if l.listening.Load() {
		return l.config.SlowPoll
	}
	return l.config.Poll
}
