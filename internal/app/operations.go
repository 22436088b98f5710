package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/nextdigest"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// operations is the engine as the API sees it.
type operations struct {
	engine *engine.Engine
	count  func(outcome string, why reason.Reason) // of each event; nil = nobody counts
	copied func() bool                             // the database is a copy that nobody has accepted; nil = it is none
}

// Operations is an engine in the shape that the API asks for.
func Operations(e *engine.Engine) api.Engine { return operations{engine: e} }

func (o operations) Ingest(ctx context.Context, ws store.Workspace, items []ingest.Item, once *store.Idempotent[[]ingest.Result]) ([]ingest.Result, error) {
	results, err := o.engine.IngestOnce(ctx, ws, items, once)
	if o.count != nil {
		for _, r := range results {
			o.count(string(r.Outcome), r.Reason)
		}
	}
	return results, err
}

func (o operations) Receipts() *receipt.Writer { return o.engine.Receipts() }

// Replies implements api.Engine.
func (o operations) Replies() *reply.Writer { return o.engine.Replies() }

func (o operations) FindTopic(ctx context.Context, ws store.Workspace, raw json.RawMessage, once *store.Idempotent[topics.Found]) (topics.Found, error) {
	return o.engine.Topics().Find(ctx, ws, raw, o.engine.Now(), once)
}

func (o operations) RemoveTopic(ctx context.Context, ws store.Workspace, name string, once *store.Idempotent[store.TopicRow]) (store.TopicRow, error) {
	return o.engine.Topics().Remove(ctx, ws, name, o.engine.Now(), once)
}

func (o operations) Subscribe(ctx context.Context, ws store.Workspace, list []topics.Request, source topic.Source, once *store.Idempotent[[]topics.Subscribed]) ([]topics.Subscribed, error) {
	return o.engine.Topics().Subscribe(ctx, ws, list, source, o.engine.Now(), once)
}

func (o operations) Unsubscribe(ctx context.Context, ws store.Workspace, list []topics.Request, once *store.Idempotent[[]topics.Subscribed]) ([]topics.Subscribed, error) {
	return o.engine.Topics().Unsubscribe(ctx, ws, list, o.engine.Now(), once)
}

func (o operations) NextDigests(ctx context.Context, ws subject.WorkspaceID, contact subject.ContactID) ([]nextdigest.Digest, error) {
	return o.engine.NextDigests(ctx, ws, contact)
}

func (o operations) Publish(ctx context.Context, ws store.Workspace, items []item.Item, once *store.Idempotent[[]item.Result]) ([]item.Result, error) {
	return o.engine.PublishOnce(ctx, ws, items, once)
}

func (o operations) Tick(ctx context.Context) (client.Tick, error) {
	if o.copied != nil && o.copied() {
		return client.Tick{}, errTickOfCopy()
	}
	r, err := o.engine.Tick(ctx)
	return client.Tick{Processed: r.Processed, Evaluated: r.Evaluated, Expanded: r.Expanded, Reclaimed: r.Reclaimed, Expired: r.Expired, Failed: r.Failed, Dispatched: r.Dispatched, Dead: r.Dead}, err
}

func (o operations) Operate(ctx context.Context, ws store.Workspace, actor string, action api.Action, once *store.Idempotent[api.Operated]) (api.Operated, error) {
	ops, now := o.engine.Operator().Idempotent(store.From(once, operated)), o.engine.Now()
	var r operator.Result
	var err error
	switch onDelivery := action.Delivery != 0; {
	case action.Verb == api.Cancel && onDelivery:
		r, err = ops.CancelDelivery(ctx, ws.ID, action.Delivery, actor, now)
	case action.Verb == api.Cancel:
		r, err = ops.CancelInstance(ctx, ws.ID, action.Instance, actor, now)
	case action.Verb == api.Retry && onDelivery:
		r, err = ops.RetryDelivery(ctx, ws.ID, action.Delivery, actor, now)
	case action.Verb == api.Retry && action.All:
		r, err = ops.RetryForAll(ctx, ws.ID, action.Instance, actor, now)
	case action.Verb == api.Retry:
		r, err = ops.RetryInstance(ctx, ws.ID, action.Instance, actor, now)
	case action.Verb == api.Release:
		r, err = ops.Release(ctx, ws.ID, action.Instance, actor, now)
	case action.Verb == api.Forget:
		r, err = ops.Forget(ctx, ws.ID, action.Key, actor, now)
	default:
		err = errors.New("unknown verb")
	}
	if err != nil {
		return api.Operated{}, refusal(err)
	}
	return operated(r), nil
}

func (o operations) RunManually(ctx context.Context, ws store.Workspace, actor, workflow, runID string, once *store.Idempotent[store.ManualRun]) (store.ManualRun, error) {
	run, err := o.engine.RunManually(ctx, ws, workflow, runID, actor, once)
	var refused *engine.NotManualError
	if errors.As(err, &refused) {
		p := client.NewProblem(http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity), client.CodeNotByHand, refused.Error())
		p.Hint = refused.Hint
		return run, p
	}
	return run, refusal(err)
}

