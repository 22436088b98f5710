package store

import (
	"context"
	"database/sql"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	attemptSpec = "attempt"
	contentSpec = "content"
)

var attemptColumns = named(attemptSpec, columnsOf[delivery.Attempt]{
	{"ws", func(a *delivery.Attempt) field { return integer(&a.Workspace) }},
	{"delivery_id", func(a *delivery.Attempt) field { return integer(&a.Delivery) }},
	{"number", func(a *delivery.Attempt) field { return integer(&a.Number) }},
	{"step", func(a *delivery.Attempt) field { return integer(&a.Step) }},
	{"channel", func(a *delivery.Attempt) field { return text(&a.Channel) }},
	{"idempotency_key", func(a *delivery.Attempt) field { return text(&a.IdempotencyKey) }},
	{"intent_at", func(a *delivery.Attempt) field { return moment{&a.IntentAt} }},
	{"settled_at", func(a *delivery.Attempt) field { return moment{&a.SettledAt} }},
	{"outcome", func(a *delivery.Attempt) field { return text(&a.Outcome) }},
	{"reason", func(a *delivery.Attempt) field { return text(&a.Reason) }},
	{"provider_id", func(a *delivery.Attempt) field { return text(&a.ProviderID) }},
	{"error", func(a *delivery.Attempt) field { return text(&a.Error) }},
})

const insertAttempts = `
INSERT INTO attempt (/*NAMES (` + attemptSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + attemptSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// insertAttempts logs attempts. Each attempt is written once, with its outcome; the fence of its row ensures that.
func (t *Tx) insertAttempts(list []delivery.Attempt) error {
	var rows rowset
	for _, a := range list {
		attemptColumns.put(&rows, &a)
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

func scanAttempt(rows *sql.Rows) (delivery.Attempt, error) {
	return attemptColumns.scan(rows)
}

var contentColumns = named(contentSpec, columnsOf[Content]{
	{"ws", func(c *Content) field { return integer(&c.Workspace) }},
	{"delivery_id", func(c *Content) field { return integer(&c.Delivery) }},
	{"step", func(c *Content) field { return integer(&c.Step) }},
	{"id", func(c *Content) field { return integer(&c.ID) }},
	{"at", func(c *Content) field { return moment{&c.At} }},
	{"channel", func(c *Content) field { return text(&c.Channel) }},
	{"address", func(c *Content) field { return text(&c.Address) }},
	{"locale", func(c *Content) field { return text(&c.Locale) }},
	{"subject", func(c *Content) field { return text(&c.Subject) }},
	{"text", func(c *Content) field { return text(&c.Text) }},
	{"html", func(c *Content) field { return text(&c.HTML) }},
})

// A repeated step was rendered from the same inputs, so the content that was stored first is kept.
const insertContents = `
INSERT INTO content (/*NAMES (` + contentSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + contentSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, delivery_id, step) DO NOTHING`

func (t *Tx) insertContents(list []Content) error {
	var rows rowset
	for _, c := range list {
		c.ID = t.s.NewID(c.At)
		contentColumns.put(&rows, &c)
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

func scanContent(rows *sql.Rows) (Content, error) {
	return contentColumns.scan(rows)
}
