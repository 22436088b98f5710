package subject

import "slices"

// PlaceType is the type of records that are places. A place is named by the record's id.
const PlaceType = "place"

// MaxPlaces bounds how many places a path has, from a place to the topmost one.
const MaxPlaces = 32

// Place is what makes a record a place.
type Place struct {
	Type   string // such as country or clinic; may be empty
	Parent string // name of the place above; empty: there is none. A parent that does not exist counts as none
}

// PlaceOf returns the place that a record with these fields is.
func PlaceOf(props map[string]any) Place {
	typ, _ := props["type"].(string)
	parent, _ := props["parent"].(string)
	return Place{typ, parent}
}

// Places are places by name.
type Places map[string]Place

// Path returns the name of a place and those of the places above it, the nearest first; nil if the place does not exist.
func (p Places) Path(name string) (path []string) {
	for place, exists := p[name]; exists && !slices.Contains(path, name); place, exists = p[name] {
		path = append(path, name)
		name = place.Parent
	}
	return path
}

// Above returns the nearest place above one that has one of some types, without types the next one above; empty: there is none.
func (p Places) Above(name string, types []string) string {
	for i, above := range p.Path(name) {
		if i > 0 && (len(types) == 0 || slices.Contains(types, p[above].Type)) {
			return above
		}
	}
	return ""
}
