package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

const decisionSpec = "decision"

var decisionColumns = named(decisionSpec, columnsOf[Decision]{
	{"id", func(d *Decision) field { return integer(&d.ID) }},
	{"at", func(d *Decision) field { return moment{&d.At} }},
	{"event_id", func(d *Decision) field { return integer(&d.Event) }},
	{"instance_id", func(d *Decision) field { return integer(&d.Instance) }},
	{"record_id", func(d *Decision) field { return integer(&d.Record) }},
	{"context", func(d *Decision) field { return text(&d.Context) }},
	{"workflow", func(d *Decision) field { return text(&d.Workflow) }},
	{"workflow_version", func(d *Decision) field { return integer(&d.WorkflowVersion) }},
	{"trigger", func(d *Decision) field { return text(&d.Trigger) }},
	{"reason", func(d *Decision) field { return text(&d.Reason) }},
	{"trace", func(d *Decision) field { return text(&d.Trace) }},
})

const insertDecisions = `
INSERT INTO decision (ws, /*NAMES (` + decisionSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (ws bigint, ` + decisionSpec + `)*/ AS r`

func (t *Tx) insertDecisions(ws subject.WorkspaceID, list []Decision) error {
	var rows rowset
	for _, d := range list {
		if d.ID == 0 {
			d.ID = t.s.NewID(d.At)
		}
		decisionColumns.put(&rows, &d, int64(ws))
	}
	_, err := t.insert("insert decisions", insertDecisions, &rows)
	return err
}

const selectDecisions = `
SELECT /*NAMES d (` + decisionSpec + `)*/
FROM decision AS d`

// Decisions lists what left no instance behind, the newest first.
func (s *Store) Decisions(ctx context.Context, ws subject.WorkspaceID, f DecisionFilter, p Page) ([]Decision, error) {
	p = f.Made.cut(p)
	l := list(selectDecisions, "d", int64(ws), p)
	l.within("d", "d.at", f.Made)
	if f.Event != 0 {
		l.and("d.event_id = ?", int64(f.Event))
	}
	if f.Record != 0 {
		l.and("d.record_id = ? AND d.record_id > 0", int64(f.Record)) // as its index says it
	}
	if f.Workflow != "" {
		l.and("d.workflow = ?", f.Workflow)
	}
	if f.Reason != "" {
		l.and("d.reason = ?", string(f.Reason))
	}
	text, args := l.end("d", p)
	return all(ctx, s, "list decisions", scanDecision, text, args...)
}

func scanDecision(rows *sql.Rows) (Decision, error) {
	return decisionColumns.scan(rows)
}

const insertAudit = `
INSERT INTO audit (ws, id, at, actor, action, target, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7)`

// Audit writes the entry of a privileged change in the transaction of that change.
func (t *Tx) Audit(ws subject.WorkspaceID, now time.Time, a Audit) error {
	if a.At.IsZero() {
		a.At = now
	}
	_, err := t.exec(insertAudit, int64(ws), t.s.NewID(a.At), micros(a.At), a.Actor, a.Action, a.Target, string(a.Detail))
	if err != nil {
		return fmt.Errorf("insert audit: %w", err)
	}
	return nil
}

const selectAudit = `
SELECT a.id, a.at, a.actor, a.action, a.target, a.detail
FROM audit AS a`

// AuditLog lists privileged changes, the newest first.
func (s *Store) AuditLog(ctx context.Context, ws subject.WorkspaceID, p Page) ([]Audit, error) {
	text, args := list(selectAudit, "a", int64(ws), p).end("a", p)
	return all(ctx, s, "list audit", scanAudit, text, args...)
}

func scanAudit(rows *sql.Rows) (a Audit, err error) {
	var detail string
	err = rows.Scan(&a.ID, instant{&a.At}, &a.Actor, &a.Action, &a.Target, &detail)
	if detail != "" {
		a.Detail = json.RawMessage(detail)
	}
	return a, err
}
