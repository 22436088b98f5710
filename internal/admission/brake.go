package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
)

// A workflow with max_sends_per_hour is paused by the first message that would go beyond: this message and what the batch decides after it of the
// workflow are parked, as in a pause by a person. Each intent counts, also that of a further try of the same message: the provider gets it once
// more. What waits for a limit, ends or leaves with another message does not count.

// TooFast is a workflow that has sent as many messages in an hour as it may.
type TooFast struct {
	delivery.WorkflowRef
	Sends int // in the last hour
	Most  int // max_sends_per_hour
}

// Why says it for people.
func (f TooFast) Why() string {
	return fmt.Sprintf("%d messages in the last hour, and max_sends_per_hour is %d", f.Sends, f.Most)
}

// sendBrake is the count of a workflow while a batch is decided.
type sendBrake struct {
	sends   flow.Sends
	changed bool     // the batch sends something of the workflow
	over    *TooFast // the batch pauses the workflow; nil: it does not
}

// Counted names the workflows whose sends are needed.
func (b *Batch) Counted() []delivery.WorkflowRef {
	workflows := map[delivery.WorkflowRef]bool{}
	for c := range b.undecided {
		if c.needs.count {
			workflows[delivery.WorkflowOf(c.Row)] = true
		}
	}
	return slices.Collect(maps.Keys(workflows))
}

// stopped reports whether the batch pauses the workflow of a claim.
func (b *Batch) stopped(c *candidate) bool {
	brake := b.brakes[delivery.WorkflowOf(c.Row)]
	return brake != nil && brake.over != nil
}

// countSend counts a message that would leave. It returns false, and pauses the workflow, if the message would go beyond.
func (b *Batch) countSend(c *candidate) bool {
	ref := delivery.WorkflowOf(c.Row)
	brake, most := b.brakes[ref], c.rules.MaxSends
	if brake == nil || most == 0 {
		return true
	}
	if n := brake.sends.Within(b.Now); n >= most {
		brake.over = &TooFast{WorkflowRef: ref, Sends: n, Most: most}
		return false
	}
	brake.sends, brake.changed = brake.sends.Add(b.Now), true
	return true
}

// takeBack undoes what was counted of a message for its person, because it does not leave.
func (b *Batch) takeBack(c *candidate, stands bool) {
	switch {
	case !stands:
		b.ledger.Release(c.ask, c.verdict.Row.Slot, c.Type)
		b.keep(c)
	case !c.OutcomeUnknown() && b.ledger.Policy(c.rules.Live, c.Person.Contact, Kind(c.Channel)).SentOnly():
		b.ledger.Release(c.ask, c.Slot, c.Type)
		b.ledger.Reserve(c.ask, c.Slot)
	}
}

// braked adds what was counted to a decision, and reports the workflows that are paused.
func (b *Batch) braked(d *Decision) {
	d.Sends = map[delivery.WorkflowRef]flow.Sends{}
	for ref, brake := range b.brakes {
		if brake.changed {
			d.Sends[ref] = brake.sends
		}
		if brake.over != nil {
			d.TooFast = append(d.TooFast, *brake.over)
		}
	}
	slices.SortFunc(d.TooFast, func(x, y TooFast) int {
		return cmp.Or(cmp.Compare(x.Workspace, y.Workspace), strings.Compare(x.Workflow, y.Workflow))
	})
	for _, f := range d.TooFast {
		d.Entries = append(d.Entries, journal.Entry{
			At: b.Now, What: journal.Held, Workspace: f.Workspace, Workflow: f.Workflow, Reason: reason.TooFast, Error: f.Why(),
		})
	}
}
