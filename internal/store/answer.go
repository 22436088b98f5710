package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

const responseSpec = "response"

var responseColumns = named(responseSpec, columnsOf[delivery.Response]{
	{"ws", func(r *delivery.Response) field { return integer(&r.Workspace) }},
	{"id", func(r *delivery.Response) field { return integer(&r.ID) }},
	{"delivery_id", func(r *delivery.Response) field { return integer(&r.Delivery) }},
	{"workflow", func(r *delivery.Response) field { return text(&r.Workflow) }},
	{"survey", func(r *delivery.Response) field { return text(&r.Survey) }},
	{"definitions", func(r *delivery.Response) field { return integer(&r.Definitions) }},
	{"locale", func(r *delivery.Response) field { return text(&r.Locale) }},
	{"answers", func(r *delivery.Response) field { return document[any]{p: &r.Answers, empty: "{}"} }},
	{"agent_id", func(r *delivery.Response) field { return text(&r.AgentID) }},
	{"created_at", func(r *delivery.Response) field { return moment{&r.CreatedAt} }},
})

const insertResponse = `
INSERT INTO response (/*NAMES (` + responseSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + responseSpec + `)*/ AS r
WHERE true
ON CONFLICT (delivery_id) DO NOTHING`

// AddResponse writes the answers to a delivery. It returns ErrAgain if the delivery has an answer already.
func (t *Tx) AddResponse(r delivery.Response) error {
	var rows rowset
	responseColumns.put(&rows, &r)
	return t.insertNew("insert a response", insertResponse, &rows)
}

// What others decide about a row in flight, beside a stop: its rank and its end. Its version stays, by which the result finds it.
const answerInFlight = `
UPDATE delivery SET status = r.status, send_at = r.send_at, hold = r.hold, expires_at = r.expires_at, eligible_at = r.eligible_at, reason = r.reason,
  completed_at = r.completed_at, stop_reason = r.stop_reason
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, status text, send_at bigint, hold text, expires_at bigint, eligible_at bigint, reason text,
  completed_at bigint, stop_reason text)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version`

// WriteAnswered writes deliveries that were opened, answered, or cancelled by an answer; old are the locked rows. Of one in flight it
// writes what an opening, an answer or a stop may change.
func (t *Tx) WriteAnswered(now time.Time, old, changed []delivery.Row) error {
	var rows rowset
	var idle []delivery.Row
	for _, d := range changed {
		if !d.InFlight(now) {
			idle = append(idle, d)
			continue
		}
		if err := checkDelivery(d, d.Workspace); err != nil {
			return fmt.Errorf("answer in flight: %w", err)
		}
		rows.row().int(int64(d.Workspace)).int(int64(d.ID)).int(d.Version).text(string(d.Status)).int(dueMicros(d.SendAt)).text(string(d.Hold)).
			int(dueMicros(d.ExpiresAt)).int(eligibleMicros(d)).text(string(d.Reason)).time(d.CompletedAt).text(string(d.StopReason))
		t.endedSession(now, d)
	}
	if err := t.updateAll("answer in flight", answerInFlight, &rows); err != nil {
		return err
	}
	return t.UpdateDeliveries(now, old, idle)
}

const upsertDraft = `
INSERT INTO draft (ws, delivery_id, answers, updated_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (ws, delivery_id) DO UPDATE SET answers = excluded.answers, updated_at = excluded.updated_at`

const deleteDraft = `
DELETE FROM draft
WHERE ws = $1 AND delivery_id = $2`

// SaveDraft keeps answers that are not submitted yet, in the place of earlier ones.
func (t *Tx) SaveDraft(ws subject.WorkspaceID, id delivery.ID, answers map[string]any, now time.Time) error {
	text, err := objectJSON(answers)
	if err == nil {
		_, err = t.exec(upsertDraft, int64(ws), int64(id), text, micros(now))
	}
	if err != nil {
		return fmt.Errorf("save a draft: %w", err)
	}
	return nil
}

// DeleteDraft deletes the draft of a delivery, if there is one.
func (t *Tx) DeleteDraft(ws subject.WorkspaceID, id delivery.ID) error {
	if _, err := t.exec(deleteDraft, int64(ws), int64(id)); err != nil {
		return fmt.Errorf("delete a draft: %w", err)
	}
	return nil
}

const selectDraft = `
SELECT answers FROM draft
WHERE ws = $1 AND delivery_id = $2`

// Draft returns answers that are not submitted yet; nil: there are none.
func (s *Store) Draft(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (map[string]any, error) {
	draft, _, err := first(ctx, s, "read a draft", func(rows *sql.Rows) (answers map[string]any, err error) {
		return answers, rows.Scan(document[any]{p: &answers, empty: "{}"})
	}, selectDraft, int64(ws), int64(id))
	return draft, err
}

// DeliveriesOfContact lists the deliveries of an instance to one contact.
func (s *Store) DeliveriesOfContact(ctx context.Context, ws subject.WorkspaceID, of delivery.Row) ([]delivery.Row, error) {
	return all(ctx, s, "list the deliveries of a contact", scanDelivery, deliveriesOfContact, int64(ws), int64(of.Instance), int64(of.Contact))
}

// A delivery is deleted with its response.
const selectResponses = `
SELECT /*NAMES r (` + responseSpec + `)*/, d.address, d.customer_ref
FROM response AS r JOIN delivery AS d ON d.ws = r.ws AND d.id = r.delivery_id`

// ResponseFilter narrows a list of responses; empty fields allow all.
type ResponseFilter struct {
	Workflow string
	Survey   string
	Delivery delivery.ID
	Made     Span
}

// Responses lists answers, the newest first.
func (s *Store) Responses(ctx context.Context, ws subject.WorkspaceID, f ResponseFilter, p Page) ([]delivery.Response, error) {
	p = f.Made.cut(p)
	l := list(selectResponses, "r", int64(ws), p)
	if f.Workflow != "" {
		l.and("r.workflow = ?", f.Workflow)
	}
	if f.Survey != "" {
		l.and("r.survey = ?", f.Survey)
	}
	if f.Delivery != 0 {
		l.and("r.delivery_id = ?", int64(f.Delivery))
	}
	l.within("r", "r.created_at", f.Made)
	text, args := l.end("r", p)
	return all(ctx, s, "list responses", scanResponse, text, args...)
}

// ResponseTo returns the answers to a delivery; ErrNotFound: there are none.
func (s *Store) ResponseTo(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Response, error) {
	found, err := s.Responses(ctx, ws, ResponseFilter{Delivery: id}, Page{Limit: 1})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("a response to delivery %d: %w", id, ErrNotFound)
	}
	if err != nil {
		return delivery.Response{}, err
	}
	return found[0], nil
}

func scanResponse(rows *sql.Rows) (delivery.Response, error) {
	var address, customerRef string
	r, err := responseColumns.scan(rows, &address, &customerRef)
	r.Address, r.CustomerRef = address, customerRef
	return r, err
}
