package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/subject"
)

const eventSpec = `ws bigint, id bigint, ext_id text, kind text, occurred_at bigint, occurred_given bigint, received_at bigint,
  payload text, recipient text, trace text`

const insertEvents = `
INSERT INTO event (/*NAMES (` + eventSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + eventSpec + `)*/ AS r`

func (t *Tx) insertEvents(ws subject.WorkspaceID, events []EventRow) error {
	var rows rowset
	for _, e := range events {
		recipient := ""
		if e.Recipient != nil {
			text, err := json.Marshal(e.Recipient)
			if err != nil {
				return fmt.Errorf("insert events: %w", err)
			}
			recipient = string(text)
		}
		rows.row().int(int64(ws)).int(int64(e.ID)).text(e.ExtID).text(e.Kind).time(e.OccurredAt).flag(e.OccurredGiven).time(e.ReceivedAt).
			text(e.PayloadJSON).text(recipient).text(e.Trace)
	}
	_, err := t.insert("insert events", insertEvents, &rows)
	return err
}

const eventsByID = `
SELECT /*NAMES e (` + eventSpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN event AS e
WHERE e.ws = r.ws AND e.id = r.id`

// EventsByID reads events in one statement. Events that do not exist are left out.
func (s *Store) EventsByID(ctx context.Context, refs []EventRef) (map[EventRef]EventRow, error) {
	var events map[EventRef]EventRow
	err := s.ReadBatch(ctx, func(t *Tx) (err error) {
		events, err = t.EventsByID(refs)
		return err
	})
	return events, err
}

// EventsByID returns those of the events that exist.
func (t *Tx) EventsByID(refs []EventRef) (map[EventRef]EventRow, error) {
	events := make(map[EventRef]EventRow, len(refs))
	var rows rowset
	for _, r := range refs {
		if _, ok := events[r]; !ok {
			events[r] = EventRow{}
			rows.row().int(int64(r.Workspace)).int(int64(r.ID))
		}
	}
	clear(events)
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		ref, e, err := scanEvent(rows)
		events[ref] = e
		return struct{}{}, err
	}, eventsByID, &rows)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

func scanEvent(rows *sql.Rows) (ref EventRef, e EventRow, err error) {
	var recipient string
	err = rows.Scan(integer(&ref.Workspace), integer(&e.ID), &e.ExtID, &e.Kind, instant{&e.OccurredAt}, &e.OccurredGiven, instant{&e.ReceivedAt},
		&e.PayloadJSON, &recipient, &e.Trace)
	ref.ID = e.ID
	if err != nil {
		return ref, e, err
	}
	if recipient != "" {
		if err := json.Unmarshal([]byte(recipient), &e.Recipient); err != nil {
			return ref, e, fmt.Errorf("recipient of event %d: %w", e.ID, err)
		}
	}
	if e.PayloadJSON == "" {
		return ref, e, nil
	}
	decoder := json.NewDecoder(strings.NewReader(e.PayloadJSON))
	decoder.UseNumber() // a number keeps its spelling (C8)
	if err := decoder.Decode(&e.Payload); err != nil {
		return ref, e, fmt.Errorf("payload of event %d: %w", e.ID, err)
	}
	return ref, e, nil
}
