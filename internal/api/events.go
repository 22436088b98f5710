package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/strictjson"
)

func (a *API) events() {
	a.plain(http.MethodPost, "/v1/events", ScopeIngest, a.postEvents)
	route(a, http.MethodGet, "/v1/events/{id}", ScopeRead, huma.Operation{
		OperationID: "get-event", Summary: "An event that was taken in", Tags: []string{"events"},
	}, func(ctx context.Context, c Caller, in *byID) (*body[client.EventDetail], error) {
		x := a.idsOf(c.Workspace)
		id, err := x.eventID(in.ID)
		if err != nil {
			return nil, err
		}
		ref := store.EventRef{Workspace: c.Workspace.ID, ID: id}
		rows, err := a.Store.EventsByID(ctx, []store.EventRef{ref})
		if err != nil {
			return nil, fmt.Errorf("read the event: %w", err)
		}
		row, ok := rows[ref]
		if !ok {
			return nil, notFound("event")
		}
		return &body[client.EventDetail]{x.eventDetail(row)}, nil
	})
}

// byID is the input of a route to one thing.
type byID struct {
	ID string `path:"id" maxLength:"100" doc:"Its id, as it was answered."`
}

// body is an output that is only a body.
type body[T any] struct{ Body T }

// postEvents takes a batch in. One bad event fails no other one; the answer says what became of each. An event that
// comes alone, outside of a list, is refused as a request.
func (a *API) postEvents(w http.ResponseWriter, r *http.Request, c Caller) error {
	raw, err := readText(w, r, MaxBatchBody)
	if err != nil {
		return err
	}
	events, alone, err := splitEvents(raw)
	if err != nil {
		return err
	}
	now := a.Clock.Now()
	items := make([]ingest.Item, len(events))
	for i, event := range events {
		items[i] = ingest.Parse(event, now)
	}
	wire := a.idsOf(c.Workspace).eventsAnswer
	results, err := a.Engine.Ingest(r.Context(), c.Workspace, items, once(a, c, wire))
	if err != nil {
		return err
	}
	a.logWarnings(r, results, nil)
	if alone && results[0].Outcome == ingest.Failed {
		return refusal(results[0])
	}
	return writeJSON(w, http.StatusOK, "application/json", wire(results))
}

// logWarnings writes one line about what was taken and is probably a mistake, since a caller may not look at the warnings of the
// answer. Notes are about the events as they were read, one for each, or none. Names of a caller's own keys stay out of the log.
func (a *API) logWarnings(r *http.Request, results []ingest.Result, notes []string) {
	missing, unknown, first := 0, 0, ""
	for _, one := range results {
		if len(one.Warnings) > 0 {
			first = cmp.Or(first, one.Warnings[0])
			missing++
		}
	}
	for _, note := range notes {
		if note != "" {
			unknown++
		}
	}
	if missing+unknown > 0 {
		a.Log.WarnContext(r.Context(), "events were taken that lack fields of a dedup recipe or have unknown keys",
			"items", len(results), "lack_fields", missing, "unknown_keys", unknown, "first", first)
	}
}

// refusal is the problem of an event that came alone: its code is the reason.
func refusal(r ingest.Result) *client.Problem {
	status := http.StatusUnprocessableEntity
	if r.Reason == reason.RequestTooLarge {
		status = http.StatusRequestEntityTooLarge
	}
	p := newProblem(status, string(r.Reason), r.Reason.Sentence())
	p.Field = "body"
	if e := r.Error; e != nil {
		p.Detail, p.Hint = e.Message, e.Hint
		if e.Field != "" {
			p.Field += "." + e.Field
		}
	}
	return p
}

