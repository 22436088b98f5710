package store

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
)

const (
	sqlSessionGoesOn = `session.status IN (` + sqlSessionWaiting + `, ` + sqlSessionOpen + `)`

	endOpenSessions = `
UPDATE session SET status = ` + sqlSessionEnding + `, reason = r.reason, expires_at = r.expires_at
FROM /*ROWS $1 (ws bigint, delivery_id bigint, reason text, expires_at bigint)*/ AS r
WHERE session.ws = r.ws AND session.delivery_id = r.delivery_id AND ` + sqlSessionGoesOn

	endUnasked = `
UPDATE session SET status = ` + sqlSessionEnding + `, reason = r.reason, expires_at = r.expires_at
FROM /*ROWS $1 (ws bigint, contact_id bigint, kind text, instance_id bigint, question text, reason text, expires_at bigint)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.contact_id AND session.kind = r.kind AND session.instance_id = r.instance_id AND session.question = r.question AND session.asked_at = 0
  AND session.status = ` + sqlSessionOpen

	endSessionsOf = `
UPDATE session SET status = ` + sqlSessionEnding + `, reason = r.reason, expires_at = r.expires_at
FROM /*ROWS $1 (ws bigint, contact_id bigint, kind text, reason text, expires_at bigint)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.contact_id AND (r.kind = '' OR session.kind = r.kind) AND ` + sqlSessionGoesOn
)

// overSessions are the sessions that end when a transaction commits: by what a delivery that is written has become, or because their person gets nothing more.
type overSessions struct{ began, unasked, of rowset }

// endedSession notes a delivery that is being written, if it ends a session: it began it and has ended, or it was to ask the next question and never will.
func (t *Tx) endedSession(now time.Time, d delivery.Row) {
	why, over := d.SessionOver()
	if !over || d.Asks == "" {
		return
	}
	switch at := dueMicros(now); {
	case d.Turn == 0:
		t.over.began.row().int(int64(d.Workspace)).int(int64(d.ID)).text(string(why)).int(at)
	case d.Unasked() && why != reason.SessionOver: // that it is over has a reason of its own
		t.over.unasked.row().int(int64(d.Workspace)).int(int64(d.Contact)).text(d.Kind()).int(int64(d.Instance)).text(d.Asks).text(string(why)).int(at)
	}
	t.due(WorkSessions, dueMicros(now))
}

// EndSessionsOf ends the sessions of contacts on kinds of channels, the empty kind on all, when the transaction commits.
func (t *Tx) EndSessionsOf(now time.Time, of []delivery.PersonKind, why reason.Reason) {
	for _, p := range of {
		t.over.of.row().int(int64(p.Workspace)).int(int64(p.ID)).text(p.Kind).text(string(why)).int(dueMicros(now))
		t.due(WorkSessions, dueMicros(now))
	}
}

// endSessions runs before a transaction commits: sessions are locked after the deliveries and their contacts.
func (t *Tx) endSessions() error {
	for _, end := range []struct {
		text string
		rows *rowset
	}{{endOpenSessions, &t.over.began}, {endUnasked, &t.over.unasked}, {endSessionsOf, &t.over.of}} {
		if _, err := t.exec(end.text, end.rows); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
	}
	return nil
}
