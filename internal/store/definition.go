package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

const definitionSpec = `ws bigint, kind text, name text, version bigint, text text, hash text, added_in bigint`

const lockDefinitions = `
SELECT w.definitions FROM workspace AS w
WHERE w.id = $1
/*LOCK w*/`

const currentDefinitions = `
SELECT kind, name, version, text, hash
FROM definition
WHERE ws = $1 AND removed_in = 0`

const closeDefinitions = `
UPDATE definition SET removed_in = $1
FROM /*ROWS $2 (ws bigint, kind text, name text)*/ AS r
WHERE definition.ws = r.ws AND definition.kind = r.kind AND definition.name = r.name AND definition.removed_in = 0`

const insertDefinitions = `
INSERT INTO definition (/*NAMES (` + definitionSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + definitionSpec + `)*/ AS r`

const setDefinitions = `
UPDATE workspace SET definitions = $2
WHERE id = $1`

// DefinitionRef names a definition.
type DefinitionRef struct{ Kind, Name string }

// DefinitionEdit is the next set of definitions of a workspace, as its difference from the one in force.
type DefinitionEdit struct {
	Documents []Definition
	Removed   []DefinitionRef
	Actor     string // for the history
	Action    string // for the history: apply, delete or rollback
}

// LockDefinitions locks and returns the number of the set in force. It waits for the transactions that hold the set
// (WriteHoldingDefinitions), and makes later ones wait, so that no other work is planned before this one commits.
func (t *Tx) LockDefinitions(ws subject.WorkspaceID) (number int64, err error) {
	if t.s.dialect.lockPlans != "" {
		if _, err := t.exec(t.s.dialect.lockPlans); err != nil {
			return 0, fmt.Errorf("lock the definitions: %w", err)
		}
	}
	numbers, err := query(t, scanInt, lockDefinitions, int64(ws))
	switch {
	case err != nil:
		return 0, fmt.Errorf("lock the definitions: %w", err)
	case len(numbers) == 0:
		return 0, fmt.Errorf("workspace %d: %w", ws, ErrNotFound)
	}
	return numbers[0], nil
}

// WriteDefinitions writes the set with that number, the next one, if it differs from the set in force. A definition whose
// hash differs becomes the next version of its name. A removed one is left out. Definitions that are not mentioned stay. The
// changes are in the order of the documents, with removals last.
func (t *Tx) WriteDefinitions(ws subject.WorkspaceID, now time.Time, number int64, e DefinitionEdit) ([]DefinitionChange, error) {
	rows, err := query(t, scanDefinition, currentDefinitions, int64(ws))
	if err != nil {
		return nil, fmt.Errorf("read the definitions in force: %w", err)
	}
	current := map[DefinitionRef]Definition{}
	for _, d := range rows {
		current[DefinitionRef{d.Kind, d.Name}] = d
	}
	last, err := t.lastVersions(ws, current, e.Documents)
	if err != nil {
		return nil, err
	}
	d, err := differenceOf(ws, number, current, last, e)
	if err != nil || d.added.n == 0 && d.closed.n == 0 {
		return d.changes, err
	}
	if _, err := t.exec(closeDefinitions, number, &d.closed); err != nil {
		return nil, fmt.Errorf("write definitions: %w", err)
	}
	if _, err := t.exec(insertDefinitions, &d.added); err != nil {
		return nil, fmt.Errorf("write definitions: %w", err)
	}
	if _, err := t.exec(setDefinitions, int64(ws), number); err != nil {
		return nil, fmt.Errorf("write definitions: %w", err)
	}
	if _, err := t.exec(insertDefinitionSet, int64(ws), number, micros(now), e.Actor, e.Action); err != nil {
		return nil, fmt.Errorf("write definitions: %w", err)
	}
	return d.changes, nil
}

// difference is how an edit changes the set in force.
type difference struct {
	changes       []DefinitionChange
	closed, added rowset
}

// differenceOf compares the documents of an edit with those in force. last has the latest versions of names that are not in
// force.
func differenceOf(ws subject.WorkspaceID, number int64, current map[DefinitionRef]Definition, last map[DefinitionRef]int64, e DefinitionEdit) (d difference, err error) {
	seen := map[DefinitionRef]bool{}
	twice := func(id DefinitionRef) error {
		if seen[id] {
			return fmt.Errorf("%w: %s %q is listed twice in one set", ErrInvalid, id.Kind, id.Name)
		}
		seen[id] = true
		return nil
	}
	for _, doc := range e.Documents {
		id := DefinitionRef{doc.Kind, doc.Name}
		if err := twice(id); err != nil {
			return d, err
		}
		old, found := current[id]
		if found && old.Hash == doc.Hash {
			d.changes = append(d.changes, DefinitionChange{doc.Kind, doc.Name, old.Version, Unchanged})
			continue
		}
		change := DefinitionChange{doc.Kind, doc.Name, last[id] + 1, Added}
		if found {
			change.Version, change.Action = old.Version+1, Changed
			d.closed.row().int(int64(ws)).text(id.Kind).text(id.Name)
		}
		d.changes = append(d.changes, change)
		d.added.row().int(int64(ws)).text(doc.Kind).text(doc.Name).int(change.Version).text(doc.Text).text(doc.Hash).int(number)
	}
	for _, id := range e.Removed {
		if err := twice(id); err != nil {
			return d, err
		}
		old, found := current[id]
		if !found {
			return d, fmt.Errorf("%s %q: %w", id.Kind, id.Name, ErrNotFound)
		}
		d.changes = append(d.changes, DefinitionChange{id.Kind, id.Name, old.Version, Deleted})
		d.closed.row().int(int64(ws)).text(id.Kind).text(id.Name)
	}
	return d, nil
}

