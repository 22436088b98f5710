package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/survey"
)

type responsesCmd struct {
	Submit submitResponseCmd  `cmd:"" help:"Answer the survey of a delivery on somebody's behalf."`
	List   listResponsesCmd   `cmd:"" help:"List the answers to surveys, the newest first."`
	Export exportResponsesCmd `cmd:"" help:"Write all answers as CSV or NDJSON, the newest first."`
}

// answered narrows the answers of surveys.
type answered struct {
	Workflow string `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Survey   string `name:"survey" placeholder:"NAME" help:"To this survey."`
	Delivery string `name:"delivery" placeholder:"ID" help:"To this delivery."`
	span
}

func (a answered) query() client.ResponseQuery {
	return client.ResponseQuery{Workflow: a.Workflow, Survey: a.Survey, Delivery: a.Delivery, Since: a.Since, Until: a.Until}
}

type listResponsesCmd struct {
	answered
	paging
	remote
	output
}

// Run lists responses.
func (c *listResponsesCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Response], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Response], error) {
			q := c.query()
			q.Limit, q.Cursor = limit, cursor
			return api.Responses(s.ctx, q)
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	questions, err := call(c.remote, func(api *client.Client) ([]string, error) {
		return survey.AnsweredQuestions(these(page.Items), questionsOf(s.ctx, api))
	})
	if err != nil {
		return err
	}
	rows := make([][]string, len(page.Items))
	for i, r := range page.Items {
		var said []string
		for _, id := range questions {
			if one, answered := r.Answers[id]; answered {
				said = append(said, id+"="+survey.AnswerText(one))
			}
		}
		rows[i] = []string{c.at(r.CreatedAt), r.Workflow, r.Survey, r.Delivery, r.Address, r.CustomerRef, r.AgentID, strings.Join(said, " ")}
	}
	s.table([]string{"created_at", "workflow", "survey", "delivery", "address", "customer_ref", "agent_id", "answers"}, rows)
	s.more(page.NextCursor)
	return nil
}

type exportResponsesCmd struct {
	answered
	Format string `name:"format" enum:"csv,ndjson" default:"csv" help:"csv: a row for each response, a column for each question. ndjson: a line of JSON for each, as the API answers it."`
	remote
}

// Help is the long help.
func (exportResponsesCmd) Help() string {
	return `The columns of CSV are those of every question that somebody answered, in the order of the survey, so all responses are read
before the first row is written. Several choices are joined by "; ". A text that a spreadsheet would take for a formula, one that begins with
= + - @, a tab or a new line, gets an apostrophe in front; NDJSON has every text as it was written.

    carillon responses export --survey csi-gr --since 30d > answers.csv`
}

// Run exports responses.
func (c *exportResponsesCmd) Run(s *session) error {
	_, err := call(c.remote, func(api *client.Client) (struct{}, error) {
		q := c.query()
		q.Limit = exportPage
		if c.Format == "ndjson" {
			return struct{}{}, survey.WriteNDJSON(s.Out, exported(api.AllResponses(s.ctx, q)))
		}
		var list []client.Response // gone through twice
		for r, err := range api.AllResponses(s.ctx, q) {
			if err != nil {
				return struct{}{}, err
			}
			list = append(list, r)
		}
		all := these(list)
		questions, err := survey.AnsweredQuestions(all, questionsOf(s.ctx, api))
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, survey.WriteCSV(s.Out, questions, all)
	})
	return err
}

type submitResponseCmd struct {
	ID      string `arg:"" name:"delivery" help:"The id of the delivery."`
	Answers string `name:"answers" required:"" placeholder:"JSON" help:"The answers by question, such as '{\"rate\": 7}'."`
	AgentID string `name:"agent-id" placeholder:"ID" help:"Who answers on the person's behalf."`
	remote
	output
}

// Run submits answers.
func (c *submitResponseCmd) Run(s *session) error {
	in := client.ResponseInput{AgentID: c.AgentID}
	if err := json.Unmarshal([]byte(c.Answers), &in.Answers); err != nil || in.Answers == nil {
		return fmt.Errorf("--answers: it is not an object of JSON: write %s", `'{"rate": 7}'`)
	}
	r, err := call(c.remote, func(api *client.Client) (client.Response, error) { return api.Respond(s.ctx, c.ID, in) })
	var refused *client.Problem
	if errors.As(err, &refused) && len(refused.Answers) > 0 {
		lines := make([]string, len(refused.Answers))
		for i, p := range refused.Answers {
			lines[i] = "\n    " + p.Question + ": " + p.Message
		}
		return fmt.Errorf("the answers are not taken:%s", strings.Join(lines, ""))
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, r)
	}
	s.table([]string{"id", "created_at", "workflow", "survey"}, [][]string{{r.ID, c.at(r.CreatedAt), r.Workflow, r.Survey}})
	return nil
}

// exportPage is how many responses are asked for at once.
const exportPage = 500

// these are some responses, as those of a file.
func these(list []client.Response) iter.Seq2[survey.Response, error] {
	return func(yield func(survey.Response, error) bool) {
		for _, r := range list {
			if !yield(survey.Response(r), nil) {
				return
			}
		}
	}
}

// questionsOf reads the questions of surveys from the server.
func questionsOf(ctx context.Context, api *client.Client) survey.Questions {
	return func(name string, definitions int64) (ids []string, err error) {
		found, err := api.Definition(ctx, string(definition.KindSurvey), name, 0, definitions)
		if err != nil {
			return nil, err
		}
		document := definition.Document{Kind: definition.KindSurvey, Name: found.Name, Text: found.Text, Hash: found.Hash}
		set, err := loader.Compile(definitions, []definition.Stored{{Document: document, Version: found.Version}}, loader.Options{})
		if err != nil {
			return nil, fmt.Errorf("read the questions of survey %s: %w", name, err)
		}
		for _, q := range set.Survey(name).Form.Questions {
			ids = append(ids, q.ID)
		}
		return ids, nil
	}
}

// exported are the responses of the API as those of a file.
func exported(all iter.Seq2[client.Response, error]) iter.Seq2[survey.Response, error] {
	return func(yield func(survey.Response, error) bool) {
		for r, err := range all {
			if !yield(survey.Response(r), err) {
				return
			}
		}
	}
}
