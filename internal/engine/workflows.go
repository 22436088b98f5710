package engine

import (
	"context"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// WorkflowInfo is a workflow that is in force or paused.
type WorkflowInfo struct {
	Name       string
	Definition *definition.Workflow // nil: it is paused, and defined no longer
	Pause      *store.Pause         // nil: it is not paused, and nothing of it is parked
	Stopped    store.Stopped        // by the pause
}

// Workflows lists the workflows in force by name, and after them paused ones that are defined no longer.
func (e *Engine) Workflows(ctx context.Context, ws subject.WorkspaceID) ([]WorkflowInfo, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	pauses, err := e.config.Store.Pauses(ctx, ws)
	if err != nil {
		return nil, err
	}
	stopped, err := e.config.Store.Stopped(ctx, ws, pauses, e.config.Clock.Now())
	if err != nil {
		return nil, err
	}
	list := make([]WorkflowInfo, 0, len(set.Workflows()))
	place := map[string]int{}
	for _, w := range set.Workflows() {
		place[w.Name] = len(list)
		list = append(list, WorkflowInfo{Name: w.Name, Definition: w})
	}
	for _, p := range pauses {
		if i, ok := place[p.Workflow]; ok {
			list[i].Pause, list[i].Stopped = &p, stopped[p.Workflow]
			continue
		}
		list = append(list, WorkflowInfo{Name: p.Workflow, Pause: &p, Stopped: stopped[p.Workflow]})
	}
	return list, nil
}

// ChannelStates returns the defined channels of a workspace, and in the same order what this process knows about them.
func (e *Engine) ChannelStates(ctx context.Context, ws subject.WorkspaceID) ([]*definition.Channel, []channelpool.State, error) {
	infos, err := e.DefinedChannels(ctx, ws)
	if err != nil {
		return nil, nil, err
	}
	defs, states := make([]*definition.Channel, len(infos)), make([]channelpool.State, len(infos))
	for i, info := range infos {
		defs[i], states[i] = info.Definition, info.State
	}
	return defs, states, nil
}
