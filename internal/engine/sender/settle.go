package sender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

func (f *sendBatch) keep(j job, s *store.Settlement, e journal.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inFlight, j.claim.ID)
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

// settle commits the results that have arrived, if there are at least least of them.
func (f *sendBatch) settle(least int) {
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
		// A row without its result keeps its open intent, from which the worker that takes it over knows that the outcome is unknown.
		f.err = fmt.Errorf("write results: %w", err)
		if !errors.Is(err, store.ErrInvalid) {
			f.done, f.entries = append(done, f.done...), append(entries, f.entries...)
		}
		return
	}
	if !errors.Is(f.err, store.ErrInvalid) {
		f.err = nil // the results that an earlier try could not write were among these
	}
	f.stale += len(stale)
	for i, e := range entries {
		if refused[done[i].ID] {
			e.What, e.Reason = journal.StaleRefused, reason.LeaseLost
		}
		f.Journal.Write(e)
		if row := done[i].Fallback; row != nil && !refused[done[i].ID] {
			f.Journal.Write(admission.Entry(*row, e.Contact, e.At))
		}
	}
}

// settleAgain writes results that could not be written before, for as long as the lease holds: a database that is away for a few seconds must not
// lose known outcomes. A batch in order makes no second try: it is a replay, and nothing moves its clock meanwhile.
func (f *sendBatch) settleAgain() {
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
		f.Log.Warn("results could not be written yet", "error", err, "deliveries", left)
		if err := f.Clock.Sleep(f.ctx, now.Add(settleWithin)); err != nil {
			f.err = err
			return
		}
		f.settle(0)
	}
}

// gather settles results that have waited long enough and releases requeued claims.
func (f *sendBatch) gather(ctx context.Context) {
	for f.Clock.Sleep(ctx, f.Clock.Now().Add(settleWithin)) == nil {
		f.settle(0)
		if err := f.release(); err != nil && ctx.Err() == nil {
			f.Log.Warn("claims could not be released yet", "error", err)
		}
	}
}

// renew renews the leases of messages in flight, at a third of the lease, and settles results.
func (f *sendBatch) renew(ctx context.Context, next time.Time) {
	for ; ; next = f.Clock.Now().Add(f.Lease / 3) {
		if err := f.Clock.Sleep(ctx, next); err != nil {
			return
		}
		f.settle(0)
		f.mu.Lock()
		refs := make([]store.LeaseRef, 0, len(f.inFlight))
		for _, r := range f.inFlight {
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
			delete(f.inFlight, id) // it must not be sent any more; if it is in flight, its result will be refused
		}
		f.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("leases were not renewed", "error", err, "deliveries", len(refs))
		}
	}
}
