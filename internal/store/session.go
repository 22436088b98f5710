package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// A session is a conversation with a contact. Its row is locked after the deliveries of its contact, and written with them:
//
//	intent of the first message ─▶ open, or waiting where another one is open
//	its result: may have arrived ─▶ open, and the one before it is ending
//	            certainly not    ─▶ waiting, until it is tried again
//	reply ─▶ the next question, or ending
//	its time is over ─▶ ending
//	ending ─▶ its answers are handed on ─▶ ended

const (
	sessionSpec      = "session"
	sessionStateSpec = "session_state"
)

var sessionColumns = named(sessionSpec, columnsOf[delivery.Session]{
	{"ws", func(s *delivery.Session) field { return integer(&s.Workspace) }},
	{"delivery_id", func(s *delivery.Session) field { return integer(&s.Delivery) }},
	{"instance_id", func(s *delivery.Session) field { return integer(&s.Instance) }},
	{"contact_id", func(s *delivery.Session) field { return integer(&s.Contact) }},
	{"kind", func(s *delivery.Session) field { return text(&s.Kind) }},
	{"address_hash", func(s *delivery.Session) field { return text(&s.AddressHash) }},
	{"status", func(s *delivery.Session) field { return text(&s.Status) }},
	{"reason", func(s *delivery.Session) field { return text(&s.Reason) }},
	{"question", func(s *delivery.Session) field { return text(&s.Question) }},
	{"asked_at", func(s *delivery.Session) field { return moment{&s.AskedAt} }},
	{"repeats", func(s *delivery.Session) field { return integer(&s.Repeats) }},
	{"turns", func(s *delivery.Session) field { return integer(&s.Turns) }},
	{"answers", func(s *delivery.Session) field { return document[any]{p: &s.Answers, empty: "{}"} }},
	{"opened_at", func(s *delivery.Session) field { return moment{&s.OpenedAt} }},
	{"expires_at", func(s *delivery.Session) field { return dueMoment{moment{&s.ExpiresAt}} }},
	{"ended_at", func(s *delivery.Session) field { return moment{&s.EndedAt} }},
})

var sessionStateColumns = named(sessionStateSpec, sessionColumns.only(
	"ws", "delivery_id", "status", "reason", "question", "asked_at", "repeats", "turns", "answers", "expires_at", "ended_at"))

// The caller leaves out those of other kinds and those that are not open: with more conditions PostgreSQL reads all that are open.
const sessionsTo = `
SELECT s.address_hash, s.contact_id, s.kind, s.status
FROM /*ROWS $1 (ws bigint, hash text)*/ AS r CROSS JOIN session AS s
WHERE s.ws = r.ws AND s.address_hash = r.hash
ORDER BY s.asked_at DESC, s.delivery_id DESC`

// SessionsTo returns the contacts with whom a session of a kind of channel is open whose last question went to one of some addresses, by the hash of the address. The contact who
// was asked last comes first.
func (t *Tx) SessionsTo(ws subject.WorkspaceID, kind string, hashes []string) (map[string][]delivery.PersonRef, error) {
	var rows rowset
	for _, hash := range slices.Compact(slices.Sorted(slices.Values(hashes))) {
		rows.row().int(int64(ws)).text(hash)
	}
	of := map[string][]delivery.PersonRef{}
	if _, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var hash string
		var s delivery.Session
		err = rows.Scan(text(&hash), integer(&s.Contact), text(&s.Kind), text(&s.Status))
		if s.Kind == kind && s.Status == delivery.SessionOpen {
			of[hash] = append(of[hash], delivery.PersonRef{Workspace: ws, ID: s.Contact})
		}
		return none, err
	}, sessionsTo, &rows); err != nil {
		return nil, fmt.Errorf("find the sessions of addresses: %w", err)
	}
	return of, nil
}

const existingSessions = `
SELECT s.ws, s.delivery_id FROM /*ROWS $1 (ws bigint, delivery_id bigint)*/ AS r CROSS JOIN session AS s
WHERE s.ws = r.ws AND s.delivery_id = r.delivery_id`

const talkingTo = `
SELECT s.ws, s.contact_id, s.kind FROM /*ROWS $1 (ws bigint, contact_id bigint, kind text)*/ AS r CROSS JOIN session AS s
WHERE s.ws = r.ws AND s.contact_id = r.contact_id AND s.kind = r.kind AND s.status = ` + sqlSessionOpen

