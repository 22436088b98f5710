package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
)

// Of a first question the session begins anew: it was opened by an attempt that was not sent.
const askSessions = `
UPDATE session SET asked_at = $1, opened_at = CASE WHEN r.expires_at > 0 THEN $1 ELSE session.opened_at END,
  expires_at = CASE WHEN r.expires_at > 0 THEN r.expires_at ELSE session.expires_at END
FROM /*ROWS $2 (ws bigint, contact_id bigint, kind text, question text, expires_at bigint)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.contact_id AND session.kind = r.kind AND session.question = r.question AND session.asked_at = 0
  AND session.status = ` + sqlSessionOpen

// Asked is a question that a message asks which is about to leave.
type Asked struct {
	delivery.PersonKind
	Question  string
	ExpiresAt time.Time // of a first question: when its session ends; zero: it is another one
}

// AskSessions notes of open sessions that their question is asked, at its first intent.
func (t *Tx) AskSessions(now time.Time, list []Asked) error {
	var rows rowset
	for _, a := range list {
		rows.row().int(int64(a.Workspace)).int(int64(a.ID)).text(a.Kind).text(a.Question).int(dueMicros(a.ExpiresAt))
		t.due(dueMicros(a.ExpiresAt))
	}
	if _, err := t.exec(askSessions, micros(now), &rows); err != nil {
		return fmt.Errorf("note questions: %w", err)
	}
	return nil
}

const unaskSessions = `
UPDATE session SET asked_at = 0
FROM /*ROWS $1 (ws bigint, contact_id bigint, kind text, question text)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.contact_id AND session.kind = r.kind AND session.question = r.question
  AND session.status = ` + sqlSessionOpen

// notSent notes a delivery whose attempt is over, if it asks a question that has not been sent.
func (t *Tx) notSent(d delivery.Row) {
	if d.Unasked() {
		t.unasked = append(t.unasked, Asked{PersonKind: delivery.PersonKind{PersonRef: delivery.PersonOf(d), Kind: d.Kind()}, Question: d.Asks})
	}
}

// unaskSessions runs before a transaction commits: sessions are locked after the deliveries and their contacts.
func (t *Tx) unaskSessions() error {
	if len(t.unasked) == 0 {
		return nil
	}
	slices.SortFunc(t.unasked, func(a, b Asked) int {
		return cmp.Or(comparePersonRef(a.PersonRef, b.PersonRef), cmp.Compare(a.Kind, b.Kind))
	})
	var rows rowset
	for _, a := range t.unasked {
		rows.row().int(int64(a.Workspace)).int(int64(a.ID)).text(a.Kind).text(a.Question)
	}
	if _, err := t.exec(unaskSessions, &rows); err != nil {
		return fmt.Errorf("note questions that were not sent: %w", err)
	}
	return nil
}
