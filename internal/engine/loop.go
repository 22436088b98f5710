package engine

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// calm is the least time between two alarms for work that stays due, such as rows another process holds.
	calm = 50 * time.Millisecond
	// afterError is how long a stage rests when its step failed.
	afterError = time.Second
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
	stages := e.stages()
	a := alarm{engine: e, stages: stages, sooner: make(chan struct{}, 1)}
	e.config.Store.OnCommit(a.committed)

	var running sync.WaitGroup
	for _, s := range stages {
		running.Go(func() { e.keep(ctx, s) })
	}
	running.Go(func() { a.watch(ctx) })
	running.Wait()
	return nil
}

func (e *Engine) stages() []*stage {
	batch := e.config.Batch
	expand := func(ctx context.Context, now time.Time) (bool, error) {
		n, err := e.expander.Step(ctx, now, batch)
		return n >= batch, err
	}
	send := func(ctx context.Context, now time.Time) (bool, error) {
		n, err := e.sender.Step(ctx, now, batch)
		return n.Claimed >= batch, err
	}
	sweep := func(ctx context.Context, now time.Time) (bool, error) {
		n, err := e.sweeper.Step(ctx, now, batch)
		return n >= batch, err
	}
	stages := []*stage{
		{name: "expand", pulse: make(chan struct{}, 1), step: expand},
		{name: "expire", pulse: make(chan struct{}, 1), step: sweep},
	}
	var more *stage
	for range e.config.Workers - 1 {
		more = &stage{name: "send more", pulse: make(chan struct{}, 1), step: send, next: more, helper: true}
		stages = append(stages, more)
	}
	return append(stages, &stage{name: "send", pulse: make(chan struct{}, 1), step: send, next: more})
}

// keep runs one stage: at every pulse until nothing is left.
func (e *Engine) keep(ctx context.Context, s *stage) {
	for {
		full, err := s.step(ctx, e.config.Clock.Now())
		switch {
		case ctx.Err() != nil:
			if err != nil && !errors.Is(err, ctx.Err()) {
				e.config.Log.Error("stage ended with an error", "stage", s.name, "error", err)
			}
			return
		case err != nil:
			e.config.Log.Error("step failed", "stage", s.name, "error", err)
			if e.config.Clock.Sleep(ctx, e.config.Clock.Now().Add(afterError)) != nil {
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
		case <-ctx.Done():
			return
		}
	}
}

// alarm wakes the stages when something is due: at the instant it knows of, when a commit of this process made
// something due, and otherwise as often as the poll finds something that another process wrote.
type alarm struct {
	engine *Engine
	stages []*stage
	sooner chan struct{} // capacity 1: something is due before until
	until  atomic.Int64  // µs: what watch sleeps for
}

// committed is told of every commit that planned something.
func (a *alarm) committed(earliest time.Time) {
	switch {
	case !earliest.After(a.engine.config.Clock.Now()):
		a.wake()
	case earliest.UnixMicro() < a.until.Load():
		select {
		case a.sooner <- struct{}{}:
		default:
		}
	}
}

func (a *alarm) wake() {
	for _, s := range a.stages {
		if !s.helper {
			s.wake()
		}
	}
}

// watch sleeps until the next due instant or the next poll. A poll that finds nothing due wakes nobody.
func (a *alarm) watch(ctx context.Context) {
	clock := a.engine.config.Clock
	for ctx.Err() == nil {
		now := clock.Now()
		until := now.Add(a.engine.config.Poll)
		a.until.Store(math.MaxInt64) // what is committed while the database is asked may not be in its answer
		due, err := a.engine.config.Store.NextDue(ctx, now)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				a.engine.config.Log.Error("next due instant is not known", "error", err)
			}
		case due.IsZero():
		case !due.After(now):
			a.wake()
			until = now.Add(calm)
		case due.Before(until):
			until = due
		}
		a.until.Store(until.UnixMicro())
		if clock.Wait(ctx, until, a.sooner) != nil {
			return
		}
		if due.After(now) && !clock.Now().Before(due) {
			a.wake()
		}
	}
}
