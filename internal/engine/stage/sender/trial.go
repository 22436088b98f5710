package sender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// trialTimeout bounds the request of a test, and trialWait the wait for a free request of the channel. Together they are shorter than a caller
	// waits for an answer.
	trialTimeout = 45 * time.Second
	trialWait    = 5 * time.Second
)

// TrialStore is what tests of channels need of the store.
type TrialStore interface {
	BeginTest(ctx context.Context, ws subject.WorkspaceID, now time.Time, test store.ChannelTest, once *store.Idempotent[bool]) (suppressed bool, err error)
	EndTest(ctx context.Context, ws subject.WorkspaceID, k store.KeptAnswer) error
	NewID(now time.Time) int64
}

// Trial is one real message through one channel, sent by a person who wants to see whether the channel works.
type Trial struct {
	Channel string // kind:name
	Actor   string // name of the API key
	To      string
	Subject string // empty: a default
	Text    string // empty: a default
}

// Tried is the outcome of a test.
type Tried struct {
	Outcome    delivery.Outcome
	Reason     reason.Reason
	Error      string // what the provider or the channel answered; empty if it accepted the message
	ProviderID string
	Took       time.Duration // of the request; 0 when none was made
}

// Try sends a test the way every message goes: the allowlists of the channel and of this process, suppressions, the breaker, the concurrency and the
// timeout apply, and the provider's answer counts for the breaker. A test takes no slot in anybody's limits, does not count in the channel's rate,
// and leaves no delivery. With an idempotent request, the provider gets the same idempotency key each time. The test is audited before it is sent.
func (s *Sender) Try(ctx context.Context, db TrialStore, w Trial, ws store.Workspace, once *store.Idempotent[Tried]) (Tried, error) {
	set, err := s.Catalog.Current(ctx, ws.ID)
	if err != nil {
		return Tried{}, err
	}
	def := set.Channel(w.Channel)
	if def == nil {
		return Tried{}, fmt.Errorf("channel: %w", store.ErrNotFound)
	}
	now := s.Clock.Now()
	lost := Tried{
		Outcome: delivery.AttemptUnknown, Reason: reason.ReplyLost,
		Error: "the first request with this Idempotency-Key has not ended yet, or its server died; the message may have been sent",
	}
	suppressed, err := db.BeginTest(ctx, ws.ID, now, store.ChannelTest{
		AddressHash: key.NewKeyed(ws.Secret, key.PurposeAddress).Hash(subject.NormalizeAddress(w.To)),
		Audit:       store.Audit{At: now, Actor: w.Actor, Action: "test channel", Target: def.Key},
	}, store.From(once, func(bool) Tried { return lost }))
	if err != nil {
		return Tried{}, err
	}
	ctx = context.WithoutCancel(ctx) // a caller that goes away still leaves a stored result
	var tried Tried
	switch {
	case suppressed:
		tried = notTried(reason.Suppressed, errors.New("the address belongs to a contact who is suppressed"))
	case !def.OnlyTo.Allows(w.To):
		tried = notTried(reason.NotAllowed, errors.New("the channel's only_to does not name the address"))
	case !s.OnlyTo.Allows(w.To):
		tried = notTried(reason.NotAllowed, errors.New("--only-to of this process does not name the address"))
	default:
		id := fmt.Sprint(db.NewID(now))
		if once != nil {
			id = once.Key
		}
		tried = s.try(ctx, w, ws, def, "test:"+id)
	}
	s.Log.InfoContext(ctx, "channel tested", "channel", def.Key, "outcome", string(tried.Outcome), "reason", string(tried.Reason))
	if once != nil {
		if err := keepTried(ctx, db, ws.ID, once, tried); err != nil {
			s.Log.WarnContext(ctx, "the answer to a test was not stored: the same request again will get an unknown outcome", "error", err)
		}
	}
	return tried, nil
}

func keepTried(ctx context.Context, db TrialStore, ws subject.WorkspaceID, once *store.Idempotent[Tried], tried Tried) error {
	answer, err := once.Answer(tried)
	if err != nil {
		return err
	}
	return db.EndTest(ctx, ws, store.KeptAnswer{AnswerKey: once.AnswerKey, Answer: answer})
}

// try makes the request, as for a claim.
func (s *Sender) try(ctx context.Context, w Trial, ws store.Workspace, def *definition.Channel, idempotencyKey string) Tried {
	o, err := s.Channels.Get(ws.ID, def)
	if err != nil {
		var refused *channel.SendError
		if !errors.As(err, &refused) {
			refused = channel.Temporary(err)
		}
		return notTried(refused.Reason, refused)
	}
	waiting, cancel := context.WithTimeout(ctx, trialWait)
	defer cancel()
	if o.Enter(waiting) != nil {
		return notTried(reason.RateLimited, fmt.Errorf("all %d requests that the channel may have at once were taken for %s", o.Concurrency(), trialWait))
	}
	defer o.Leave()
	handed := s.Clock.Now()
	verdict, err := o.Begin(handed)
	switch {
	case err != nil:
		return notTried(reason.ChannelDown, err)
	case !verdict.OK:
		return notTried(reason.ChannelDown, fmt.Errorf("its provider was away and is left alone until %s", verdict.Until.UTC().Format(time.RFC3339)))
	}
	bounded := *def
	bounded.Timeout = min(cmp.Or(def.Timeout, s.Timeout), trialTimeout)
	j := job{
		claim: delivery.Claim{Row: delivery.Row{Workspace: ws.ID, Channel: def.Key}}, rules: admission.Rules{Channel: &bounded}, channel: o,
		out: channel.Outgoing{
			Workspace: ws.Name, Channel: def.Key, IdempotencyKey: idempotencyKey, Address: w.To, Step: 1, Attempt: 1,
			Subject: cmp.Or(w.Subject, "Test of "+def.Key), Text: cmp.Or(w.Text, "A test of the channel "+def.Key+"."),
		},
	}
	f := sendBatch{Sender: s, ctx: ctx}
	result, receipt, cause := f.send(&j)
	now := s.Clock.Now()
	if result.Outcome == delivery.AttemptUnknown && bounded.Timeout < cmp.Or(def.Timeout, s.Timeout) {
		j.signal = flow.Nothing // it might have answered within the channel's own timeout
	}
	o.End(now, verdict, channelpool.Outcome{Signal: j.signal, RetryAfter: result.RetryAfter, Err: cause})
	tried := Tried{Outcome: result.Outcome, Reason: result.Reason, ProviderID: receipt.ProviderID, Took: now.Sub(handed)}
	if cause != nil {
		tried.Error = clip(cause.Error())
	}
	return tried
}

// notTried is the result of a test that made no request.
func notTried(why reason.Reason, err error) Tried {
	return Tried{Outcome: delivery.AttemptNone, Reason: why, Error: clip(err.Error())}
}
