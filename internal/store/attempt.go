package store

import (
	"context"
	"database/sql"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

const attemptSpec = `ws bigint, delivery_id bigint, number bigint, step bigint, channel text, idempotency_key text, intent_at bigint,
  settled_at bigint, outcome text, reason text, provider_id text, error text`

const insertAttempts = `
INSERT INTO attempt (/*NAMES (` + attemptSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + attemptSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// insertAttempts logs attempts. Each attempt is written once, with its outcome; the fence of its row ensures that.
func (t *Tx) insertAttempts(list []delivery.Attempt) error {
	var rows rowset
	for _, a := range list {
		rows.row().int(int64(a.Workspace)).int(int64(a.Delivery)).int(int64(a.Number)).int(int64(a.Step)).text(a.Channel).
			text(a.IdempotencyKey).time(a.IntentAt).time(a.SettledAt).text(string(a.Outcome)).text(string(a.Reason)).text(a.ProviderID).
			text(a.Error)
	}
	_, err := t.insert("insert attempts", insertAttempts, &rows)
	return err
}

const attempts = `
SELECT /*NAMES (` + attemptSpec + `)*/
FROM attempt
WHERE ws = $1 AND delivery_id = $2
ORDER BY settled_at, number, step`

// Attempts lists the attempts of a delivery, the oldest one first.
func (s *Store) Attempts(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]delivery.Attempt, error) {
	return all(ctx, s, "list attempts", scanAttempt, attempts, int64(ws), int64(id))
}

func scanAttempt(rows *sql.Rows) (a delivery.Attempt, err error) {
	return a, rows.Scan(&a.Workspace, &a.Delivery, &a.Number, &a.Step, &a.Channel, &a.IdempotencyKey, instant{&a.IntentAt},
		instant{&a.SettledAt}, &a.Outcome, &a.Reason, &a.ProviderID, &a.Error)
}

const contentSpec = `ws bigint, delivery_id bigint, step bigint, id bigint, at bigint, channel text, address text, locale text,
  subject text, text text, html text`

// A repeated step was rendered from the same inputs, so the content that was stored first is kept.
const insertContents = `
INSERT INTO content (/*NAMES (` + contentSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + contentSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, delivery_id, step) DO NOTHING`

func (t *Tx) insertContents(list []Content) error {
	var rows rowset
	for _, c := range list {
		rows.row().int(int64(c.Workspace)).int(int64(c.Delivery)).int(int64(c.Step)).int(t.s.NewID(c.At)).time(c.At).text(c.Channel).
			text(c.Address).text(c.Locale).text(c.Subject).text(c.Text).text(c.HTML)
	}
	_, err := t.insert("insert contents", insertContents, &rows)
	return err
}

const selectContents = `
SELECT /*NAMES c (` + contentSpec + `)*/
FROM content AS c`

// Contents lists rendered messages, the newest one first; id narrows the list to one delivery (0: all).
func (s *Store) Contents(ctx context.Context, ws subject.WorkspaceID, id delivery.ID, p Page) ([]Content, error) {
	l := list(selectContents, "c", int64(ws), p)
	if id != 0 {
		l.and("c.delivery_id = ?", int64(id))
	}
	text, args := l.end("c", p)
	return all(ctx, s, "list contents", scanContent, text, args...)
}

func scanContent(rows *sql.Rows) (c Content, err error) {
	return c, rows.Scan(&c.Workspace, &c.Delivery, &c.Step, &c.ID, instant{&c.At}, &c.Channel, &c.Address, &c.Locale, &c.Subject, &c.Text,
		&c.HTML)
}
