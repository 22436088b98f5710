package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Response is the answers to the survey of a delivery.
type Response struct {
	ID          string         `json:"id" doc:"The id of the response."`
	Delivery    string         `json:"delivery" doc:"The id of the delivery that was answered."`
	Address     string         `json:"address,omitempty" doc:"The address of the person who was asked. Absent in the answer to a submission."`
	CustomerRef string         `json:"customer_ref,omitempty" doc:"The id of that person. Absent in the answer to a submission, and where there is none."`
	Workflow    string         `json:"workflow" doc:"The name of the workflow."`
	Survey      string         `json:"survey" doc:"The name of the survey."`
	Definitions int64          `json:"definitions" doc:"The number of the definitions whose questions were answered."`
	Locale      string         `json:"locale,omitempty" doc:"The language of the person."`
	Answers     map[string]any `json:"answers" doc:"The answers, by the id of the question. A date is a text such as 2026-05-14; several choices are a list."`
	AgentID     string         `json:"agent_id,omitempty" doc:"Who answered on the person's behalf; absent: the person."`
	CreatedAt   time.Time      `json:"created_at" doc:"When it was submitted."`
}

// ResponseInput is what somebody answers.
type ResponseInput struct {
	Answers map[string]any `json:"answers" doc:"The answers, by the id of the question. Questions that are not asked are left out."`
	AgentID string         `json:"agent_id,omitempty" maxLength:"200" doc:"Who answers on the person's behalf."`
}

// AnswerProblem is one answer that was refused.
type AnswerProblem struct {
	Question string `json:"question" doc:"The id of the question."`
	Code     string `json:"code" doc:"Why the answer is not taken: missing, unknown_question, not_asked, wrong_type, not_an_option, too_small, too_large, not_whole, too_long, not_text, not_a_date, not_matching or not_valid."`
	Message  string `json:"message" doc:"The same in words."`
}

// ResponseQuery narrows a list of responses.
type ResponseQuery struct {
	Workflow string
	Survey   string
	Delivery string
	Since    string // an instant, or how long ago, such as 7d
	Until    string
	Limit    int
	Cursor   string
}

func (q ResponseQuery) values() url.Values {
	v := values{}
	v.set("workflow", q.Workflow)
	v.set("survey", q.Survey)
	v.set("delivery", q.Delivery)
	v.set("since", q.Since)
	v.set("until", q.Until)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// Respond answers the survey of a delivery. The error is a *Problem of code CodeInvalidAnswers, with a list of the answers that were
// refused, CodeAnswered if it was answered before, or CodeClosed if it has ended.
func (c *Client) Respond(ctx context.Context, delivery string, in ResponseInput) (r Response, err error) {
	return r, c.call(ctx, http.MethodPost, "/v1/deliveries/"+url.PathEscape(delivery)+"/responses", in, &r)
}

// Responses gives a page of responses, the newest first.
func (c *Client) Responses(ctx context.Context, q ResponseQuery) (Page[Response], error) {
	return get[Page[Response]](ctx, c, "/v1/responses", q.values())
}

// AllResponses goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllResponses(ctx context.Context, q ResponseQuery) iter.Seq2[Response, error] {
	return pages(func(cursor string) (Page[Response], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.Responses(ctx, q)
	})
}
