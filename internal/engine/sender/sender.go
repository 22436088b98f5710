// Package sender hands due deliveries to their channels: intent commit, then send, then result commit.
//
//	claim ─▶ re-check ─▶ intent ══▶ render ─▶ channel ─▶ result ══▶ next reminder, retry or end
//	         (one transaction)      (no transaction)     (one transaction)
//
// The intent is the point of no return (P5): what was committed before it wins, what comes after is too late for
// this attempt. A worker that is lost between intent and result leaves an open intent; whoever takes the row over
// logs it as unknown and does what the channel's on_unknown says. A result is written only under the version that
// the claim read, so that a worker that was frozen past its lease changes nothing.
package sender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalog"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/engine/outlet"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/telemetry"
)

const (
	// DefaultLease is how long a claim holds without renewal: three renewals fit into the promise that work
	// resumes within 45 seconds of a crash.
	DefaultLease = 30 * time.Second
	// DefaultTimeout bounds one request to a provider whose channel sets no timeout.
	DefaultTimeout = 20 * time.Second
	// DefaultConcurrency is how many requests of one step are on the wire at once.
	DefaultConcurrency = 64
	// settleAt is how many results are committed together while others are still on the wire, and settleEvery how
	// long they are gathered at least: a channel that answers at once has a whole batch written in one transaction.
	settleAt    = 100
	settleEvery = 50 * time.Millisecond
	// settleWithin is how long a result waits at most while others are still on the wire: what a channel has
	// answered is not left unknown by a crash because another channel hangs.
	settleWithin = 500 * time.Millisecond
	// loads is how many definition sets are fetched before a smaller batch is tried.
	loads = 20
)

// Store is what the sender needs of the store.
type Store interface {
	CommitIntents(ctx context.Context, now, leaseUntil time.Time, limit int,
		decide func(claims []store.Claim, locked bool) ([]store.IntentVerdict, error)) ([]store.Claim, error)
	Settle(ctx context.Context, now time.Time, results []store.Settlement) (stale []delivery.ID, err error)
	RenewLeases(ctx context.Context, now, until time.Time, leases []store.LeaseRef) (lost []delivery.ID, err error)
	ReleaseClaims(ctx context.Context, claims []store.Release) error
	EventsByID(ctx context.Context, refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
}

// Config is what a sender is made of.
type Config struct {
	Store       Store
	Catalog     *catalog.Catalog
	Outlets     *outlet.Registry
	Clock       clock.Clock
	Journal     journal.Writer
	Log         *slog.Logger
	Lease       time.Duration   // 0 = DefaultLease
	Timeout     time.Duration   // of one request; 0 = DefaultTimeout
	Concurrency int             // requests on the wire at once; 0 = DefaultConcurrency, 1 = in order
	PublicURL   string          // begins public links where the workspace has no base_url
	NoJitter    bool            // retries wait exactly as long as their definition says: for replays
	Spans       telemetry.Spans // of sends; nil = none
	// Failpoint is asked at named points; an error ends the step there as if the process had died. nil = never.
	Failpoint func(point string) error
}

// Points at which a step can be made to die.
const (
	BeforeIntent = "before_intent"
	AfterIntent  = "after_intent"
	BeforeResult = "before_result"
)

// Sender is the stage.
type Sender struct{ Config }

// New makes the stage.
func New(c Config) *Sender {
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) error { return nil }
	}
	return &Sender{Config: c}
}

// Counts says what a step did.
type Counts struct {
	Claimed   int // deliveries taken up, sent or not
	Reclaimed int // of those: taken over from a lost worker
	Failed    int // attempts that failed
	Stale     int // results refused because another worker had the row
}