func (o operations) InputConflict(ctx context.Context, ws subject.WorkspaceID, in instance.Row) (plan.InputConflict, error) {
	return o.engine.InputConflict(ctx, ws, in)
}

func (o operations) Workflows(ctx context.Context, ws store.Workspace) (client.Workflows, error) {
	found, err := o.engine.Workflows(ctx, ws.ID)
	if err != nil {
		return client.Workflows{}, err
	}
	list := client.Workflows{Workflows: make([]client.Workflow, len(found))}
	for i, f := range found {
		one := client.Workflow{Workflow: f.Name}
		if d := f.Definition; d != nil {
			one.Type, one.Version, one.Enabled = d.Type, d.Version, d.Enabled
		}
		if p := f.Pause; p != nil {
			one.Paused = p.ResumedAt.IsZero()
			one.Pause = &client.WorkflowPause{
				PausedAt: p.PausedAt, ResumedAt: p.ResumedAt, Actor: p.Actor, Reason: p.Why, Cause: string(p.Cause), Instances: p.Instances, Deliveries: p.Deliveries,
				Stopped: f.Stopped.All(), Due: f.Stopped.Due, More: f.Stopped.More,
			}
		}
		list.Workflows[i] = one
	}
	return list, nil
}

func (o operations) PauseWorkflow(ctx context.Context, ws store.Workspace, actor, workflow, why string) (client.PausedWorkflow, error) {
	p, err := o.engine.Operator().Pause(ctx, ws.ID, workflow, why, actor, o.engine.Now())
	if err != nil {
		return client.PausedWorkflow{}, refusal(err)
	}
	return client.PausedWorkflow{
		Workflow: workflow, Changed: p.Changed, Paused: true, PausedAt: p.Pause.PausedAt, Actor: p.Pause.Actor, Reason: p.Pause.Why,
	}, nil
}

func (o operations) ResumeWorkflow(ctx context.Context, ws store.Workspace, actor, workflow string) (client.PausedWorkflow, error) {
	p, err := o.engine.Operator().Resume(ctx, ws.ID, workflow, actor, o.engine.Now())
	if err != nil {
		return client.PausedWorkflow{}, refusal(err)
	}
	return client.PausedWorkflow{Workflow: workflow, Changed: p.Changed}, nil
}

func operated(r operator.Result) api.Operated {
	return api.Operated{
		BeingSent: r.BeingSent, Run: r.Job,
		Changed: r.Changed, Instance: r.Instance, Deliveries: r.Deliveries,
		NewInstance: r.NewInstance, NewKey: r.NewKey, NewDeliveries: r.NewDeliveries,
	}
}

func (o operations) WriteContacts(
	ctx context.Context, ws store.Workspace, mode upsert.Mode, items []contact.Item, once *store.Idempotent[[]upsert.Result[subject.ContactRow]],
) ([]upsert.Result[subject.ContactRow], error) {
	return o.engine.Contacts().Write(ctx, ws, mode, items, o.engine.Now(), once)
}

func (o operations) Limits(ctx context.Context, ws subject.WorkspaceID, contact string) (admission.Limits, error) {
	return o.engine.Limits(ctx, ws, contact)
}

func (o operations) Inbound(ctx context.Context, ws subject.WorkspaceID, name string, c channel.Callback) (channel.Inbound, error) {
	return o.engine.Inbound(ctx, ws, name, c)
}

func (o operations) MergeContact(ctx context.Context, ws store.Workspace, m contact.Merger, once *store.Idempotent[contact.Merged]) (contact.Merged, error) {
	return o.engine.Contacts().Merge(ctx, ws, m, o.engine.Now(), once)
}

func (o operations) StopContact(ctx context.Context, ws store.Workspace, w contact.Suppression, once *store.Idempotent[contact.Stopped]) (contact.Stopped, error) {
	return o.engine.Contacts().Stop(ctx, ws, w, o.engine.Now(), once)
}

func (o operations) WriteRecords(
	ctx context.Context, ws store.Workspace, mode upsert.Mode, items []record.Item, actor string, once *store.Idempotent[[]record.Result],
) ([]record.Result, error) {
	return o.engine.Records().Write(ctx, ws, mode, items, actor, o.engine.Now(), once)
}

func (o operations) RecordTypes(ctx context.Context, ws subject.WorkspaceID) ([]*expr.RecordType, error) {
	set, err := o.engine.Definitions(ctx, ws)
	if err != nil {
		return nil, err
	}
	return set.RecordTypes(), nil
}

