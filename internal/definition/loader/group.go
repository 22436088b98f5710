package loader

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// group reads a group.
func (r *reader) group(root *portable.Node) *definition.Group {
	g := &definition.Group{Name: r.name}
	f, ok := r.fields(root, "group")
	if !ok {
		return g
	}
	members, where := f.get("members"), f.get("where")
	switch {
	case members != nil && where != nil:
		r.invalid(where.Pos, "members and where exclude each other", "write two groups, and name both in the audience")
	case members == nil && where == nil && !f.node.Partial:
		r.report(definition.CodeMissing, root.Pos, fmt.Sprintf("group %s says of nobody that they belong to it", r.name), "write members: with ids of contacts, or where: with a condition on contact")
	}
	g.Members, g.Where = r.members(members), r.membership(where)
	return g
}

// members reads the ids of contacts, and returns them sorted.
func (r *reader) members(n *portable.Node) []string {
	items := r.items(n)
	if n != nil && n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, "the group has no members", "write ids of contacts, or where: with a condition on contact")
	}
	ids := make([]string, 0, len(items))
	known := make(map[string]bool, len(items))
	for _, item := range items {
		id, ok := r.text(item)
		if !ok {
			continue
		}
		problem, hint := subject.CheckName(id)
		switch kind := addressLike(id); {
		case problem != "":
			r.invalid(item.Pos, "this id "+problem, hint)
		case known[id]:
			r.invalid(item.Pos, fmt.Sprintf("%s is named twice", id), "remove one of them")
		case kind != "" && !r.stored:
			r.warn(definition.CodeLint, item.Pos, id+" is an address, and members are ids of contacts", "name the contact by its id; an id that no contact has is nobody")
		}
		ids, known[id] = append(ids, id), true
	}
	slices.Sort(ids)
	return ids
}

// membership reads the condition of a group. It may depend on the contact alone: whatever else changed would change the group unseen.
func (r *reader) membership(n *portable.Node) *expr.Condition {
	before := len(r.problems)
	c := r.condition(n, expr.Scope{Contact: true, Vars: true, Workspace: true, Now: true})
	if c == nil || len(r.problems) > before {
		return c
	}
	switch {
	case c.ReadsNow():
		r.invalid(n.Pos, "who belongs to a group does not change with time", "write the condition on time as where beside group, in the audience")
		return c
	case c.AsksWithin():
		r.invalid(n.Pos, "who belongs to a group does not change when a place moves", "name the place in the audience: place: NAME, with below: true; or write within as where beside group")
		return c
	case c.CallsOwn():
		r.invalid(n.Pos, "the where of a group calls no function of your own: it is read whenever a contact is written", "write that condition as where beside group, in the audience")
		return c
	}
	fields := textNames(subjects{})["contact"]
	for _, path := range c.Paths() {
		switch {
		case path[0] != "contact":
			r.invalid(n.Pos, "the where of a group reads nothing but contact, and this reads "+path[0], "write that condition as where beside group, in the audience")
		case len(path) == 1:
			r.invalid(n.Pos, "the where of a group reads single fields of contact", "contact has "+sentence(fields))
		case path[1] == "groups":
			r.invalid(n.Pos, "a group cannot depend on groups", "repeat the condition of the other group; an audience can name both groups")
		case !slices.Contains(fields, path[1]):
			hint := suggest.DidYouMean(path[1], fields)
			if hint == "" {
				hint = "contact has " + sentence(fields) + "; your own fields are contact.attributes.NAME"
			}
			r.invalid(n.Pos, fmt.Sprintf("contact has no field %q", path[1]), hint)
		default:
			continue
		}
		return c
	}
	return c
}

// groupRef names the group of an entry of the audience.
func (r *reader) groupRef(n *portable.Node, set *definition.Set) string {
	name, ok := r.defName(n)
	if ok && set.Group(name) == nil {
		r.unresolved(reference{definition.KindGroup, name, name}, n.Pos, r.undefined(definition.KindGroup, name), false)
	}
	return name
}
