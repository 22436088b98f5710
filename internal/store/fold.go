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
WHERE d.ws = r.ws AND d.contact_id = r.id AND d.slot >= $1 AND d.folded_into = d.id
  AND d.status = 'scheduled' AND d.send_at > 0 AND d.step = 0 AND d.attempt_no = 0
ORDER BY d.slot, d.id`

// A delivery that a sender holds is left out: the sender decides about it.
const foldMembers = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.folded_into = r.id AND d.folded_into > 0 AND d.id <> r.id
  AND d.status = 'scheduled' AND d.send_at > 0 AND d.step = 0 AND d.attempt_no = 0 AND d.lease_until <= $1
  AND NOT EXISTS (SELECT 1 FROM pause AS p WHERE p.ws = d.ws AND p.workflow = d.workflow AND p.resumed_at = 0)
ORDER BY d.not_before, d.id
/*SKIP LOCKED d*/`

// The deliveries that were folded into one that has left, or that leave with it.
const foldedInto = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.folded_into = r.id AND d.folded_into > 0 AND d.id <> r.id
  AND d.status = 'skipped' AND d.reason = 'folded_into'
ORDER BY d.not_before, d.id`

// When a fold head does not leave, its fold members are folded into another delivery or become due. A member without a head
// takes a slot of its own, and is folded again where that is possible.
const (
	reassign = `
UPDATE delivery SET folded_into = r.head, version = delivery.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, head bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.folded_into = r.id AND delivery.folded_into > 0 AND delivery.id <> delivery.folded_into
  AND delivery.status = 'skipped' AND delivery.reason = 'folded_into'`

	setFree = `
UPDATE delivery SET status = 'scheduled', send_at = $1, reason = '', completed_at = 0, version = delivery.version + 1
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.folded_into = r.id AND delivery.folded_into > 0 AND delivery.id <> delivery.folded_into
  AND delivery.status = 'skipped' AND delivery.reason = 'folded_into'`
)

const unfold = `
UPDATE delivery SET folded_into = 0, status = r.status, send_at = r.send_at, reason = r.reason, completed_at = r.completed_at,
  version = delivery.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, status text, send_at bigint, reason text, completed_at bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version
