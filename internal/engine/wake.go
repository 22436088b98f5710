package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/store"
)

const (
	// DefaultSlowPoll is how often the database is asked while notifications are heard. They are sent after the
	// commit, so the poll finds what a process wrote that died in between; with a lease (30 s) it stays below the
	// 45 s after which lost work must be under way again.
	DefaultSlowPoll = 5 * time.Second
	// announceEvery is the least time between two notifications of one process. Each takes a lock of the whole
	// server, and who was woken once takes up everything that is due.
	announceEvery = time.Second
	// firstRetry and lastRetry are the pauses before listening again.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Announce tells the other processes of the database when a commit of this one made work that they would find late
// by themselves, until ctx ends. Run does so too; it is for a process that does no work. One that ends at once may
// keep a last notification to itself: the others' poll finds that work.
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
			e.config.Log.WarnContext(ctx, "other processes are not told of new work; they find it by their poll", "error", err)
		}
		failing = err != nil
		if e.config.Clock.Sleep(ctx, e.config.Clock.Now().Add(announceEvery)) != nil {
			return
		}
	}
}

// worth is told of every commit of this process that made work, and notes those that others should know of.
func (e *Engine) worth(earliest time.Time) {
	if earliest.After(e.config.Clock.Now().Add(e.config.SlowPoll)) {
		return
	}
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// listen hears of what other processes wrote, until ctx ends; the poll is slower meanwhile.
func (l *loops) listen(ctx context.Context) {
	wait := firstRetry
	failing := false
	for {
		err := l.config.Store.Listen(ctx, func() {
			wait, failing = firstRetry, false
			l.listening.Store(true)
			l.evaluate()
		}, l.evaluate)
		l.listening.Store(false)
		l.evaluate()
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

// evaluate has the alarm ask the database at once.
func (l *loops) evaluate() {
	select {
	case l.sooner <- struct{}{}:
	default:
	}
}

// poll is how long the alarm sleeps at most.
func (l *loops) poll() time.Duration {
	if l.listening.Load() {
		return l.config.SlowPoll
	}
	return l.config.Poll
}
