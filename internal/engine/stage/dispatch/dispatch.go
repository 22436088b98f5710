// Package dispatch hands outbox events to their sinks.
//
//	due sinks ─▶ claim ══▶ send ─▶ result ══▶ dispatched, waits for its next try, or dead
//	             (one transaction)  (one transaction)
//
// A claim counts the try before the request leaves (outbox.Begin), so a process that dies in between does not get it for free; a later process
// tries again when the lease has ended. Delivery is at least once: receivers drop a second message with the same id (C37). A result is written
// only while no later try has begun.
//
// Each sink is worked on by itself: one that answers slowly delays no other. While a sink fails, it rests, and one event at a time tries whether
// it is back.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/sinkpool"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	// DefaultConcurrency is how many events of a sink are in flight at once. They are claimed and settled together.
	DefaultConcurrency = 32
	// DefaultTimeout bounds one try.
	DefaultTimeout = 20 * time.Second
	// DefaultGrace is how long a try goes on after the process was asked to stop: longer than a healthy sink takes, and so short that a sink that
	// does not answer leaves time for the rest of a stop.
	DefaultGrace = 5 * time.Second
	// margin is how much longer than its request a claim holds: the result is written in it.
	margin = 10 * time.Second
)

// Store is what the stage needs of the store.
type Store interface {
	DueSinks(ctx context.Context, now time.Time) ([]store.SinkRef, error)
	Write(ctx context.Context, work func(*store.Tx) error) error
}

// Config is what a dispatcher is made of.
type Config struct {
	Store       Store
	Catalog     *catalog.Catalog
	Sinks       *sinkpool.Pool
	Clock       clock.Clock
	Journal     journal.Writer
	Log         *slog.Logger
	Timeout     time.Duration // of one try; 0 = DefaultTimeout
	Grace       time.Duration // of a try, after the process was asked to stop; 0 = DefaultGrace
	Concurrency int           // of one sink; 1 = one event at a time, one sink after the other, for replays; 0 = DefaultConcurrency
	NoJitter    bool          // waits are exactly as long as their definition says
	// Failpoint is called at named points; an error ends the step there as if the process had died. nil = never.
	Failpoint func(point string) error
}

// The names of the failpoints.
const (
	AfterClaim = "dispatch_after_claim"   // no request has left
	BeforeDone = "dispatch_before_result" // the sink has answered
)

// Dispatcher is the stage.
type Dispatcher struct {
	Config

	running sync.WaitGroup
	mu      sync.Mutex
	busy    map[store.SinkRef]bool
	left    func() // is called when a worker has left its sink
	counts  Counts // of workers that ended after their step
	err     error
}

// Counts are the numbers of one step.
type Counts struct {
	Tried      int
	Dispatched int  // events that a sink has accepted
	Dead       int  // events at a sink for which no try follows
	More       bool // a sink has more than the step took
}

func (c *Counts) add(o Counts) {
	c.Tried += o.Tried
	c.Dispatched += o.Dispatched
	c.Dead += o.Dead
	c.More = c.More || o.More
}

// New makes the stage.
func New(c Config) *Dispatcher {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) error { return nil }
	}
	return &Dispatcher{Config: c, busy: map[store.SinkRef]bool{}, left: func() {}}
}

// Step hands up to limit events to each sink that has one due. It waits for all sinks, or, with patience, for that long; a sink that needs longer is
// left to its worker, and what became of its events is in the result of a later step. When ctx ends, requests in flight are finished.
func (d *Dispatcher) Step(ctx context.Context, now time.Time, limit int, patience time.Duration) (Counts, error) {
	due, err := d.Store.DueSinks(ctx, now)
	if err != nil {
		return Counts{}, err
	}
	if len(due) > 0 {
		if err := d.Catalog.Refresh(ctx); err != nil {
			return Counts{}, err
		}
	}
	var step sync.WaitGroup
	for _, ref := range due {
		if !d.enter(ref) {
			continue
		}
		step.Add(1)
		d.running.Go(func() {
			defer step.Done()
			counts, err := d.work(ctx, ref, limit)
			d.leave(ref, counts, err)
		})
		if d.Concurrency == 1 {
			step.Wait()
		}
	}
	d.wait(ctx, &step, patience)
	d.mu.Lock()
	defer d.mu.Unlock()
	counts, err := d.counts, d.err
	d.counts, d.err = Counts{}, nil
	return counts, err
}

// Wait waits until no worker is left.
func (d *Dispatcher) Wait() { d.running.Wait() }

func (d *Dispatcher) wait(ctx context.Context, step *sync.WaitGroup, patience time.Duration) {
	if patience <= 0 {
		step.Wait()
		return
	}
	waiting, end := context.WithCancel(ctx)
	defer end()
	d.running.Go(func() { step.Wait(); end() })
	_ = d.Clock.Sleep(waiting, d.Clock.Now().Add(patience)) // it ends with the step, or when its time is over
}

// Busy returns the sinks that have a worker. It takes what is due there by itself.
func (d *Dispatcher) Busy() []store.SinkRef {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.busy))
}

