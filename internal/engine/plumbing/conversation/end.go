package conversation

import (
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// End ends a session that is ending, or whose time is over: its answers become the response to its delivery, if there are any that count. It locks the deliveries, then the
// session, and does nothing if it has ended meanwhile. It returns the entries to write after the commit.
func End(tx *store.Tx, c *catalog.Catalog, due delivery.Session, newID func(time.Time) int64, now time.Time) ([]journal.Entry, error) {
	rows, err := tx.LockDeliveriesOfContact(due.Workspace, due.Instance, due.Contact)
	if err != nil {
		return nil, err
	}
	cancelled, err := tx.CancelledAt(due.Workspace, []instance.ID{due.Instance})
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		rows[i] = row.Shown(cancelled[due.Instance])
	}
	s, ok, err := tx.LockSession(due.Workspace, due.Delivery)
	if err != nil || !ok || s.Status != delivery.SessionEnding && s.ExpiresAt.After(now) {
		return nil, err
	}
	switch s.Status {
	case delivery.SessionWaiting: // its message is tried again, and begins its time
		s.ExpiresAt = now.Add(max(now.Sub(s.OpenedAt), time.Hour))
		return nil, tx.WriteSessions([]delivery.Session{s})
	case delivery.SessionOpen:
		s.End(reason.NoResponse, now)
	case delivery.SessionEnding, delivery.SessionEnded:
	}
	e := ending{tx: tx, catalog: c, session: s, rows: rows, now: now, newID: newID}
	if err := e.decide(); err != nil {
		return nil, err
	}
	s.Status, s.EndedAt = delivery.SessionEnded, now
	return e.entries, tx.WriteSessions([]delivery.Session{s})
}

// ending is a session at its end.
type ending struct {
	tx      *store.Tx
	catalog *catalog.Catalog
	session delivery.Session
	rows    []delivery.Row
	now     time.Time
	newID   func(time.Time) int64
	entries []journal.Entry
}

func (e *ending) decide() error {
	s := e.session
	first, changed := delivery.EndSession(e.rows, s.Delivery, false, s.Reason, e.now)
	if first.ID == 0 { // its rows were deleted
		return nil
	}
	persons, err := e.tx.ContactsByID([]delivery.PersonRef{{Workspace: s.Workspace, ID: s.Contact}})
	if err != nil {
		return err
	}
	contact := persons[delivery.PersonRef{Workspace: s.Workspace, ID: s.Contact}]
	row := rowOf(e.rows, s.Delivery)
	found, err := events(e.tx, row)
	if err != nil {
		return err
	}
	a, known, err := of(e.catalog, row, delivery.Person{Contact: contact}, found[eventOf(row)].Event, e.now)
	if err != nil {
		return err
	}
	takes := row.Answering(e.rows, false) == delivery.TakesAnswer
	if known && takes {
		if s.Reason == reason.Answered || len(s.Answers) > 0 && !a.survey.Conversation.Drop { // what was accepted stays, whatever has changed since
			return e.respond(a, contact, s.Answers)
		}
	}
	if err := e.tx.UpdateDeliveries(e.now, e.rows, changed); err != nil {
		return err
	}
	for _, row := range changed {
		switch {
		case row.ID != s.Delivery:
		case row.Status != delivery.Expired:
			e.entries = append(e.entries, journal.Stopped(row, s.Reason, contact.ExtID, e.now))
		default:
			e.entries = append(e.entries, entry(journal.Expired, row, contact, e.now))
			was := rowOf(e.rows, s.Delivery)
			return tell.Deliveries(e.catalog, tell.InForce(e.catalog), e.tx, e.now, []tell.Change{{Was: was, Is: row}})
		}
	}
	return nil
}

// respond makes the answers the response to the delivery, as a page does.
func (e *ending) respond(a asked, contact subject.Contact, answers map[string]any) error {
	s, why := e.session, reason.Answered
	if s.Reason != reason.Answered {
		why = reason.Partial
	}
	row, changed := delivery.EndSession(e.rows, s.Delivery, true, why, e.now)
	if err := e.tx.WriteAnswered(e.now, e.rows, changed); err != nil {
		return err
	}
	r := delivery.Response{
		Workspace: s.Workspace, ID: e.newID(e.now), Delivery: s.Delivery, Workflow: row.Workflow, Survey: a.survey.Name, Definitions: a.reading.Set.Number,
		Locale: row.Locale, Answers: answers, CreatedAt: e.now,
	}
	ws, err := e.catalog.Workspace(row.Workspace)
	if err != nil {
		return err
	}
	inForce, err := e.catalog.Loaded(row.Workspace, 0)
	if err != nil {
		return err
	}
	a.reading.Delivery = row
	responded := entry(journal.Responded, row, contact, e.now)
	responded.Answers = answers
	e.entries = append(e.entries, responded)
	return tell.Response(e.tx, tell.Answered(ws, a.reading, inForce), r)
}

func rowOf(rows []delivery.Row, id delivery.ID) delivery.Row {
	for _, r := range rows {
		if r.ID == id {
			return r
		}
	}
	return delivery.Row{}
}

func entry(what journal.What, d delivery.Row, contact subject.Contact, now time.Time) journal.Entry {
	return journal.Entry{
		At: now, What: what, Workspace: d.Workspace, Workflow: d.Workflow, WorkflowVersion: d.WorkflowVersion, Trigger: d.Trigger, Key: d.Key, Event: d.Event,
		Instance: d.Instance, Delivery: d.ID, Contact: contact.ExtID, Address: d.Address, Channel: d.Channel, Locale: d.Locale, Step: d.Step, Reason: d.Reason,
	}
}