// Step takes up to limit due deliveries up and sees each to its result. When ctx ends, what is on the wire is
// finished and what has not begun is given back.
func (s *Sender) Step(ctx context.Context, now time.Time, limit int) (Counts, error) {
	var counts Counts
	if err := s.Catalog.Refresh(ctx); err != nil {
		return counts, err
	}
	if err := s.Failpoint(BeforeIntent); err != nil {
		return counts, err
	}
	claims, err := s.claim(ctx, now, limit, &counts)
	if err != nil || len(claims) == 0 {
		return counts, err
	}
	if err := s.Failpoint(AfterIntent); err != nil {
		return counts, err
	}
	// From here on the work is finished even when ctx ends: a result that is known must be written down.
	held := context.WithoutCancel(ctx)
	jobs, err := s.render(held, claims, now)
	if err != nil {
		// Nothing has left yet: given back, nothing of it is unknown.
		return counts, errors.Join(fmt.Errorf("render: %w", err), s.Store.ReleaseClaims(held, released(claims)))
	}
	f := flight{Sender: s, ctx: held, leaseUntil: now.Add(s.Lease)}
	err = f.fly(ctx, jobs)
	counts.Failed, counts.Stale = f.failed, f.stale
	return counts, err
}

func (s *Sender) claim(ctx context.Context, now time.Time, limit int, counts *Counts) ([]store.Claim, error) {
	// Each delivery of a batch may be pinned to a set of its own, and fewer sets are kept than a batch has rows.
	for tries := 1; ; tries++ {
		r := recheck{Sender: s, now: now, leaseUntil: now.Add(s.Lease)}
		claims, err := s.Store.CommitIntents(ctx, now, r.leaseUntil, limit, r.decide)
		if err == nil {
			counts.Claimed, counts.Reclaimed = r.claimed, r.reclaimed
			for _, e := range r.entries {
				s.Journal.Write(e)
			}
			return claims, nil
		}
		if loaded, loadErr := s.Catalog.Load(ctx, err); loadErr != nil {
			return nil, fmt.Errorf("commit intents: %w", loadErr)
		} else if !loaded {
			return nil, fmt.Errorf("commit intents: %w", err)
		}
		if tries%loads == 0 {
			limit = max(limit/4, 1)
		}
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("commit intents: %w", err)
		}
	}
}

// flight is the part of a step between intent and result.
type flight struct {
	*Sender
	ctx context.Context // outlives the step's own: results are written in any case

	mu         sync.Mutex
	leaseUntil time.Time
	settledAt  time.Time // when the last results were committed; at first when sending began
	onWire     map[delivery.ID]store.LeaseRef
	done       []store.Settlement
	entries    []journal.Entry
	err        error
	failed     int
	stale      int
}

// fly sends every job and settles the results as they come. stop ends the taking of further jobs.
func (f *flight) fly(stop context.Context, jobs []job) error {
	f.settledAt = f.Clock.Now()
	f.done, f.entries = make([]store.Settlement, 0, len(jobs)), make([]journal.Entry, 0, len(jobs))
	f.onWire = make(map[delivery.ID]store.LeaseRef, len(jobs))
	for _, j := range jobs {
		f.onWire[j.claim.ID] = ref(j.claim)
	}
	renewing, finished := context.WithCancel(f.ctx)
	var renewal sync.WaitGroup
	first := f.leaseUntil.Add(-f.Lease).Add(f.Lease / 3) // the lease has been running since the claim
	renewal.Go(func() { f.renew(renewing, first) })
	if f.Concurrency > 1 {
		renewal.Go(func() { f.gather(renewing) })
	}

	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(f.Concurrency, len(jobs)) {
		work := func() {
			for stop.Err() == nil { // whoever takes a number sends: what has none is given back
				k := int(next.Add(1)) - 1
				if k >= len(jobs) {
					return
				}
				f.one(jobs[k])
			}
		}
		if f.Concurrency == 1 {
			work()
		} else {
			workers.Go(work)
		}
	}
	workers.Wait()
	finished()
	renewal.Wait()
	if err := f.Failpoint(BeforeResult); err != nil {
		return err
	}
	f.settle(0)
	f.settleAgain()
	f.giveBack(jobs, int(next.Load()))
	return f.err
}

