package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

const insertDefinitionSet = `
INSERT INTO definition_set (ws, number, at, actor, action)
VALUES ($1, $2, $3, $4, $5)`

// DefinitionVersion is a version of a definition. It belongs to the sets from AddedIn to before RemovedIn.
type DefinitionVersion struct {
	Definition
	AddedIn   int64
	RemovedIn int64 // 0: it is in force
}

// DefinitionSetRow records when a set came into force, and who put it into force.
type DefinitionSetRow struct {
	Number int64
	At     time.Time
	Actor  string
	Action string // apply, delete or rollback
}

const definitionVersions = `
SELECT d.kind, d.name, d.version, d.hash, d.added_in, d.removed_in
FROM definition AS d
WHERE d.ws = $1 AND (d.added_in BETWEEN $2 AND $3 OR d.removed_in BETWEEN $2 AND $3)
ORDER BY d.kind, d.name, d.version`

const versionsOfDefinition = `
SELECT d.kind, d.name, d.version, d.hash, d.added_in, d.removed_in
FROM definition AS d
WHERE d.ws = $1 AND d.kind = $2 AND d.name = $3
ORDER BY d.version`

// DefinitionVersions lists the versions, without their texts, that were added or removed by the sets from from to to.
func (s *Store) DefinitionVersions(ctx context.Context, ws subject.WorkspaceID, from, to int64) ([]DefinitionVersion, error) {
	return all(ctx, s, "read the history of the definitions", scanDefinitionVersion, definitionVersions, int64(ws), from, to)
}

// VersionsOfDefinition lists all versions of one definition, without their texts, the first one first.
func (s *Store) VersionsOfDefinition(ctx context.Context, ws subject.WorkspaceID, ref DefinitionRef) ([]DefinitionVersion, error) {
	return all(ctx, s, "read the history of a definition", scanDefinitionVersion, versionsOfDefinition, int64(ws), ref.Kind, ref.Name)
}

func scanDefinitionVersion(rows *sql.Rows) (v DefinitionVersion, err error) {
	return v, rows.Scan(&v.Kind, &v.Name, &v.Version, &v.Hash, &v.AddedIn, &v.RemovedIn)
}

const definitionSets = `
SELECT number, at, actor, action
FROM definition_set
WHERE ws = $1 AND number BETWEEN $2 AND $3
ORDER BY number`

// DefinitionSets lists the sets from from to to. Sets that earlier releases applied are not in the table.
func (s *Store) DefinitionSets(ctx context.Context, ws subject.WorkspaceID, from, to int64) ([]DefinitionSetRow, error) {
	return all(ctx, s, "read the history of the definitions", func(rows *sql.Rows) (r DefinitionSetRow, err error) {
		return r, rows.Scan(&r.Number, instant{&r.At}, &r.Actor, &r.Action)
	}, definitionSets, int64(ws), from, to)
}

const definitionVersion = `
SELECT kind, name, version, text, hash
FROM definition
WHERE ws = $1 AND kind = $2 AND name = $3 AND version = $4`

// DefinitionVersion returns one version of a definition, or ErrNotFound.
func (s *Store) DefinitionVersion(ctx context.Context, ws subject.WorkspaceID, ref DefinitionRef, version int64) (Definition, error) {
	d, ok, err := first(ctx, s, "read a version of a definition", scanDefinition, definitionVersion, int64(ws), ref.Kind, ref.Name, version)
	if err == nil && !ok {
		err = ErrNotFound
	}
	return d, err
}

const waitingOfWorkflows = `
SELECT x.workflow, SUM(x.follows), SUM(x.keeps), SUM(x.instances)
FROM (
  SELECT d.workflow, CASE WHEN d.definitions = 0 THEN 1 ELSE 0 END AS follows, CASE WHEN d.definitions > 0 THEN 1 ELSE 0 END AS keeps, 0 AS instances
  FROM delivery AS d
  WHERE d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` AND d.ws = $1 AND ` + notCancelled + `
  UNION ALL
  SELECT d.workflow, CASE WHEN d.definitions = 0 THEN 1 ELSE 0 END, CASE WHEN d.definitions > 0 THEN 1 ELSE 0 END, 0
  FROM delivery AS d
  WHERE d.` + parkedDelivery + ` AND d.ws = $1 AND ` + notCancelled + `
  UNION ALL
  SELECT i.workflow, 0, 0, 1
  FROM instance AS i
  WHERE i.ready_at > 0 AND i.ws = $1
  UNION ALL
  SELECT i.workflow, 0, 0, 1
  FROM instance AS i
  WHERE i.hold <> '' AND i.ws = $1 AND i.ready_at = 0 AND i.status = ` + sqlPending + `
) AS x
GROUP BY x.workflow`

// WaitingOfWorkflow counts the rows of a workflow that wait.
type WaitingOfWorkflow struct {
	Workflow  string
	Follow    int64 // deliveries that follow the definition in force
	Keep      int64 // deliveries that keep the version with which they were made
	Instances int64 // instances whose fan-out has not begun
}

// WaitingOfWorkflows counts the waiting instances and deliveries of each workflow of a workspace.
func (s *Store) WaitingOfWorkflows(ctx context.Context, ws subject.WorkspaceID) ([]WaitingOfWorkflow, error) {
	return all(ctx, s, "count what waits", func(rows *sql.Rows) (w WaitingOfWorkflow, err error) {
		return w, rows.Scan(&w.Workflow, &w.Follow, &w.Keep, &w.Instances)
	}, waitingOfWorkflows, int64(ws))
}
