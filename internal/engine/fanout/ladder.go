package fanout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// What fails is tried again after the waits of retry.backoff, exactly, and is then held, or tried once a day (B27-B29, decisions
// 29 and 31). What brings its worker down is tried at once the first time, then by the waits, and is held the third time.

// maxCrashes is how often an instance may bring a worker down.
const maxCrashes = 3

// crash is what became of a worker that broke down over an instance.
type crash struct{ cause any }

func (c *crash) Error() string { return fmt.Sprintf("it brought its worker down: %v", c.cause) }

// errLost: the lease of an instance has run out, and nobody has given it back.
var errLost = errors.New("its worker has died")

// guarded does something with one instance; that it breaks down is an error of that one.
func guarded(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &crash{cause}
		}
	}()
	return do()
}

// leased reports whether an instance is not done now: it is only taken up, or its worker has died over it, which is to be made good
// by waiting.
func (r *run) leased(p *planned, in store.DueInstance) (bool, error) {
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

// take has an instance be this worker's until its lease ends.
func (r *run) take(p planned, in store.DueInstance) store.FanoutResult {
	r.took = append(r.took, store.TakenInstance{Workspace: in.Workspace, ID: in.ID, Version: in.Version + 1})
	result := store.FanoutResult{
		Status: instance.Pending, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: in.NextRetryAt,
		Cursor: subject.ContactID(in.ExpandCursor), LeaseUntil: r.now.Add(p.lease),
	}
	if !in.LeaseUntil.IsZero() { // the first time it is taken over at once
		result.Crashes, result.Reason = in.Crashes+1, reason.WorkerCrashed
	}
	return result
}

// fail climbs the ladder; at its end a person decides.
func (r *run) fail(p *planned, in store.DueInstance, cause error) store.FanoutResult {
	result := store.FanoutResult{
		Status: instance.Pending, Reason: reason.AudienceFailed, RetryCount: in.RetryCount + 1, Trace: failure(in.Trace, cause, r.now), Cursor: subject.ContactID(in.ExpandCursor),
	}
	what, retry := journal.Retried, r.retry(p)
	crashed := (*crash)(nil)
	if errors.As(cause, &crashed) || errors.Is(cause, errLost) {
		result.Reason, result.Crashes = reason.WorkerCrashed, in.Crashes+1
	}
	switch {
	case errors.Is(cause, errGone):
		result.Status, result.Reason, what = instance.Deactivated, reason.WorkflowInactive, journal.Cancelled
	case result.Crashes >= maxCrashes:
		result.Held, what = true, journal.Held
	case result.Crashes == 1 && retry.OnCrash == definition.CrashNow:
		result.RetryCount = in.RetryCount
	case in.RetryCount < len(retry.Backoff):
		result.NextRetryAt = r.now.Add(retry.Backoff[in.RetryCount])
	case retry.Then == definition.RetryDaily:
		result.NextRetryAt = r.tomorrow(p, in)
	default:
		result.Held, result.Reason, what = true, reason.RetriesUsedUp, journal.Held
	}
	if result.Held && p.successors == nil && !in.Later {
		p.successors = r.next(p, in)
	}
	e := entry(what, in, result, r.now)
	e.Error, e.Until = cause.Error(), result.NextRetryAt
	r.entries = append(r.entries, e)
	return result
}

// maxFailures is how many of the last failures an instance keeps, and maxError how much of each: rows stay small (B11).
const (
	maxFailures = 3
	maxError    = 300
)

// failure adds a failure to what is kept of an instance.
func failure(trace string, cause error, now time.Time) string {
	kept, last := map[string]json.RawMessage{}, instance.Failures(trace)
	if json.Unmarshal([]byte(trace), &kept) != nil { // there is none yet
		kept = map[string]json.RawMessage{}
	}
	text := cause.Error()
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	last = append(last, instance.Failure{At: now, Error: text})
	last = last[max(0, len(last)-maxFailures):]
	list, err := json.Marshal(last)
	if err == nil {
		kept["failures"] = list
		list, err = json.Marshal(kept)
	}
	if err != nil { // instants beyond the year 9999 have no JSON form
		return trace
	}
	return string(list)
}

// next ensures what follows an occasion of the calendar that is held before anybody could ask its series.
func (r *run) next(p *planned, in store.DueInstance) (seeds []store.Successor) {
	if p.trigger == nil || p.trigger.Schedule == nil || !plan.InSeries(in.Row) {
		return nil
	}
	series, err := plan.SeriesOf(p.live, definition.Match{Workflow: p.live.Workflow(in.Workflow), Trigger: p.trigger}, &r.catalog.Zones)
	if err != nil { // the zone is known no longer: the next apply ensures what is to follow
		return nil
	}
	return []store.Successor{r.successor(in, series.Trigger.ID, series.Next(plan.PlaceOf(in.Row), r.now), 0)}
}

// retry is what the definition of an instance says, as far as it was found.
func (r *run) retry(p *planned) definition.Retry {
	switch {
	case p.trigger != nil:
		return p.trigger.Retry
	case p.live != nil:
		return p.live.Workspace.Retry
	}
	return definition.Retry{}
}

// tomorrow is the same time of the next day, where the instance is due.
func (r *run) tomorrow(p *planned, in store.DueInstance) time.Time {
	loc, err := r.catalog.Zones.Load(cmp.Or(in.Timezone, p.live.Workspace.Timezone))
	if err != nil { // the zone is known no longer
		loc = time.UTC
	}
	day, clock := civil.DateOf(r.now, loc)
	at, _ := civil.Resolve(day.AddDays(1), clock, loc, civil.Rule{})
	return at
}
