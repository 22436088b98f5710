package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	// calm is the least time between two wake-ups for work that stays due, such as rows another process holds.
	calm = 50 * time.Millisecond
	// afterError is how long a stage rests when its step failed.
	afterError = time.Second
	// retainPause leaves the database to others between two batches of retention.
	retainPause = 100 * time.Millisecond
	// DefaultPatience is how long a sender may wait for its providers before another one runs beside it: far longer than a healthy answer takes, and
	// short enough that one silent provider does not delay other messages.
	DefaultPatience = time.Second
	// maxStandIns bounds the senders that wait for silent providers, and so the requests in flight for nothing.
	maxStandIns = 16
)

// loop runs a stage repeatedly.
type loop struct {
	stage
	pulse chan struct{} // capacity 1: a pulse that is not yet taken covers all earlier ones
	next  *loop         // also woken when a step was full: there is more than one loop can do
	// helper reports that only another loop wakes this one.
	helper bool
}

func newLoop(s stage) *loop { return &loop{stage: s, pulse: make(chan struct{}, 1)} }

func (l *loop) wake() {
	select {
	case l.pulse <- struct{}{}:
	default:
	}
}

// Run runs the stages until ctx ends. Then each finishes its requests in flight and releases its other claims, and Run returns nil.
func (e *Engine) Run(ctx context.Context) error {
	l := runner{Engine: e, sooner: make(chan struct{}, 1), standIns: make(chan struct{}, maxStandIns)}
	l.loops = l.begin()
	e.config.Store.OnCommit(l.committed)
	e.dispatcher.OnLeave(l.wakeWatch)
	for _, s := range l.loops {
		l.running.Go(func() { l.keep(ctx, ctx, s) })
	}
	l.running.Go(func() { l.watch(ctx) })
	l.running.Go(func() { l.listen(ctx) })
	l.running.Go(func() { e.Announce(ctx) })
	l.running.Go(func() { l.keepZones(ctx) })
	l.running.Go(func() { l.keepInputs(ctx) })
	l.running.Go(func() { l.closeRemoved(ctx) })
	if e.config.Retention.Any() {
		l.running.Go(func() { l.retain(ctx) })
	}
	l.running.Wait()
	e.dispatcher.Wait()
	return nil
}

// runner is one Run: a loop for each stage, and an alarm that wakes them when something is due. It wakes them at the next due instant that it knows, when a
// commit of this process made something due, on a notification of another process, and when the poll finds work that another process wrote.
type runner struct {
	*Engine
	running   sync.WaitGroup
	standIns  chan struct{} // holds a token for each sender that runs beside a waiting one
	sooner    chan struct{} // capacity 1: something is due before until
	until     atomic.Int64  // µs: what watch sleeps for
	listening atomic.Bool   // notifications of other processes arrive

	mu    sync.Mutex
	loops []*loop
}

// begin makes the loops of a Run: one for each stage, and helpers that send when one sender has more than it can do.
func (l *runner) begin() []*loop {
	var loops []*loop
	for _, s := range l.list {
		one := newLoop(s)
		switch s.name {
		case dispatching:
			one.step = l.dispatchPatiently
		case sending:
			one.step = l.sendPatiently
			for range l.config.Workers - 1 {
				helper := newLoop(stage{"send more", s.takes, l.sendPatiently})
				helper.helper, helper.next = true, one.next
				one.next = helper
				loops = append(loops, helper)
			}
		}
		loops = append(loops, one)
	}
	return loops
}

// sendPatiently is one step of a sender. If it waits too long for its providers, another sender runs beside it.
func (l *runner) sendPatiently(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	over, end := context.WithCancel(ctx)
	defer end()
	l.running.Go(func() { l.standIn(ctx, over, now.Add(l.config.Patience)) })
	return l.send(ctx, now, limit)
}

// dispatchPatiently is one step of dispatching. It leaves a sink that answers slowly to its worker.
func (l *runner) dispatchPatiently(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	return dispatched(l.dispatcher.Step(ctx, now, limit, l.config.Patience))
}

