package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/engine/retention"
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

// stage is one step that runs repeatedly.
type stage struct {
	name  string
	pulse chan struct{} // capacity 1: a pulse that is not yet taken covers all earlier ones
	step  func(ctx context.Context, now time.Time) (full bool, err error)
	next  *stage // also woken when a step was full: there is more than one stage can do
	// helper reports that only another stage wakes this one.
	helper bool
}

func (s *stage) wake() {
	select {
	case s.pulse <- struct{}{}:
	default:
	}
}

// Run runs the stages until ctx ends. Then each finishes its requests in flight and releases its other claims, and Run returns nil.
func (e *Engine) Run(ctx context.Context) error {
	l := loops{Engine: e, sooner: make(chan struct{}, 1), standIns: make(chan struct{}, maxStandIns)}
	l.stages = l.begin()
	e.config.Store.OnCommit(l.committed)
	for _, s := range l.stages {
		l.running.Go(func() { l.keep(ctx, ctx, s) })
	}
	l.running.Go(func() { l.watch(ctx) })
	l.running.Go(func() { l.listen(ctx) })
	l.running.Go(func() { e.Announce(ctx) })
	l.running.Go(func() { l.keepZones(ctx) })
	l.running.Go(func() { l.keepInputs(ctx) })
	if e.config.Retention > 0 {
		l.running.Go(func() { l.retain(ctx) })
	}
	l.running.Wait()
	return nil
}

// loops is one Run: its stages, and an alarm that wakes them when something is due. It wakes them at the next due instant that it knows, when a
// commit of this process made something due, on a notification of another process, and when the poll finds work that another process wrote.
type loops struct {
	*Engine
	running   sync.WaitGroup
	standIns  chan struct{} // holds a token for each sender that runs beside a waiting one
	sooner    chan struct{} // capacity 1: something is due before until
	until     atomic.Int64  // µs: what watch sleeps for
	listening atomic.Bool   // notifications of other processes arrive

	mu     sync.Mutex
	stages []*stage
}

// begin makes the stages of a Run.
func (l *loops) begin() []*stage {
	batch := l.config.Batch
	expand := func(ctx context.Context, now time.Time) (bool, error) {
		n, err := l.fanout.Step(ctx, now, batch)
		l.took(n)
		return n >= batch, err
	}
	evaluate := func(ctx context.Context, now time.Time) (bool, error) {
		r, err := l.evaluator.Step(ctx, now, batch)
		l.took(r.Evaluated + r.Passed)
		return r.More, err
	}
	rescheduled := func(ctx context.Context, now time.Time) (bool, error) {
		r, err := l.reschedule.Step(ctx, now)
		l.took(r.People + r.Marked)
		return r.More, err
	}
	takeParked := func(ctx context.Context, now time.Time) (bool, error) {
		more, err := l.operator.TakeParked(ctx, now, batch)
		if more {
			l.took(1)
		}
		return more, err
	}
	work := func(ctx context.Context, now time.Time) (bool, error) {
		n, more, err := l.operator.Work(ctx, now)
		l.took(n)
		return more, err
	}
	expire := func(ctx context.Context, now time.Time) (bool, error) {
		n, err := l.expirer.Step(ctx, now, batch)
		return n >= batch, err
	}
	stages := []*stage{
		{name: "evaluate", pulse: make(chan struct{}, 1), step: evaluate},
		{name: "expand", pulse: make(chan struct{}, 1), step: expand},
		{name: "reschedule", pulse: make(chan struct{}, 1), step: rescheduled},
		{name: "resume", pulse: make(chan struct{}, 1), step: takeParked},
		{name: "operate", pulse: make(chan struct{}, 1), step: work},
		{name: "expire", pulse: make(chan struct{}, 1), step: expire},
	}
	var more *stage
	for range l.config.Workers - 1 {
		more = &stage{name: "send more", pulse: make(chan struct{}, 1), step: l.send, next: more, helper: true}
		stages = append(stages, more)
	}
	return append(stages, &stage{name: "send", pulse: make(chan struct{}, 1), step: l.send, next: more})
}

// send is one step of a sender. If it waits too long for its providers, another sender runs beside it.
func (l *loops) send(ctx context.Context, now time.Time) (bool, error) {
	over, end := context.WithCancel(ctx)
	defer end()
	l.running.Go(func() { l.standIn(ctx, over, now.Add(l.config.Patience)) })
	n, err := l.sender.Step(ctx, now, l.config.Batch)
	l.took(n.Claimed)
	return n.Claimed >= l.config.Batch, err
}

// took wakes the alarm after a step that took something. The alarm would otherwise sleep, because it has seen these rows due, and rows that become
// due meanwhile would be late.
func (l *loops) took(n int) {
	if n > 0 {
		l.evaluate()
	}
}

// standIn runs another sender from the instant at until over ends. It finishes what it has claimed by then.
func (l *loops) standIn(ctx, over context.Context, at time.Time) {
	if l.config.Clock.Sleep(over, at) != nil {
		return
	}
	select {
	case l.standIns <- struct{}{}:
		defer func() { <-l.standIns }()
	default:
		return
	}
	s := &stage{name: "stand in", pulse: make(chan struct{}, 1), step: l.send}
	l.mu.Lock()
	l.stages = append(l.stages, s)
	l.mu.Unlock()
	l.keep(ctx, over, s)
	l.mu.Lock()
	l.stages = slices.DeleteFunc(l.stages, func(other *stage) bool { return other == s })
	l.mu.Unlock()
}

// keep runs one stage until over ends: at every pulse until nothing is left. ctx ends a step as well.
func (l *loops) keep(ctx, over context.Context, s *stage) {
	for over.Err() == nil {
		inside, end := l.config.Spans.Begin(ctx, "step "+s.name)
		full, err := s.step(inside, l.config.Clock.Now())
		end(err)
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
		case full:
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
func (l *loops) retain(ctx context.Context) {
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

// committed is called after every commit that planned something.
func (l *loops) committed(earliest time.Time) {
	switch {
	case !earliest.After(l.config.Clock.Now()):
		l.wake()
	case earliest.UnixMicro() < l.until.Load():
		l.evaluate()
	}
}

func (l *loops) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stages {
		if !s.helper {
			s.wake()
		}
	}
}

// watch sleeps until the next due instant or the next poll. It wakes no stage if a poll finds nothing due.
func (l *loops) watch(ctx context.Context) {
	clock := l.config.Clock
	for ctx.Err() == nil {
		now := clock.Now()
		until := now.Add(l.poll())
		l.until.Store(math.MaxInt64) // a commit during the query may be missing from its answer
		due, err := l.config.Store.NextDue(ctx, now)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				l.config.Log.Error("next due instant is not known", "error", err)
			}
		case due.IsZero():
		case !due.After(now):
			l.wake()
			until = now.Add(calm)
		case due.Before(until):
			until = due
		}
		l.until.Store(until.UnixMicro())
		if clock.Wait(ctx, until, l.sooner) != nil {
			return
		}
		if due.After(now) && !clock.Now().Before(due) {
			l.wake()
		}
	}
}
