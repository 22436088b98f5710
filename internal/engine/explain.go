package engine

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// ExplainRecord says of every trigger that looks at a record why it would fire now, or why not. It changes nothing.
func (e *Engine) ExplainRecord(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]plan.Standing, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	states, err := condition.Parse(r.State)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", r.ID, err)
	}
	glance := plan.Glance{Now: e.config.Clock.Now(), LookAt: r.LookAt, LookedAt: r.LookedAt}
	looks := plan.Record(set, r.Record, states, glance, &e.catalog.Zones)
	ref := func(l plan.Look) store.ThrottleRef {
		return store.ThrottleRef{Workspace: ws, Workflow: l.Workflow.Name, Context: l.Context}
	}
	var refs []store.ThrottleRef
	for _, l := range looks {
		if l.Fires() {
			refs = append(refs, ref(l))
		}
	}
	throttles, err := e.config.Store.ThrottlesOf(ctx, refs)
	if err != nil {
		return nil, err
	}
	standings := make([]plan.Standing, len(looks))
	for i, l := range looks {
		th := throttles[ref(l)]
		standings[i] = plan.Stand(l, states[condition.Name(l.Workflow.Name, l.Trigger.ID)], r.Record, glance, th.FiredAt, th.InFlight)
	}
	return standings, nil
}
