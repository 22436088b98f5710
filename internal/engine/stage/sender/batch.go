package sender

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/trace"
)

// sendBatch is the part of a step between intent and result. Each channel of a batch sends by itself, with as many requests at once as it allows, so
// that a silent provider delays no other channel's messages.
type sendBatch struct {
	*Sender
	ctx context.Context // outlives the step's own context: results are written in any case

	mu         sync.Mutex
	leaseUntil time.Time
	settledAt  time.Time // when the last results were committed; at first when sending began
	inFlight   map[delivery.ID]store.LeaseRef
	probes     map[channelRef]chan struct{} // probes whose outcome decides for their slot; closed when it is known
	done       []*outcome
	back       []*requeued          // claims that are to be released
	uncounted  []store.UncountedTry // earlier tries that do not count
	err        error
	failed     int
	stale      int
}

// run sends every job and settles the results as they arrive. When stop ends, it starts no further jobs.
func (f *sendBatch) run(stop context.Context, jobs []*job) error {
	f.settledAt = f.Clock.Now()
	f.done = make([]*outcome, 0, len(jobs))
	f.inFlight, f.probes = make(map[delivery.ID]store.LeaseRef, len(jobs)), map[channelRef]chan struct{}{}
	for _, j := range jobs {
		f.inFlight[j.claim.ID] = ref(j.claim)
	}
	renewing, finished := context.WithCancel(f.ctx)
	var renewal sync.WaitGroup
	first := f.leaseUntil.Add(-f.Lease).Add(f.Lease / 3) // the lease has been running since the claim
	renewal.Go(func() { f.renew(renewing, first) })
	if f.Concurrency > 1 {
		renewal.Go(func() { f.gather(renewing) })
		f.together(stop, jobs)
	} else {
		for _, j := range jobs {
			f.one(stop, j)
		}
	}
	finished()
	renewal.Wait()
	if err := f.Failpoint(BeforeResult); err != nil {
		return err
	}
	f.settle(0)
	f.settleAgain()
	if err := f.Store.UncountTries(f.ctx, f.Clock.Now(), f.uncounted); err != nil { // they stay counted
		f.Log.Warn("tries that found a provider away could not be uncounted", "error", err)
	}
	if err := f.release(); err != nil && f.err == nil {
		f.err = err
	}
	return f.err
}

// together sends the jobs of all channels side by side. When stop ends, jobs that have not begun do not wait for those that have.
func (f *sendBatch) together(stop context.Context, jobs []*job) {
	byChannel := map[*channelpool.Channel][]*job{}
	for _, j := range jobs {
		byChannel[j.channel] = append(byChannel[j.channel], j)
	}
	ended, end := context.WithCancel(stop)
	var workers, rest sync.WaitGroup
	for o, jobs := range byChannel {
		many := f.Concurrency
		if o != nil {
			many = o.Concurrency()
		}
		slices.SortStableFunc(jobs, func(a, b *job) int { return a.at.Compare(b.at) })
		next := new(atomic.Int64)
		work := func() {
			for k := next.Add(1) - 1; k < int64(len(jobs)); k = next.Add(1) - 1 {
				f.one(stop, jobs[k])
			}
		}
		for range min(many, len(jobs)) {
			workers.Go(work)
		}
		if len(jobs) > many {
			rest.Go(func() {
				<-ended.Done()
				work()
			})
		}
	}
	workers.Wait()
	end()
	rest.Wait()
}

// one sends one message when its turn has come and its channel lets it through, and keeps the outcome. When stop ends before that, the request has
// not begun and the claim is requeued at once, whatever else is in flight.
func (f *sendBatch) one(stop context.Context, j *job) {
	if stop.Err() != nil {
		f.requeue(j, time.Time{})
		return
	}
	f.finish(j)
	switch {
	case j.refused != nil, j.claim.Reported():
		f.hand(j, flow.Verdict{})
		return
	case !j.at.IsZero() && f.Clock.Sleep(stop, j.at) != nil, j.channel.Enter(stop) != nil:
		f.requeue(j, time.Time{})
		return
	}
	defer j.channel.Leave()
	now := f.Clock.Now()
	switch {
	case !f.holds(j, now):
		f.dropped(j)
		return
	case !j.at.IsZero() && now.After(j.at.Add(j.rules.Channel.Rate.Slack())), // its instant has passed: it takes another one
		!j.verify && j.rules.Policy.KeyExpired(j.claim.Row, now):
		f.requeue(j, time.Time{})
		return
	}
	verdict, probe, err := f.begin(j, now)
	if err == nil && !verdict.OK && probe != nil { // it leaves with the probe, or not at all
		<-probe
		if now = f.Clock.Now(); !f.holds(j, now) {
			f.dropped(j)
			return
		}
		verdict, _, err = f.begin(j, now)
	}
	if verdict.Probe {
		defer f.probed(j)
	}
	switch {
	case err != nil: // the channel was replaced: the next claim uses the new one
		f.requeue(j, time.Time{})
	case !verdict.OK:
		f.requeue(j, f.spread(j.draws, admission.RestDraw(j.claim), verdict))
	default:
		f.hand(j, verdict)
	}
}

// try describes the try of a claim for its channel's breaker.
func try(c delivery.Claim) channelpool.Try {
	return channelpool.Try{Delivery: int64(c.ID), Number: c.AttemptNo, Due: c.Due(), Drawn: admission.RestDraw(c)}
}

// uncountTries uncounts the tries that opened a breaker: their messages wait for the channel like all others.
func (f *sendBatch) uncountTries(j *job, rest channelpool.BreakerWait) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range rest.Tries {
		as := delivery.Row{SendAt: t.Due}
		as.AwaitChannel(f.spread(j.draws, t.Drawn, rest.Verdict))
		f.uncounted = append(f.uncounted, store.UncountedTry{Workspace: j.claim.Workspace, ID: delivery.ID(t.Delivery), AttemptNo: t.Number, As: as})
	}
}

