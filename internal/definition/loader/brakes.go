package loader

import (
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// mostBraked is the greatest number of a brake: more people or messages than any installation has.
const mostBraked = 1_000_000_000

// brakes reads the brakes of the limits that are in force for a trigger: how many people an occasion takes up.
func (r *reader) brakes(n *portable.Node, t *definition.Trigger) {
	if n != nil && n.Kind == portable.Map {
		t.MaxRecipients = r.countTo(n.Get("max_recipients_per_run"), mostBraked)
	}
}

// maxSends reads how many messages a workflow may send in an hour. It belongs to the workflow, whose triggers are counted together, so a
// trigger's limits have no such key.
func (r *reader) maxSends(shared *portable.Node, triggers []*portable.Node) int {
	for _, item := range triggers {
		if item.Kind != portable.Map {
			continue
		}
		if own := item.Get("limits"); own != nil && own.Kind == portable.Map && own.Get("max_sends_per_hour") != nil {
			r.invalid(own.Get("max_sends_per_hour").Pos, "max_sends_per_hour is of the whole workflow, whose triggers are counted together", "write it below limits: of the workflow")
		}
	}
	if shared == nil || shared.Kind != portable.Map {
		return 0
	}
	return r.countTo(shared.Get("max_sends_per_hour"), mostBraked)
}
