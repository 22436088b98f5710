package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// maxNamedRead bounds the newest events of a list that are searched for a recipient.
	maxNamedRead = 200_000
	// namedChunk is how many of them one statement reads.
	namedChunk = 10_000
)

// naming holds the ids and addresses by which events name a person.
type naming struct {
	address   string          // the searched text as an address; empty: it is none
	addresses map[string]bool // of the person
	refs      map[string]bool // the caller's ids of the person
}

// namingOf returns how events name the persons that the text matches. If it matches no person, it is searched as an id itself.
func namingOf(text string, persons map[subject.ContactID]subject.Contact) naming {
	n := naming{address: subject.NormalizeAddress(text), addresses: map[string]bool{}, refs: map[string]bool{}}
	if len(persons) == 0 {
		n.refs[text] = true
	}
	for _, p := range persons {
		n.refs[p.ExtID] = true
		n.addresses[subject.NormalizeAddress(p.Address)] = true
		for _, address := range p.Addresses {
			n.addresses[subject.NormalizeAddress(address)] = true
		}
	}
	delete(n.addresses, "")
	return n
}

// meets reports whether the recipient of an event is the person. If an event has the caller's id, the id decides, not the
// address; such an event of another person is found only if its address itself was searched.
func (n naming) meets(r subject.Recipient) bool {
	address := subject.NormalizeAddress(r.Address)
	switch {
	case r.CustomerRef != "" && n.refs[r.CustomerRef], address != "" && address == n.address:
		return true
	case r.CustomerRef != "":
		return false
	}
	return n.addresses[address]
}

const selectRecipients = `
SELECT e.id, e.kind, e.recipient
FROM event AS e`

// eventsNaming lists the events that name a person, the newest one first. It searches the newest maxNamedRead events.
func (s *Store) eventsNaming(ctx context.Context, ws subject.WorkspaceID, f EventFilter, p Page) ([]EventRow, error) {
	ids, err := s.personsNamed(ctx, ws, f.To)
	if err != nil {
		return nil, err
	}
	persons, err := s.contactsByID(ctx, ws, ids)
	if err != nil {
		return nil, fmt.Errorf("read those whom events name: %w", err)
	}
	who, want := namingOf(f.To.Text, persons), cmp.Or(p.Limit, defaultPage)
	var found []EventRef
	p = f.Made.cut(p)
	for read := 0; read < maxNamedRead && len(found) < want; {
		chunk := Page{Before: p.Before, Limit: namedChunk}
		l := list(selectRecipients, "e", int64(ws), chunk)
		l.within("e", "e.received_at", f.Made)
		text, args := l.end("e", chunk)
		rows, err := all(ctx, s, "find events of a person", scanNamed, text, args...)
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			if e.Recipient != nil && who.meets(*e.Recipient) && (f.Kind == "" || e.Kind == f.Kind) && len(found) < want {
				found = append(found, EventRef{ws, e.ID})
			}
		}
		if len(rows) < namedChunk {
			break
		}
		read += len(rows)
		p.Before = int64(rows[len(rows)-1].ID)
	}
	events, err := s.EventsByID(ctx, found)
	out := make([]EventRow, 0, len(found))
	for _, ref := range found {
		if e, ok := events[ref]; ok {
			out = append(out, e)
		}
	}
	return out, err
}

func scanNamed(rows *sql.Rows) (e subject.Event, err error) {
	var recipient string
	if err := rows.Scan(&e.ID, &e.Kind, &recipient); err != nil || recipient == "" {
		return e, err
	}
	if err := json.Unmarshal([]byte(recipient), &e.Recipient); err != nil {
		return e, fmt.Errorf("recipient of event %d: %w", e.ID, err)
	}
	return e, nil
}
