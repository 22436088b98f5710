package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/expr"
)

// Group is a set of contacts: those that it names, or those for whom a condition holds. Whether a contact belongs to it depends on the
// contact alone, so that it changes only when the contact is written or the group is.
type Group struct {
	Name    string
	Hash    string          // hash of the document
	Members []string        // ids of contacts, sorted; nil with Where
	Where   *expr.Condition // reads nothing but contact
}

// Has reports whether a contact belongs to the group. in has the fields of the contact, as Contact.
func (g *Group) Has(id string, in expr.Input) bool {
	if g.Where != nil {
		return g.Where.Holds(in)
	}
	_, named := slices.BinarySearch(g.Members, id)
	return named
}

// Group returns the group of that name, nil when there is none.
func (s *Set) Group(name string) *Group { return s.groups[name] }

// Groups returns all groups in the order of their names.
func (s *Set) Groups() []*Group {
	return slices.SortedFunc(maps.Values(s.groups), func(a, b *Group) int { return strings.Compare(a.Name, b.Name) })
}

// HasGroups reports whether a group is defined.
func (s *Set) HasGroups() bool { return len(s.groups) > 0 }

// ReadsGroups reports whether one of some paths is contact.groups, or all of contact.
func ReadsGroups(paths []expr.Path) bool {
	return slices.ContainsFunc(paths, func(p expr.Path) bool {
		return len(p) > 0 && p[0] == "contact" && (len(p) == 1 || p[1] == "groups")
	})
}
