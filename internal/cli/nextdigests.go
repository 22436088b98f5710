package cli

import (
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/client"
)

type nextDigestsCmd struct {
	ID string `arg:"" help:"Your id of the person."`
	remote
	output
}

// Help is the long help.
func (nextDigestsCmd) Help() string {
	return `Of each trigger that serves a topic the person follows, the next run, and the items that it holds so far. With nothing new there is
no message. What comes until then, and what the person changes, changes it.`
}

// Run shows the next digests.
func (c *nextDigestsCmd) Run(s *session) error {
	list, err := call(c.remote, func(api *client.Client) ([]client.NextDigest, error) { return api.NextDigests(s.ctx, c.ID) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, client.NextDigests{Digests: list})
	}
	var rows [][]string
	for _, next := range list {
		row := func(cells ...string) {
			rows = append(rows, append([]string{c.at(next.DueAt), next.Workflow + " " + next.Trigger}, cells...))
		}
		if len(next.Sections) == 0 {
			row("nothing new so far", "")
		}
		for _, section := range next.Sections {
			for _, item := range section.Items {
				row(section.Title, strings.TrimSpace(item.ID+" "+item.Title))
			}
			for _, item := range section.See {
				row(section.Title, strings.TrimSpace("see also "+item.ID+" "+item.Title))
			}
		}
		if next.More > 0 {
			row(fmt.Sprintf("and %d more", next.More), "")
		}
	}
	s.table([]string{"due", "digest", "topic", "item"}, rows)
	return nil
}
