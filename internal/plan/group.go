package plan

import (
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// GroupsOf returns the names of the groups of a set to which a contact belongs, sorted. meter counts the evaluation; nil: it is not counted.
func GroupsOf(set *definition.Set, c subject.Contact, meter *expr.Meter) []string {
	if set == nil || !set.HasGroups() {
		return nil
	}
	in := expr.Input{Contact: ContactFields(c), Meter: meter}
	var names []string
	for _, g := range set.Groups() {
		if g.Has(c.ExtID, in) {
			names = append(names, g.Name)
		}
	}
	return names
}

// WithGroups returns the fields of a contact with its groups by a set, for expressions and texts that read them.
func WithGroups(fields map[string]any, set *definition.Set, c subject.Contact, meter *expr.Meter) map[string]any {
	groups := []any{}
	for _, name := range GroupsOf(set, c, meter) {
		groups = append(groups, name)
	}
	fields["groups"] = groups
	return fields
}
