package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
)

// surveysResponsesPath is where callers of ADP Surveys submit answers (C33).
const surveysResponsesPath = "/api/Surveys/SurveyInstances/{id}/responses"

// maxAgentID bounds who answers on somebody's behalf, in bytes; client.ResponseInput says the same.
const maxAgentID = 200

type listResponses struct {
	Workflow string `query:"workflow" maxLength:"200" doc:"Of this workflow."`
	Survey   string `query:"survey" maxLength:"200" doc:"To this survey."`
	Delivery string `query:"delivery" maxLength:"100" doc:"To this delivery."`
	Period
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

type respond struct {
	ID   string `path:"id" maxLength:"100" doc:"Its id, as it was answered."`
	Body client.ResponseInput
}

func (a *API) responses() {
	tags := []string{"responses"}
	route(a, http.MethodPost, "/v1/deliveries/{id}/responses", ScopeIngest, huma.Operation{
		OperationID: "respond", Summary: "Answer the survey of a delivery", Tags: tags,
	}, func(ctx context.Context, c Caller, in *respond) (*body[client.Response], error) {
		wire, err := a.respond(ctx, c, in.ID, in.Body)
		if err != nil {
			return nil, err
		}
		return &body[client.Response]{wire}, nil
	})
	route(a, http.MethodGet, "/v1/responses", ScopeRead, huma.Operation{
		OperationID: "list-responses", Summary: "Answers to surveys, newest first", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listResponses) (*body[client.Page[client.Response]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindResponse, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		filter := store.ResponseFilter{Workflow: in.Workflow, Survey: in.Survey}
		if filter.Made, err = in.read(a.Clock.Now()); err != nil {
			return nil, err
		}
		if in.Delivery != "" {
			if filter.Delivery, err = x.deliveryID(in.Delivery); err != nil {
				return &body[client.Page[client.Response]]{client.Page[client.Response]{Items: []client.Response{}}}, nil
			}
		}
		rows, err := a.Store.Responses(ctx, c.Workspace.ID, filter, page)
		if err != nil {
			return nil, err
		}
		return &body[client.Page[client.Response]]{pageOf(rows, in.Limit, x.wireResponse, func(r delivery.Response) string { return x.encode(key.KindResponse, r.ID) })}, nil
	})
	a.plain(http.MethodPost, surveysResponsesPath, ScopeIngest, a.surveysRespond)
}

// respond takes the answers to the delivery of a public id.
func (a *API) respond(ctx context.Context, c Caller, id string, in client.ResponseInput) (client.Response, error) {
	x := a.idsOf(c.Workspace)
	to, err := x.deliveryID(id)
	if err != nil {
		return client.Response{}, err
	}
	r, err := a.Engine.Respond(ctx, c.Workspace, to, answer.Submission{Answers: in.Answers, AgentID: in.AgentID}, once(a, c, x.wireResponse))
	if err != nil {
		return client.Response{}, unanswered(err)
	}
	return x.wireResponse(r), nil
}

// unanswered is the problem of answers that are not taken.
func unanswered(err error) error {
	var refused *answer.Invalid
	switch {
	case errors.Is(err, answer.ErrNotFound):
		return newProblem(http.StatusNotFound, client.CodeNotFound, "there is no such delivery, or it asks nothing")
	case errors.Is(err, answer.ErrAnswered):
		return newProblem(http.StatusConflict, client.CodeAnswered, err.Error())
	case errors.Is(err, answer.ErrClosed):
		return newProblem(http.StatusGone, client.CodeClosed, err.Error())
	case errors.As(err, &refused):
		p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidAnswers, refused.Error())
		for _, one := range refused.Problems {
			p.Answers = append(p.Answers, client.AnswerProblem{Question: one.Question, Code: string(one.Code), Message: one.Error()})
		}
		p.Field = "body.answers." + p.Answers[0].Question
		return p
	}
	return err
}

func (x ids) wireResponse(r delivery.Response) client.Response {
	return client.Response{
		ID: x.encode(key.KindResponse, r.ID), Delivery: x.delivery(r.Delivery), Address: r.Address, CustomerRef: r.CustomerRef, Workflow: r.Workflow, Survey: r.Survey, Definitions: r.Definitions,
		Locale: r.Locale, Answers: r.Answers, AgentID: r.AgentID, CreatedAt: r.CreatedAt,
	}
}

// surveysRespond takes answers in that system's words: {"answers": {question: answer}, "agentId": …}.
func (a *API) surveysRespond(w http.ResponseWriter, r *http.Request, c Caller) error {
	raw, err := readBody(w, r, MaxBody)
	if err != nil {
		return err
	}
	fields, err := object(raw, "answers", "agentId")
	if err != nil {
		return err
	}
	var in client.ResponseInput
	if json.Unmarshal(fields["answers"], &in.Answers) != nil || in.Answers == nil {
		return invalid("body.answers", "it is not an object of answers by question", "")
	}
	if agent, ok := fields["agentId"]; ok && (json.Unmarshal(agent, &in.AgentID) != nil || len(in.AgentID) > maxAgentID) {
		return invalid("body.agentId", fmt.Sprintf("it is not a text of at most %d bytes", maxAgentID), "")
	}
	wire, err := a.respond(r.Context(), c, r.PathValue("id"), in)
	if err != nil {
		return fmt.Errorf("respond: %w", err)
	}
	return writeJSON(w, http.StatusOK, "application/json", wire)
}
