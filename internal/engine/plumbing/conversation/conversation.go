// Package conversation leads surveys that are asked by messages, one question each.
//
//	intent of the first message ─▶ session open, the first question asked
//	reply ─▶ an answer    ─▶ the next question, or the closing: session ending
//	      ─▶ no answer    ─▶ the question again
//	      ─▶ not for it   ─▶ a reason, and nothing else
//	STOP, another session, its time over ─▶ session ending
//	session ending ─▶ its answers as the response to its delivery: ended
//
// A further message is a delivery of the same instance, with a turn of its own: its key, its attempts and its content are its own, and it is retried like all others. What
// answers the person passes limits (admission.Rules.Asking).
//
// Invariants:
//   - A contact has at most one open session on a kind of channel.
//   - What a reply means is decided by the question that stands and by when it was asked, with the deliveries and the session locked. So each reply counts once, and each
//     question is asked under one key.
package conversation

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Tx is what is read of a transaction.
type Tx interface {
	EventsByID(refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
}

// asked is what a session asks: the definitions of its delivery, with the questions of the first message.
type asked struct {
	reading plan.Reading
	survey  *definition.Survey
}

// events reads the events of deliveries.
func events(tx Tx, rows ...delivery.Row) (map[store.EventRef]store.EventRow, error) {
	var refs []store.EventRef
	for _, row := range rows {
		if row.Event != 0 {
			refs = append(refs, eventOf(row))
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	found, err := tx.EventsByID(refs)
	if err != nil {
		return nil, fmt.Errorf("read the events of sessions: %w", err)
	}
	return found, nil
}

func eventOf(row delivery.Row) store.EventRef {
	return store.EventRef{Workspace: row.Workspace, ID: row.Event}
}

// of returns what a delivery asks; ok is false if its definitions are gone.
func of(c *catalog.Catalog, row delivery.Row, person delivery.Person, event subject.Event, now time.Time) (a asked, ok bool, err error) {
	set, err := c.Loaded(row.Workspace, row.AskedBy())
	if err != nil {
		return a, false, err
	}
	q, ok := plan.Asks(set, row)
	a.survey = q.Survey
	a.reading = plan.Reading{Set: set, Workflow: q.Workflow, Delivery: row, Contact: person.Contact, Event: event, Now: now, Zones: &c.Zones}
	return a, ok, nil
}

// Opening is a delivery whose first message is about to leave, and which begins a session.
type Opening struct {
	Row     delivery.Row
	Address string // its hash
	Person  delivery.Person
	Rules   admission.Rules
}

// Open returns the session that a delivery begins, with its first question; ok is false if nothing is asked of its person.
func Open(o Opening, in expr.Input, now time.Time) (s delivery.Session, ok bool) {
	if o.Rules.Survey == nil {
		return s, false
	}
	first := o.Rules.Survey.Form.Next("", nil, in)
	if first == nil {
		return s, false
	}
	return delivery.Session{
		Workspace: o.Row.Workspace, Delivery: o.Row.ID, Instance: o.Row.Instance, Contact: o.Row.Contact, Kind: admission.Kind(o.Row.Channel),
		AddressHash: o.Address, Question: first.ID, AskedAt: now, Answers: map[string]any{}, OpenedAt: now, ExpiresAt: o.Rules.SessionEnds(now),
	}, true
}
