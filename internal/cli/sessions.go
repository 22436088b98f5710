package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/survey"
)

type sessionsCmd struct {
	List listSessionsCmd `cmd:"" help:"List conversations, the newest first."`
	Show showSessionCmd  `cmd:"" help:"Show a conversation with what was said in it."`
}

type listSessionsCmd struct {
	Status  string `name:"status" values:"session_statuses" placeholder:"STATUS" help:"In this state: ${session_statuses}."`
	Contact string `name:"contact" placeholder:"ID" help:"With this contact."`
	paging
	remote
	output
}

// Run lists sessions.
func (c *listSessionsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Session], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Session], error) {
			return api.Sessions(s.ctx, client.SessionQuery{Status: c.Status, Contact: c.Contact, Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, x := range page.Items {
		rows[i] = []string{x.ID, c.at(x.OpenedAt), x.Workflow, x.Contact, x.Channel, x.Status, x.Reason, x.Question, answersText(x.Answers)}
	}
	s.table([]string{"id", "opened_at", "workflow", "contact", "channel", "status", "reason", "question", "answers"}, rows)
	s.more(page.NextCursor)
	return nil
}

// answersText writes answers in one line, by the id of the question.
func answersText(answers map[string]any) string {
	var said []string
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		said = append(said, id+"="+survey.AnswerText(answers[id]))
	}
	return strings.Join(said, " ")
}

type showSessionCmd struct {
	IDs []string `arg:"" name:"id" help:"The id of any of its deliveries; several are shown one after the other."`
	remote
	output
}

// Run shows sessions.
func (c *showSessionCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.SessionDetail, error) {
		return api.Session(s.ctx, id)
	}, parted(s, c.print))
}

func (c *showSessionCmd) print(s *session, d client.SessionDetail) error {
	s.fields("session", d.ID, "workflow", d.Workflow, "contact", d.Contact, "channel", d.Channel, "address", d.Address, "status", d.Status, "reason", because(d.Reason, d.Message),
		"question", d.Question, "answers", answersText(d.Answers), "opened_at", c.at(d.OpenedAt), "expires_at", c.at(d.ExpiresAt), "ended_at", c.at(d.EndedAt))
	s.title("what was said")
	rows := make([][]string, len(d.Lines))
	for i, l := range d.Lines {
		what := strings.TrimSpace(l.Says + " " + l.Question)
		if l.By == "person" {
			what = cmp.Or(l.Keyword, l.Question)
		}
		if l.Step > 1 {
			what = strings.TrimSpace("reminder " + l.Question)
		}
		rows[i] = []string{c.at(l.At), l.By, what, strings.TrimSpace(l.Status + " " + l.Reason), l.Text}
	}
	s.table([]string{"at", "by", "about", "outcome", "text"}, rows)
	return nil
}
