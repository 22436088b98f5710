package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

type listThrottles struct {
	Workflow string `query:"workflow" maxLength:"100" doc:"Of this workflow."`
	Type     string `query:"type" maxLength:"100" doc:"Of a record, with its id."`
	ID       string `query:"id" maxLength:"256" doc:"Of a record, with its type."`
	Limit    int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor   string `query:"cursor" maxLength:"2000" doc:"next_cursor of the page before."`
}

func (a *API) throttles() {
	tags := []string{"records"}
	route(a, http.MethodGet, "/v1/throttles", ScopeRead, huma.Operation{
		OperationID: "list-throttles", Summary: "The contexts of workflows that have fired, and when they may again", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listThrottles) (*body[client.Page[client.Throttle]], error) {
		filter, err := a.throttleFilter(ctx, c, in)
		if errors.Is(err, store.ErrNotFound) {
			return &body[client.Page[client.Throttle]]{client.Page[client.Throttle]{Items: []client.Throttle{}}}, nil
		}
		if err != nil {
			return nil, err
		}
		rows, err := a.Engine.Throttles(ctx, c.Workspace.ID, filter)
		if err != nil {
			return nil, fmt.Errorf("list throttles: %w", err)
		}
		x := a.idsOf(c.Workspace)
		wire := func(r store.ThrottleRow) client.Throttle {
			return client.Throttle{
				Workflow: r.Workflow, Trigger: r.Trigger, Context: r.Context, Issues: r.Issues, Type: r.Type, ID: r.ExtID,
				Instance: x.instance(r.Instance), FiredAt: r.FiredAt, Until: r.Until, HeldBack: r.Held,
			}
		}
		return &body[client.Page[client.Throttle]]{pageOf(rows, in.Limit, wire, throttleCursor)}, nil
	})
}

// throttleFilter reads the query; store.ErrNotFound: there is no such record, and so nothing of it.
func (a *API) throttleFilter(ctx context.Context, c Caller, in *listThrottles) (f store.ThrottleFilter, err error) {
	f.Workflow, f.Limit = in.Workflow, in.Limit+1
	switch {
	case (in.Type == "") != (in.ID == ""):
		return f, invalid("query.type", "a record is named by its type and its id", "give both, or neither")
	case in.Type != "":
		row, err := a.Store.Record(ctx, c.Workspace.ID, subject.RecordRef{Type: in.Type, ExtID: in.ID})
		if err != nil {
			return f, fmt.Errorf("read the record: %w", err)
		}
		f.Record = row.ID
	}
	if in.Cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(in.Cursor)
		after, workflow, ok := strings.Cut(string(raw), "\n")
		if err != nil || !ok || !storable(string(raw)) {
			return f, invalid("query.cursor", "it is not a cursor of this list", "give next_cursor as it was answered")
		}
		f.After.Context, f.After.Workflow = after, workflow
	}
	return f, nil
}

// throttleCursor names a throttle; neither a context nor a name holds a line feed.
func throttleCursor(r store.ThrottleRow) string {
	return base64.RawURLEncoding.EncodeToString([]byte(r.Context + "\n" + r.Workflow))
}