// standIn runs another sender from the instant at until over ends. It finishes what it has claimed by then.
func (l *runner) standIn(ctx, over context.Context, at time.Time) {
	if l.config.Clock.Sleep(over, at) != nil {
		return
	}
	select {
	case l.standIns <- struct{}{}:
		defer func() { <-l.standIns }()
	default:
		return
	}
	s := newLoop(stage{"stand in", store.WorksOf(store.WorkDeliveries), l.sendPatiently})
	l.mu.Lock()
	l.loops = append(l.loops, s)
	l.mu.Unlock()
	l.keep(ctx, over, s)
	l.mu.Lock()
	l.loops = slices.DeleteFunc(l.loops, func(other *loop) bool { return other == s })
	l.mu.Unlock()
}

// keep runs a loop until over ends: at every pulse until nothing is left. ctx ends a step as well.
func (l *runner) keep(ctx, over context.Context, s *loop) {
	for over.Err() == nil {
		inside, end := l.config.Spans.Begin(ctx, "step "+s.name)
		did, err := s.step(inside, l.config.Clock.Now(), l.config.Batch)
		end(err)
		if did.Any() {
			l.wakeWatch()
		}
		switch {
		case ctx.Err() != nil:
			if err != nil && !errors.Is(err, ctx.Err()) {
				l.config.Log.Error("stage ended with an error", "stage", s.name, "error", err)
			}
			return
		case err != nil:
			l.config.Log.Error("step failed", "stage", s.name, "error", err)
			if l.config.Clock.Sleep(ctx, l.config.Clock.Now().Add(afterError)) != nil {
				return
			}
			continue
		case did.more:
			if s.next != nil {
				s.next.wake()
			}
			continue
		}
		select {
		case <-s.pulse:
		case <-over.Done():
		}
	}
}

// retain deletes old rows. It runs beside the stages and is none of them: nothing waits for it.
func (l *runner) retain(ctx context.Context) {
	for {
		now := l.config.Clock.Now()
		more, err := l.retainer.Step(ctx, now, retention.DefaultBatch)
		wait := retention.Rest
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.config.Log.Error("step failed", "stage", "retention", "error", err)
			wait = time.Minute
		case more:
			wait = retainPause
		}
		if l.config.Clock.Sleep(ctx, now.Add(wait)) != nil {
			return
		}
	}
}

// committed is called after every commit that made work due.
func (l *runner) committed(due store.Due) {
	now := l.config.Clock.Now()
	if ready := due.At(now); ready != 0 {
		l.wake(ready)
	}
	if next := due.After(now); !next.IsZero() && next.UnixMicro() < l.until.Load() {
		l.wakeWatch()
	}
}

// wake wakes the stages that take some kinds of work, and those that take none.
func (l *runner) wake(due store.Works) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.loops {
		if !s.helper && (s.takes == 0 || s.takes.Any(due)) {
			s.wake()
		}
	}
}

// watch sleeps until the next due instant or the next poll, and then wakes the stages for which something is due.
func (l *runner) watch(ctx context.Context) {
	clock := l.config.Clock
	for ctx.Err() == nil {
		now := clock.Now()
		until := now.Add(l.poll())
		l.until.Store(math.MaxInt64)                                            // a commit during the query may be missing from its answer
		due, err := l.config.Store.NextDueBeside(ctx, now, l.dispatcher.Busy()) // a worker that leaves its sink wakes this loop
		switch {
		case err != nil:
			if ctx.Err() == nil {
				l.config.Log.Error("next due instant is not known", "error", err)
			}
		case due.At(now) != 0:
			l.wake(due.At(now))
			until = now.Add(calm)
			due = store.Due{} // what is due later, the next round finds
		case !due.Earliest().IsZero() && due.Earliest().Before(until):
			until = due.Earliest()
		}
		l.until.Store(until.UnixMicro())
		if clock.Wait(ctx, until, l.sooner) != nil {
			return
		}
		l.wake(due.At(clock.Now()))
	}
}
