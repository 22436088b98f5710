package loader

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/subject"
)

// places reads the places of an entry of the audience. Places are records and no definitions: whether one exists is known to a server alone.
func (r *reader) places(f fields, a *definition.Audience) {
	place, below, types := f.get("place"), f.get("below"), f.get("place_types")
	a.Places = r.placeNames(place, "the audience has no place", "name a record of the type place")
	for _, item := range r.items(place) {
		if r.opts.Place != nil && !r.stored && item.Text != "" && !r.opts.Place(item.Text) {
			r.warn(definition.CodeReference, item.Pos, fmt.Sprintf("there is no place named %s", item.Text), fmt.Sprintf("nobody is there until it is written: carillon records put %s %s", subject.PlaceType, item.Text))
		}
	}
	if below != nil {
		a.Below = r.bool(below, false)
	}
	if types == nil {
		return
	}
	a.PlaceTypes = r.placeNames(types, "people of no type of place are nobody", "name a type of place, such as clinic, or remove place_types")
	if !a.Below && (below == nil || !below.Partial) {
		r.invalid(types.Pos, "place_types selects among the places below, and the audience has none of them", "add below: true")
	}
}

// placeNames reads names, and returns them sorted.
func (r *reader) placeNames(n *portable.Node, none, hint string) []string {
	items := r.items(n)
	if n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, none, hint)
	}
	names := make([]string, 0, len(items))
	for _, item := range items {
		name, ok := r.text(item)
		if !ok {
			continue
		}
		if problem, hint := subject.CheckName(name); problem != "" {
			r.invalid(item.Pos, "this name "+problem, hint)
		} else if slices.Contains(names, name) {
			r.invalid(item.Pos, fmt.Sprintf("%s is named twice", name), "remove one of them")
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
