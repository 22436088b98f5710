package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/service/sinks"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

func (o operations) DefinedSinks(ctx context.Context, ws subject.WorkspaceID) ([]*definition.Sink, error) {
	set, err := o.engine.Definitions(ctx, ws)
	if err != nil {
		return nil, err
	}
	return set.Sinks(), nil
}

func (o operations) PauseSink(ctx context.Context, ws store.Workspace, actor, name string) (client.ChangedSink, error) {
	h, changed, err := o.engine.Sinks().Pause(ctx, store.SinkRef{Workspace: ws.ID, Name: name}, actor, o.engine.Now())
	return changedSink(name, h, changed, err)
}

func (o operations) EnableSink(ctx context.Context, ws store.Workspace, actor, name string) (client.ChangedSink, error) {
	h, changed, err := o.engine.Sinks().Enable(ctx, store.SinkRef{Workspace: ws.ID, Name: name}, actor, o.engine.Now())
	return changedSink(name, h, changed, err)
}

func changedSink(name string, h outbox.Health, changed bool, err error) (client.ChangedSink, error) {
	if err != nil {
		return client.ChangedSink{}, unredriven(err)
	}
	return client.ChangedSink{Name: name, Changed: changed, State: string(h.State)}, nil
}

func (o operations) RedriveEvent(ctx context.Context, ws store.Workspace, actor string, event int64, sink string, once *store.Idempotent[[]string]) ([]string, error) {
	at, err := o.engine.Sinks().RedriveOnce(ctx, ws.ID, event, sink, actor, o.engine.Now(), once)
	return at, unredriven(err)
}

func (o operations) RedriveSink(ctx context.Context, ws store.Workspace, actor, name string, once *store.Idempotent[int]) (int, error) {
	return o.engine.Sinks().RedriveAllOnce(ctx, store.SinkRef{Workspace: ws.ID, Name: name}, actor, o.engine.Now(), once)
}

// unredriven converts an error of an action on sinks into the error that the caller gets.
func unredriven(err error) error {
	switch {
	case errors.Is(err, sinks.ErrNotFound):
		return store.ErrNotFound
	case errors.Is(err, sinks.ErrNotDead):
		p := client.NewProblem(http.StatusConflict, http.StatusText(http.StatusConflict), client.CodeNotPossible, "redrive is not possible: the event is dead at no sink that was asked for")
		p.Hint = "GET /v1/outbox shows its state at each sink; what is pending is tried by itself, and what is dispatched has arrived"
		return p
	}
	return err
}