func (o operations) DefinedGroups(ctx context.Context, ws subject.WorkspaceID) ([]*definition.Group, error) {
	set, err := o.engine.Definitions(ctx, ws)
	if err != nil {
		return nil, err
	}
	return set.Groups(), nil
}

func (o operations) StopsOf(ctx context.Context, ws store.Workspace, c subject.Contact) ([]store.StoppedKind, error) {
	return o.engine.StopsOf(ctx, ws, c)
}

func (o operations) GroupsOf(ctx context.Context, ws subject.WorkspaceID, contacts []subject.ContactRow) ([][]string, error) {
	return o.engine.GroupsOf(ctx, ws, contacts)
}

func (o operations) Throttles(ctx context.Context, ws subject.WorkspaceID, f store.ThrottleFilter) ([]store.ThrottleRow, error) {
	return o.engine.Throttles(ctx, ws, f)
}

func (o operations) ExplainRecord(ctx context.Context, ws store.Workspace, r store.RecordRow) ([]plan.Explanation, error) {
	return o.engine.ExplainRecord(ctx, ws.ID, r)
}

func (o operations) DigestLeftOut(ctx context.Context, run store.DigestRun, contact subject.ContactID) (reason.Reason, error) {
	return o.engine.DigestLeftOut(ctx, run, contact)
}

func (o operations) Upcoming(ctx context.Context, ws store.Workspace, q outlook.Query) (outlook.Answer, error) {
	return o.engine.Upcoming(ctx, ws.ID, q)
}

func (o operations) CountRecipients(ctx context.Context, ws store.Workspace, workflow string, sample int) (recipients.Answer, error) {
	return o.engine.CountRecipients(ctx, ws.ID, workflow, sample)
}

func (o operations) RecordWarnings(ctx context.Context, ws store.Workspace, r store.RecordRow) ([]record.Warning, error) {
	return o.engine.RecordWarnings(ctx, ws.ID, r)
}

// answer converts an error of an operator's command into the error that the caller gets.
func refusal(err error) error {
	var state *operator.StateError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, operator.ErrNotFound):
		return store.ErrNotFound
	case errors.As(err, &state):
		p := client.NewProblem(http.StatusConflict, http.StatusText(http.StatusConflict), client.CodeNotPossible, state.Error())
		p.Hint = state.Hint
		return p
	}
	return err
}

func (o operations) Respond(ctx context.Context, ws store.Workspace, id delivery.ID, s answer.Submission, once *store.Idempotent[delivery.Response]) (delivery.Response, error) {
	return o.engine.Answers().Submit(ctx, answer.Link{Workspace: ws.ID, Delivery: id}, s, o.engine.Now(), once)
}

func (o operations) Circumstances(ctx context.Context, ws subject.WorkspaceID) (func(delivery.Row) admission.Circumstances, error) {
	return o.engine.Circumstances(ctx, ws)
}

func (o operations) CancelRun(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error) {
	return o.engine.Operator().CancelJob(ctx, ws.ID, id, audit.At, audit)
}

func (o operations) ResumeRun(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error) {
	return o.engine.Operator().ResumeJob(ctx, ws.ID, id, audit.At, audit)
}

func (o operations) UndoRun(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error) {
	return o.engine.Subscribers().Undo(ctx, ws, id, audit.At, audit)
}

func (o operations) PreviewSubscriptions(ctx context.Context, ws store.Workspace, q bulk.Request) (bulk.Found, error) {
	return o.engine.Subscribers().Preview(ctx, ws, q, o.engine.Now())
}

func (o operations) ChangeSubscriptions(ctx context.Context, ws store.Workspace, actor string, q bulk.Request, once *store.Idempotent[bulk.Found]) (bulk.Found, error) {
	return o.engine.Subscribers().Begin(ctx, ws, q, actor, o.engine.Now(), once)
}

func (o operations) Bulk(ctx context.Context, ws store.Workspace, actor string, b api.Bulk, once *store.Idempotent[api.Bulked]) (api.Bulked, error) {
	ops, wish := o.engine.Operator(), operator.Bulk{Retry: b.Verb == api.Retry, Selection: b.Selection}
	if b.DryRun {
		m, err := ops.Preview(ctx, ws.ID, wish)
		return api.Bulked{Matched: m.N, More: m.More, ByStatus: m.ByStatus, ByReason: m.ByReason, Samples: m.Samples}, refusal(err)
	}
	run, m, err := ops.Begin(ctx, ws.ID, wish, actor, o.engine.Now(), func(m operator.Matched) *store.Idempotent[job.Row] {
		return store.From(once, func(r job.Row) api.Bulked {
			return api.Bulked{Matched: m.N, More: m.More, ByStatus: m.ByStatus, ByReason: m.ByReason, Run: r}
		})
	})
	return api.Bulked{Matched: m.N, More: m.More, ByStatus: m.ByStatus, ByReason: m.ByReason, Run: run}, refusal(err)
}