const lastVersions = `
SELECT r.kind, r.name, COALESCE((SELECT MAX(d.version) FROM definition AS d WHERE d.ws = r.ws AND d.kind = r.kind AND d.name = r.name), 0)
FROM /*ROWS $1 (ws bigint, kind text, name text)*/ AS r`

// lastVersions returns the latest versions of documents that are not in force but may have been before.
func (t *Tx) lastVersions(ws subject.WorkspaceID, current map[DefinitionRef]Definition, docs []Definition) (map[DefinitionRef]int64, error) {
	var rows rowset
	for _, d := range docs {
		if _, found := current[DefinitionRef{d.Kind, d.Name}]; !found {
			rows.row().int(int64(ws)).text(d.Kind).text(d.Name)
		}
	}
	if rows.n == 0 {
		return nil, nil
	}
	type latest struct {
		DefinitionRef
		version int64
	}
	found, err := query(t, func(rows *sql.Rows) (l latest, err error) {
		return l, rows.Scan(&l.Kind, &l.Name, &l.version)
	}, lastVersions, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the latest versions: %w", err)
	}
	versions := make(map[DefinitionRef]int64, len(found))
	for _, l := range found {
		versions[l.DefinitionRef] = l.version
	}
	return versions, nil
}

// Deliveries that wait because their workflow was switched off; the partial index serves this query.
const wakeWorkflows = `
UPDATE delivery SET send_at = $1, version = delivery.version + 1
FROM /*ROWS $2 (ws bigint, workflow text)*/ AS r
WHERE delivery.hold = ` + sqlHoldInactive + ` AND delivery.send_at > $1 AND delivery.intent_at = 0
  AND delivery.workflow = r.workflow AND delivery.ws = r.ws`

// WakeWorkflows makes the messages due that wait for their workflows to be switched on again, because an edit may have done
// that.
func (t *Tx) WakeWorkflows(ws subject.WorkspaceID, now time.Time, edited []string) error {
	var rows rowset
	for _, name := range edited {
		rows.row().int(int64(ws)).text(name)
	}
	n, err := t.exec(wakeWorkflows, dueMicros(now), &rows)
	if err != nil {
		return fmt.Errorf("wake what waits for a workflow: %w", err)
	}
	if n > 0 {
		t.due(WorkDeliveries, dueMicros(now))
	}
	return nil
}

const definitionSet = `
SELECT kind, name, version, text, hash
FROM definition
WHERE ws = $1 AND added_in <= $2 AND (removed_in = 0 OR removed_in > $2)
ORDER BY kind, name`

// DefinitionSet returns the documents of the set with that number, by kind and name.
func (s *Store) DefinitionSet(ctx context.Context, ws subject.WorkspaceID, number int64) ([]Definition, error) {
	return all(ctx, s, "read definition set", scanDefinition, definitionSet, int64(ws), number)
}

const definitionsNumber = `
SELECT definitions FROM workspace
WHERE id = $1`

// DefinitionsNumber returns the number of the set in force, 0 if there is none.
func (t *Tx) DefinitionsNumber(ws subject.WorkspaceID) (int64, error) {
	numbers, err := query(t, scanInt, definitionsNumber, int64(ws))
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the number of the definitions: %w", err)
	case len(numbers) == 0:
		return 0, fmt.Errorf("workspace %d: %w", ws, ErrNotFound)
	}
	return numbers[0], nil
}

// DefinitionsNumber returns the number of the set in force, 0 when there is none yet.
func (s *Store) DefinitionsNumber(ctx context.Context, ws subject.WorkspaceID) (int64, error) {
	number, ok, err := first(ctx, s, "read the number of the definitions", scanInt, definitionsNumber, int64(ws))
	if err == nil && !ok {
		err = fmt.Errorf("workspace %d: %w", ws, ErrNotFound)
	}
	return number, err
}

func scanDefinition(rows *sql.Rows) (d Definition, err error) {
	return d, rows.Scan(&d.Kind, &d.Name, &d.Version, &d.Text, &d.Hash)
}
