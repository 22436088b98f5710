package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/job"
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

// RemovedDefinition is a definition that a new set leaves out.
type RemovedDefinition struct {
	DefinitionRef
	Jobs []job.Seed // jobs that the removal starts
	// Withdraw selects, as JSON, the waiting deliveries of a workflow; empty: a definition of this kind has none.
	Withdraw, Subject string
}

// DefinitionEdit is the next set of definitions of a workspace, as its difference from the one in force.
type DefinitionEdit struct {
	Documents []Definition
	Removed   []RemovedDefinition
	Action    string // for the history: apply, delete or rollback
	Audit     Audit
	Calendar  *CalendarPlan // may be nil
	// DryRun rolls everything back: the result says what an edit would do.
	DryRun bool
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("dry run")

// EditDefinitions makes the next set of definitions. A definition whose hash differs from the set in force becomes the next
// version of its name. A removed one is left out of the new set. The jobs of both begin. If nothing differs, the number
// stays and no audit entry is written. Definitions that are not mentioned stay in the set. The changes are in the order of
// the documents, with removals last. Schedules are planned by the new set in the same transaction.
func (s *Store) EditDefinitions(ctx context.Context, ws subject.WorkspaceID, now time.Time, e DefinitionEdit, once *Idempotent[AppliedDefinitions]) (AppliedDefinitions, error) {
	var applied AppliedDefinitions
	err := s.Write(ctx, func(t *Tx) (err error) {
		applied, err = once.run(t, ws, func() (AppliedDefinitions, error) { return t.editDefinitions(ws, now, e) })
		if err == nil && e.DryRun {
			err = errDryRun
		}
		return err
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return AppliedDefinitions{}, fmt.Errorf("apply definitions: %w", err)
	}
	return applied, nil
}

// ApplyDefinitions is EditDefinitions without removals.
func (s *Store) ApplyDefinitions(ctx context.Context, ws subject.WorkspaceID, now time.Time, docs []Definition, audit Audit, calendar *CalendarPlan, once *Idempotent[AppliedDefinitions]) (number int64, changes []DefinitionChange, err error) {
	applied, err := s.EditDefinitions(ctx, ws, now, DefinitionEdit{Documents: docs, Action: "apply", Audit: audit, Calendar: calendar}, once)
	return applied.Number, applied.Changes, err
}

// AppliedDefinitions is the result of an edit.
type AppliedDefinitions struct {
	Number  int64
	Changes []DefinitionChange
}

func (t *Tx) editDefinitions(ws subject.WorkspaceID, now time.Time, e DefinitionEdit) (none AppliedDefinitions, err error) {
	if t.s.dialect.lockPlans != "" {
		if _, err := t.exec(t.s.dialect.lockPlans); err != nil {
			return none, err
		}
	}
	numbers, err := query(t, scanInt, lockDefinitions, int64(ws))
	if err != nil {
		return none, err
	}
	if len(numbers) == 0 {
		return none, fmt.Errorf("workspace %d: %w", ws, ErrNotFound)
	}
	if e.Calendar != nil && e.Calendar.Base != numbers[0] {
		return none, ErrStaleDefinitions
	}
	rows, err := query(t, scanDefinition, currentDefinitions, int64(ws))
	if err != nil {
		return none, err
	}
	current := map[DefinitionRef]Definition{}
	for _, d := range rows {
		current[DefinitionRef{d.Kind, d.Name}] = d
	}
	last, err := t.lastVersions(ws, current, e.Documents)
	if err != nil {
		return none, err
	}
	number := numbers[0] + 1
	d, err := differenceOf(ws, number, current, last, e)
	if err != nil {
		return none, err
	}
	if d.added.n == 0 && d.closed.n == 0 {
		return AppliedDefinitions{Number: numbers[0], Changes: d.changes}, nil
	}
	open, err := t.OpenJobs(ws)
	if err != nil {
		return none, err
	}
	if err := job.Unlocked(open, d.edited); err != nil {
		return none, err
	}
	if _, err := t.exec(closeDefinitions, number, &d.closed); err != nil {
		return none, err
	}
	if _, err := t.exec(insertDefinitions, &d.added); err != nil {
		return none, err
	}
	if _, err := t.exec(setDefinitions, int64(ws), number); err != nil {
		return none, err
	}
	if _, err := t.exec(insertDefinitionSet, int64(ws), number, micros(now), e.Audit.Actor, e.Action); err != nil {
		return none, err
	}
	if err := t.keepInputs(ws, d.inputs); err != nil {
		return none, fmt.Errorf("keep what instances are planned by: %w", err)
	}
	withdraw, err := t.withdrawals(ws, now, number, d.removed, e.Audit.Actor)
	if err != nil {
		return none, err
	}
	if err := t.startJobs(ws, now, number, open, d.jobs, e.Calendar, withdraw); err != nil {
		return none, err
	}
	if err := t.wakeWorkflows(ws, now, d.edited); err != nil {
		return none, err
	}
	if err := t.planCalendar(ws, now, number, func(workflow string) int64 { return d.version(current, workflow) }, e.Calendar); err != nil {
		return none, err
	}
	return AppliedDefinitions{Number: number, Changes: d.changes}, t.Audit(ws, now, e.Audit)
}

// difference is how an edit changes the set in force.
type difference struct {
	changes       []DefinitionChange
	closed, added rowset
	jobs          []job.Seed
	inputs        []string
	removed       []RemovedDefinition
	edited        []string // workflows of the previous set that are changed or removed
}

// differenceOf compares the documents of an edit with those in force. last has the latest versions of names that are not in
// force.
func differenceOf(ws subject.WorkspaceID, number int64, current map[DefinitionRef]Definition, last map[DefinitionRef]int64, e DefinitionEdit) (d difference, err error) {
	seen := map[DefinitionRef]bool{}
	twice := func(id DefinitionRef) error {
		if seen[id] {
			return fmt.Errorf("%w: %s %q stands twice in one set", ErrInvalid, id.Kind, id.Name)
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
			d.close(ws, id)
		}
		d.changes = append(d.changes, change)
		d.jobs = append(d.jobs, doc.Jobs...)
		d.inputs = append(d.inputs, doc.Inputs...)
		d.added.row().int(int64(ws)).text(doc.Kind).text(doc.Name).int(change.Version).text(doc.Text).text(doc.Hash).int(number)
	}
	for _, r := range e.Removed {
		if err := twice(r.DefinitionRef); err != nil {
			return d, err
		}
		old, found := current[r.DefinitionRef]
		if !found {
			return d, fmt.Errorf("%s %q: %w", r.Kind, r.Name, ErrNotFound)
		}
		d.changes = append(d.changes, DefinitionChange{r.Kind, r.Name, old.Version, Deleted})
		d.close(ws, r.DefinitionRef)
		d.jobs, d.removed = append(d.jobs, r.Jobs...), append(d.removed, r)
	}
	return d, nil
}

func (d *difference) close(ws subject.WorkspaceID, id DefinitionRef) {
	d.closed.row().int(int64(ws)).text(id.Kind).text(id.Name)
	if id.Kind == "workflow" {
		d.edited = append(d.edited, id.Name)
	}
}

// version returns the version of a workflow in the new set.
func (d *difference) version(current map[DefinitionRef]Definition, workflow string) int64 {
	for _, c := range d.changes {
		if c.Kind == "workflow" && c.Name == workflow {
			return c.Version
		}
	}
	return current[DefinitionRef{"workflow", workflow}].Version
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

// withdrawals returns a job for each removed workflow, which withdraws its waiting deliveries in pages.
func (t *Tx) withdrawals(ws subject.WorkspaceID, now time.Time, number int64, removed []RemovedDefinition, actor string) (jobs []job.Row, err error) {
	for _, r := range removed {
		if r.Withdraw == "" {
			continue
		}
		last, err := query(t, scanInt, lastDelivery, int64(ws))
		if err != nil {
			return nil, fmt.Errorf("withdraw what waits of workflow %s: %w", r.Name, err)
		}
		j := job.New(ws, job.Seed{Kind: job.Cancel, Subject: r.Subject}, number, now)
		j.Selection, j.Actor, j.LastID = r.Withdraw, actor, last[0]
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// startJobs starts the jobs of definitions, each once, and ends the open ones that they replace and the repairs that are defined no longer.
func (t *Tx) startJobs(ws subject.WorkspaceID, now time.Time, number int64, open []job.Row, seeds []job.Seed, c *CalendarPlan, more []job.Row) error {
	begun, ended := job.Restart(open, seeds, now)
	for _, j := range open {
		if c == nil || j.Kind != job.Reconcile || slices.ContainsFunc(c.Repairs, func(r Repair) bool { return r.Subject() == j.Subject }) {
			continue
		}
		if j, err := j.Cancel(now); err == nil {
			ended = append(ended, j)
		}
	}
	if err := t.SaveJobs(now, ended...); err != nil {
		return err
	}
	jobs := make([]job.Row, 0, len(begun)+len(more))
	for _, s := range begun {
		jobs = append(jobs, job.New(ws, s, number, now))
	}
	_, err := t.AddJobs(now, append(jobs, more...))
	return err
}

// Deliveries that wait because their workflow was switched off; the partial index serves this query.
const wakeWorkflows = `
UPDATE delivery SET send_at = $1, version = delivery.version + 1
FROM /*ROWS $2 (ws bigint, workflow text)*/ AS r
WHERE delivery.hold = ` + sqlHoldInactive + ` AND delivery.send_at > $1 AND delivery.intent_at = 0
  AND delivery.workflow = r.workflow AND delivery.ws = r.ws`

// wakeWorkflows makes the messages due that wait for their workflows to be switched on again, because an edit may have done
// that.
func (t *Tx) wakeWorkflows(ws subject.WorkspaceID, now time.Time, edited []string) error {
	var rows rowset
	for _, name := range edited {
		rows.row().int(int64(ws)).text(name)
	}
	n, err := t.exec(wakeWorkflows, dueMicros(now), &rows)
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
