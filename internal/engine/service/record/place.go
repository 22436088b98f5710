package record

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// places decides which writes of places keep them a tree: no place is above itself, and a path to the top has at most subject.MaxPlaces places. The
// place above need not exist: files are taken in in any order.
type places struct {
	stored  subject.Places      // those that items move, those that they move them to, and those above; with the items so far
	heights map[string]int      // how many places are below those that items move, along the longest way, as it is stored
	moved   map[string][]string // by the place above: those that items have moved there
}

// readPlaces reads what the items of a call about places depend on, and makes other calls that move places wait.
func readPlaces(tx *store.Tx, ws subject.WorkspaceID, mode upsert.Mode, items []Item, known map[subject.RecordRef]store.RecordRow) (*places, error) {
	var moved, above []string
	for _, item := range items {
		if item.Err != nil || item.Type != subject.PlaceType || mode == upsert.Delete {
			continue
		}
		row, found := known[item.Ref()]
		next := subject.PlaceOf(item.Props).Parent
		if _, said := item.Props["parent"]; !said && found && !row.Deleted && mode != upsert.Replace {
			continue // it stays where it is
		}
		if made := !found || row.Deleted; made || next != "" && subject.PlaceOf(row.Props).Parent != next {
			moved, above = append(moved, item.ID), append(above, item.ID, next) // also at the top: what is below it may be there already
		}
	}
	if len(moved) == 0 {
		return &places{stored: subject.Places{}}, nil
	}
	if err := tx.LockPlaces(ws); err != nil {
		return nil, err
	}
	stored, err := tx.PlacesAbove(ws, above)
	if err != nil {
		return nil, err
	}
	heights, err := tx.HeightsOfPlaces(ws, moved)
	if stored == nil {
		stored = subject.Places{}
	}
	return &places{stored: stored, heights: heights, moved: map[string][]string{}}, err
}

// keep refuses a place that cannot be where an item puts it.
func (p *places) keep(row store.RecordRow) *upsert.Error {
	for _, field := range []string{"type", "parent"} {
		if value := row.Props[field]; value != nil {
			if _, isText := value.(string); !isText {
				return invalid("props."+field, "is "+article(value)+", and of a place it is a text", map[string]string{
					"type": `such as "clinic"`, "parent": "the id of the place above, in quotes",
				}[field])
			}
		}
	}
	if row.Deleted {
		delete(p.stored, row.ExtID)
		return nil
	}
	next := subject.PlaceOf(row.Props)
	old, exists := p.stored[row.ExtID]
	if exists && (next.Parent == "" || old.Parent == next.Parent) {
		p.stored[row.ExtID] = next
		return nil
	}
	path := []string{row.ExtID}
	for at := next.Parent; at != "" && !slices.Contains(path[1:], at); at = p.stored[at].Parent {
		if at == row.ExtID {
			return invalid("props.parent", fmt.Sprintf("puts %s above itself: %s", row.ExtID, strings.Join(append(path, at), " is in ")), "write the place that is above it, or leave parent out at the topmost one")
		}
		if path = append(path, at); len(path) > 2*subject.MaxPlaces { // of an older program
			break
		}
	}
	if _, exists := p.stored[path[len(path)-1]]; !exists && len(path) > 1 {
		path = path[:len(path)-1] // the last one does not exist
	}
	if n := len(path) + p.below(row.ExtID, 0); n > subject.MaxPlaces {
		return invalid("props.parent", fmt.Sprintf("makes a path of %d places from the lowest one to the top, and there are at most %d", n, subject.MaxPlaces), "leave out levels in between")
	}
	p.stored[row.ExtID] = next
	if p.moved != nil {
		p.moved[next.Parent] = append(p.moved[next.Parent], row.ExtID)
	}
	return nil
}

// below returns how many places are below one, along the longest way.
func (p *places) below(name string, depth int) int {
	n := p.heights[name]
	for _, other := range p.moved[name] {
		if p.stored[other].Parent == name && depth < subject.MaxPlaces {
			n = max(n, 1+p.below(other, depth+1))
		}
	}
	return n
}
