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
	Contact string `name:"contact" placeholder:"ID" help:"With this person: your id of them, or one of their addresses."`
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
		contact := calledBy(client.Contact{ID: x.Contact, Address: x.Address})
		rows[i] = []string{x.ID, c.at(x.OpenedAt), x.Workflow, contact, x.Address, x.Channel, x.Status, x.Reason, x.Question, answersText(x.Answers)}
	}
	s.table([]string{"id", "opened_at", "workflow", "contact", "address", "channel", "status", "reason", "question", "answers"}, rows)
	s.more(page.NextCursor)
	if len(rows) == 0 && c.Contact != "" {
		return s.noteUnknown(c.remote, c.Contact)
	}
	return nil
}

// noteUnknown says that no contact has the id or address by which a list was narrowed.
func (s *session) noteUnknown(r remote, contact string) error {
	found, err := call(r, func(api *client.Client) (client.Page[client.Contact], error) {
		return api.Contacts(s.ctx, client.ContactQuery{Q: contact, Limit: mostNamed})
	})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found.Items, func(one client.Contact) bool { return one.ID == contact || hasAddress(one, contact) }) {
		s.note("No contact has the id or address %q: carillon contacts list --q %[1]q finds names and ids that begin so", contact)
	}
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
	var rows [][]string
	for _, l := range d.Lines {
		what := strings.TrimSpace(l.Says + " " + l.Question)
		if l.By == "person" {
			what = cmp.Or(l.Keyword, l.Question)
		}
		if l.Step > 1 {
			what = strings.TrimSpace("reminder " + l.Question)
		}
		text := said(l, s.Terminal)
		rows = append(rows, []string{c.at(l.At), l.By, what, strings.TrimSpace(l.Status + " " + l.Reason), text[0]})
		for _, more := range text[1:] {
			rows = append(rows, []string{" ", " ", " ", " ", " " + more})
		}
	}
	s.table([]string{"at", "by", "about", "outcome", "text"}, rows)
	return nil
}

// said is the text of a line in quotes, so that a reply of "-" is not taken for none: on a terminal line by line, else on one with \n for each end of a line.
func said(l client.SessionLine, terminal bool) []string {
	if l.Text == "" && l.By != "person" {
		return []string{""} // it has not left
	}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(l.Text)
	if terminal {
		return strings.Split(`"`+text+`"`, "\n")
	}
	return []string{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`}
}
