// Package sender hands due deliveries to their channels: it commits an intent, makes the request, and commits the result.
//
//	claim ─▶ admission ─▶ intent ══▶ render ─▶ channel ─▶ result ══▶ next reminder, retry or end
//	         (one transaction)       (no transaction)     (one transaction)
//
// The intent is the point of no return (P5). A change that was committed before it wins; a later change comes too late for this attempt. A worker
// that is lost between intent and result leaves an open intent. The worker that takes the row over logs the attempt as unknown and follows the
// channel's on_unknown. A result is written only under the version that the claim read, so a worker that was frozen past its lease changes nothing.
package sender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/plumbing/datasource"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/telemetry"
)

const (
	// DefaultLease is how long a claim holds without renewal. Work resumes within 45 seconds of a crash, and three renewals fit into that time.
	DefaultLease = 30 * time.Second
	// DefaultTimeout bounds one request to a provider whose channel sets no timeout.
	DefaultTimeout = 20 * time.Second
	// DefaultConcurrency is how many requests of a channel are in flight at once if the channel sets no concurrency.
	DefaultConcurrency = 64
	// settleAt is how many results are committed together while other requests are in flight. settleEvery is the least time between two such commits,
	// so that one transaction writes a whole batch of a channel that answers at once.
	settleAt    = 100
	settleEvery = 50 * time.Millisecond
	// settleWithin is how long a result waits at most while other requests are in flight: when one channel hangs, a crash must not lose the answers
	// of another one.
	settleWithin = 500 * time.Millisecond
	// horizon is how far ahead of its instant a message is claimed if its channel has a rate. The message waits in the send batch, which keeps the
	// rate without a transaction for every message.
	horizon = time.Second
	// loads bounds how often a message is rendered again because its definitions were replaced meanwhile.
	loads = 20
)

// Store is what the sender needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
	WriteClaiming(ctx context.Context, work func(*store.Tx) error) error
	RenewLeases(ctx context.Context, until time.Time, leases []store.LeaseRef) (lost []delivery.ID, err error)
	UncountTries(ctx context.Context, now time.Time, tries []store.UncountedTry) error
	NewID(now time.Time) int64
	// GivenUpUntil is set when the database is a restored copy: what was due up to this instant is not sent.
	GivenUpUntil() time.Time
	EventsByID(ctx context.Context, refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
	TopicsByID(ctx context.Context, ws subject.WorkspaceID, ids []subject.TopicID) (map[subject.TopicID]store.TopicRow, error)
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
	Concurrency int                // 1 = one request at a time, in order, for replays; 0 = as each channel allows
	OnlyTo      flow.Allow         // addresses that this process may write to; nil = all
	Reports     *datasource.Reader // reads the data of messages that show more than their occasion
	Links       key.LinkKeys       // sign unsubscribe links; without a key there are none
	Topics      *topics.Topics     // their titles
	PublicURL   string             // begins public links where the workspace has no base_url
	NoJitter    bool               // retries wait exactly as long as their definition says: for replays
	Spans       telemetry.Spans    // of sends; nil = none
	// Failpoint is called at named points; an error ends the step there as if the process had died. nil = never.
	Failpoint func(point string) error
}

// The names of the failpoints.
const (
	BeforeIntent = "before_intent"
	Claimed      = "claimed" // inside the transaction of the intent
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

// Counts are the numbers of one step.
type Counts struct {
	Claimed   int // deliveries claimed, sent or not
	Reclaimed int // of those: taken over from a lost worker
	Failed    int // attempts that failed
	Stale     int // results refused because another worker had the row
}

// Step claims up to limit due deliveries and sends each of them. When ctx ends, requests in flight are finished, and claims whose request has not
// begun are released.
func (s *Sender) Step(ctx context.Context, now time.Time, limit int) (Counts, error) {
	var counts Counts
	if err := s.Catalog.Refresh(ctx); err != nil {
		return counts, err
	}
	if err := s.Failpoint(BeforeIntent); err != nil {
		return counts, err
	}
	claims, at, digests, err := s.claim(ctx, now, limit, &counts)
	if err != nil || len(claims) == 0 {
		return counts, err
	}
	if err := s.Failpoint(AfterIntent); err != nil {
		return counts, err
	}
	// From here on the work is finished even when ctx ends: a known result must be written.
	held := context.WithoutCancel(ctx)
	jobs, removed, err := s.render(held, claims, digests, now)
	for _, j := range jobs {
		j.at = at[j.claim.ID]
	}
	if err != nil {
		// Nothing has left yet, so the claims are released and no outcome is unknown.
		return counts, errors.Join(fmt.Errorf("render: %w", err), s.release(held, released(claims)))
	}
	f := sendBatch{Sender: s, ctx: held, leaseUntil: now.Add(s.Lease), back: released(removed)}
	if err := f.release(); err != nil {
		s.Log.Warn("claims of removed workflows and channels are released with the batch", "error", err)
	}
	err = f.run(ctx, jobs)
	counts.Failed, counts.Stale = f.failed, f.stale
	return counts, err
}

// claim commits the intents of due deliveries. It also returns the send instants of messages whose channel has a rate, and what digests among them tell.
func (s *Sender) claim(
	ctx context.Context, now time.Time, limit int, counts *Counts,
) ([]delivery.Claim, map[delivery.ID]time.Time, map[delivery.ID]digest.Contents, error) {
	var r admitting
	err := s.Catalog.Supply(ctx, limit, func(limit int) error {
		r = admitting{
			Sender: s, now: now, leaseUntil: now.Add(s.Lease), live: map[subject.WorkspaceID]*definition.Set{}, earlier: admission.NewEarlier(),
		}
		return s.Store.WriteClaiming(ctx, func(tx *store.Tx) error { return r.commit(tx, limit) })
	})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("commit intents: %w", err)
	}
	counts.Claimed, counts.Reclaimed = r.claimed, r.decision.Reclaimed
	for _, e := range r.decision.Entries {
		s.Journal.Write(e)
	}
	return r.decision.Sent, r.decision.Instants, r.digests, nil
}
