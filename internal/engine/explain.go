package engine

import (
	"context"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// RecordWarnings returns the fields of a record that name a contact that does not exist.
func (e *Engine) RecordWarnings(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]record.Warning, error) {
	return e.records.Warnings(ctx, ws, r)
}

// ExplainRecord explains for every trigger of a record why it would fire now, or why not. It changes nothing.
func (e *Engine) ExplainRecord(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]plan.Explanation, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	states, unreadable := condition.Parse(r.State)
	if r.Unreadable != nil {
		unreadable = r.Unreadable
	}
	observation := plan.Observation{Now: e.config.Clock.Now(), EvaluateAt: r.EvaluateAt, EvaluatedAt: r.EvaluatedAt}
	others, err := related.Of(ctx, e.config.Store, ws, set.Relations(r.Type), []subject.Record{r.Record})
	if err != nil {
		return nil, err
	}
	evals := plan.Record(set, r.Record, others, states, observation, &e.catalog.Zones)
	ref := func(l plan.Evaluation) store.ThrottleRef {
		return store.ThrottleRef{Workspace: ws, Workflow: l.Workflow.Name, Context: l.Context}
	}
	var refs []store.ThrottleRef
	for _, l := range evals {
		if l.Fires() {
			refs = append(refs, ref(l))
		}
	}
	throttles, err := e.config.Store.ThrottlesOf(ctx, refs)
	if err != nil {
		return nil, err
	}
	explanations := make([]plan.Explanation, len(evals))
	for i, l := range evals {
		th := throttles[ref(l)]
		explanations[i] = plan.Explain(l, states[condition.Name(l.Workflow.Name, l.Trigger.ID)], r.Record, observation, plan.Firing{FiredAt: th.FiredAt, VoidAt: th.VoidAt, InFlight: th.InFlight})
		if s := &explanations[i]; unreadable != nil || r.Failures > 0 && s.Reason == reason.Matched {
			s.Reason, s.Until, s.Err = reason.EvaluationFailed, r.EvaluateAt, unreadable
		}
	}
	return explanations, nil
}

// Upcoming says what a workflow is going to do if nothing changes; see outlook.Outlook.Ask.
func (e *Engine) Upcoming(ctx context.Context, ws subject.WorkspaceID, q outlook.Query) (outlook.Answer, error) {
	return e.outlook.Ask(ctx, ws, q, e.config.Clock.Now())
}

// CountRecipients says who the audience of a workflow is now, and names up to sample of them; see recipients.Counter.Count.
func (e *Engine) CountRecipients(ctx context.Context, ws subject.WorkspaceID, workflow string, sample int) (recipients.Answer, error) {
	return e.recipients.Count(ctx, ws, workflow, sample, e.config.Clock.Now())
}
