package fanout

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// A failed instance is retried exactly after the waits of retry.backoff, and is then put on hold, or retried once a day (B27-B29, product decisions 29 and
// 31). An instance that crashes its worker is retried at once the first time, then after the waits, and is put on hold the third time.

// maxCrashes is how often an instance may crash its worker.
const maxCrashes = 3

// crash is the error of a worker that panicked over an instance.
type crash struct{ cause any }

func (c *crash) Error() string { return fmt.Sprintf("its worker crashed: %v", c.cause) }

// errLost means that the lease of an instance has run out although nobody released it.
var errLost = errors.New("its worker has died")

// guarded does something with one instance; a panic becomes an error of that instance.
func guarded(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &crash{cause}
		}
	}()
	return do()
}

// leased reports whether an instance is not expanded in this step: the step only takes its lease, or its worker died with it and it has to wait.
func (r *run) leased(p *planned, in due) (bool, error) {
	retry := p.trigger.Retry
	switch {
	case r.taken:
		return false, nil
	case !in.LeaseUntil.IsZero() && (retry.OnCrash == definition.CrashLadder || in.Crashes > 0):
		return false, errLost
	}
	p.lease = retry.Lease
	return p.lease > 0, nil
}

// take gives this worker the lease of an instance.
func (r *run) take(p planned, in due) outcome {
	r.took = append(r.took, store.TakenInstance{Workspace: in.Workspace, ID: in.ID, Version: in.Version + 1})
	result := outcome{Patch: instance.Patch{
		Status: instance.Pending, Delay: in.Delay, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: in.NextRetryAt,
		Cursor: subject.ContactID(in.ExpandCursor), LeaseUntil: r.now.Add(p.lease),
	}}
	if !in.LeaseUntil.IsZero() { // the first time it is taken over at once
		result.Crashes, result.Delay, result.Reason = in.Crashes+1, failed(in), reason.WorkerCrashed
	}
	return result
}

// failed is what delays an instance that has failed. One that was on hold still goes on beside what follows it.
func failed(in due) instance.Delay {
	if in.Beside() {
		return instance.DelayedByHold
	}
	return instance.DelayedByFailure
}

// fail plans the next retry; after the last one a person decides.
func (r *run) fail(p *planned, in due, cause error) outcome {
	result := outcome{Patch: instance.Patch{
		Status: instance.Pending, Delay: failed(in), Reason: reason.AudienceFailed, RetryCount: in.RetryCount + 1, Trace: trace.Failed(in.Trace, cause, r.now), Cursor: subject.ContactID(in.ExpandCursor),
	}}
	what, retry := journal.Retried, r.retry(p)
	crashed := (*crash)(nil)
	if errors.As(cause, &crashed) || errors.Is(cause, errLost) {
		result.Reason, result.Crashes = reason.WorkerCrashed, in.Crashes+1
	}
	switch {
	case errors.Is(cause, errGone):
		result.Status, result.Delay, result.Reason, what = instance.Deactivated, "", reason.WorkflowInactive, journal.Cancelled
	case result.Crashes >= maxCrashes:
		result.Hold, what = instance.HoldCrashes, journal.Held
	case result.Crashes == 1 && retry.OnCrash == definition.CrashNow:
		result.RetryCount = in.RetryCount
	case in.RetryCount < len(retry.Backoff):
		result.NextRetryAt = r.now.Add(retry.Backoff[in.RetryCount])
	case retry.Then == definition.RetryDaily:
		result.NextRetryAt = r.tomorrow(p, in)
	default:
		result.Hold, result.Reason, what = instance.HoldRetries, reason.RetriesUsedUp, journal.Held
	}
	if result.Hold != "" && p.successors == nil && !in.Later {
		p.successors = r.next(p, in)
	}
	e := entry(what, in, result, r.now)
	e.Error, e.Until = cause.Error(), result.NextRetryAt
	r.entries = append(r.entries, e)
	return result
}

// next ensures the successor of a calendar occasion that is put on hold before its series could be computed.
func (r *run) next(p *planned, in due) (successors []successor) {
	if p.trigger == nil || p.trigger.OnSchedule() == nil || !in.InSeries() {
		return nil
	}
	series, err := plan.SeriesOf(p.live, definition.Match{Workflow: p.live.Workflow(in.Workflow), Trigger: p.trigger}, r.zones)
	if err != nil { // the zone is no longer known: the next apply ensures the successor
		return nil
	}
	return []successor{r.successor(in, series.Trigger.ID, series.Next(plan.PlaceOf(in.Row), r.now), 0)}
}

// retry returns the retry rule of an instance's definition, as far as it was found.
func (r *run) retry(p *planned) definition.Retry {
	switch {
	case p.trigger != nil:
		return p.trigger.Retry
	case p.live != nil:
		return p.live.Workspace.Retry
	}
	return definition.Retry{}
}

// tomorrow returns the same time of the next day, in the zone where the instance is due.
func (r *run) tomorrow(p *planned, in due) time.Time {
	loc, err := r.zones.Load(cmp.Or(in.Timezone, p.live.Workspace.Timezone))
	if err != nil { // the zone is no longer known
		loc = time.UTC
	}
	day, clock := civil.DateOf(r.now, loc)
	at, _ := civil.Resolve(day.AddDays(1), clock, loc, civil.Rule{})
	return at
}