// one hands one message over and keeps what came of it.
func (f *flight) one(j job) {
	now := f.Clock.Now()
	f.mu.Lock()
	_, mine := f.onWire[j.claim.ID]
	mine = mine && now.Before(f.leaseUntil)
	f.mu.Unlock()
	if !mine {
		f.keep(j, nil, journal.Entry{What: journal.StaleRefused, Reason: reason.LeaseLost})
		return
	}
	handed := now
	result, receipt, cause := f.send(&j)
	now = f.Clock.Now()
	settlement, entry := j.settle(result, receipt, cause, now)
	if j.refused == nil {
		entry.HandedAt = handed
	}
	f.keep(j, &settlement, entry)
	f.mu.Lock()
	ready := len(f.done) >= settleAt && now.Sub(f.settledAt) >= settleEvery && f.Concurrency > 1
	f.mu.Unlock()
	if ready {
		f.settle(settleAt)
	}
}

// send makes one request, unless rendering has failed already. A channel that panics has thrown (C45).
func (f *flight) send(j *job) (result delivery.Result, receipt channel.Receipt, err error) {
	if j.refused != nil {
		return delivery.Result{Outcome: delivery.AttemptFailed, Reason: j.refused.Reason, Retry: j.refused.Retry}, receipt, j.refused
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the channel panicked: %v", p)
			result = delivery.Result{Outcome: delivery.AttemptFailed, Reason: reason.SendThrew, Retry: true}
			f.Log.Error("channel panicked", "channel", j.claim.Channel, "panic", fmt.Sprint(p))
		}
	}()
	if j.verify {
		found, receipt, result, err := f.verify(j)
		if found || err != nil {
			return result, receipt, err
		}
		j.absent = true
	}
	ctx, cancel := f.within(j)
	defer cancel()
	ctx, end := f.Spans.Begin(ctx, "send", "channel", j.claim.Channel, "workflow", j.claim.Workflow)
	defer func() { end(err) }()
	receipt, err = j.outlet.Send(ctx, j.out)
	if err == nil {
		return delivery.Result{Outcome: delivery.AttemptDelivered, Reason: reason.Delivered}, receipt, nil
	}
	known := channel.AsSendError(err)
	result = delivery.Result{Outcome: delivery.AttemptFailed, Reason: known.Reason, Retry: known.Retry, RetryAfter: known.RetryAfter}
	if known.Unknown {
		result.Outcome = delivery.AttemptUnknown
	}
	return result, receipt, err
}

// within bounds one request.
func (f *flight) within(j *job) (context.Context, context.CancelFunc) {
	timeout := j.rules.channel.Timeout
	if timeout == 0 {
		timeout = f.Timeout
	}
	return context.WithTimeoutCause(f.ctx, timeout, fmt.Errorf("no answer within %s", timeout))
}

// verify asks the provider whether it has the message. What it cannot say stays unknown, and is asked again on the
// next rung of the ladder.
func (f *flight) verify(j *job) (found bool, receipt channel.Receipt, result delivery.Result, err error) {
	unknown := delivery.Result{Outcome: delivery.AttemptUnknown, Reason: reason.NotVerified}
	verifier, ok := j.outlet.Channel.(channel.Verifier)
	if !ok {
		return false, receipt, unknown, errors.New("this channel cannot say what became of a message")
	}
	ctx, cancel := f.within(j)
	defer cancel()
	if receipt, found, err = verifier.Verify(ctx, j.out); err != nil {
		known := channel.AsSendError(err)
		unknown.Retry, unknown.RetryAfter = known.Retry, known.RetryAfter
		return false, receipt, unknown, fmt.Errorf("ask for the message: %w", err)
	}
	return found, receipt, delivery.Result{Outcome: delivery.AttemptDelivered, Reason: reason.Verified}, nil
}

func (f *flight) keep(j job, s *store.Settlement, e journal.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.onWire, j.claim.ID)
	if s == nil {
		f.stale++
		j.describe(&e)
		e.At = f.Clock.Now()
		f.Journal.Write(e)
		return
	}
	if s.Attempt.Outcome == delivery.AttemptFailed {
		f.failed++
	}
	f.done = append(f.done, *s)
	f.entries = append(f.entries, e)
}

