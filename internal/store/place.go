package store

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Places are records of the type subject.PlaceType. The table place has the fields of those that are not deleted by which they form a tree, so that the
// places above and below one are found without reading records. It is written in each transaction that writes such a record. Nothing is kept of a place
// but its own row: a place with many below it moves by one write, and every reader sees all of it at once (docs/decisions/0030-places.md).

// PlaceRef names the place whose people an audience has.
type PlaceRef struct {
	Name  string
	Below bool     // with the people of the places below it
	Types []string // with Below: of those alone whose own place has one of these types; empty: of any
	// Above means the people of the place above Name, or above the place of Contact: the nearest one that has one of Types, without Types the next one. Where
	// there is none, it means nobody.
	Above   bool
	Contact string // id of the caller
}

const upsertPlaces = `
INSERT INTO place (ws, name, type, parent)
SELECT r.ws, r.name, r.type, r.parent FROM /*ROWS $1 (ws bigint, name text, type text, parent text)*/ AS r
WHERE true
ON CONFLICT (ws, name) DO UPDATE SET type = excluded.type, parent = excluded.parent
WHERE place.type <> excluded.type OR place.parent <> excluded.parent`

const deletePlaces = `
DELETE FROM place
WHERE (ws, name) IN (SELECT r.ws, r.name FROM /*ROWS $1 (ws bigint, name text)*/ AS r)`

// keepPlaces writes the rows of those records that are places. The records are locked or new, and in the order of their names.
func (t *Tx) keepPlaces(ws subject.WorkspaceID, writes []RecordRow) error {
	var kept, gone rowset
	for _, w := range writes {
		switch {
		case w.Type != subject.PlaceType:
		case w.Deleted:
			gone.row().int(int64(ws)).text(w.ExtID)
		default:
			place := subject.PlaceOf(w.Props)
			kept.row().int(int64(ws)).text(w.ExtID).text(place.Type).text(place.Parent)
		}
	}
	if _, err := t.exec(deletePlaces, &gone); err != nil {
		return fmt.Errorf("remove places: %w", err)
	}
	if _, err := t.exec(upsertPlaces, &kept); err != nil {
		return fmt.Errorf("keep places: %w", err)
	}
	return nil
}

const lockPlaces = `SELECT CAST(pg_advisory_xact_lock(r.lock) AS text) FROM /*ROWS $1 (lock bigint)*/ AS r`

// LockPlaces makes other transactions of a workspace that move places wait for the end of this one: two moves, each of them right by itself, could close
// a circle together. It comes after the locks of records.
func (t *Tx) LockPlaces(ws subject.WorkspaceID) error {
	if !t.s.dialect.advisory {
		return nil // there is one writer
	}
	h := fnv.New64a()
	h.Write([]byte("carillon places " + strconv.FormatInt(int64(ws), 10)))
	var lock rowset
	lock.row().int(int64(h.Sum64())) //nolint:gosec // every value is a key
	if _, err := query(t, func(rows *sql.Rows) (s string, err error) { return s, rows.Scan(&s) }, lockPlaces, &lock); err != nil {
		return fmt.Errorf("lock places: %w", err)
	}
	return nil
}

// A circle that was written before places were a tree ends the walk, because UNION knows its rows. All names are of columns, since PostgreSQL wants one
// collation.
const placesAbove = `
WITH RECURSIVE up(ws, name) AS (
  SELECT p.ws, p.name FROM /*ROWS $1 (ws bigint, name text)*/ AS r CROSS JOIN place AS p WHERE p.ws = r.ws AND p.name = r.name
  UNION
  SELECT l.ws, l.parent FROM up CROSS JOIN place AS l WHERE l.ws = up.ws AND l.name = up.name AND l.parent <> ''
)
SELECT l.ws, l.name, l.type, l.parent FROM up CROSS JOIN place AS l WHERE l.ws = up.ws AND l.name = up.name`

// placeIn names a place of a workspace.
type placeIn struct {
	ws   subject.WorkspaceID
	name string
}

// placesAbove returns those of some places that exist, and the places above them.
func (t *Tx) placesAbove(wanted map[placeIn]bool) (map[subject.WorkspaceID]subject.Places, error) {
	var names rowset
	for _, p := range slices.SortedFunc(maps.Keys(wanted), func(a, b placeIn) int { return strings.Compare(a.name, b.name) }) {
		names.row().int(int64(p.ws)).text(p.name)
	}
	found := map[subject.WorkspaceID]subject.Places{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var at placeIn
		var place subject.Place
		err := rows.Scan(&at.ws, &at.name, &place.Type, &place.Parent)
		if found[at.ws] == nil {
			found[at.ws] = subject.Places{}
		}
		found[at.ws][at.name] = place
		return struct{}{}, err
	}, placesAbove, &names)
	if err != nil {
		return nil, fmt.Errorf("read places: %w", err)
	}
	return found, nil
}

// PlacesAbove returns those of some places that exist, and the places above them.
func (t *Tx) PlacesAbove(ws subject.WorkspaceID, names []string) (subject.Places, error) {
	wanted := map[placeIn]bool{}
	for _, name := range names {
		wanted[placeIn{ws, name}] = true
	}
	found, err := t.placesAbove(wanted)
	return found[ws], err
}

const placeNamed = `SELECT 1 FROM place AS l WHERE l.ws = $1 AND l.name = $2`