// OnLeave has a function called whenever a worker has left its sink, where something may be due again.
func (d *Dispatcher) OnLeave(left func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = left
}

func (d *Dispatcher) enter(ref store.SinkRef) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[ref] {
		return false
	}
	d.busy[ref] = true
	return true
}

func (d *Dispatcher) leave(ref store.SinkRef, counts Counts, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, ref)
	d.counts.add(counts)
	d.err = errors.Join(d.err, err)
	d.left()
}

// work hands events to one sink until none is due, or limit were tried.
func (d *Dispatcher) work(ctx context.Context, ref store.SinkRef, limit int) (counts Counts, err error) {
	for left := limit; ctx.Err() == nil; {
		if left <= 0 {
			counts.More = true
			return counts, nil
		}
		taken, did, err := d.batch(ctx, ref, min(left, d.Concurrency))
		counts.add(did)
		if err != nil {
			return counts, fmt.Errorf("sink %s: %w", ref.Name, err)
		}
		if taken == 0 {
			return counts, nil
		}
		left -= taken
	}
	return counts, nil
}

// try is one event on its way.
type try struct {
	store.Dispatch // its row as claimed
	began          time.Time
	ended          time.Time
	result         outbox.Result
	error          string
}

// batch claims events of a sink, hands them over, and writes the results.
func (d *Dispatcher) batch(ctx context.Context, ref store.SinkRef, limit int) (taken int, counts Counts, err error) {
	set, err := d.Catalog.Current(ctx, ref.Workspace)
	if err != nil {
		return 0, counts, err
	}
	ws, err := d.Catalog.Workspace(ref.Workspace)
	if err != nil {
		return 0, counts, err
	}
	def := set.Sink(ref.Name)
	tries, dead, taken, err := d.claim(ctx, ref, def, limit)
	if err != nil {
		return 0, counts, err
	}
	for _, lost := range dead {
		d.note(lost, journal.Dead, lost.Reason, "")
	}
	counts.Dead = len(dead)
	if len(tries) == 0 {
		return taken, counts, nil
	}
	if err := d.Failpoint(AfterClaim); err != nil {
		return taken, counts, err
	}
	// From here on the work is finished even when ctx ends: a known result must be written.
	held := context.WithoutCancel(ctx)
	sending, end := d.untilStop(ctx)
	d.send(sending, ws, def, tries)
	end()
	if err := d.Failpoint(BeforeDone); err != nil {
		return taken, counts, err
	}
	did, err := d.settle(held, ref, ws, def, tries)
	counts.add(did)
	return taken, counts, err
}

// claim begins the tries of due events; def is nil if their sink is not defined any more.
func (d *Dispatcher) claim(ctx context.Context, ref store.SinkRef, def *definition.Sink, limit int) (tries []*try, dead []store.Dispatch, taken int, err error) {
	now := d.Clock.Now()
	err = d.Store.Write(ctx, func(tx *store.Tx) error {
		tries, dead, taken = nil, nil, 0
		health, err := tx.LockSink(ref)
		if err != nil {
			return err
		}
		if !health.Sends() || health.RestUntil.After(now) {
			return nil
		}
		found, err := tx.LockDispatches(ref, now, health.Batch(limit))
		if err != nil {
			return err
		}
		taken = len(found)
		changes := make([]store.DispatchChange, 0, len(found))
		var ended []int64
		for _, f := range found {
			was := f.Row
			p, send := outbox.WithoutSink(was), false
			if def != nil {
				p, send = outbox.Begin(was, policy(def, d.NoJitter), now, d.Timeout+margin)
			}
			f.Row = was.With(p)
			switch {
			case send:
				tries = append(tries, &try{Dispatch: f, began: now})
			case f.Status == outbox.Dead:
				f.EndedAt = now
				dead = append(dead, f)
				ended = append(ended, f.Group)
			}
			changes = append(changes, store.DispatchChange{Was: was, Is: f.Row})
		}
		if _, err := tx.WriteDispatches(changes); err != nil { // they are locked, so all are written
			return err
		}
		return tx.WakeBehind(now, ref.Name, ended)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, 0, nil
	}
	return tries, dead, taken, err
}

// errStopping is why a try ends before its time.
var errStopping = errors.New("the process stops")

// untilStop returns a context for tries: it ends a while after ctx does. A try that has not ended by then may have reached its sink.
func (d *Dispatcher) untilStop(ctx context.Context) (sending context.Context, end func()) {
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		grace, over := context.WithTimeout(sending, d.Grace)
		defer over()
		<-grace.Done()
		cancel(errStopping)
	})
	return sending, func() {
		stop()
		cancel(nil)
	}
}

func policy(def *definition.Sink, noJitter bool) outbox.Policy {
	p := outbox.Policy{Backoff: def.Backoff, Attempts: def.Attempts, Jitter: def.Jitter}
	if noJitter {
		p.Jitter = 0
	}
	return p
}

