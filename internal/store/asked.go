package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
)

// Asked is a question that a message asks which is about to leave.
type Asked struct {
	delivery.PersonKind
	Instance    instance.ID // of the session
	Question    string
	AddressHash string // of where it goes
}

const askSessions = `
UPDATE session SET asked_at = CASE WHEN session.asked_at = 0 THEN $1 ELSE session.asked_at END, address_hash = r.address_hash
FROM /*ROWS $2 (ws bigint, contact_id bigint, kind text, instance_id bigint, question text, address_hash text)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.contact_id AND session.kind = r.kind AND session.instance_id = r.instance_id AND session.question = r.question
  AND (session.asked_at = 0 OR session.address_hash <> r.address_hash) AND session.status = ` + sqlSessionOpen

// AskSessions notes of open sessions that their question is asked, or asked again, and where: at each intent. When it was asked is that of the first one.
func (t *Tx) AskSessions(now time.Time, list []Asked) error {
	var rows rowset
	for _, a := range list {
		rows.row().int(int64(a.Workspace)).int(int64(a.ID)).text(a.Kind).int(int64(a.Instance)).text(a.Question).text(a.AddressHash)
	}
	if _, err := t.exec(askSessions, micros(now), &rows); err != nil {
		return fmt.Errorf("note questions: %w", err)
	}
	return nil
}

const beginAgain = `
UPDATE session SET asked_at = r.opened_at, opened_at = r.opened_at, expires_at = r.expires_at, status = CASE WHEN r.opens = 1 AND NOT EXISTS (
    SELECT 1 FROM session AS o WHERE o.ws = session.ws AND o.contact_id = session.contact_id AND o.kind = session.kind AND o.status = ` + sqlSessionOpen + `)
  THEN ` + sqlSessionOpen + ` ELSE ` + sqlSessionWaiting + ` END
FROM /*ROWS $1 (ws bigint, delivery_id bigint, opened_at bigint, expires_at bigint, opens bigint)*/ AS r
WHERE session.ws = r.ws AND session.delivery_id = r.delivery_id AND session.asked_at = 0 AND session.status = ` + sqlSessionWaiting

// BeginAgain begins waiting sessions again whose first message is tried again.
func (t *Tx) BeginAgain(list []delivery.Session) error {
	var rows rowset
	opens := map[delivery.PersonKind]bool{}
	for _, s := range list {
		rows.row().int(int64(s.Workspace)).int(int64(s.Delivery)).int(dueMicros(s.OpenedAt)).int(dueMicros(s.ExpiresAt)).flag(!opens[s.Person()])
		opens[s.Person()] = true
		t.due(WorkSessions, dueMicros(s.ExpiresAt))
	}
	if _, err := t.exec(beginAgain, &rows); err != nil {
		return unlessOpened(fmt.Errorf("begin sessions again: %w", err))
	}
	return nil
}

// askedFirst is the first message of a session of which an attempt is over.
type askedFirst struct {
	delivery.PersonKind
	deliveryRef

	question string
}

// told notes a delivery of which an attempt is over, if it asks a question of a session first: the question may have been asked, or certainly was not.
func (t *Tx) told(now time.Time, d delivery.Row) {
	person := delivery.PersonKind{PersonRef: delivery.PersonOf(d), Kind: d.Kind()}
	switch first := d.Turn == 0 && d.Step <= 1; {
	case d.Asks == "" || !d.IntentAt.IsZero():
	case d.Unasked() && first:
		t.unsent = append(t.unsent, askedFirst{person, deliveryRef{d.Workspace, d.ID}, d.Asks})
	case d.Unasked():
		t.unasked = append(t.unasked, Asked{PersonKind: person, Instance: d.Instance, Question: d.Asks})
	case first:
		t.begun, t.begunAt = append(t.begun, askedFirst{person, deliveryRef{d.Workspace, d.ID}, d.Asks}), now
	}
}

