package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/store"
)

type byName struct {
	Name string `path:"name" minLength:"1" maxLength:"200" doc:"The name of the sink."`
}

// The routes that act on one sink. The first two are repeatable: to pause a sink twice is to pause it once. An event that was redriven may be
// dead again before the request comes a second time.
const (
	sinkPausePath   = "/v1/sinks/{name}/pause"
	sinkEnablePath  = "/v1/sinks/{name}/enable"
	sinkRedrivePath = "/v1/sinks/{name}/redrive"
)

func (a *API) sinks() {
	tags := []string{"sinks"}
	route(a, http.MethodGet, "/v1/sinks", ScopeRead, huma.Operation{
		OperationID: "list-sinks", Summary: "The sinks that are defined or have events, and how they are; never a setting", Tags: tags,
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.Sinks], error) {
		list, err := a.listSinks(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		return &body[client.Sinks]{list}, nil
	})
	route(a, http.MethodGet, "/v1/sinks/{name}", ScopeRead, huma.Operation{
		OperationID: "get-sink", Summary: "A sink, and how it is", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byName) (*body[client.Sink], error) {
		one, err := a.sink(ctx, c.Workspace, in.Name)
		if err != nil {
			return nil, err
		}
		return &body[client.Sink]{one}, nil
	})
	turn := func(path, verb, summary string, do func(context.Context, store.Workspace, string, string) (client.ChangedSink, error)) {
		route(a, http.MethodPost, path, ScopeOperate, huma.Operation{
			OperationID: verb + "-sink", Summary: summary, Tags: tags,
		}, func(ctx context.Context, c Caller, in *byName) (*body[client.ChangedSink], error) {
			changed, err := do(ctx, c.Workspace, c.Name, in.Name)
			if err != nil {
				return nil, err
			}
			return &body[client.ChangedSink]{changed}, nil
		})
	}
	turn(sinkPausePath, "pause", "Stop the events of a sink until it is enabled", func(ctx context.Context, ws store.Workspace, actor, name string) (client.ChangedSink, error) {
		return a.Engine.PauseSink(ctx, ws, actor, name)
	})
	turn(sinkEnablePath, "enable", "Let the events of a sink leave again", func(ctx context.Context, ws store.Workspace, actor, name string) (client.ChangedSink, error) {
		return a.Engine.EnableSink(ctx, ws, actor, name)
	})
	route(a, http.MethodPost, sinkRedrivePath, ScopeOperate, huma.Operation{
		OperationID: "redrive-sink", Summary: "Have all events tried again that are dead at a sink", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byName) (*body[client.RedrivenSink], error) {
		if _, err := a.sink(ctx, c.Workspace, in.Name); err != nil {
			return nil, err
		}
		wire := func(n int) client.RedrivenSink { return client.RedrivenSink{Name: in.Name, Events: n} }
		n, err := a.Engine.RedriveSink(ctx, c.Workspace, c.Name, in.Name, once(a, c, wire))
		if err != nil {
			return nil, err
		}
		return &body[client.RedrivenSink]{wire(n)}, nil
	})
}

// listSinks are the sinks that are defined in force, and those that have had events, by name.
func (a *API) listSinks(ctx context.Context, ws store.Workspace) (list client.Sinks, err error) {
	defined, err := a.Engine.DefinedSinks(ctx, ws.ID)
	if err != nil {
		return list, err
	}
	states, err := a.Store.SinksOf(ctx, ws.ID)
	if err != nil {
		return list, err
	}
	byName := make(map[string]client.Sink, len(defined)+len(states))
	for _, k := range states {
		byName[k.Name] = client.Sink{
			Name: k.Name, State: string(k.State), Pending: k.Pending, Dead: k.Dead, OldestAt: k.Oldest, FailingSince: k.FailingSince,
			NextAt: k.NextTry(k.Oldest), FailedAt: k.FailedAt, RestUntil: k.RestUntil, Reason: string(k.Reason), Message: sentence(k.Reason),
		}
	}
	for _, def := range defined {
		one := byName[def.Name]
		one.Name, one.Provider, one.State = def.Name, def.Provider, cmp.Or(one.State, client.SinkActive)
		byName[def.Name] = one
	}
	list.Items = make([]client.Sink, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list.Items = append(list.Items, byName[name])
	}
	return list, nil
}

// sink finds a sink by its name.
func (a *API) sink(ctx context.Context, ws store.Workspace, name string) (client.Sink, error) {
	list, err := a.listSinks(ctx, ws)
	if err != nil {
		return client.Sink{}, err
	}
	for _, one := range list.Items {
		if one.Name == name {
			return one, nil
		}
	}
	return client.Sink{}, store.ErrNotFound
}
