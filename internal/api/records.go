package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	recordsPath = "/v1/records"
	recordPath  = recordsPath + "/{type}/{id}"
)

// shownChildren bounds the children that a record is shown with.
const shownChildren = 100

type listRecords struct {
	Type   string `path:"type" maxLength:"100" doc:"The kind of thing, such as kiosk."`
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

// byRecord is the input of a route to one record, by its type and the caller's own id.
type byRecord struct {
	Type string `path:"type" maxLength:"100" doc:"The kind of thing, such as kiosk."`
	ID   string `path:"id" maxLength:"256" doc:"Your own id, unique in its type."`
}

func (a *API) records() {
	tags := []string{"records"}
	a.plain(http.MethodPost, recordsPath, ScopeIngest, a.postRecords)
	a.plain(http.MethodPut, recordPath, ScopeIngest, a.writeRecord(upsert.Replace))
	a.plain(http.MethodPatch, recordPath, ScopeIngest, a.writeRecord(upsert.Change))
	route(a, http.MethodDelete, recordPath, ScopeIngest, huma.Operation{
		OperationID: "delete-record", Summary: "Take a record away", Tags: tags,
		Description: "Its fields go. One that is made again under its id is the same thing: cooldowns and counts go on.",
	}, func(ctx context.Context, c Caller, in *byRecord) (*body[client.RecordDeleted], error) {
		wire := func([]record.Result) client.RecordDeleted { return client.RecordDeleted{Type: in.Type, ID: in.ID} }
		item := record.Item{Type: in.Type, ID: in.ID}
		results, err := a.Engine.WriteRecords(ctx, c.Workspace, upsert.Delete, []record.Item{item}, c.Name, once(a, c, wire))
		if err != nil {
			return nil, fmt.Errorf("delete a record: %w", err)
		}
		return &body[client.RecordDeleted]{wire(results)}, nil
	})
	route(a, http.MethodGet, recordsPath, ScopeRead, huma.Operation{
		OperationID: "list-record-types", Summary: "The types of records: those that there are, and those that are declared", Tags: tags,
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.RecordTypes], error) {
		types, err := a.recordTypes(ctx, c.Workspace.ID)
		if err != nil {
			return nil, err
		}
		return &body[client.RecordTypes]{types}, nil
	})
	route(a, http.MethodGet, recordsPath+"/{type}", ScopeRead, huma.Operation{
		OperationID: "list-records", Summary: "Records of a type, newest first", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listRecords) (*body[client.Page[client.Record]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindRecord, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		rows, err := a.Store.Records(ctx, c.Workspace.ID, in.Type, page)
		if err != nil {
			return nil, fmt.Errorf("a page of the list: %w", err)
		}
		return &body[client.Page[client.Record]]{pageOf(rows, in.Limit, wireRecord, func(r store.RecordRow) string { return x.record(r.ID) })}, nil
	})
	route(a, http.MethodGet, recordPath, ScopeRead, huma.Operation{
		OperationID: "get-record", Summary: "A record, and why triggers fire for it or do not", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byRecord) (*body[client.RecordDetail], error) {
		row, err := a.Store.Record(ctx, c.Workspace.ID, subject.RecordRef{Type: in.Type, ExtID: in.ID})
		if err != nil {
			return nil, fmt.Errorf("a record: %w", err)
		}
		standings, err := a.Engine.ExplainRecord(ctx, c.Workspace, row)
		if err != nil {
			return nil, fmt.Errorf("explain a record: %w", err)
		}
		warnings, err := a.Engine.RecordWarnings(ctx, c.Workspace, row)
		if err != nil {
			return nil, fmt.Errorf("warnings of a record: %w", err)
		}
		children, err := a.Store.Children(ctx, c.Workspace.ID, row.Ref(), 0, shownChildren+1)
		if err != nil {
			return nil, fmt.Errorf("children of a record: %w", err)
		}
		detail := wireStandings(row, standings)
		if detail.MoreChildren = len(children) > shownChildren; detail.MoreChildren {
			children = children[:shownChildren]
		}
		for _, child := range children {
			detail.Children = append(detail.Children, client.Child{RecordRef: client.RecordRef{Type: child.Type, ID: child.ExtID}, Name: child.Name})
		}
		detail.Warnings = wireWarnings(warnings)
		return &body[client.RecordDetail]{detail}, nil
	})
}

// recordTypes joins the types that there are with those that are declared.
func (a *API) recordTypes(ctx context.Context, ws subject.WorkspaceID) (client.RecordTypes, error) {
	names, err := a.Store.RecordTypes(ctx, ws)
	if err != nil {
		return client.RecordTypes{}, fmt.Errorf("types of records: %w", err)
	}
	declared, err := a.Engine.RecordTypes(ctx, ws)
	if err != nil {
		return client.RecordTypes{}, fmt.Errorf("types of records: %w", err)
	}
	fields := map[string]*expr.RecordType{}
	for _, t := range declared {
		fields[t.Name] = t
		names = append(names, t.Name)
	}
	slices.Sort(names)
	list := client.RecordTypes{Items: []client.RecordType{}}
	for _, name := range slices.Compact(names) {
		one := client.RecordType{Type: name}
		if t := fields[name]; t != nil {
			one.Fields = t.Declared
		}
		list.Items = append(list.Items, one)
	}
	return list, nil
}

// postRecords takes a batch in. One bad record fails no other one; the answer says what became of each.
func (a *API) postRecords(w http.ResponseWriter, r *http.Request, c Caller) error {
	raw, err := readBody(w, r, MaxBatchBody)
	if err != nil {
		return err
	}
	fields, err := object(raw, "records")
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if json.Unmarshal(fields["records"], &list) != nil || list == nil {
		return invalid("body.records", "it is not a list", `write {"records": [{"type": "kiosk", "id": "…", "props": {…}}]}`)
	}
	if len(list) > client.MaxRecords {
		return invalid("body.records", fmt.Sprintf("it holds more than %d records", client.MaxRecords), "send them in parts")
	}
	items := make([]record.Item, len(list))
	for i, one := range list {
		items[i] = record.Parse(one, "", "")
	}
	wire := func(results []record.Result) client.RecordsAnswer { return wireRecords(items, results) }
	results, err := a.Engine.WriteRecords(r.Context(), c.Workspace, upsert.Merge, items, c.Name, once(a, c, wire))
	if err != nil {
		return fmt.Errorf("take records in: %w", err)
	}
	return writeJSON(w, http.StatusOK, "application/json", wire(results))
}

// writeRecord writes one record, whose type and id are in the path.
func (a *API) writeRecord(mode upsert.Mode) func(http.ResponseWriter, *http.Request, Caller) error {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		raw, err := readBody(w, r, MaxBody)
		if err != nil {
			return err
		}
		item := record.Parse(raw, r.PathValue("type"), r.PathValue("id"))
		if item.Err != nil {
			return refusedItem(item.Err)
		}
		wire := func(results []record.Result) client.Record {
			one := wireRecord(results[0].Row)
			one.Warnings = wireWarnings(results[0].Warnings)
			return one
		}
		results, err := a.Engine.WriteRecords(r.Context(), c.Workspace, mode, []record.Item{item}, c.Name, once(a, c, wire))
		if err != nil {
			return fmt.Errorf("take it in: %w", err)
		}
		if refused := results[0].Error; refused != nil {
			return refusedItem(refused)
		}
		return writeJSON(w, http.StatusOK, "application/json", wire(results))
	}
}

