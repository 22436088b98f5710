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
	// calm is the least time between two alarms for work that stays due, such as rows another process holds.
	calm = 50 * time.Millisecond
	// afterError is how long a stage rests when its step failed.
	afterError = time.Second
	// retainPause leaves the database to others between two batches of retention.
	retainPause = 100 * time.Millisecond
	// DefaultPatience is how long a sender may wait for its providers before another one stands in for it: far
	// longer than a healthy answer takes, short enough that one silent provider does not delay the others' messages.
	DefaultPatience = time.Second
	// maxStandIns bounds the senders that wait for silent providers, and so what is on the wire for nothing.
	maxStandIns = 16
)

// stage is one step that is kept running.
type stage struct {
	name  string
	pulse chan struct{} // capacity 1: a pulse that is not yet taken covers all that came before
	step  func(ctx context.Context, now time.Time) (full bool, err error)
	next  *stage // also woken when a step was full: there is more than one can carry
	// helper: only another stage wakes it.
	helper bool
}

func (s *stage) wake() {
	select {
	case s.pulse <- struct{}{}:
	default:
	}
}

// Run keeps the stages going until ctx ends; then it lets each finish what is on the wire, gives the rest back,
// and returns nil.
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

// loops is one Run: its stages, and the alarm that wakes them when something is due: at the instant it knows of,
// when a commit of this process made something due, when another process says so, and otherwise as often as the
// poll finds something that another process wrote.
type loops struct {
	*Engine
	running   sync.WaitGroup
	standIns  chan struct{} // holds a token for each sender that stands in for another
	sooner    chan struct{} // capacity 1: something is due before until
	until     atomic.Int64  // µs: what watch sleeps for
	listening atomic.Bool   // other processes are heard

	mu     sync.Mutex
	stages []*stage
}

// begin makes the stages of a Run.
func (l *loops) begin() []*stage {
	batch := l.config.Batch
	expand := func(ctx context.Context, now time.Time) (bool, error) {
		n, err := l.expander.Step(ctx, now, batch)
		l.took(n)
		return n >= batch, err
	}
	look := func(ctx context.Context, now time.Time) (bool, error) {
		r, err := l.checker.Step(ctx, now, batch)
		l.took(r.Evaluated + r.Passed)
		return r.More, err
	}
	anew := func(ctx context.Context, now time.Time) (bool, error) {
		r, err := l.reschedule.Step(ctx, now)
		l.took(r.People + r.Marked)
		return r.More, err
	}
	takeUp := func(ctx context.Context, now time.Time) (bool, error) {
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
	sweep := func(ctx context.Context, now time.Time) (bool, error) {
		n, err := l.sweeper.Step(ctx, now, batch)
		return n >= batch, err
	}
	stages := []*stage{
		{name: "look", pulse: make(chan struct{}, 1), step: look},
		{name: "expand", pulse: make(chan struct{}, 1), step: expand},
		{name: "replan", pulse: make(chan struct{}, 1), step: anew},
		{name: "resume", pulse: make(chan struct{}, 1), step: takeUp},
		{name: "operate", pulse: make(chan struct{}, 1), step: work},
		{name: "expire", pulse: make(chan struct{}, 1), step: sweep},
	}
	var more *stage
	for range l.config.Workers - 1 {
		more = &stage{name: "send more", pulse: make(chan struct{}, 1), step: l.send, next: more, helper: true}
		stages = append(stages, more)
	}
	return append(stages, &stage{name: "send", pulse: make(chan struct{}, 1), step: l.send, next: more})
}

// send is one step of a sender. While it is out of patience with its providers another sender stands in for it.
func (l *loops) send(ctx context.Context, now time.Time) (bool, error) {
	over, end := context.WithCancel(ctx)
	defer end()
	l.running.Go(func() { l.standIn(ctx, over, now.Add(l.config.Patience)) })
	n, err := l.sender.Step(ctx, now, l.config.Batch)
	l.took(n.Claimed)
	return n.Claimed >= l.config.Batch, err
}

// took has the alarm look for what is due next when a step has taken something. Otherwise it would rest, since it has
// seen these rows due: what falls due in the meantime would be late by as much.
func (l *loops) took(n int) {
	if n > 0 {
		l.evaluate()
	}
}

// standIn keeps another sender going from the instant at until over ends. What it has taken up by then it sees through.
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

// retain deletes what is over, beside the stages and not as one of them: nobody waits for it.
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

// committed is told of every commit that planned something.
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

// watch sleeps until the next due instant or the next poll. A poll that finds nothing due wakes nobody.
func (l *loops) watch(ctx context.Context) {
	clock := l.config.Clock
	for ctx.Err() == nil {
		now := clock.Now()
		until := now.Add(l.poll())
		l.until.Store(math.MaxInt64) // what is committed while the database is asked may not be in its answer
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