RETURNING delivery.id, delivery.contact_id`

// readFoldHeads reads the fold heads of persons who are locked.
func (t *Tx) readFoldHeads(now time.Time, persons []*Person, refs []PersonRef) error {
	found, err := query(t, scanDelivery, foldHeads, dueMicros(now), personRows(refs))
	if err != nil {
		return fmt.Errorf("read what carries others: %w", err)
	}
	of := map[PersonRef][]delivery.Row{}
	for _, d := range found {
		ref := PersonRef{d.Workspace, d.Contact}
		of[ref] = append(of[ref], d)
	}
	for i, p := range persons {
		p.FoldHeads, p.Folding = of[refs[i]], true
	}
	return nil
}

// foldHeadsOf calls readFoldHeads for the recipients that are locked.
func (t *Tx) foldHeadsOf(now time.Time, recipients []recipient, persons []Person) error {
	var refs []PersonRef
	var locked []*Person
	for i := range persons {
		if persons[i].Locked {
			refs, locked = append(refs, PersonRef{recipients[i].ws, persons[i].ID}), append(locked, &persons[i])
		}
	}
	return t.readFoldHeads(now, locked, refs)
}

// hangingOn reads fold members, by the ids of their fold heads.
func (t *Tx) hangingOn(text string, args ...any) (map[deliveryRef][]delivery.Row, error) {
	found, err := query(t, scanDelivery, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read what is folded: %w", err)
	}
	of := map[deliveryRef][]delivery.Row{}
	for _, d := range found {
		ref := deliveryRef{d.Workspace, d.FoldedInto}
		of[ref] = append(of[ref], d)
	}
	return of, nil
}

// foldable reads what the verdicts need to decide about folding their claims.
func (t *Tx) foldable(now time.Time, claims []Claim, verdicts []IntentVerdict, odd []int, persons map[PersonRef]Person) error {
	var refs []PersonRef
	var people []*Person
	var carrying rowset
	for _, i := range odd {
		if !verdicts[i].NeedFold {
			continue
		}
		c := claims[i]
		ref := PersonRef{c.Workspace, c.Contact}
		if p := persons[ref]; !p.Folding {
			refs, people = append(refs, ref), append(people, &p)
			p.Folding = true
			persons[ref] = p
		}
		if c.IsFoldHead() {
			carrying.row().int(int64(c.Workspace)).int(int64(c.ID))
		}
	}
	if len(refs) == 0 {
		return nil
	}
	if err := t.readFoldHeads(now, people, refs); err != nil {
		return err
	}
	for i, ref := range refs {
		persons[ref] = *people[i]
	}
	of, err := t.hangingOn(foldMembers, dueMicros(now), &carrying)
	if err != nil {
		return err
	}
	for _, i := range odd {
		claims[i].FoldMembers = of[deliveryRef{claims[i].Workspace, claims[i].ID}]
	}
	return nil
}

// withFolded adds the fold members to claims that are sent.
func (t *Tx) withFolded(send []Claim) error {
	var rows rowset
	for _, c := range send {
		if c.IsFoldHead() {
			rows.row().int(int64(c.Workspace)).int(int64(c.ID))
		}
	}
	of, err := t.hangingOn(foldedInto, &rows)
	if err != nil {
		return err
	}
	for i, c := range send {
		send[i].Folded = of[deliveryRef{c.Workspace, c.ID}]
	}
	return nil
}

// reassignment collects where the fold members of deliveries that do not leave go.
type reassignment struct{ members, free rowset }

func (e *reassignment) to(of deliveryRef, head delivery.ID) {
	e.members.row().int(int64(of.ws)).int(int64(of.id)).int(int64(head))
}

func (e *reassignment) none(of deliveryRef) { e.free.row().int(int64(of.ws)).int(int64(of.id)) }

func (t *Tx) settleReassignment(now time.Time, e *reassignment) error {
	if _, err := t.exec(reassign, &e.members); err != nil {
		return fmt.Errorf("fold into what stands in: %w", err)
	}
	n, err := t.exec(setFree, dueMicros(now), &e.free)
	if err != nil {
		return fmt.Errorf("set free what was folded: %w", err)
	}
	if n > 0 {
		t.due(dueMicros(now))
	}
	return nil
}

// left decides about the fold members of a claim that was moved and is not sent.
func (e *reassignment) left(was Claim, v IntentVerdict, is delivery.Row) {
	ref := deliveryRef{was.Workspace, was.ID}
	switch {
	case !was.IsFoldHead() || v.Move.Send:
	case v.Fallback != nil:
		e.to(ref, v.Fallback.ID)
	case is.IsFoldMember():
		e.to(ref, is.FoldedInto)
	case is.Status.Final() && is.Step == 0 && !is.OutcomeUnknown():
		e.none(ref)
	}
}

// Unfold takes deliveries out of their fold heads, and returns how many of them were unchanged since they were read.
func (s *Store) Unfold(ctx context.Context, now time.Time, list []Unfold) (n int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	err = s.Write(ctx, func(t *Tx) error {
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
			return err
		}
		n = len(changed)
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
					return err
				}
				instead := *u.Fallback
				instead.Contact = contact
				made = append(made, instead)
			}
		}
		if _, err := t.insertDeliveries(made); err != nil {
			return err
		}
		return t.insertAttempts(attempts)
	})
	if err != nil {
		return 0, fmt.Errorf("take out of a bundle: %w", err)
	}
	return n, nil
}

// FoldedInto lists the deliveries that left with a delivery, or will leave with it, in the order in which they were due.
func (s *Store) FoldedInto(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]delivery.Row, error) {
	return all(ctx, s, "list what is folded", scanDelivery, foldedOf, int64(ws), int64(id))
}

const foldedOf = selectDeliveries + `
WHERE d.ws = $1 AND d.folded_into = $2 AND d.folded_into > 0 AND d.id <> $2
  AND (d.status = 'scheduled' OR d.status = 'skipped' AND d.reason = 'folded_into')
ORDER BY d.not_before, d.id`
