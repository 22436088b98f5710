package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Deliveries that wait for a slot and can be fold heads. The persons are locked, and sending such a delivery needs that
// lock, so the result stays true.
const foldHeads = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot >= $1 AND d.fold = ` + sqlFoldHead + `
  AND d.status = ` + sqlScheduled + ` AND d.send_at > 0 AND d.step = 0 AND d.attempt_no = 0
  AND ` + notCancelled + `
ORDER BY d.slot, d.id`

// A delivery that a sender holds is left out: the sender decides about it.
const foldMembers = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.folded_into = r.id AND d.folded_into > 0 AND d.fold = ` + sqlFoldMember + `
  AND d.status = ` + sqlScheduled + ` AND d.send_at > 0 AND d.step = 0 AND d.attempt_no = 0 AND d.lease_until <= $1
  AND NOT EXISTS (SELECT 1 FROM pause AS p WHERE p.ws = d.ws AND p.workflow = d.workflow AND p.resumed_at = 0)
  AND ` + notCancelled + `
ORDER BY d.not_before, d.id
/*SKIP LOCKED d*/`

// Deliveries that may leave with a digest: fold heads that nobody holds, and their members.
const waitingHeads = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot >= $1 AND d.fold = ` + sqlFoldHead + `
  AND d.status = ` + sqlScheduled + ` AND d.send_at > 0 AND d.step = 0 AND d.attempt_no = 0 AND d.lease_until <= $1
  AND NOT EXISTS (SELECT 1 FROM pause AS p WHERE p.ws = d.ws AND p.workflow = d.workflow AND p.resumed_at = 0)
  AND ` + notCancelled + `
ORDER BY d.not_before, d.id
/*SKIP LOCKED d*/`

// The deliveries that were folded into one that has left, or that leave with it.
const foldedInto = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.folded_into = r.id AND d.folded_into > 0 AND d.fold = ` + sqlFolded + `
ORDER BY d.not_before, d.id`

// When a fold head does not leave, its fold members are folded into another delivery or become due. A member without a head
// takes a slot of its own, and is folded again where that is possible.
const (
	reassign = `
UPDATE delivery SET folded_into = r.head, version = delivery.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, head bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.folded_into = r.id AND delivery.folded_into > 0 AND delivery.fold = ` + sqlFolded

	setFree = `
UPDATE delivery SET status = ` + sqlScheduled + `, fold = ` + sqlFoldMember + `, send_at = $1, reason = '', completed_at = 0, version = delivery.version + 1
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.folded_into = r.id AND delivery.folded_into > 0 AND delivery.fold = ` + sqlFolded
)

const unfold = `
UPDATE delivery SET fold = '', folded_into = 0, status = r.status, send_at = r.send_at, reason = r.reason, completed_at = r.completed_at,
  version = delivery.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, status text, send_at bigint, reason text, completed_at bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version
RETURNING delivery.id, delivery.contact_id`

// FoldHeads reads the deliveries of locked persons that others can be folded into.
func (t *Tx) FoldHeads(now time.Time, persons []delivery.PersonRef) ([]delivery.Row, error) {
	found, err := query(t, scanDelivery, foldHeads, dueMicros(now), personRows(persons))
	if err != nil {
		return nil, fmt.Errorf("read fold heads: %w", err)
	}
	return found, nil
}

// FoldMembers locks and reads the deliveries that wait to be folded into heads.
func (t *Tx) FoldMembers(now time.Time, heads []delivery.Row) ([]delivery.Row, error) {
	found, err := query(t, scanDelivery, foldMembers, dueMicros(now), deliveryRows(heads))
	if err != nil {
		return nil, fmt.Errorf("read fold members: %w", err)
	}
	return found, nil
}

// WaitingFolds locks and reads what waits of locked persons and may leave with a digest.
func (t *Tx) WaitingFolds(now time.Time, persons []delivery.PersonRef) ([]delivery.Row, error) {
	heads, err := query(t, scanDelivery, waitingHeads, dueMicros(now), personRows(persons))
	if err != nil {
		return nil, fmt.Errorf("read what may be folded: %w", err)
	}
	members, err := t.FoldMembers(now, heads)
	return append(heads, members...), err
}

