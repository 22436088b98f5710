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

// ApplyDefinitions makes the documents part of the definition set in force. What differs from it by its hash
// becomes the next version of its name and makes a new set, and its runs begin; when nothing differs the number stays and no audit
// entry is written. Documents of the set that are not mentioned stay in it. The changes stand in the order of docs. What is
// scheduled becomes what the new set implies, in the same transaction; calendar may be nil.
func (s *Store) ApplyDefinitions(ctx context.Context, ws subject.WorkspaceID, now time.Time, docs []Definition, audit Audit, calendar *CalendarPlan, once *Once[AppliedDefinitions]) (number int64, changes []DefinitionChange, err error) {
	var applied AppliedDefinitions
	err = s.write(ctx, func(t *session) error {
		applied, err = once.do(ctx, t, ws, func() (a AppliedDefinitions, err error) {
			a.Number, a.Changes, err = t.applyDefinitions(ctx, ws, now, docs, audit, calendar)
			return a, err
		})
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("apply definitions: %w", err)
	}
	return applied.Number, applied.Changes, nil
}

// AppliedDefinitions is what applying definitions did.
type AppliedDefinitions struct {
	Number  int64
	Changes []DefinitionChange
}

func (t *session) applyDefinitions(ctx context.Context, ws subject.WorkspaceID, now time.Time, docs []Definition, audit Audit, calendar *CalendarPlan) (int64, []DefinitionChange, error) {
	if t.s.dialect.lockPlans != "" {
		if _, err := t.exec(ctx, t.s.dialect.lockPlans); err != nil {
			return 0, nil, err
		}
	}
	numbers, err := query(ctx, t, scanInt, lockDefinitions, int64(ws))
	if err != nil {
		return 0, nil, err
	}
	if len(numbers) == 0 {
		return 0, nil, fmt.Errorf("workspace %d: %w", ws, ErrNotFound)
	}
	rows, err := query(ctx, t, scanDefinition, currentDefinitions, int64(ws))
	if err != nil {
		return 0, nil, err
	}
	type name struct{ kind, name string }
	current := map[name]Definition{}
	for _, d := range rows {
		current[name{d.Kind, d.Name}] = d
	}
	if calendar != nil && calendar.Base != numbers[0] {
		return 0, nil, ErrStaleDefinitions
	}
	number := numbers[0] + 1
	var changes []DefinitionChange
	var closed, added rowset
	var runs []RunSeed
	var inputs []string
	seen := map[name]bool{}
	for _, d := range docs {
		id := name{d.Kind, d.Name}
		if seen[id] {
			return 0, nil, fmt.Errorf("%w: %s %q stands twice in one set", ErrInvalid, d.Kind, d.Name)
		}
		seen[id] = true
		old, found := current[id]
		if found && old.Hash == d.Hash {
			changes = append(changes, DefinitionChange{d.Kind, d.Name, old.Version, "unchanged"})
			continue
		}
		action := "added"
		if found {
			action = "changed"
			closed.row().int(int64(ws)).text(d.Kind).text(d.Name)
		}
		changes = append(changes, DefinitionChange{d.Kind, d.Name, old.Version + 1, action})
		runs = append(runs, d.Runs...)
		inputs = append(inputs, d.Inputs...)
		added.row().int(int64(ws)).text(d.Kind).text(d.Name).int(old.Version + 1).text(d.Text).text(d.Hash).int(number)
	}
	if added.n == 0 {
		return numbers[0], changes, nil
	}
	var edited []string
	for _, c := range changes {
		if c.Kind == "workflow" && c.Action == "changed" {
			edited = append(edited, c.Name)
		}
	}
	if err := t.unlocked(ctx, ws, edited); err != nil {
		return 0, nil, err
	}
	if _, err := t.exec(ctx, closeDefinitions, number, &closed); err != nil {
		return 0, nil, err
	}
	if _, err := t.exec(ctx, insertDefinitions, &added); err != nil {
		return 0, nil, err
	}
	if _, err := t.exec(ctx, setDefinitions, int64(ws), number); err != nil {
		return 0, nil, err
	}
	if err := t.keepInputs(ctx, ws, inputs); err != nil {
		return 0, nil, fmt.Errorf("keep what instances are planned by: %w", err)
	}
	if err := t.beginRuns(ctx, ws, now, number, runs); err != nil {
		return 0, nil, err
	}
	if err := t.wakeWorkflows(ctx, ws, now, edited); err != nil {
		return 0, nil, err
	}
	version := func(workflow string) int64 {
		for _, c := range changes {
			if c.Kind == "workflow" && c.Name == workflow {
				return c.Version
			}
		}
		return current[name{"workflow", workflow}].Version
	}
	if err := t.planCalendar(ctx, ws, now, number, version, calendar); err != nil {
		return 0, nil, err
	}
	return number, changes, t.audit(ctx, ws, now, audit)
}

// What was put off because its workflow was switched off: the partial index is for this.
const wakeWorkflows = `
UPDATE delivery SET send_at = $1, version = delivery.version + 1
FROM /*ROWS $2 (ws bigint, workflow text)*/ AS r
WHERE delivery.reason = 'workflow_inactive' AND delivery.send_at > $1 AND delivery.intent_at = 0
  AND delivery.workflow = r.workflow AND delivery.ws = r.ws`

// wakeWorkflows has the messages looked at that wait for workflows to be switched on again: they may be by now.
func (t *session) wakeWorkflows(ctx context.Context, ws subject.WorkspaceID, now time.Time, edited []string) error {
	var rows rowset
	for _, name := range edited {
		rows.row().int(int64(ws)).text(name)
	}
	n, err := t.exec(ctx, wakeWorkflows, dueMicros(now), &rows)
	if err != nil {
		return fmt.Errorf("wake what waits for a workflow: %w", err)
	}
	if n > 0 {
		t.due(dueMicros(now))
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
