package sender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
)

// send makes one request, unless the provider has reported on the message of an earlier one, or rendering has failed already. A channel that panics counts as send_threw (C45).
func (f *sendBatch) send(j *job) (result delivery.Result, receipt channel.Receipt, err error) {
	if j.claim.Reported() {
		return delivery.Result{Outcome: delivery.AttemptDelivered, Reason: reason.Reported}, receipt, nil
	}
	if j.refused != nil {
		return delivery.Result{Outcome: delivery.AttemptFailed, Reason: j.refused.Reason, Retry: j.refused.Retry}, receipt, j.refused
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the channel panicked: %v", p)
			result = delivery.Result{Outcome: delivery.AttemptFailed, Reason: reason.SendThrew, Retry: true}
			j.signal = flow.Nothing
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
	receipt, err = j.channel.Send(ctx, j.out)
	j.signal = signal(ctx, err)
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

// signal returns what the outcome of a request says about the provider.
func signal(ctx context.Context, err error) flow.Signal {
	var known *channel.SendError
	switch {
	case err == nil:
		return flow.Answered
	case ctx.Err() != nil:
		return flow.Away
	case !errors.As(err, &known):
		return flow.Nothing // the error is on our side
	case known.Away || known.Unknown:
		return flow.Away
	}
	return flow.Answered
}

// within bounds one request by the channel's timeout.
func (f *sendBatch) within(j *job) (context.Context, context.CancelFunc) {
	timeout := j.rules.Channel.Timeout
	if timeout == 0 {
		timeout = f.Timeout
	}
	return context.WithTimeoutCause(f.ctx, timeout, fmt.Errorf("no answer within %s", timeout))
}

// verify asks the provider whether it has the message. If the provider cannot say, the outcome stays unknown and verify runs again after the next
// backoff.
func (f *sendBatch) verify(j *job) (found bool, receipt channel.Receipt, result delivery.Result, err error) {
	unknown := delivery.Result{Outcome: delivery.AttemptUnknown, Reason: reason.NotVerified}
	verifier, ok := j.channel.Channel.(channel.Verifier)
	if !ok {
		return false, receipt, unknown, errors.New("this channel cannot say what became of a message")
	}
	ctx, cancel := f.within(j)
	defer cancel()
	receipt, found, err = verifier.Verify(ctx, j.out)
	j.signal = signal(ctx, err)
	if err != nil {
		known := channel.AsSendError(err)
		unknown.Retry, unknown.RetryAfter = known.Retry, known.RetryAfter
		return false, receipt, unknown, fmt.Errorf("ask for the message: %w", err)
	}
	return found, receipt, delivery.Result{Outcome: delivery.AttemptDelivered, Reason: reason.Verified}, nil
}

// spread returns when a message that a resting channel did not take is claimed again.
func (s *Sender) spread(draws key.Keyed, by []string, v flow.Verdict) time.Time {
	if s.NoJitter {
		return v.Until
	}
	return admission.Spread(draws, by, v)
}

// afterFailure returns the fallback of a delivery that has failed for good; nil if there is none.
func (s *Sender) afterFailure(c delivery.Claim, rules admission.Rules, now time.Time) *delivery.Row {
	return admission.AfterFailure(c, rules, s.OnlyTo, now, func() delivery.ID { return delivery.ID(s.Store.NewID(now)) })
}
