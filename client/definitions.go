package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// DefinitionPreview is what would follow from a change of the definitions, as far as it is known before.
type DefinitionPreview struct {
	Changed      bool             `json:"changed" doc:"Whether anything would change."`
	MissingScope string           `json:"missing_scope,omitempty" doc:"The scope that the API key lacks to do this."`
	Workflows    []WorkflowEffect `json:"workflows" doc:"What would become of what waits."`
	Evaluated    []string         `json:"evaluated" doc:"The types of records of which all would be evaluated."`
	Limits       bool             `json:"limits" doc:"Whether messages that wait for the limits of people would be planned again."`
	Groups       bool             `json:"groups" doc:"Whether it would be computed again who belongs to the groups."`
}

// WorkflowEffect is what would become of what waits of one workflow. The counts are those of this moment.
type WorkflowEffect struct {
	Workflow            string `json:"workflow" doc:"Its name."`
	Action              string `json:"action" enum:"added,changed,deleted,unchanged" doc:"unchanged: another definition does something to it."`
	DeliveriesFollow    int64  `json:"deliveries_follow" doc:"Deliveries that wait and would follow the new version."`
	DeliveriesKeep      int64  `json:"deliveries_keep" doc:"Deliveries that wait and would keep the version of their moment (pin)."`
	DeliveriesWithdrawn int64  `json:"deliveries_withdrawn" doc:"Deliveries that wait and would be withdrawn."`
	Instances           int64  `json:"instances" doc:"Instances that have not begun, and would follow the new version or keep theirs."`
	InstancesWithdrawn  int64  `json:"instances_withdrawn" doc:"Instances that have not begun, and would be withdrawn."`
	CalendarMade        int    `json:"calendar_made" doc:"Occasions of its schedules that would be made."`
	CalendarMoved       int    `json:"calendar_moved" doc:"Occasions that would be moved."`
	CalendarWithdrawn   int    `json:"calendar_withdrawn" doc:"Occasions that would be withdrawn."`
}

// DefinitionHistory lists sets of definitions that came into force, the newest first.
type DefinitionHistory struct {
	Sets []DefinitionSet `json:"sets" doc:"The newest first."`
}

// DefinitionSet is a set of definitions that came into force, with what it changed.
type DefinitionSet struct {
	Number  int64              `json:"number" doc:"The number of the set."`
	At      time.Time          `json:"at,omitzero" doc:"Missing when an earlier release applied it, which did not write that down."`
	Actor   string             `json:"actor,omitempty" doc:"The name of the key."`
	Action  string             `json:"action,omitempty" enum:"apply,delete,rollback" doc:"What somebody did."`
	Changes []DefinitionChange `json:"changes" doc:"What it changed."`
}

// ApplyOptions say how files are applied.
type ApplyOptions struct {
	Prune  bool // delete what is in force and not among the files
	DryRun bool // say what would happen, and change nothing
}

// ApplyWith is Apply with options.
func (c *Client) ApplyWith(ctx context.Context, files []File, o ApplyOptions) (Applied, error) {
	query := url.Values{}
	if o.Prune {
		query.Set("prune", "true")
	}
	if o.DryRun {
		query.Set("dry_run", "true")
	}
	var answer Applied
	err := c.call(ctx, http.MethodPost, withQuery("/v1/definitions", query), map[string]any{"files": files}, &answer)
	return answer, err
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func definitionPath(kind, name string) string {
	return "/v1/definitions/" + url.PathEscape(kind) + "/" + url.PathEscape(name)
}

// DefinitionsAt gives the set with that number.
func (c *Client) DefinitionsAt(ctx context.Context, set int64) (Definitions, error) {
	return get[Definitions](ctx, c, "/v1/definitions", url.Values{"set": {strconv.FormatInt(set, 10)}})
}

// Definition gives a definition in force; with a version that version, with a set the one of that set.
func (c *Client) Definition(ctx context.Context, kind, name string, version, set int64) (Definition, error) {
	query := url.Values{}
	if version > 0 {
		query.Set("version", strconv.FormatInt(version, 10))
	}
	if set > 0 {
		query.Set("set", strconv.FormatInt(set, 10))
	}
	return get[Definition](ctx, c, definitionPath(kind, name), query)
}

// DeleteDefinition takes a definition out of force. What waits of a workflow is withdrawn. A definition that others need gives a
// *Problem whose Problems name them.
func (c *Client) DeleteDefinition(ctx context.Context, kind, name string, dryRun bool) (Applied, error) {
	query := url.Values{}
	if dryRun {
		query.Set("dry_run", "true")
	}
	var answer Applied
	err := c.call(ctx, http.MethodDelete, withQuery(definitionPath(kind, name), query), nil, &answer)
	return answer, err
}

// HistoryQuery selects a part of the history of the definitions.
type HistoryQuery struct {
	Kind, Name string // of one definition; both or none
	Before     int64  // the number of a set: those before it
	Limit      int    // 0 = 50
}

// DefinitionHistory lists the sets of definitions that came into force, the newest first.
func (c *Client) DefinitionHistory(ctx context.Context, q HistoryQuery) (DefinitionHistory, error) {
	query := url.Values{}
	for name, value := range map[string]string{"kind": q.Kind, "name": q.Name} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Before > 0 {
		query.Set("before", strconv.FormatInt(q.Before, 10))
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[DefinitionHistory](ctx, c, "/v1/definitions/history", query)
}

// Rollback says what is to be in force again.
type Rollback struct {
	Kind    string `json:"kind,omitempty" doc:"Of one definition, with name; without both it is about the whole set."`
	Name    string `json:"name,omitempty" doc:"With kind."`
	Version int64  `json:"version,omitempty" minimum:"1" doc:"Of the definition. Default: the one before that in force."`
	Set     int64  `json:"set,omitempty" minimum:"1" doc:"The number of a set, instead of version. Default for the whole set: the one before that in force."`
	DryRun  bool   `json:"dry_run,omitempty" doc:"Say what would happen, and change nothing."`
}

// RollbackDefinitions puts an earlier version of one definition, or of the whole set, in force again, as a new version.
func (c *Client) RollbackDefinitions(ctx context.Context, r Rollback) (Applied, error) {
	var answer Applied
	err := c.call(ctx, http.MethodPost, "/v1/definitions/rollback", r, &answer)
	return answer, err
}
