package admission

import (
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
)

// Rules are the definitions that a delivery belongs to.
type Rules struct {
	Set      *definition.Set // in which its workflow is
	Live     *definition.Set // in force
	Workflow *definition.Workflow
	Trigger  *definition.Trigger // nil: it sends nothing
	Unlisted bool                // the list of its course does not have the message any more
	Channel  *definition.Channel // nil: not defined
	Survey   *definition.Survey  // that is asked by messages; nil: none, or not defined
	Policy   delivery.Policy
	Off      bool // the workflow is switched off
	MaxSends int  // messages of the workflow in an hour, by the set in force; 0: any number
}

// RulesOf finds the definitions of a delivery: its workflow in set, which is the set that it is pinned to or else the one in force, and channels and
// switches in the set in force.
func RulesOf(row delivery.Row, set, live *definition.Set) Rules {
	r := Rules{Set: set, Live: live, Workflow: set.Workflow(row.Workflow), Channel: live.Channel(row.Channel)}
	if r.Workflow != nil {
		r.Trigger = r.Workflow.TriggerOf(row.Trigger, row.Message)
	}
	if r.Trigger != nil && r.Trigger.Lists() && row.Message >= len(r.Trigger.Course().Messages) {
		r.Trigger, r.Unlisted = nil, true
	}
	inForce := live.Workflow(row.Workflow)
	if inForce != nil {
		r.Off, r.MaxSends = !inForce.Enabled, inForce.MaxSends
	} else {
		r.Trigger = nil // a deleted workflow sends nothing, whatever version the row is pinned to
	}
	if r.Trigger != nil && !r.Trigger.Pin && (inForce == nil || inForce.TriggerByID(row.Trigger) == nil) {
		r.Trigger = nil // the row keeps the version of a large audience (R17), and would have followed its definition otherwise
	}
	if r.Trigger == nil {
		return r
	}
	r.Policy = delivery.Policy{
		Timing: r.Trigger.Timing, Awaits: r.Trigger.Message.Survey != "",
		Jitter: r.Trigger.Retry.Jitter, Forever: r.Trigger.Retry.Then == definition.RetryForever,
	}
	if r.Channel != nil {
		r.Policy.HoldUnknown, r.Policy.KeyLife = r.Channel.OnUnknown == definition.OnUnknownHold, r.Channel.KeyLife
	}
	if r.Converses() {
		return r.Asking(row, set)
	}
	return r
}

func (r Rules) hasFallback() bool { return len(r.Trigger.Fallback) > 0 }
