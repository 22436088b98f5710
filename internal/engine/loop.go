package engine

import (
	"context"
	"errors"
	"sync"
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
	alarm := make(chan struct{}, 1)
	ring := func() {
		select {
		case alarm <- struct{}{}:
		default:
		}
	}
	e.config.Store.OnCommit(func(earliest time.Time) {
		if !earliest.After(e.config.Clock.Now()) {
			for _, s := range stages {
				if s.name != "send more" {
					s.wake()
				}
			}
		}
		ring()
	})

	var running sync.WaitGroup
	for _, s := range stages {
		running.Go(func() { e.keep(ctx, s) })
	}
	running.Go(func() { e.watch(ctx, stages, alarm) })
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
		more = &stage{name: "send more", pulse: make(chan struct{}, 1), step: send, next: more}
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

// watch pulses the stages at the next due instant, or after the poll's interval.
func (e *Engine) watch(ctx context.Context, stages []*stage, alarm <-chan struct{}) {
	for ctx.Err() == nil {
		now := e.config.Clock.Now()
		until := now.Add(e.config.Poll)
		due, err := e.config.Store.NextDue(ctx, now)
		if err != nil && ctx.Err() == nil {
			e.config.Log.Error("next due instant is not known", "error", err)
		}
		if !due.IsZero() && due.Before(until) {
			until = due
		}
		if until.Before(now.Add(calm)) && !due.After(now) {
			until = now.Add(calm)
		}
		if e.config.Clock.Wait(ctx, until, alarm) != nil {
			return
		}
		if e.config.Clock.Now().Before(until) {
			continue // woken early: something new is due at another instant
		}
		for _, s := range stages {
			if s.name != "send more" {
				s.wake()
			}
		}
	}
}
