package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// MaxRecords is how many records one request may hold.
const MaxRecords = 1000

// RecordInput is what you say about a record. Its type and id stand in the address where a request is about one.
type RecordInput struct {
	Type   string         `json:"type,omitempty" maxLength:"100" doc:"The kind of thing, as triggers name it, such as kiosk."`
	ID     string         `json:"id,omitempty" maxLength:"256" doc:"Your own id, unique in its type."`
	Props  map[string]any `json:"props,omitempty" doc:"Its fields, up to 64 KiB; null takes one away."`
	Closed *bool          `json:"closed,omitempty" doc:"True: nothing more is made from it."`
	// Owner of a record without one is &Owner{}, which is sent as null.
	Owner *Owner `json:"owner,omitempty" doc:"Whose it is: a contact, a group or a place; null takes the owner away. As a text it is contact/ID, group/NAME or place/NAME."`
	// A name with an empty list is sent as null.
	Parents map[string]Parents `json:"parents,omitempty" doc:"Its parents by their names, up to 100: records that need not exist yet. null takes those of a name away. Each record is named once."`
}

// Owner is whose a record is: one of the three. The zero value is nobody.
type Owner struct {
	Contact string `json:"contact,omitempty" maxLength:"256" doc:"Your own id of a contact."`
	Group   string `json:"group,omitempty" maxLength:"100" doc:"The name of a group."`
	Place   string `json:"place,omitempty" maxLength:"256" doc:"The name of a place."`
}

// MarshalJSON writes nobody as null.
func (o Owner) MarshalJSON() ([]byte, error) {
	if o == (Owner{}) {
		return []byte("null"), nil
	}
	type plain Owner
	return json.Marshal(plain(o))
}

// RecordRef names a record.
type RecordRef struct {
	Type string `json:"type" maxLength:"100" doc:"The kind of thing, such as household."`
	ID   string `json:"id" maxLength:"256" doc:"Your own id, unique in its type."`
}

// Parents are the parents of one name, ordered by type and id.
type Parents []RecordRef

// MarshalJSON writes none as null.
func (p Parents) MarshalJSON() ([]byte, error) {
	if len(p) == 0 {
		return []byte("null"), nil
	}
	return json.Marshal([]RecordRef(p))
}

// Record is a document of yours whose present state triggers evaluate.
type Record struct {
	Type           string             `json:"type" doc:"The kind of thing, such as kiosk."`
	ID             string             `json:"id" doc:"Your own id, unique in its type."`
	Props          map[string]any     `json:"props" doc:"Its fields."`
	Closed         bool               `json:"closed" doc:"Whether it is closed: nothing more is planned for it."`
	Owner          *Owner             `json:"owner,omitempty" doc:"Whose it is; absent: nobody's."`
	Parents        map[string]Parents `json:"parents,omitempty" doc:"Its parents by their names."`
	Rev            int64              `json:"rev" doc:"Counts the writes that changed it, from 1."`
	LastModifiedBy string             `json:"last_modified_by" doc:"Name of the API key that wrote it last."`
	CreatedAt      time.Time          `json:"created_at" doc:"When it was made."`
	UpdatedAt      time.Time          `json:"updated_at" doc:"When it was last changed."`
	Warnings       []string           `json:"warnings,omitempty" doc:"Fields of the type contact that hold an id which no contact has, in the answer to a write and of one record; lists of records have none."`
	Error          string             `json:"error,omitempty" doc:"Why its fields cannot be read, and what to do; props is empty then."`
}

// RecordDetail is a record with the present state of each trigger that watches it.
type RecordDetail struct {
	Record
	Children     []Child         `json:"children,omitempty" doc:"The first 100 records whose parent it is, in the order of their creation."`
	MoreChildren bool            `json:"more_children,omitempty" doc:"It has more children than these."`
	ChangedAt    time.Time       `json:"changed_at,omitzero" doc:"The first write that has not been evaluated yet."`
	EvaluatedAt  time.Time       `json:"evaluated_at,omitzero" doc:"When it was last evaluated."`
	EvaluateAt   time.Time       `json:"evaluate_at,omitzero" doc:"When it is evaluated again, unless it is written before."`
	Triggers     []RecordTrigger `json:"triggers" doc:"The state of each trigger that watches records of its type."`
}

// Child is a record with the name by which it names its parent.
type Child struct {
	RecordRef
	Name string `json:"name" doc:"The name by which it names this record."`
}

// RecordTrigger says why one trigger would fire for the record now, or why not.
type RecordTrigger struct {
	Workflow string    `json:"workflow" doc:"The name of the workflow."`
	Trigger  string    `json:"trigger" doc:"The id of the trigger."`
	Reason   string    `json:"reason" doc:"matched: it would fire; otherwise why it does not."`
	Until    time.Time `json:"until,omitzero" doc:"When a wait ends."`
	Issues   []string  `json:"issues,omitempty" doc:"The issues that are met now, if the trigger names issues."`
	Since    time.Time `json:"since,omitzero" doc:"Since when the condition is met, as of the last evaluation."`
	Open     bool      `json:"open" doc:"An episode goes on: the condition has been met for long enough, and has not cleared since."`
	Episode  int       `json:"episode" doc:"How many episodes there were, ever."`
	Context  string    `json:"context,omitempty" doc:"The cooldown's context of what is met now."`
	FiredAt  time.Time `json:"fired_at,omitzero" doc:"When this context fired last."`
	Error    string    `json:"error,omitempty" doc:"Why a condition, a date or its zone, or the context could not be computed."`
	Clauses  []Clause  `json:"clauses,omitempty" doc:"The clauses of its condition, with the values that they read."`
}