// HasPlace reports whether a place exists.
func (s *Store) HasPlace(ctx context.Context, ws subject.WorkspaceID, name string) (bool, error) {
	_, found, err := first(ctx, s, "read place", scanInt, placeNamed, int64(ws), name)
	return found, err
}

// placesOf reads the places of persons, and those above.
func (t *Tx) placesOf(persons map[delivery.PersonRef]delivery.Person) error {
	wanted := map[placeIn]bool{}
	for ref, p := range persons {
		if p.Place != "" {
			wanted[placeIn{ref.Workspace, p.Place}] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	found, err := t.placesAbove(wanted)
	if err != nil {
		return err
	}
	for ref, p := range persons {
		if places := found[ref.Workspace]; p.Place != "" {
			p.Within, p.PlaceType = places.Path(p.Place), places[p.Place].Type
			persons[ref] = p
		}
	}
	return nil
}

// placeOf reads the place of a contact, and those above.
func (t *Tx) placeOf(ws subject.WorkspaceID, c *subject.Contact) error {
	ref := delivery.PersonRef{Workspace: ws, ID: c.ID}
	persons := map[delivery.PersonRef]delivery.Person{ref: {Contact: *c}}
	err := t.placesOf(persons)
	*c = persons[ref].Contact
	return err
}

// The bound ends the walk of a circle.
const placesBelow = `
WITH RECURSIVE down(ws, top, name, depth) AS (
  SELECT p.ws, r.name, p.name, 1 FROM /*ROWS $2 (ws bigint, name text)*/ AS r CROSS JOIN place AS p
  WHERE p.parent = r.name AND p.parent <> '' AND p.ws = r.ws
  UNION ALL
  SELECT d.ws, d.top, l.name, d.depth + 1 FROM down AS d CROSS JOIN place AS l
  WHERE l.parent = d.name AND l.parent <> '' AND l.ws = d.ws AND d.depth < $1
)
SELECT d.top, MAX(d.depth) FROM down AS d GROUP BY d.top`

// HeightsOfPlaces returns how many places are below each of some, from one to the next, along the longest way, at most subject.MaxPlaces. Those
// without any are left out.
func (t *Tx) HeightsOfPlaces(ws subject.WorkspaceID, names []string) (map[string]int, error) {
	var wanted rowset
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		wanted.row().int(int64(ws)).text(name)
	}
	heights := map[string]int{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var name string
		var height int
		err := rows.Scan(&name, &height)
		heights[name] = height
		return struct{}{}, err
	}, placesBelow, int64(subject.MaxPlaces), &wanted)
	if err != nil {
		return nil, fmt.Errorf("read the places below: %w", err)
	}
	return heights, nil
}

// meantPlaces returns the audiences of groups with the places that are meant by places above others. Where there is none, the name is empty.
func (t *Tx) meantPlaces(groups [][]Audience, workspace func(group int) subject.WorkspaceID) ([][]Audience, error) {
	wanted, contacts := map[placeIn]bool{}, []recipient{}
	asks := false
	for g, group := range groups {
		for _, a := range group {
			for _, p := range a.Places {
				switch asks = asks || p.Above; {
				case !p.Above:
				case p.Contact != "":
					contacts = append(contacts, recipient{workspace(g), RecipientRef{ExtID: p.Contact}})
				default:
					wanted[placeIn{workspace(g), p.Name}] = true
				}
			}
		}
	}
	if !asks {
		return groups, nil
	}
	homes, err := t.homesOf(contacts)
	if err != nil {
		return nil, err
	}
	for _, home := range homes {
		wanted[home] = true
	}
	found, err := t.placesAbove(wanted)
	if err != nil {
		return nil, err
	}
	groups = slices.Clone(groups)
	for g, group := range groups {
		ws := workspace(g)
		groups[g] = slices.Clone(group)
		for i, a := range group {
			if !slices.ContainsFunc(a.Places, func(p PlaceRef) bool { return p.Above }) {
				continue
			}
			meant := slices.Clone(a.Places)
			for n, p := range meant {
				if !p.Above {
					continue
				}
				if p.Contact != "" {
					p.Name = homes[placeIn{ws, p.Contact}].name
				}
				meant[n] = PlaceRef{Name: found[ws].Above(p.Name, p.Types)}
			}
			groups[g][i].Places, groups[g][i].meant = meant, true
		}
	}
	return groups, nil
}

// homesOf returns the places of contacts, by their ids of the caller.
func (t *Tx) homesOf(contacts []recipient) (map[placeIn]placeIn, error) {
	if len(contacts) == 0 {
		return nil, nil
	}
	persons, _, err := t.findPersons(contacts)
	if err != nil {
		return nil, err
	}
	var read []delivery.PersonRef
	for i, p := range persons {
		if p.Found {
			read = append(read, delivery.PersonRef{Workspace: contacts[i].ws, ID: p.ID})
		}
	}
	known, err := t.readPersons(read)
	if err != nil {
		return nil, err
	}
	homes := map[placeIn]placeIn{}
	for i, p := range persons {
		of := contacts[i]
		if at := known[delivery.PersonRef{Workspace: of.ws, ID: p.ID}].Place; at != "" {
			homes[placeIn{of.ws, of.ExtID}] = placeIn{of.ws, at}
		}
	}
	return homes, nil
}