// send hands events over, all at once.
func (d *Dispatcher) send(ctx context.Context, ws catalog.Workspace, def *definition.Sink, tries []*try) {
	to, release, err := d.Sinks.Get(ws.ID, def)
	if err == nil {
		defer release()
	}
	var all sync.WaitGroup
	for _, t := range tries {
		all.Go(func() {
			if err != nil {
				t.end(d.Clock.Now(), err)
				return
			}
			within, end := context.WithTimeout(ctx, d.Timeout)
			defer end()
			err := d.call(within, to, message(ws, t.Dispatch))
			t.end(d.Clock.Now(), err)
		})
	}
	all.Wait()
}

// call hands over one event. A sink that panics counts as send_threw (C45), and ends neither the process nor the other tries.
func (d *Dispatcher) call(ctx context.Context, to sink.Sink, m sink.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the sink panicked: %v", p)
			d.Log.Error("sink panicked", "sink", m.Sink, "panic", fmt.Sprint(p))
		}
	}()
	return to.Send(ctx, m)
}

// end notes what became of a try.
func (t *try) end(at time.Time, err error) {
	t.ended, t.result = at, outbox.Result{Outcome: outbox.Accepted, Reason: reason.Delivered}
	if err == nil {
		return
	}
	e := sink.AsError(err)
	t.error = e.Error()
	t.result = outbox.Result{Outcome: outbox.Temporary, Reason: e.Reason, RetryAfter: e.After}
	switch e.Retry {
	case sink.Temporary:
	case sink.Permanent:
		t.result.Outcome = outbox.Permanent
	case sink.Gone:
		t.result.Outcome = outbox.Gone
	}
}

func message(ws catalog.Workspace, t store.Dispatch) sink.Message {
	e, kind := t.Event, key.KindDelivery
	if e.Delivery == 0 {
		kind = key.KindInstance
	}
	return sink.Message{
		ID: e.MessageID, Type: e.Type, At: e.CreatedAt, Sink: t.Sink, Workspace: ws.Name, Group: ws.IDs.Encode(kind, int64(ws.ID), e.Group()), Body: []byte(e.Body),
	}
}

// settle writes the results of tries, and what they say about the sink.
func (d *Dispatcher) settle(ctx context.Context, ref store.SinkRef, ws catalog.Workspace, def *definition.Sink, tries []*try) (counts Counts, err error) {
	now := d.Clock.Now()
	changes := make([]store.DispatchChange, len(tries))
	attempts := make([]outbox.Attempt, len(tries))
	var ended []int64
	for i, t := range tries {
		is := t.With(outbox.Decide(t.Row, t.result, policy(def, d.NoJitter), now, t.Draw(ws.Jitter)))
		if is.Status != outbox.Pending {
			is.EndedAt = now
			ended = append(ended, is.Group)
		}
		changes[i] = store.DispatchChange{Was: t.Row, Is: is}
		attempts[i] = outbox.Attempt{
			Workspace: ref.Workspace, EventID: t.EventID, Sink: ref.Name, Number: t.AttemptNo, BeganAt: t.began, EndedAt: t.ended,
			Outcome: t.result.Outcome, Reason: t.result.Reason, Error: t.error,
		}
	}
	var written map[int64]bool
	err = d.Store.Write(ctx, func(tx *store.Tx) error {
		health, err := tx.LockSink(ref)
		if err != nil {
			return err
		}
		if written, err = tx.WriteDispatches(changes); err != nil {
			return err
		}
		next := health
		for _, t := range tries {
			if written[t.EventID] { // what came too late says nothing about the sink as it is now
				next = next.After(t.result, now, 0)
			}
		}
		if next != health {
			if err := tx.WriteSink(ref, next); err != nil {
				return err
			}
		}
		if err := tx.AddDispatchAttempts(attempts); err != nil {
			return err
		}
		return tx.WakeBehind(now, ref.Name, ended)
	})
	if err != nil {
		return counts, fmt.Errorf("write results: %w", err)
	}
	counts.Tried = len(tries)
	for i, t := range tries {
		is := changes[i].Is
		switch {
		case !written[t.EventID]:
			d.note(t.Dispatch, journal.StaleRefused, reason.LeaseLost, t.error)
		case is.Status == outbox.Dispatched:
			counts.Dispatched++
			d.note(t.Dispatch, journal.Dispatched, is.Reason, "")
		case is.Status == outbox.Dead:
			counts.Dead++
			d.note(t.Dispatch, journal.Dead, is.Reason, t.error)
		default:
			d.note(store.Dispatch{Row: is, Event: t.Event}, journal.DispatchFailed, is.Reason, t.error)
		}
	}
	return counts, nil
}

func (d *Dispatcher) note(t store.Dispatch, what journal.What, why reason.Reason, failure string) {
	if what != journal.DispatchFailed {
		t.NextAt = time.Time{} // no try follows
	}
	d.Journal.Write(journal.Entry{
		At: d.Clock.Now(), What: what, Workspace: t.Workspace, Workflow: t.Event.Workflow, Instance: t.Event.Instance, Delivery: t.Event.Delivery,
		Kind: t.Event.Type, Key: t.Event.MessageID, Sink: t.Sink, Attempt: t.AttemptNo, Reason: why, Until: t.NextAt, Error: failure,
	})
}