// ladder returns the waits between the tries of a message.
func (f *sendBatch) ladder(c delivery.Claim, rules admission.Rules) []time.Duration {
	further := false
	if c.Step == 0 { // a reminder has no fallback
		for range admission.StandIns(c, rules, f.OnlyTo) {
			further = true
			break
		}
	}
	return rules.Trigger.Retry.Ladder(further)
}

// holds reports whether this worker still holds the lease of a message.
func (f *sendBatch) holds(j *job, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, mine := f.inFlight[j.claim.ID]
	return mine && now.Before(f.leaseUntil)
}

// channelRef names a slot of a contact on one channel, which messages may share.
type channelRef struct {
	delivery.PersonRef
	channel string
	slot    time.Time
}

func channelRefOf(c delivery.Claim) channelRef {
	return channelRef{delivery.PersonOf(c.Row), c.Channel, c.Slot}
}

// begin asks the channel whether a message may be sent. If another message of the same slot is the probe that decides, it also returns a channel that
// is closed when the probe has ended.
func (f *sendBatch) begin(j *job, now time.Time) (flow.Verdict, chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	verdict, err := j.channel.Begin(now)
	if verdict.Probe {
		j.probe = make(chan struct{})
		f.probes[channelRefOf(j.claim)] = j.probe
	}
	if j.claim.Slot.IsZero() {
		return verdict, nil, err
	}
	return verdict, f.probes[channelRefOf(j.claim)], err
}

// probed notifies the messages that wait for a probe that it has ended. A message of the same slot may be the next probe by then.
func (f *sendBatch) probed(j *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(j.probe)
	if f.probes[channelRefOf(j.claim)] == j.probe {
		delete(f.probes, channelRefOf(j.claim))
	}
}

// hand makes the request.
func (f *sendBatch) hand(j *job, verdict flow.Verdict) {
	handed := f.Clock.Now()
	result, receipt, cause := f.send(j)
	now := f.Clock.Now()
	if verdict.OK {
		rest := j.channel.End(now, verdict, channelpool.Outcome{Signal: j.signal, RetryAfter: result.RetryAfter, Err: cause, Try: try(j.claim)})
		if !rest.OK {
			result.RestUntil = f.spread(j.draws, admission.RestDraw(j.claim), rest.Verdict)
			f.uncountTries(j, rest)
		}
	}
	j.rules.Policy.Backoff = f.ladder(j.claim, j.rules)
	o := j.settle(result, receipt, cause, now)
	if o.change.Status == delivery.Failed {
		o.fallback = f.afterFailure(j.claim, j.rules, now)
		o.unfold = o.unfold || o.fallback == nil && o.change.UnknownSince.IsZero() && f.further(j, now)
	}
	if j.refused == nil && !j.claim.Reported() {
		o.entry.HandedAt = handed
	}
	f.keep(o)
	f.mu.Lock()
	ready := len(f.done) >= settleAt && now.Sub(f.settledAt) >= settleEvery && f.Concurrency > 1
	f.mu.Unlock()
	if ready {
		f.settle(settleAt)
	}
}

// requeued is a claim whose request was not made.
type requeued struct {
	row   delivery.Row
	until time.Time // until then its channel is unavailable; zero: it is due as before
	trace string
	entry *journal.Entry // nil: none
}

// requeue releases a claim whose request was not made: it waits for its channel, which is unavailable until then, or with the zero instant is due
// as before. The try is not counted.
func (f *sendBatch) requeue(j *job, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inFlight, j.claim.ID)
	r := &requeued{row: j.claim.Row, until: until}
	if !until.IsZero() {
		now := f.Clock.Now()
		r.trace = trace.Of(j.claim.Row, j.rules.Policy.Timing, reason.ChannelDown, now, until, trace.Limits{})
		r.entry = &journal.Entry{At: now, What: journal.Deferred, Reason: reason.ChannelDown, Until: until}
		j.describe(r.entry)
	}
	f.back = append(f.back, r)
}

// release writes the requeued claims. Those that cannot be written stay for the next call.
func (f *sendBatch) release() error {
	f.mu.Lock()
	back := f.back
	f.back = nil
	f.mu.Unlock()
	if err := f.Sender.release(f.ctx, back); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.back = append(back, f.back...)
		return err
	}
	for _, r := range back {
		if r.entry != nil {
			f.Journal.Write(*r.entry)
		}
	}
	return nil
}

// release is the transaction of requeued claims. Claims that another worker holds by now are left alone.
func (s *Sender) release(ctx context.Context, list []*requeued) error {
	if len(list) == 0 {
		return nil
	}
	tries, now := 0, s.Clock.Now()
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		held, err := claimed(tx, &tries, list, func(r *requeued) *delivery.Row { return &r.row })
		if err != nil {
			return err
		}
		var rows []delivery.Row
		for _, r := range list {
			if row, ok := held[r.row.ID]; ok {
				rows = append(rows, delivery.Released(*row, r.until, r.trace))
			}
		}
		return tx.ReleaseClaims(now, rows)
	})
	if err != nil {
		return fmt.Errorf("release claims: %w", err)
	}
	return nil
}

func released(claims []delivery.Claim) []*requeued {
	all := make([]*requeued, len(claims))
	for i, c := range claims {
		all[i] = &requeued{row: c.Row}
	}
	return all
}

func ref(c delivery.Claim) store.LeaseRef {
	return store.LeaseRef{Workspace: c.Workspace, ID: c.ID, Version: c.Version}
}