func (x ids) record(id subject.RecordID) string { return x.encode(key.KindRecord, int64(id)) }

func wireRecords(items []record.Item, results []record.Result) client.RecordsAnswer {
	answer := client.RecordsAnswer{Items: make([]client.RecordResult, len(results))}
	for i, r := range results {
		item := client.RecordResult{Type: items[i].Type, ID: items[i].ID, Outcome: string(r.Outcome), Warnings: wireWarnings(r.Warnings)}
		switch r.Outcome {
		case upsert.Created:
			answer.Created++
		case upsert.Changed:
			answer.Changed++
		case upsert.Unchanged:
			answer.Unchanged++
		case upsert.Failed:
			answer.Failed++
			item.Reason, item.Message, item.Field, item.Hint = string(r.Error.Reason), r.Error.Message, r.Error.Field, r.Error.Hint
		case upsert.Deleted, upsert.Pending: // not by this route
		}
		answer.Items[i] = item
	}
	return answer
}

func wireWarnings(warnings []record.Warning) (texts []string) {
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	return texts
}

func wireRecord(r store.RecordRow) client.Record {
	one := client.Record{
		Type: r.Type, ID: r.ExtID, Props: r.Props, Closed: r.Closed, Rev: r.Rev, LastModifiedBy: r.ModifiedBy,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.Owner != "" {
		switch kind, id := r.Owner.Split(); kind {
		case subject.OwnerContact:
			one.Owner = &client.Owner{Contact: id}
		case subject.OwnerGroup:
			one.Owner = &client.Owner{Group: id}
		case subject.OwnerPlace:
			one.Owner = &client.Owner{Place: id}
		}
	}
	for _, p := range r.Parents {
		if one.Parents == nil {
			one.Parents = map[string]client.Parents{}
		}
		one.Parents[p.Name] = append(one.Parents[p.Name], client.RecordRef{Type: p.Type, ID: p.ExtID})
	}
	if r.Unreadable != nil {
		one.Props, one.Error = map[string]any{}, r.Unreadable.Error()
	}
	return one
}

func wireStandings(r store.RecordRow, standings []plan.Explanation) client.RecordDetail {
	d := client.RecordDetail{
		Record: wireRecord(r), ChangedAt: r.ChangedAt, EvaluatedAt: r.EvaluatedAt, EvaluateAt: r.EvaluateAt, Triggers: make([]client.RecordTrigger, len(standings)),
	}
	for i, s := range standings {
		one := client.RecordTrigger{
			Workflow: s.Workflow.Name, Trigger: s.Trigger.ID, Reason: string(s.Reason), Until: s.Until, Since: s.Before.Earliest(), Open: s.Before.Open,
			Episode: s.Before.Episodes, Context: s.Context, FiredAt: s.FiredAt,
		}
		if s.Err != nil {
			one.Error = s.Err.Error()
		}
		for _, j := range s.Judged {
			if j.Met && j.Issue != "" {
				one.Issues = append(one.Issues, j.Issue)
			}
			for _, c := range j.Clauses {
				clause := client.Clause{Issue: j.Issue, Line: c.Source, Met: c.Met, Reason: string(c.Reason), Field: c.Field, Value: c.Value, Detail: c.Detail}
				for _, other := range c.Also {
					if clause.Also == nil {
						clause.Also = map[string]any{}
					}
					clause.Also[other.Field] = other.Value
				}
				one.Clauses = append(one.Clauses, clause)
			}
		}
		d.Triggers[i] = one
	}
	return d
}

// describeRecords describes the routes that read their bodies by themselves.
func (a *API) describeRecords(add func(method, path, id, summary string, scope Scope, request, response *huma.Schema) *huma.Operation) {
	schemas := a.huma.OpenAPI().Components.Schemas
	said := schemas.Schema(reflect.TypeFor[client.RecordInput](), true, "")
	known := schemas.Schema(reflect.TypeFor[client.Record](), true, "")
	text := func(name, doc string, most int) *huma.Param {
		return &huma.Param{Name: name, In: "path", Required: true, Description: doc, Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &most}}
	}
	path := []*huma.Param{text("type", "The kind of thing, such as kiosk.", 100), text("id", "Your own id, unique in its type.", 256)}
	for _, op := range []*huma.Operation{
		add(http.MethodPost, recordsPath, "post-records", "Make and change records, up to 1,000; what is not mentioned stays", ScopeIngest, batchOf(schemas, "RecordBatch", "records", "The records, each for itself: a bad one fails no other one.", said, client.MaxRecords), schemas.Schema(reflect.TypeFor[client.RecordsAnswer](), true, "")),
		add(http.MethodPut, recordPath, "put-record", "Make a record, or have it be this and nothing else", ScopeIngest, said, known),
		add(http.MethodPatch, recordPath, "change-record", "Change what is mentioned of a record; null takes a field away", ScopeIngest, said, known),
	} {
		op.Tags = []string{"records"}
		if op.Method != http.MethodPost {
			op.Parameters = slices.Clone(path)
		}
	}
}
