package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// SessionMessage is what a message of a conversation said.
type SessionMessage struct {
	Workspace subject.WorkspaceID
	Delivery  delivery.ID
	Step      int // 1 = the message, 2 = its first reminder
	At        time.Time
	Text      string
}

const insertSessionMessages = `
INSERT INTO session_message (ws, delivery_id, step, at, text)
SELECT r.* FROM /*ROWS $1 (ws bigint, delivery_id bigint, step bigint, at bigint, text text)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

func (t *Tx) insertSessionMessages(list []SessionMessage) error {
	var rows rowset
	for _, m := range list {
		rows.row().int(int64(m.Workspace)).int(int64(m.Delivery)).int(int64(m.Step)).time(m.At).text(m.Text)
	}
	_, err := t.insert("insert messages of sessions", insertSessionMessages, &rows)
	return err
}

// SessionReply is what somebody wrote while a session with them was open.
type SessionReply struct {
	Session  delivery.ID
	ID       int64
	At       time.Time // when it came
	Text     string
	Keyword  string        // stop, start or help; empty: none
	Question string        // that stood then
	Reason   reason.Reason // why it answers nothing; empty: it answers
}

const insertSessionReplies = `
INSERT INTO session_reply (ws, delivery_id, id, at, text, keyword, question, reason)
SELECT r.* FROM /*ROWS $1 (ws bigint, delivery_id bigint, id bigint, at bigint, text text, keyword text, question text, reason text)*/ AS r`

// AddSessionReplies keeps replies with their sessions, which are locked.
func (t *Tx) AddSessionReplies(ws subject.WorkspaceID, list []SessionReply) error {
	var rows rowset
	for _, r := range list {
		rows.row().int(int64(ws)).int(int64(r.Session)).int(r.ID).time(r.At).text(r.Text).text(r.Keyword).text(r.Question).text(string(r.Reason))
	}
	if _, err := t.exec(insertSessionReplies, &rows); err != nil {
		return fmt.Errorf("keep replies: %w", err)
	}
	return nil
}

// ListedSession is a session with whom it is with.
type ListedSession struct {
	delivery.Session

	Workflow string
	Channel  string // kind:name
	Address  string
	ExtID    string // of the contact
}

const selectListedSessions = `
SELECT /*NAMES s (` + sessionSpec + `)*/, d.workflow, d.channel, d.address, c.ext_id
FROM session AS s
JOIN delivery AS d ON d.ws = s.ws AND d.id = s.delivery_id
JOIN contact AS c ON c.id = s.contact_id AND c.ws = s.ws
WHERE s.ws = $1 AND s.delivery_id < $2`

// SessionFilter narrows a list of sessions; empty fields allow all.
type SessionFilter struct {
	Status  delivery.SessionStatus
	Contact string // its id of the caller
}

// Sessions lists sessions, the newest first. The cursor of a page is the delivery.
func (s *Store) Sessions(ctx context.Context, ws subject.WorkspaceID, f SessionFilter, p Page) ([]ListedSession, error) {
	before := p.Before
	if before == 0 {
		before = 1<<63 - 1
	}
	l := &listing{args: []any{int64(ws), before}}
	l.text.WriteString(selectListedSessions)
	if f.Status != "" {
		l.and("s.status = ?", string(f.Status))
	}
	if f.Contact != "" {
		l.and("s.contact_id = (SELECT x.id FROM contact AS x WHERE /*BY NAME*/x.ws = s.ws AND x.ext_id = ?)", f.Contact)
	}
	l.text.WriteString("\nORDER BY s.delivery_id DESC\nLIMIT ")
	l.bind("?", int64(p.Limit))
	return all(ctx, s, "list sessions", scanListedSession, l.text.String(), l.args...)
}

func scanListedSession(rows *sql.Rows) (l ListedSession, err error) {
	l.Session, err = sessionColumns.scan(rows, &l.Workflow, &l.Channel, &l.Address, &l.ExtID)
	return l, err
}

// Each message of a conversation leads to the one that began it. The sign before ws is that of existingDeliveries.
const sessionByDelivery = selectListedSessions + `
  AND s.delivery_id = (
    SELECT f.id FROM delivery AS m CROSS JOIN delivery AS f
    WHERE m.ws = $1 AND m.id = $3 AND +f.ws = m.ws AND f.instance_id = m.instance_id AND f.contact_id = m.contact_id AND f.channel = m.channel
      AND f.topic_id = m.topic_id AND f.session_turn = 0)`

// Line is one message of a conversation, or one reply.
type Line struct {
	At      time.Time
	Text    string // of a message: empty if it has not left
	Message *delivery.Row
	Step    int // of the message, from 1
	Reply   *SessionReply
}

const (
	sessionMessages = `