// settle commits the results that are there, if there are at least least.
func (f *flight) settle(least int) {
	f.mu.Lock()
	if len(f.done) < max(least, 1) {
		f.mu.Unlock()
		return
	}
	done, entries := f.done, f.entries
	f.done, f.entries, f.settledAt = nil, nil, f.Clock.Now()
	f.mu.Unlock()

	stale, err := f.Store.Settle(f.ctx, f.Clock.Now(), done)
	refused := make(map[delivery.ID]bool, len(stale))
	for _, id := range stale {
		refused[id] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		// A row without its result keeps its open intent; whoever takes it over knows that the outcome is unknown.
		f.err = fmt.Errorf("write results: %w", err)
		if !errors.Is(err, store.ErrInvalid) {
			f.done, f.entries = append(done, f.done...), append(entries, f.entries...)
		}
		return
	}
	if !errors.Is(f.err, store.ErrInvalid) {
		f.err = nil // what an earlier try could not write was among these
	}
	f.stale += len(stale)
	for i, e := range entries {
		if refused[done[i].ID] {
			e.What, e.Reason = journal.StaleRefused, reason.LeaseLost
		}
		f.Journal.Write(e)
	}
}

// settleAgain writes what could not be written before, for as long as the lease holds: a database that is away for
// a few seconds makes no message unknown whose outcome is known. A flight in order makes no second try: it is a
// replay, and nobody moves its clock meanwhile.
func (f *flight) settleAgain() {
	for f.Concurrency > 1 {
		f.mu.Lock()
		left, until := len(f.done), f.leaseUntil
		if left == 0 {
			f.mu.Unlock()
			return
		}
		err := f.err
		f.err = nil
		f.mu.Unlock()
		now := f.Clock.Now()
		if !now.Before(until) {
			f.err = err
			return
		}
		f.Log.Warn("results are not written yet", "error", err, "deliveries", left)
		if err := f.Clock.Sleep(f.ctx, now.Add(settleWithin)); err != nil {
			f.err = err
			return
		}
		f.settle(0)
	}
}

// gather settles what has waited long enough.
func (f *flight) gather(ctx context.Context) {
	for f.Clock.Sleep(ctx, f.Clock.Now().Add(settleWithin)) == nil {
		f.settle(0)
	}
}

// renew keeps the leases of what is still on the wire, at a third of their length, and settles what is done.
func (f *flight) renew(ctx context.Context, next time.Time) {
	for ; ; next = f.Clock.Now().Add(f.Lease / 3) {
		if err := f.Clock.Sleep(ctx, next); err != nil {
			return
		}
		f.settle(0)
		f.mu.Lock()
		refs := make([]store.LeaseRef, 0, len(f.onWire))
		for _, r := range f.onWire {
			refs = append(refs, r)
		}
		f.mu.Unlock()
		if len(refs) == 0 {
			continue
		}
		now := f.Clock.Now()
		lost, err := f.Store.RenewLeases(ctx, now, now.Add(f.Lease), refs)
		f.mu.Lock()
		if err == nil {
			f.leaseUntil = now.Add(f.Lease)
		}
		for _, id := range lost {
			delete(f.onWire, id) // it must not be sent any more; if it is on the wire, its result will be refused
		}
		f.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("leases were not renewed", "error", err, "deliveries", len(refs))
		}
	}
}

// giveBack returns what was claimed and not begun.
func (f *flight) giveBack(jobs []job, begun int) {
	if begun >= len(jobs) {
		return
	}
	refs := make([]store.Release, 0, len(jobs)-begun)
	for _, j := range jobs[begun:] {
		refs = append(refs, store.Release{LeaseRef: ref(j.claim)})
	}
	if err := f.Store.ReleaseClaims(f.ctx, refs); err != nil && f.err == nil {
		f.err = fmt.Errorf("give claims back: %w", err)
	}
}

func released(claims []store.Claim) []store.Release {
	all := make([]store.Release, len(claims))
	for i, c := range claims {
		all[i].LeaseRef = ref(c)
	}
	return all
}

func ref(c store.Claim) store.LeaseRef {
	return store.LeaseRef{Workspace: c.Workspace, ID: c.ID, Version: c.Version}
}
