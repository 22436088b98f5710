package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/engine/stage/dispatch"
	"github.com/carillonhq/carillon/internal/store"
)

// stage is one step of the pipeline. It takes a bounded batch of what is due at now, in transactions of its own.
type stage struct {
	name  string
	takes store.Works // the kinds of work that wake it; none: each round of the alarm does
	step  func(ctx context.Context, now time.Time, limit int) (TickResult, error)
}

// stages lists every stage, in the order in which a pass runs them. Run gives each its goroutine, and sending several.
func (e *Engine) stages() []stage {
	return []stage{
		{"match", store.WorksOf(store.WorkItems), e.match},
		{"confirm", store.WorksOf(store.WorkRequests), e.confirm},
		{"evaluate", store.WorksOf(store.WorkMarks, store.WorkRecords, store.WorkRepairs, store.WorkJobs), e.evaluate},
		{"resume", store.WorksOf(store.WorkResumed), e.resume},
		{"operate", store.WorksOf(store.WorkJobs), e.operate},
		{"expand", store.WorksOf(store.WorkInstances), e.expand},
		{"reschedule", store.WorksOf(store.WorkLimits, store.WorkJobs), e.rescheduled},
		{sending, store.WorksOf(store.WorkDeliveries), e.send},
		{"converse", store.WorksOf(store.WorkSessions), e.converse},
		{"expire", store.WorksOf(store.WorkExpiries), e.expire},
		{"end runs", 0, e.endRuns},
		{dispatching, store.WorksOf(store.WorkDispatches), e.dispatch},
	}
}

// The stages that wait for others: for providers of channels, and for sinks.
const (
	sending     = "send"
	dispatching = "dispatch"
)

// match finds the topics of items, and makes the occasions of the triggers that listen to items.
func (e *Engine) match(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	n, more, err := e.matcher.Step(ctx, now, limit)
	return TickResult{Matched: n, more: more}, err
}

// confirm asks the contacts who are to confirm subscriptions.
func (e *Engine) confirm(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	n, more, err := e.confirmer.Step(ctx, now, limit)
	return TickResult{worked: n > 0, more: more}, err
}

// evaluate applies triggers to records, and continues the jobs that go over all records.
func (e *Engine) evaluate(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	r, err := e.evaluator.Step(ctx, now, limit)
	return TickResult{Evaluated: r.Evaluated, Marked: r.Passed, more: r.More}, err
}

// resume makes the parked rows of a resumed workflow due.
func (e *Engine) resume(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	taken, err := e.operator.TakeParked(ctx, now, limit)
	return TickResult{worked: taken, more: taken}, err
}

// operate continues the jobs over many deliveries, and over the subscriptions of many people, that people have started.
func (e *Engine) operate(ctx context.Context, now time.Time, _ int) (TickResult, error) {
	n, more, err := e.operator.Work(ctx, now)
	changed, others, wrong := e.bulk.Work(ctx, now)
	return TickResult{worked: n+changed > 0 || more || others, more: more || others}, errors.Join(err, wrong)
}

// expand makes the deliveries of instances that are due.
func (e *Engine) expand(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	n, err := e.fanout.Step(ctx, now, limit)
	if n > 0 {
		e.sent.Store(true)
	}
	return TickResult{Expanded: n, more: n >= limit}, err
}

// rescheduled plans again what waits for the limits of contacts that have changed.
func (e *Engine) rescheduled(ctx context.Context, now time.Time, _ int) (TickResult, error) {
	r, err := e.reschedule.Step(ctx, now)
	return TickResult{Rescheduled: r.People, Marked: r.Marked, more: r.More}, err
}

// send claims deliveries that are due, and sends those that may leave.
func (e *Engine) send(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	r, err := e.sender.Step(ctx, now, limit)
	if r.Claimed > 0 {
		e.sent.Store(true)
	}
	return TickResult{Processed: r.Claimed, Reclaimed: r.Reclaimed, Failed: r.Failed, more: r.Claimed >= limit}, err
}

// converse ends the conversations that are over, and makes their answers responses.
func (e *Engine) converse(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	n, more, err := e.converser.Step(ctx, now, limit)
	return TickResult{worked: n > 0, more: more}, err
}

// endRuns notes of runs of digests that each of their deliveries is over. It reads them after deliveries were made, sent or expired, and now and then.
func (e *Engine) endRuns(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	if at := e.runsLooked.Load(); !e.sent.Swap(false) && at != 0 && now.UnixMicro() >= at && now.UnixMicro() < at+runsEvery.Microseconds() {
		return TickResult{}, nil
	}
	e.runsLooked.Store(now.UnixMicro())
	open, err := e.config.Store.HasOpenRuns(ctx)
	if err != nil || !open {
		return TickResult{}, err
	}
	var r TickResult
	err = e.config.Store.Write(ctx, func(tx *store.Tx) error {
		ended, more, err := tx.EndRuns(now, runsAtOnce, limit)
		r = TickResult{worked: len(ended) > 0 || more, more: more}
		return err
	})
	if r.more {
		e.sent.Store(true)
	}
	return r, err
}

const (
	// runsEvery is how often the runs of digests are read while nothing is sent: a delivery may also end by a person.
	runsEvery = time.Minute
	// runsAtOnce is how many open runs are read together.
	runsAtOnce = 50
)

// expire ends deliveries to which no answer came in time.
func (e *Engine) expire(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	n, err := e.expirer.Step(ctx, now, limit)
	if n > 0 {
		e.sent.Store(true)
	}
	return TickResult{Expired: n, more: n >= limit}, err
}

// dispatch hands outbox events to their sinks, up to limit to each (C35). It waits for all of them.
func (e *Engine) dispatch(ctx context.Context, now time.Time, limit int) (TickResult, error) {
	return dispatched(e.dispatcher.Step(ctx, now, limit, 0))
}

func dispatched(c dispatch.Counts, err error) (TickResult, error) {
	return TickResult{Dispatched: c.Dispatched, Dead: c.Dead, worked: c.Tried > 0, more: c.More}, err
}
