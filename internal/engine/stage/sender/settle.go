package sender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// dropped notes a claim that another worker holds by now.
func (f *sendBatch) dropped(j *job) {
	e := journal.Entry{At: f.Clock.Now(), What: journal.StaleRefused, Reason: reason.LeaseLost}
	j.describe(&e)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inFlight, j.claim.ID)
	f.stale++
	f.Journal.Write(e)
}

func (f *sendBatch) keep(o *outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inFlight, o.claim.ID)
	if o.attempt.Outcome == delivery.AttemptFailed {
		f.failed++
	}
	f.done = append(f.done, o)
}

// settle commits the results that have arrived, if there are at least least of them.
func (f *sendBatch) settle(least int) {
	f.mu.Lock()
	if len(f.done) < max(least, 1) {
		f.mu.Unlock()
		return
	}
	done := f.done
	f.done, f.settledAt = nil, f.Clock.Now()
	f.mu.Unlock()

	refused, err := f.writeResults(f.ctx, f.Clock.Now(), done)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		// A row without its result keeps its open intent, from which the worker that takes it over knows that the outcome is unknown.
		f.err = fmt.Errorf("write results: %w", err)
		if !errors.Is(err, store.ErrInvalid) {
			f.done = append(done, f.done...)
		}
		return
	}
	if !errors.Is(f.err, store.ErrInvalid) {
		f.err = nil // the results that an earlier try could not write were among these
	}
	f.stale += len(refused)
	for _, o := range done {
		e := o.entry
		if refused[o.claim.ID] {
			e.What, e.Reason = journal.StaleRefused, reason.LeaseLost
		}
		f.Journal.Write(e)
		if o.fallback != nil && !refused[o.claim.ID] {
			f.Journal.Write(admission.Entry(*o.fallback, e.Contact, e.At))
		}
	}
}

// writeResults is the transaction of results. It returns those that came too late, because another worker has claimed the row; nothing of them is
// written. A claim changes seldom while its attempt is in flight, so the first try takes each as it was claimed, and the next ones read them.
func (s *Sender) writeResults(ctx context.Context, now time.Time, results []*outcome) (refused map[delivery.ID]bool, err error) {
	tries := 0
	err = s.Catalog.Supply(ctx, len(results), func(int) error {
		return s.Store.Write(ctx, func(tx *store.Tx) error {
			refused = map[delivery.ID]bool{}
			rows, err := claimed(tx, &tries, results, func(o *outcome) *delivery.Row { return &o.claim.Row })
			if err != nil {
				return err
			}
			list := make([]store.Settlement, 0, len(results))
			changes := make([]tell.Change, 0, len(results))
			var digested []settled
			for _, o := range results {
				if row, ok := rows[o.claim.ID]; ok {
					list = append(list, o.over(*row, now))
					result := &list[len(list)-1]
					changes = append(changes, tell.Change{Was: *row, Is: result.Row})
					if o.digest != nil {
						digested = append(digested, settled{row: result.Row, accepted: o.change.Accepted, digest: o.digest})
					}
				} else {
					refused[o.claim.ID] = true
				}
			}
			if err := tx.WriteSettlements(now, list); err != nil {
				return err
			}
			if err := settleDigests(tx, digested); err != nil {
				return err
			}
			return tell.Deliveries(s.Catalog, tell.InForce(s.Catalog), tx, now, changes)
		})
	})
	return refused, err
}

// claimed returns claims that this worker still holds: in the first try as they were claimed, then as they are.
func claimed[T any](tx *store.Tx, tries *int, of []T, row func(T) *delivery.Row) (map[delivery.ID]*delivery.Row, error) {
	held := make(map[delivery.ID]*delivery.Row, len(of))
	if *tries++; *tries == 1 {
		for _, v := range of {
			held[row(v).ID] = row(v)
		}
		return held, nil
	}
	refs := make([]store.LeaseRef, len(of))
	for i, v := range of {
		refs[i] = store.LeaseRef{Workspace: row(v).Workspace, ID: row(v).ID, Version: row(v).Version}
	}
	rows, err := tx.LockClaims(refs)
	for i := range rows {
		held[rows[i].ID] = &rows[i]
	}
	return held, err
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
		lost, err := f.Store.RenewLeases(ctx, now.Add(f.Lease), refs)
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