const insertSessions = `
INSERT INTO session (/*NAMES (` + sessionSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + sessionSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// OpenSessions opens the sessions of deliveries whose first message is about to leave, with their contacts locked or not. Where a session of the same contact and kind of
// channel is open, or one before it in the list, it waits until its message may have arrived. A session that exists stays as it is: its message is tried again.
func (t *Tx) OpenSessions(list []delivery.Session) error {
	if len(list) == 0 {
		return nil
	}
	var refs rowset
	of := make([]delivery.PersonKind, 0, len(list))
	for _, s := range list {
		refs.row().int(int64(s.Workspace)).int(int64(s.Delivery))
		of = append(of, s.Person())
	}
	known := map[deliveryRef]bool{}
	if _, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var ref deliveryRef
		err = rows.Scan(integer(&ref.ws), integer(&ref.id))
		known[ref] = true
		return none, err
	}, existingSessions, &refs); err != nil {
		return fmt.Errorf("find sessions: %w", err)
	}
	talking := map[delivery.PersonKind]bool{}
	if _, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var p delivery.PersonKind
		err = rows.Scan(integer(&p.Workspace), integer(&p.ID), text(&p.Kind))
		talking[p] = true
		return none, err
	}, talkingTo, personKinds(of)); err != nil {
		return fmt.Errorf("find open sessions: %w", err)
	}
	made := slices.DeleteFunc(slices.Clone(list), func(s delivery.Session) bool { return known[deliveryRef{s.Workspace, s.Delivery}] })
	slices.SortFunc(made, func(a, b delivery.Session) int { return compareDeliveryRef(refOf(a), refOf(b)) })
	var rows rowset
	for i := range made {
		s := &made[i]
		s.Status = delivery.SessionOpen
		if talking[s.Person()] {
			s.Status = delivery.SessionWaiting
		}
		talking[s.Person()] = true
		sessionColumns.put(&rows, s)
		t.due(WorkSessions, dueMicros(s.ExpiresAt))
	}
	inserted, err := t.insert("open sessions", insertSessions, &rows)
	switch {
	case err != nil:
		return err
	case int(inserted) < len(made): // another worker has just opened one for the same contact
		return ErrAgain
	}
	return nil
}

func refOf(s delivery.Session) deliveryRef { return deliveryRef{s.Workspace, s.Delivery} }

const openSessions = `
SELECT /*NAMES s (` + sessionSpec + `)*/
FROM /*ROWS $1 (ws bigint, contact_id bigint, kind text)*/ AS r CROSS JOIN session AS s
WHERE s.ws = r.ws AND s.contact_id = r.contact_id AND s.kind = r.kind AND s.status = ` + sqlSessionOpen + `
ORDER BY s.ws, s.delivery_id
/*LOCK s*/`

// LockOpenSessions locks and returns the open sessions of contacts. Their deliveries are locked before.
func (t *Tx) LockOpenSessions(of []delivery.PersonKind) (map[delivery.PersonKind]delivery.Session, error) {
	found, err := query(t, scanSession, openSessions, personKinds(of))
	if err != nil {
		return nil, fmt.Errorf("lock sessions: %w", err)
	}
	return byPerson(found), nil
}

const deliveriesOfSessions = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, instance_id bigint, contact_id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE +d.ws = r.ws AND d.instance_id = r.instance_id AND d.contact_id = r.contact_id AND ` + notDeleted + `
ORDER BY d.id`

const lockDeliveriesOfSessions = deliveriesOfSessions + `
/*LOCK d*/`

// LockDeliveriesOfSessions locks and returns the deliveries of the instances and contacts of sessions.
func (t *Tx) LockDeliveriesOfSessions(of []delivery.Session) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, lockDeliveriesOfSessions, occasionsOf(of))
	if err != nil {
		return nil, fmt.Errorf("lock the deliveries of sessions: %w", err)
	}
	return rows, nil
}

// DeliveriesOfSessions returns the deliveries of the instances and contacts of sessions, which the transaction has locked.
func (t *Tx) DeliveriesOfSessions(of []delivery.Session) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, deliveriesOfSessions, occasionsOf(of))
	if err != nil {
		return nil, fmt.Errorf("read the deliveries of sessions: %w", err)
	}
	return rows, nil
}

// occasionsOf are the instances and contacts of sessions, each once.
func occasionsOf(of []delivery.Session) *rowset {
	var rows rowset
	type occasion struct{ ws, instance, contact int64 }
	seen := map[occasion]bool{}
	for _, s := range of {
		o := occasion{int64(s.Workspace), int64(s.Instance), int64(s.Contact)}
		if !seen[o] {
			seen[o] = true
			rows.row().int(o.ws).int(o.instance).int(o.contact)
		}
	}
	return &rows
}

func scanSession(rows *sql.Rows) (delivery.Session, error) { return sessionColumns.scan(rows) }

const lastSessions = `
SELECT /*NAMES s (` + sessionSpec + `)*/
FROM /*ROWS $1 (ws bigint, contact_id bigint, kind text)*/ AS r CROSS JOIN session AS s
WHERE s.ws = r.ws AND s.contact_id = r.contact_id AND s.delivery_id = COALESCE(
  (SELECT o.delivery_id FROM session AS o WHERE o.ws = r.ws AND o.contact_id = r.contact_id AND o.kind = r.kind AND o.status = ` + sqlSessionOpen + `),
  (SELECT l.delivery_id FROM session AS l WHERE l.ws = r.ws AND l.contact_id = r.contact_id AND l.kind = r.kind ORDER BY l.delivery_id DESC LIMIT 1))
