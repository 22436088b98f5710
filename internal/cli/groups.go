package cli

import (
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/client"
)

type groupsCmd struct {
	List listGroupsCmd `cmd:"" help:"List the groups, and how many contacts belong to each."`
	Show showGroupCmd  `cmd:"" help:"Show a group and its contacts, the newest first."`
}

type listGroupsCmd struct {
	remote
	output
}

// Help is the long help.
func (listGroupsCmd) Help() string {
	return `A group is defined: by a condition on contacts, or by their ids. After it is applied or changed, a run computes its contacts; state is computing
until then. Messages to the group go to the right contacts meanwhile.`
}

// Run lists groups.
func (c *listGroupsCmd) Run(s *session) error {
	list, err := call(c.remote, func(api *client.Client) (client.Groups, error) { return api.Groups(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	rows := make([][]string, len(list.Items))
	for i, g := range list.Items {
		rows[i] = []string{g.Name, fmt.Sprint(g.Members), groupState(g), madeUpOf(g)}
	}
	s.table([]string{"group", "members", "state", "who"}, rows)
	return nil
}

func groupState(g client.Group) string {
	if g.Computed {
		return "computed"
	}
	return "computing"
}

// madeUpOf says who belongs to a group.
func madeUpOf(g client.Group) string {
	if g.Where != "" {
		return strings.ReplaceAll(g.Where, "\n", "; ")
	}
	return fmt.Sprintf("%d ids", g.IDs)
}

type showGroupCmd struct {
	Name string `arg:"" name:"group" help:"The group's name."`
	paging
	remote
	output
}

// Run shows a group.
func (c *showGroupCmd) Run(s *session) error {
	var group client.Group
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Contact], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Contact], error) {
			one, err := api.Group(s.ctx, c.Name, client.GroupQuery{Limit: limit, Cursor: cursor})
			group = one.Group
			return client.Page[client.Contact]{Items: one.Items, NextCursor: one.NextCursor}, err
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, client.GroupPage{Group: group, Items: page.Items, NextCursor: page.NextCursor})
	}
	s.fields("group", group.Name, "who", madeUpOf(group), "state", groupState(group), "members", fmt.Sprint(group.Members))
	rows := make([][]string, len(page.Items))
	for i, one := range page.Items {
		rows[i] = []string{one.ID, one.Name, one.Persona, reachedAt(one), one.Locale, one.Timezone, suppression(one)}
	}
	s.table([]string{"id", "name", "persona", "addresses", "locale", "timezone", "suppressed"}, rows)
	s.more(page.NextCursor)
	return nil
}
