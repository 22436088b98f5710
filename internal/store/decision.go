package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

const decisionSpec = `ws bigint, id bigint, at bigint, event_id bigint, instance_id bigint, workflow text, workflow_version bigint,
  trigger text, reason text, trace text, record_id bigint, context text`

const insertDecisions = `
INSERT INTO decision (/*NAMES (` + decisionSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + decisionSpec + `)*/ AS r`

func (t *Tx) insertDecisions(ws subject.WorkspaceID, list []Decision) error {
	var rows rowset
	for _, d := range list {
		if d.ID == 0 {
			d.ID = t.s.NewID(d.At)
		}
		rows.row().int(int64(ws)).int(d.ID).time(d.At).int(int64(d.Event)).int(int64(d.Instance)).text(d.Workflow).int(d.WorkflowVersion).
			text(d.Trigger).text(string(d.Reason)).text(d.Trace).int(int64(d.Record)).text(d.Context)
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

func scanDecision(rows *sql.Rows) (d Decision, err error) {
	var ws int64
	return d, rows.Scan(&ws, &d.ID, instant{&d.At}, &d.Event, &d.Instance, &d.Workflow, &d.WorkflowVersion, &d.Trigger, &d.Reason, &d.Trace, &d.Record, &d.Context)
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