ORDER BY s.ws, s.delivery_id`

// LastSessions returns the open session of contacts on a kind of channel, or else the last one, without a lock.
func (t *Tx) LastSessions(of []delivery.PersonKind) (map[delivery.PersonKind]delivery.Session, error) {
	found, err := query(t, scanSession, lastSessions, personKinds(of))
	if err != nil {
		return nil, fmt.Errorf("find sessions: %w", err)
	}
	return byPerson(found), nil
}

func byPerson(list []delivery.Session) map[delivery.PersonKind]delivery.Session {
	by := make(map[delivery.PersonKind]delivery.Session, len(list))
	for _, s := range list {
		by[s.Person()] = s
	}
	return by
}

// personKinds are the rows of people on kinds of channels, each once.
func personKinds(of []delivery.PersonKind) *rowset {
	var rows rowset
	sorted := slices.Clone(of)
	slices.SortFunc(sorted, func(a, b delivery.PersonKind) int {
		return cmp.Or(comparePersonRef(a.PersonRef, b.PersonRef), cmp.Compare(a.Kind, b.Kind))
	})
	for _, p := range slices.Compact(sorted) {
		rows.row().int(int64(p.Workspace)).int(int64(p.ID)).text(p.Kind)
	}
	return &rows
}

const dueSessions = `
SELECT /*NAMES s (` + sessionSpec + `)*/
FROM session AS s
WHERE s.status <> ` + sqlSessionEnded + ` AND s.expires_at <= $1
ORDER BY s.expires_at, s.delivery_id
LIMIT $2`

// DueSessions returns up to limit sessions that are ending, or whose time is over, without a lock.
func (t *Tx) DueSessions(now time.Time, limit int) ([]delivery.Session, error) {
	found, err := query(t, scanSession, dueSessions, dueMicros(now), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("find sessions to end: %w", err)
	}
	return found, nil
}

const lockSession = `
SELECT /*NAMES s (` + sessionSpec + `)*/
FROM session AS s
WHERE s.ws = $1 AND s.delivery_id = $2 AND s.status <> ` + sqlSessionEnded + `
/*LOCK s*/`

// LockSession locks a session that has not ended; ok is false if there is none.
func (t *Tx) LockSession(ws subject.WorkspaceID, id delivery.ID) (s delivery.Session, ok bool, err error) {
	found, err := query(t, scanSession, lockSession, int64(ws), int64(id))
	if err != nil {
		return s, false, fmt.Errorf("lock a session: %w", err)
	}
	if len(found) == 0 {
		return s, false, nil
	}
	return found[0], true, nil
}

const writeSessions = `
UPDATE session SET status = r.status, reason = r.reason, question = r.question, asked_at = r.asked_at, repeats = r.repeats, turns = r.turns, answers = r.answers,
  expires_at = r.expires_at, ended_at = r.ended_at
FROM /*ROWS $1 (` + sessionStateSpec + `)*/ AS r
WHERE session.ws = r.ws AND session.delivery_id = r.delivery_id`

// WriteSessions writes the new values of locked sessions.
func (t *Tx) WriteSessions(list []delivery.Session) error {
	var rows rowset
	for i := range list {
		sessionStateColumns.put(&rows, &list[i])
		if list[i].Status != delivery.SessionEnded {
			t.due(WorkSessions, dueMicros(list[i].ExpiresAt))
		}
	}
	return t.updateAll("write sessions", writeSessions, &rows)
}

// InsertDeliveries inserts the further messages of sessions.
func (t *Tx) InsertDeliveries(list []delivery.Row) error {
	_, err := t.insertDeliveries(list)
	return err
}

// A conversation goes on with the survivor, as the delivery does that began it, unless the survivor has one on that kind of channel.
const (
	endDoubledSessions = `
UPDATE session SET status = ` + sqlSessionEnding + `, reason = ` + sqlReplaced + `, expires_at = $1
FROM /*ROWS $2 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.id AND session.status = ` + sqlSessionOpen + `
  AND EXISTS (SELECT 1 FROM session AS o WHERE o.ws = r.ws AND o.contact_id = r.survivor AND o.kind = session.kind AND o.status = ` + sqlSessionOpen + `)`

	handSessions = `
UPDATE session SET contact_id = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.id
  AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.ws = session.ws AND d.id = session.delivery_id AND d.contact_id = r.survivor)`

	endLeftSessions = `
UPDATE session SET status = ` + sqlSessionEnding + `, reason = ` + sqlReplaced + `, expires_at = $1
FROM /*ROWS $2 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE session.ws = r.ws AND session.contact_id = r.id AND session.status = ` + sqlSessionOpen
)

// mergeSessions hands the conversations of merged contacts to their survivors.
func (t *Tx) mergeSessions(now time.Time, merged *rowset) error {
	doubled, err := t.exec(endDoubledSessions, dueMicros(now), merged)
	if err == nil {
		_, err = t.exec(handSessions, merged)
		err = unlessOpened(err)
	}
	left := int64(0)
	if err == nil {
		left, err = t.exec(endLeftSessions, dueMicros(now), merged)
	}
	if err != nil {
		return fmt.Errorf("merge sessions: %w", err)
	}
	if doubled+left > 0 {
		t.due(WorkSessions, dueMicros(now))
	}
	return nil
}