// splitEvents takes {"events": […]} apart, or takes the whole as one event, alone. Whatever else is wrong is said of valid
// JSON only; what is wrong with an event is its own affair.
func splitEvents(raw []byte) (events []json.RawMessage, alone bool, err error) {
	const shape = `write {"events": [{"kind": "…"}]}`
	r := strictjson.NewReader(raw, strictjson.MaxDepth)
	if r.Peek() != '{' {
		return nil, false, cmp.Or[error](checkSyntax(raw), invalid("body", "it is not a JSON object", shape+", or one event"))
	}
	events = []json.RawMessage{}
	members := 0
	alone = true
	var wrong error
	stop := func(err error) *strictjson.Error {
		wrong = err
		return &strictjson.Error{}
	}
	bad := r.Object(func(name string) *strictjson.Error {
		alone, members = name != "events" && members == 0, members+1
		switch {
		case alone:
			return stop(nil)
		case members > 1:
			return stop(invalid("body", "it holds more than events", shape))
		case r.Peek() != '[':
			return stop(invalid("body.events", "it is not a list", shape))
		}
		return r.List(func() *strictjson.Error {
			if len(events) == client.MaxEvents {
				return stop(invalid("body.events", fmt.Sprintf("it holds more than %d events", client.MaxEvents), "send them in parts"))
			}
			r.Peek()
			from := r.Offset()
			err := r.Skip()
			events = append(events, raw[from:r.Offset()])
			return err
		})
	})
	if bad == nil {
		bad = r.End()
	}
	switch {
	case alone:
		return []json.RawMessage{raw}, true, checkSyntax(raw)
	case bad == nil:
		return events, false, nil
	}
	if syntax := checkSyntax(raw); syntax != nil {
		return nil, false, syntax
	}
	return nil, false, cmp.Or(wrong, error(invalid("body", "it holds more than events", shape)))
}

func (x ids) eventsAnswer(results []ingest.Result) client.EventsAnswer {
	answer := client.EventsAnswer{Items: make([]client.EventResult, len(results))}
	for i, r := range results {
		switch r.Outcome {
		case ingest.Created:
			answer.Created++
		case ingest.Skipped:
			answer.Skipped++
		case ingest.NoMatch:
			answer.NoMatch++
		case ingest.Failed:
			answer.Failed++
		}
		answer.Items[i] = x.eventResult(r)
	}
	return answer
}

func (x ids) eventResult(r ingest.Result) client.EventResult {
	out := client.EventResult{
		Outcome: string(r.Outcome), Reason: string(r.Reason), Event: x.event(r.Event), Warnings: r.Warnings,
		Instances: make([]client.InstanceRef, len(r.Instances)),
	}
	if r.Reason != "" {
		out.Message = r.Reason.Sentence()
	}
	if e := r.Error; e != nil {
		out.Message, out.Field, out.Hint = e.Message, e.Field, e.Hint
	}
	for i, one := range r.Instances {
		ref := client.InstanceRef{
			ID: x.instance(one.ID), Key: one.Key, Workflow: one.Workflow, Trigger: one.Trigger,
			Outcome: string(one.Outcome), Reason: string(one.Reason), Deliveries: make([]client.DeliveryRef, len(one.Deliveries)),
		}
		for j, d := range one.Deliveries {
			ref.Deliveries[j] = client.DeliveryRef{ID: x.delivery(d.ID), Channel: d.Channel, Status: string(d.Status)}
		}
		out.Instances[i] = ref
	}
	return out
}

func (x ids) eventDetail(row store.EventRow) client.EventDetail {
	e := client.EventDetail{
		ID: x.event(row.ID), ExtID: row.ExtID, Kind: row.Kind, OccurredAt: row.OccurredAt, ReceivedAt: row.ReceivedAt,
		Payload: document(row.PayloadJSON), Trace: document(row.Trace),
	}
	if p := row.Recipient; p != nil {
		e.Recipient = &client.Recipient{Address: p.Address, Locale: p.Locale, CustomerRef: p.CustomerRef}
	}
	return e
}

// document is stored JSON; nil when there is none.
func document(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(strictjson.Plain(text))
}
