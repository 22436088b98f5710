package store

import (
	"slices"

	"github.com/carillonhq/carillon/internal/subject"
)

// A place that does not exist has nobody, whatever contacts name it.
const membersOfPlace = `
SELECT p.id FROM contact AS p
WHERE p.place = $1 AND p.place <> '' AND p.ws = $2 AND p.id > $3
  AND EXISTS (SELECT 1 FROM place AS l WHERE l.ws = $2 AND l.name = $1)
ORDER BY p.id
LIMIT $4`

const membersOfPlaceIn = `
SELECT m.id FROM contact AS m CROSS JOIN contact AS p
WHERE m.place = $1 AND m.place <> '' AND m.ws = $2 AND m.id > $3 AND p.ws = m.ws AND p.id = m.id AND p.timezone || '' IN ($5, $6)
  AND EXISTS (SELECT 1 FROM place AS l WHERE l.ws = $2 AND l.name = $1)
ORDER BY m.id
LIMIT $4`

// The people of a place and of those below it are found in one of two ways. If they are few, all of them are read, place by place, and sorted. If they are
// many, the contacts are read in the order of their ids, and each is asked for the places above its own: the first way would read all of them again
// for every page. So neither a place of a few people among a million contacts, nor one of all of them, reads much more than it has.

// fewBelow bounds the first way.
const fewBelow = 10 * MemberPage

const belowPlace = `
WITH RECURSIVE down(name) AS (
  SELECT l.name FROM place AS l WHERE l.ws = $2 AND l.name = $1
  UNION
  SELECT l.name FROM down AS d CROSS JOIN place AS l WHERE l.parent = d.name AND l.parent <> '' AND l.ws = $2
)
SELECT p.id FROM down AS d CROSS JOIN place AS l CROSS JOIN contact AS p
WHERE l.ws = $2 AND l.name = d.name AND ($5 = '' OR l.type = $5)
  AND p.place = l.name AND p.place <> '' AND p.ws = $2 AND p.id > $3`

const fewBelowPlace = belowPlace + `
LIMIT $4`

const fewBelowPlaceIn = belowPlace + `
  AND EXISTS (SELECT 1 FROM contact AS z WHERE z.ws = p.ws AND z.id = p.id AND z.timezone || '' IN ($6, $7))
LIMIT $4`

const aboveContact = `
SELECT p.id FROM contact AS p
WHERE p.ws = $2 AND p.id > $3 AND p.place || '' <> ''
  AND EXISTS (SELECT 1 FROM place AS l WHERE l.ws = $2 AND l.name = p.place AND ($5 = '' OR l.type = $5))
  AND EXISTS (
    WITH RECURSIVE up(name) AS (
      SELECT p.place
      UNION
      SELECT l.parent FROM up AS u CROSS JOIN place AS l WHERE l.ws = $2 AND l.name = u.name AND l.parent <> ''
    )
    SELECT 1 FROM up AS u CROSS JOIN place AS l WHERE u.name = $1 AND l.ws = $2 AND l.name = u.name)`

const manyBelowPlace = aboveContact + `
ORDER BY p.id
LIMIT $4`

const manyBelowPlaceIn = aboveContact + `
  AND p.timezone || '' IN ($6, $7)
ORDER BY p.id
LIMIT $4`

// membersBelow reads the next people of a place and of those below it, in the order of their ids: more than MemberPage if they are few.
func (t *Tx) membersBelow(p page) ([]subject.ContactID, error) {
	few, many := fewBelowPlace, manyBelowPlace
	args := []any{p.place, int64(p.ws), int64(p.after), int64(fewBelow + 1), p.kind}
	if p.zone != "" {
		few, many, args = fewBelowPlaceIn, manyBelowPlaceIn, append(args, p.zone, p.other)
	}
	ids, err := t.memberIDs(few, args...)
	if err != nil {
		return nil, err
	}
	if len(ids) <= fewBelow {
		slices.Sort(ids)
		return ids, nil
	}
	args[3] = int64(MemberPage)
	return t.memberIDs(many, args...)
}

// ofTypes returns one page for each type of place, or for any type.
func (p page) ofTypes(types []string) (all []page) {
	if len(types) == 0 {
		return []page{p}
	}
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(types))) {
		one := p
		one.kind = kind
		all = append(all, one)
	}
	return all
}