const (
	unaskSessions = `
UPDATE session SET asked_at = 0
FROM /*ROWS $1 (ws bigint, contact_id bigint, kind text, instance_id bigint, question text)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.contact_id AND session.kind = r.kind AND session.instance_id = r.instance_id AND session.question = r.question
  AND session.status = ` + sqlSessionOpen

	// A reply has come meanwhile where there is a turn: then the message has arrived.
	putOffSessions = `
UPDATE session SET asked_at = 0, status = ` + sqlSessionWaiting + `
FROM /*ROWS $1 (ws bigint, delivery_id bigint, question text)*/ AS r
WHERE session.ws = r.ws AND session.delivery_id = r.delivery_id AND session.question = r.question AND session.turns = 0
  AND session.status IN (` + sqlSessionWaiting + `, ` + sqlSessionOpen + `)`

	replaceSessions = `
UPDATE session SET status = ` + sqlSessionEnding + `, reason = ` + sqlReplaced + `, expires_at = $1
FROM /*ROWS $2 (ws bigint, contact_id bigint, kind text, delivery_id bigint)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.contact_id AND session.kind = r.kind AND session.delivery_id <> r.delivery_id AND session.status = ` + sqlSessionOpen + `
  AND EXISTS (SELECT 1 FROM session AS w WHERE w.ws = r.ws AND w.delivery_id = r.delivery_id AND w.status = ` + sqlSessionWaiting + `)`

	passOver = `
UPDATE session SET status = ` + sqlSessionEnding + `, reason = ` + sqlReplaced + `, expires_at = $1
FROM /*ROWS $2 (ws bigint, delivery_id bigint)*/ AS r
WHERE session.ws = r.ws AND session.delivery_id = r.delivery_id AND session.status = ` + sqlSessionWaiting

	openWaiting = `
UPDATE session SET status = ` + sqlSessionOpen + `
FROM /*ROWS $1 (ws bigint, delivery_id bigint)*/ AS r
WHERE session.ws = r.ws AND session.delivery_id = r.delivery_id AND session.status = ` + sqlSessionWaiting
)

// tellSessions runs before a transaction commits, since sessions are locked after the deliveries and their contacts. Questions that were certainly not sent are not asked,
// and first messages that may have arrived open their sessions: each ends the one before, of several the last one is left.
func (t *Tx) tellSessions() error {
	var unasked rowset
	for _, a := range t.unasked {
		unasked.row().int(int64(a.Workspace)).int(int64(a.ID)).text(a.Kind).int(int64(a.Instance)).text(a.Question)
	}
	if _, err := t.exec(unaskSessions, &unasked); err != nil {
		return fmt.Errorf("note questions that were not sent: %w", err)
	}
	byRef := func(a, b askedFirst) int { return compareDeliveryRef(a.deliveryRef, b.deliveryRef) }
	slices.SortFunc(t.unsent, byRef)
	var unsent rowset
	for _, s := range t.unsent {
		unsent.row().int(int64(s.ws)).int(int64(s.id)).text(s.question)
	}
	if _, err := t.exec(putOffSessions, &unsent); err != nil {
		return fmt.Errorf("put off sessions: %w", err)
	}
	slices.SortFunc(t.begun, byRef)
	last := map[delivery.PersonKind]deliveryRef{}
	for _, s := range t.begun {
		last[s.PersonKind] = s.deliveryRef
	}
	var replaced, passed, opened rowset
	for _, s := range t.begun {
		if last[s.PersonKind] != s.deliveryRef {
			passed.row().int(int64(s.ws)).int(int64(s.id))
			continue
		}
		replaced.row().int(int64(s.ws)).int(int64(s.ID)).text(s.Kind).int(int64(s.id))
		opened.row().int(int64(s.ws)).int(int64(s.id))
	}
	ended, err := t.exec(replaceSessions, dueMicros(t.begunAt), &replaced)
	if err != nil {
		return fmt.Errorf("end the sessions before: %w", err)
	}
	over, err := t.exec(passOver, dueMicros(t.begunAt), &passed)
	if err != nil {
		return fmt.Errorf("end sessions that another one follows: %w", err)
	}
	if ended+over > 0 {
		t.due(WorkSessions, dueMicros(t.begunAt))
	}
	if _, err := t.exec(openWaiting, &opened); err != nil {
		return unlessOpened(fmt.Errorf("open waiting sessions: %w", err))
	}
	return nil
}

// unlessOpened makes ErrAgain of the error of a statement by which a contact would have two open sessions: another transaction has just opened one.
func unlessOpened(err error) error {
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == uniqueViolation {
		return ErrAgain
	}
	return err
}
