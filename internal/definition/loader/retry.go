package loader

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/flow"
)

// What follows a failed try.

// retry reads what follows a failed attempt; missing keys have their defaults.
func (r *reader) retry(n *portable.Node) definition.Retry {
	retry := defaultRetry()
	f, ok := r.fields(n, "retry")
	if !ok {
		return retry
	}
	if backoff := f.get("backoff"); backoff != nil {
		retry.Backoff, retry.Patient = exact(r.durations(backoff)), nil
	}
	if jitter := f.get("jitter"); jitter != nil {
		retry.Jitter = r.jitter(jitter, retry.Jitter)
	}
	retry.Then = r.word(f.get("then"), "then", retry.Then, []string{definition.RetryFail, definition.RetryHold, definition.RetryDaily, definition.RetryForever})
	retry.OnCrash = r.word(f.get("on_crash"), "on_crash", retry.OnCrash, []string{definition.CrashNow, definition.CrashLadder})
	if lease := f.get("lease"); lease != nil {
		if d, ok := r.duration(lease); ok {
			if retry.Lease = d.Exact(); retry.Lease < minLease || retry.Lease > maxLease {
				r.invalid(lease.Pos, "a lease is from 1s to 1h", "a lease is not renewed, so choose more than the longest run of one instance")
			}
		}
	}
	return retry
}

const (
	minLease = time.Second
	// maxLease bounds how long an instance stays unprocessed after its worker has died.
	maxLease = time.Hour
)

// expands refuses retry keys about instances in a workflow whose instances cannot fail: recipients that the event names are resolved at
// ingest.
func (r *reader) expands(n *portable.Node, w *definition.Workflow) {
	f, ok := r.fields(n, "retry")
	if !ok || len(w.Trigger) == 0 {
		return
	}
	for _, t := range w.Trigger {
		if t.OnEvent() == nil || t.Course() != nil || slices.ContainsFunc(t.Audience, func(a definition.Audience) bool { return !a.EventRecipient }) {
			return
		}
	}
	const what, hint = "%s is about instances, and those of %s are done when their event is taken in", "leave it out"
	for _, name := range []string{"on_crash", "lease"} {
		if key := f.get(name); key != nil {
			r.invalid(key.Pos, fmt.Sprintf(what, name, w.Name), hint)
		}
	}
	if then := f.get("then"); then != nil && then.Text == definition.RetryDaily {
		r.invalid(then.Pos, fmt.Sprintf(what, "then: daily", w.Name), hint)
	}
}

func exact(all []civil.Duration) []time.Duration {
	lengths := make([]time.Duration, len(all))
	for i, d := range all {
		lengths[i] = d.Exact()
	}
	return lengths
}

// jitter reads none or a percentage.
func (r *reader) jitter(n *portable.Node, byDefault int) int {
	text, ok := r.text(n)
	if !ok {
		return byDefault
	}
	if text == "none" {
		return 0
	}
	var percent int
	var rest string
	if count, _ := fmt.Sscanf(text, "%d%s", &percent, &rest); count != 2 || rest != "%" || percent < 0 || percent > 100 || !isMadeOf(text[:len(text)-1], "") {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a jitter", text), "write none, or a percentage such as 20%")
		return byDefault
	}
	return percent
}

// priorities are the values of priority.
func priorities() []string {
	var words []string
	for _, p := range flow.Priorities() {
		words = append(words, p.String())
	}
	return words
}

// priority reads which messages go first; byDefault it is that of digests, or the ordinary one.
func (r *reader) priority(n *portable.Node, digests bool) flow.Priority {
	byDefault := flow.Transactional
	if digests {
		byDefault = flow.Digest
	}
	p, err := flow.PriorityOf(r.word(n, "priority", byDefault.String(), priorities()))
	if err != nil { // reported by word
		return byDefault
	}
	return p
}