// FoldedMembers reads the deliveries that have left with heads, or leave with them, in the order in which they were due.
func (t *Tx) FoldedMembers(heads []delivery.Row) ([]delivery.Row, error) {
	found, err := query(t, scanDelivery, foldedInto, deliveryRows(heads))
	if err != nil {
		return nil, fmt.Errorf("read what is folded: %w", err)
	}
	return found, nil
}

func deliveryRows(list []delivery.Row) *rowset {
	var rows rowset
	for _, d := range list {
		rows.row().int(int64(d.Workspace)).int(int64(d.ID))
	}
	return &rows
}

// foldHeadsOf reads the fold heads of the recipients that are locked.
func (t *Tx) foldHeadsOf(now time.Time, recipients []recipient, persons []delivery.Person) error {
	var refs []delivery.PersonRef
	for i := range persons {
		if persons[i].Locked {
			refs = append(refs, delivery.PersonRef{Workspace: recipients[i].ws, ID: persons[i].ID})
		}
	}
	found, err := t.FoldHeads(now, refs)
	if err != nil {
		return err
	}
	of := map[delivery.PersonRef][]delivery.Row{}
	for _, d := range found {
		ref := delivery.PersonRef{Workspace: d.Workspace, ID: d.Contact}
		of[ref] = append(of[ref], d)
	}
	for i := range persons {
		if p := &persons[i]; p.Locked {
			p.FoldHeads, p.Folding = of[delivery.PersonRef{Workspace: recipients[i].ws, ID: p.ID}], true
		}
	}
	return nil
}

func (t *Tx) refold(now time.Time, list []delivery.Refold) error {
	var members, free rowset
	for _, r := range list {
		if r.Into == 0 {
			free.row().int(int64(r.Workspace)).int(int64(r.From))
		} else {
			members.row().int(int64(r.Workspace)).int(int64(r.From)).int(int64(r.Into))
		}
	}
	if _, err := t.exec(reassign, &members); err != nil {
		return fmt.Errorf("fold into another delivery: %w", err)
	}
	n, err := t.exec(setFree, dueMicros(now), &free)
	if err != nil {
		return fmt.Errorf("set free what was folded: %w", err)
	}
	if n > 0 {
		t.due(WorkDeliveries, dueMicros(now))
	}
	return nil
}

// Unfold writes deliveries that were taken out of their fold heads, and returns how many of them were unchanged since they were read.
func (t *Tx) Unfold(now time.Time, list []Unfold) (int, error) {
	var rows rowset
	for _, u := range list {
		d := u.Row
		rows.row().int(int64(d.Workspace)).int(int64(d.ID)).int(d.Version).text(string(d.Status)).int(dueMicros(d.SendAt)).
			text(string(d.Reason)).time(d.CompletedAt)
	}
	changed := map[delivery.ID]subject.ContactID{} // the contact may have been merged into another one meanwhile
	_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var id delivery.ID
		var contact subject.ContactID
		err = rows.Scan(&id, &contact)
		changed[id] = contact
		return none, err
	}, unfold, &rows)
	if err != nil {
		return 0, fmt.Errorf("take out of a fold: %w", err)
	}
	var attempts []delivery.Attempt
	var made []delivery.Row
	for _, u := range list {
		contact, done := changed[u.Row.ID]
		if !done {
			continue
		}
		t.dueDelivery(u.Row)
		t.ended(now, u.Row)
		if u.Attempt != nil {
			attempts = append(attempts, *u.Attempt)
		}
		if u.Fallback != nil {
			if err := checkDelivery(*u.Fallback, u.Row.Workspace); err != nil {
				return 0, err
			}
			instead := *u.Fallback
			instead.Contact = contact
			made = append(made, instead)
		}
	}
	if _, err := t.insertDeliveries(made); err != nil {
		return 0, err
	}
	return len(changed), t.insertAttempts(attempts)
}

// FoldedInto lists the deliveries that left with a delivery, or will leave with it, in the order in which they were due.
func (s *Store) FoldedInto(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]delivery.Row, error) {
	return all(ctx, s, "list what is folded", scanShown, foldedOf, int64(ws), int64(id))
}

const foldedOf = selectShown + `
WHERE d.ws = $1 AND d.folded_into = $2 AND d.folded_into > 0
  AND (d.fold = ` + sqlFoldMember + ` AND d.status = ` + sqlScheduled + ` OR d.fold = ` + sqlFolded + `)
ORDER BY d.not_before, d.id`