// Clause is one line of a condition, evaluated on its own.
type Clause struct {
	Issue  string `json:"issue,omitempty" doc:"The issue that the clause belongs to."`
	Line   string `json:"line" doc:"The clause as it was written."`
	Met    bool   `json:"met" doc:"Whether it holds."`
	Reason string `json:"reason,omitempty" doc:"Why it could not be evaluated; see GET /v1/reasons."`
	Field  string `json:"field,omitempty" doc:"The first field that it reads, or the one that is missing."`
	Value  any    `json:"value,omitempty" doc:"The value of the field."`
	Detail string `json:"detail,omitempty" doc:"Why it could not be evaluated, or why a pattern from the data is none."`
	// Also are the other fields that it reads, with their values.
	Also map[string]any `json:"also,omitempty" doc:"The other fields that it reads, with their values."`
}

// RecordsAnswer says what became of a batch, in its order.
type RecordsAnswer struct {
	Created   int            `json:"created" doc:"Records that were made."`
	Changed   int            `json:"changed" doc:"Records that were changed."`
	Unchanged int            `json:"unchanged" doc:"Records that were like this already."`
	Failed    int            `json:"failed" doc:"Records that were refused; nothing of them is kept."`
	Items     []RecordResult `json:"items" doc:"One for each record, in the order of the request."`
}

// RecordResult is what became of one record.
type RecordResult struct {
	Type    string `json:"type,omitempty" doc:"The kind of thing, such as kiosk."`
	ID      string `json:"id,omitempty" doc:"Your own id; absent where it was not understood."`
	Outcome string `json:"outcome" enum:"created,changed,unchanged,failed" doc:"What became of the record."`
	Reason  string `json:"reason,omitempty" doc:"Why it was refused; see GET /v1/reasons."`
	Message string `json:"message,omitempty" doc:"What is wrong."`
	Field   string `json:"field,omitempty" doc:"The field of the record that is wrong."`
	Hint    string `json:"hint,omitempty" doc:"What to do."`
	// Warnings are about all fields of the record, also those that the request does not mention.
	Warnings []string `json:"warnings,omitempty" doc:"Fields of the record of the type contact that hold an id which no contact has. The record was taken all the same."`
}

// RecordDeleted names a record that was deleted.
type RecordDeleted struct {
	Type string `json:"type" doc:"The kind of thing, such as kiosk."`
	ID   string `json:"id" doc:"Your own id of the record."`
}

// RecordTypes lists the types of which there are records, or which are declared.
type RecordTypes struct {
	Items []RecordType `json:"items" doc:"Ordered by name."`
}

// RecordType is one type of records.
type RecordType struct {
	Type   string            `json:"type" doc:"The name of the type."`
	Fields map[string]string `json:"fields,omitempty" doc:"Its fields with their types, where a record_type declares them; without one its records are open."`
}

// RecordQuery says which page of records is wanted.
type RecordQuery struct {
	Limit  int
	Cursor string
}

func (q RecordQuery) values() url.Values {
	v := values{}
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// RecordTypes lists the types of records.
func (c *Client) RecordTypes(ctx context.Context) (RecordTypes, error) {
	return get[RecordTypes](ctx, c, "/v1/records", nil)
}

// Records gives a page of the records of a type, newest first.
func (c *Client) Records(ctx context.Context, typ string, q RecordQuery) (Page[Record], error) {
	return get[Page[Record]](ctx, c, "/v1/records/"+segment(typ), q.values())
}

// AllRecords goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllRecords(ctx context.Context, typ string, q RecordQuery) iter.Seq2[Record, error] {
	return pages(func(cursor string) (Page[Record], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.Records(ctx, typ, q)
	})
}

// Record returns one record, and why triggers fire for it or do not.
func (c *Client) Record(ctx context.Context, typ, id string) (RecordDetail, error) {
	return get[RecordDetail](ctx, c, recordPath(typ, id), nil)
}

// PutRecord has a record be what you say, and nothing else; it is made when there is none.
func (c *Client) PutRecord(ctx context.Context, in RecordInput) (Record, error) {
	var answer Record
	err := c.call(ctx, http.MethodPut, recordPath(in.Type, in.ID), in, &answer)
	return answer, err
}

// ChangeRecord changes what is mentioned of a record that exists; a field of nil goes away.
func (c *Client) ChangeRecord(ctx context.Context, in RecordInput) (Record, error) {
	var answer Record
	err := c.call(ctx, http.MethodPatch, recordPath(in.Type, in.ID), in, &answer)
	return answer, err
}

// DeleteRecord takes a record away. One that is made again under its id is the same thing: its cooldowns and counts go
// on where they were.
func (c *Client) DeleteRecord(ctx context.Context, typ, id string) (RecordDeleted, error) {
	var answer RecordDeleted
	err := c.call(ctx, http.MethodDelete, recordPath(typ, id), nil, &answer)
	return answer, err
}

// PostRecords changes what is mentioned of each record, at most MaxRecords, and makes those that there are not. One that
// is refused stops no other one; the answer's Err names it.
func (c *Client) PostRecords(ctx context.Context, records ...RecordInput) (RecordsAnswer, error) {
	var answer RecordsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/records", map[string]any{"records": records}, &answer)
	return answer, err
}

// PostRawRecords is PostRecords for records that are JSON already; they are sent as they are.
func (c *Client) PostRawRecords(ctx context.Context, records []json.RawMessage) (RecordsAnswer, error) {
	var answer RecordsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/records", map[string]any{"records": records}, &answer)
	return answer, err
}

func recordPath(typ, id string) string { return "/v1/records/" + segment(typ) + "/" + segment(id) }

// segment is a part of a path. One of dots alone would be taken for a way up.
func segment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}
