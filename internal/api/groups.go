package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
)

const groupsPath = "/v1/groups"

type getGroup struct {
	Name   string `path:"name" minLength:"1" maxLength:"200" doc:"The name of the group."`
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many contacts a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

func (a *API) groups() {
	tags := []string{"contacts"}
	route(a, http.MethodGet, groupsPath, ScopeRead, huma.Operation{
		OperationID: "list-groups", Summary: "The groups that are defined, and how many contacts belong to each", Tags: tags,
		Description: "A group that is new or has changed is computed by a run; messages to it go to the right contacts meanwhile.",
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.Groups], error) {
		defined, err := a.Engine.DefinedGroups(ctx, c.Workspace.ID)
		if err != nil {
			return nil, fmt.Errorf("list groups: %w", err)
		}
		names := make([]string, len(defined))
		for i, g := range defined {
			names[i] = g.Name
		}
		states, err := a.Store.GroupStates(ctx, c.Workspace.ID, names)
		if err != nil {
			return nil, fmt.Errorf("list groups: %w", err)
		}
		list := client.Groups{Items: make([]client.Group, len(defined))}
		for i, g := range defined {
			list.Items[i] = wireGroup(g, states[g.Name])
		}
		return &body[client.Groups]{list}, nil
	})
	route(a, http.MethodGet, groupsPath+"/{name}", ScopeRead, huma.Operation{
		OperationID: "get-group", Summary: "A group, and a page of its contacts, newest first", Tags: tags,
		Description: "While the group is computed, the contacts are those found so far.",
	}, func(ctx context.Context, c Caller, in *getGroup) (*body[client.GroupPage], error) {
		defined, err := a.Engine.DefinedGroups(ctx, c.Workspace.ID)
		if err != nil {
			return nil, fmt.Errorf("read a group: %w", err)
		}
		i := slices.IndexFunc(defined, func(g *definition.Group) bool { return g.Name == in.Name })
		if i < 0 {
			return nil, store.ErrNotFound
		}
		page, err := a.idsOf(c.Workspace).page(key.KindContact, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		states, err := a.Store.GroupStates(ctx, c.Workspace.ID, []string{in.Name})
		if err != nil {
			return nil, fmt.Errorf("read a group: %w", err)
		}
		members, err := a.Store.GroupMembers(ctx, c.Workspace.ID, in.Name, page)
		if err != nil {
			return nil, fmt.Errorf("read a group: %w", err)
		}
		contacts, err := a.contactPage(ctx, c, members, in.Limit)
		if err != nil {
			return nil, err
		}
		return &body[client.GroupPage]{client.GroupPage{
			Group: wireGroup(defined[i], states[in.Name]), Items: contacts.Body.Items, NextCursor: contacts.Body.NextCursor,
		}}, nil
	})
}

func wireGroup(g *definition.Group, state store.GroupState) client.Group {
	return client.Group{Name: g.Name, Where: g.Where.Source(), IDs: len(g.Members), Computed: state.Computed, Members: state.Members}
}
