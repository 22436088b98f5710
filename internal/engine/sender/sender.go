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
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalog"
	"github.com/carillonhq/carillon/internal/engine/channelpool"
	"github.com/carillonhq/carillon/internal/engine/datasource"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/telemetry"
)

const (
	// DefaultLease is how long a claim holds without renewal: three renewals fit into the promise that work
	// resumes within 45 seconds of a crash.
	DefaultLease = 30 * time.Second
	// DefaultTimeout bounds one request to a provider whose channel sets no timeout.
	DefaultTimeout = 20 * time.Second
	// DefaultConcurrency is how many requests of a channel are on the wire at once that sets no concurrency.
	DefaultConcurrency = 64
	// settleAt is how many results are committed together while others are still on the wire, and settleEvery how
	// long they are gathered at least: a channel that answers at once has a whole batch written in one transaction.
	settleAt    = 100
	settleEvery = 50 * time.Millisecond
	// settleWithin is how long a result waits at most while others are still on the wire: what a channel has
	// answered is not left unknown by a crash because another channel hangs.
	settleWithin = 500 * time.Millisecond
	// horizon is how far ahead of its instant a message is claimed whose channel has a rate: it waits for it in the
	// flight, so that the rate is kept without a transaction for every message.
	horizon = time.Second
	// loads is how many definition sets are fetched before a smaller batch is tried.
	loads = 20
)

// Store is what the sender needs of the store.
type Store interface {
	CommitIntents(ctx context.Context, now, leaseUntil time.Time, limit int, floor store.Floor,
		decide func(claims []store.Claim, locked bool) ([]store.IntentVerdict, error)) ([]store.Claim, error)
	Settle(ctx context.Context, now time.Time, results []store.Settlement) (stale []delivery.ID, err error)
	RenewLeases(ctx context.Context, now, until time.Time, leases []store.LeaseRef) (lost []delivery.ID, err error)
	Unfold(ctx context.Context, now time.Time, list []store.Unfold) (int, error)
	ReleaseClaims(ctx context.Context, claims []store.Release) error
	UncountTries(ctx context.Context, now time.Time, tries []store.UncountedTry) error
	NewID(now time.Time) int64
	// GivenUpUntil is the instant up to which what was due then is not sent: the database is a copy.
	GivenUpUntil() time.Time
	EventsByID(ctx context.Context, refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
}

// Config is what a sender is made of.
type Config struct {
	Store       Store
	Catalog     *catalog.Catalog
	Channels    *channelpool.Pool
	Clock       clock.Clock
	Journal     journal.Writer
	Log         *slog.Logger
	Lease       time.Duration      // 0 = DefaultLease
	Timeout     time.Duration      // of one request; 0 = DefaultTimeout
	Concurrency int                // 1 = one request at a time, in order, for replays; 0 = by channel
	OnlyTo      flow.Allow         // whom this process may write to; nil = everybody
	Reports     *datasource.Reader // reads what messages tell beside their occasion
	PublicURL   string             // begins public links where the workspace has no base_url
	NoJitter    bool               // retries wait exactly as long as their definition says: for replays
	Spans       telemetry.Spans    // of sends; nil = none
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
	claims, at, err := s.claim(ctx, now, limit, &counts)
	if err != nil || len(claims) == 0 {
		return counts, err
	}
	if err := s.Failpoint(AfterIntent); err != nil {
		return counts, err
	}
	// From here on the work is finished even when ctx ends: a result that is known must be written down.
	held := context.WithoutCancel(ctx)
	jobs, err := s.render(held, claims, now)
	for i := range jobs {
		jobs[i].at = at[jobs[i].claim.ID]
	}
	if err != nil {
		// Nothing has left yet: given back, nothing of it is unknown.
		return counts, errors.Join(fmt.Errorf("render: %w", err), s.Store.ReleaseClaims(held, released(claims)))
	}
	f := sendBatch{Sender: s, ctx: held, leaseUntil: now.Add(s.Lease)}
	err = f.run(ctx, jobs)
	counts.Failed, counts.Stale = f.failed, f.stale
	return counts, err
}

// claim commits the intents of what is due. Of messages whose channel has a rate it also tells their instants.
func (s *Sender) claim(ctx context.Context, now time.Time, limit int, counts *Counts) ([]store.Claim, map[delivery.ID]time.Time, error) {
	// Each delivery of a batch may be pinned to a set of its own, and fewer sets are kept than a batch has rows.
	for tries := 1; ; tries++ {
		r := admitting{Sender: s, now: now, leaseUntil: now.Add(s.Lease), live: map[subject.WorkspaceID]*definition.Set{}}
		claims, err := s.Store.CommitIntents(ctx, now, r.leaseUntil, limit, r.floor(), r.decide)
		if err == nil {
			counts.Claimed, counts.Reclaimed = r.claimed, r.reclaimed
			for _, e := range r.entries {
				s.Journal.Write(e)
			}
			return claims, r.instants, nil
		}
		if loaded, loadErr := s.Catalog.Load(ctx, err); loadErr != nil {
			return nil, nil, fmt.Errorf("commit intents: %w", loadErr)
		} else if !loaded {
			return nil, nil, fmt.Errorf("commit intents: %w", err)
		}
		if tries%loads == 0 {
			limit = max(limit/4, 1)
		}
		if err := context.Cause(ctx); err != nil {
			return nil, nil, fmt.Errorf("commit intents: %w", err)
		}
	}
}