SELECT m.ws, m.delivery_id, m.step, m.at, m.text
FROM delivery AS d CROSS JOIN session_message AS m
WHERE +d.ws = $1 AND d.instance_id = $2 AND d.contact_id = $3 AND m.ws = d.ws AND m.delivery_id = d.id`

	sessionReplies = `
SELECT delivery_id, id, at, text, keyword, question, reason FROM session_reply
WHERE ws = $1 AND delivery_id = $2
ORDER BY id`
)

// Conversation is a session with all that was said in it.
type Conversation struct {
	ListedSession

	Lines []Line // in the order in which it was said
}

// Conversation reads a session by any of its messages. ErrNotFound: there is none.
func (s *Store) Conversation(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (c Conversation, err error) {
	if c.ListedSession, err = one(ctx, s, "read a session", scanListedSession, sessionByDelivery, int64(ws), int64(1<<63-1), int64(id)); err != nil {
		return c, err
	}
	rows, err := all(ctx, s, "read the deliveries of a session", scanDelivery, deliveriesOfContact, int64(ws), int64(c.Instance), int64(c.Contact))
	if err != nil {
		return c, err
	}
	messages, err := all(ctx, s, "read the messages of a session", func(rows *sql.Rows) (m SessionMessage, err error) {
		return m, rows.Scan(integer(&m.Workspace), integer(&m.Delivery), &m.Step, instant{&m.At}, &m.Text)
	}, sessionMessages, int64(ws), int64(c.Instance), int64(c.Contact))
	if err != nil {
		return c, err
	}
	replies, err := all(ctx, s, "read the replies of a session", func(rows *sql.Rows) (r SessionReply, err error) {
		return r, rows.Scan(integer(&r.Session), &r.ID, instant{&r.At}, &r.Text, &r.Keyword, &r.Question, &r.Reason)
	}, sessionReplies, int64(ws), int64(c.Delivery))
	c.Lines = transcript(c.Session, rows, messages, replies)
	return c, err
}

// transcript brings what was said in a session in order. rows are the deliveries of its instance and contact.
func transcript(s delivery.Session, rows []delivery.Row, messages []SessionMessage, replies []SessionReply) (lines []Line) {
	i := slices.IndexFunc(rows, func(r delivery.Row) bool { return r.ID == s.Delivery })
	if i < 0 {
		return nil
	}
	first := rows[i]
	for n := range rows {
		r := &rows[n]
		if r.Channel != first.Channel || r.Topic != first.Topic || r.ID != first.ID && r.Turn == 0 { // of another session
			continue
		}
		said := false
		for _, m := range messages {
			if m.Delivery == r.ID {
				said = true
				lines = append(lines, Line{At: m.At, Text: m.Text, Message: r, Step: m.Step})
			}
		}
		if !said {
			lines = append(lines, Line{At: r.CreatedAt, Message: r, Step: r.Step + 1})
		}
	}
	for n := range replies {
		lines = append(lines, Line{At: replies[n].At, Text: replies[n].Text, Reply: &replies[n]})
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return a.order() - b.order()
	})
	return lines
}

// order is that of lines of one instant: what somebody wrote comes before what answers it, but after the question.
func (l Line) order() int {
	switch {
	case l.Message != nil && l.Message.Turn == 0:
		return 0
	case l.Reply != nil:
		return 1
	}
	return 1 + l.Message.Turn
}
