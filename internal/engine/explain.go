package engine

import (
	"context"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/engine/record"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// RecordWarnings says which fields of a record name a contact that does not exist.
func (e *Engine) RecordWarnings(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]record.Warning, error) {
	return e.records.Warnings(ctx, ws, r)
}

// ExplainRecord says of every trigger that looks at a record why it would fire now, or why not. It changes nothing.
func (e *Engine) ExplainRecord(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]plan.Explanation, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	states, unreadable := condition.Parse(r.State)
	if r.Unreadable != nil {
		unreadable = r.Unreadable
	}
	glance := plan.Observation{Now: e.config.Clock.Now(), EvaluateAt: r.EvaluateAt, EvaluatedAt: r.EvaluatedAt}
	var kin plan.Related
	err = e.config.Store.RelatedRecords(ctx, func(read store.Related) (more []store.RelatedRef) {
		kin = read.ByWorkspace()[ws]
		for _, ref := range kin.Unread(set.Relations(r.Type), r.Record) {
			more = append(more, store.RelatedRef{Workspace: ws, RecordRef: ref})
		}
		return more
	})
	if err != nil {
		return nil, err
	}
	looks := plan.Record(set, r.Record, kin, states, glance, &e.catalog.Zones)
	ref := func(l plan.Evaluation) store.ThrottleRef {
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
	standings := make([]plan.Explanation, len(looks))
	for i, l := range looks {
		th := throttles[ref(l)]
		standings[i] = plan.Explain(l, states[condition.Name(l.Workflow.Name, l.Trigger.ID)], r.Record, glance, plan.Firing{FiredAt: th.FiredAt, VoidAt: th.VoidAt, InFlight: th.InFlight})
		if s := &standings[i]; unreadable != nil || r.Failures > 0 && s.Reason == reason.Matched {
			s.Reason, s.Until, s.Err = reason.LookFailed, r.EvaluateAt, unreadable
		}
	}
	return standings, nil
}
