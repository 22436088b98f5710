package console

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store"
)

type groupLine struct {
	name, href, who string
	members         int64
	state           badge
}

type groupList struct {
	chips []chip
	rows  []groupLine
}

type groupDetail struct {
	scale
	groupLine
	computing     bool
	facts         []fact
	rows          []contactLine
	newest, older string
}

func groupPath(name string) string { return "/groups/" + url.PathEscape(name) }

func groupLineOf(g *definition.Group, state store.GroupState) groupLine {
	l := groupLine{name: g.Name, href: groupPath(g.Name), members: state.Members, state: badge{good, "computed"}}
	if !state.Computed {
		l.state = badge{wait, "computing"}
	}
	if l.who = strings.ReplaceAll(g.Where.Source(), "\n", "; "); l.who == "" {
		l.who = fmt.Sprintf("%d ids", len(g.Members))
	}
	return l
}

// groups is the page of all groups that are defined.
func (c *console) groups(ctx context.Context, v visit) (view, error) {
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	var names []string
	for _, g := range set.Groups() {
		names = append(names, g.Name)
	}
	states, err := c.Store.GroupStates(ctx, v.workspace.ID, names)
	if err != nil {
		return view{}, err
	}
	list := groupList{chips: contactChips("groups")}
	for _, g := range set.Groups() {
		list.rows = append(list.rows, groupLineOf(g, states[g.Name]))
	}
	return view{title: "Groups", section: "/contacts", body: groupsPage(list), live: true}, nil
}

// group is the page of a group, with its contacts.
func (c *console) group(ctx context.Context, v visit) (view, error) {
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	g := set.Group(v.id)
	if g == nil {
		return view{}, store.ErrNotFound
	}
	states, err := c.Store.GroupStates(ctx, v.workspace.ID, []string{g.Name})
	if err != nil {
		return view{}, err
	}
	rows, err := c.Store.GroupMembers(ctx, v.workspace.ID, g.Name, store.Page{Before: v.before(), Limit: pageSize + 1})
	if err != nil {
		return view{}, err
	}
	page := groupDetail{scale: v.scale, groupLine: groupLineOf(g, states[g.Name]), computing: !states[g.Name].Computed, newest: v.newest(groupPath(g.Name))}
	page.facts = []fact{{name: "members", value: number(page.members)}, {name: "who", value: page.who, code: true}}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		page.older = v.older(groupPath(g.Name), int64(rows[len(rows)-1].ID))
	}
	page.rows = contactLines(rows)
	return view{title: "Group " + g.Name, section: "/contacts", body: groupPage(page), live: v.before() == 0}, nil
}
