// Package answer takes the answers to surveys, from the public page, from programs and from scenarios.
//
// A link leads to a delivery. The questions are those of one definition set: the one to which the delivery is pinned, else the one in force
// when its first message was sent, else the one in force now. An answer is one transaction: it locks the deliveries of the same instance and
// contact, decides by them whether the delivery still takes an answer (delivery.Row.Answering), and writes the response with what follows for
// those deliveries (delivery.Answer) and the outbox event (C34). Whether a reminder, an expiry, a cancel or the answer comes first is decided by the order of commits.
//
// Answers are checked before the transaction. If the questions became others meanwhile, because the first message was just sent, they are
// checked again.
package answer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outcome"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/survey"
)

// The ways in which a delivery takes no answer.
var (
	ErrNotFound = errors.New("no survey has this id")                                      // 404
	ErrAnswered = errors.New("this survey has been answered")                              // 409
	ErrClosed   = errors.New("this survey has ended without an answer, and takes no more") // 410
)

// Invalid means that answers were refused; nothing was written.
type Invalid struct{ Problems []survey.Problem }

func (e *Invalid) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("question %s: %s", e.Problems[0].Question, e.Problems[0])
	}
	return fmt.Sprintf("%d answers were not taken", len(e.Problems))
}

// errOthers means that the questions are those of another set than the one that was read.
var errOthers = errors.New("the questions are others now")

// tries bounds how often an answer is checked again. The questions of a delivery change once.
const tries = 5

// Store is what the service needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
	DeliveryByID(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error)
	DeliveriesOfContact(ctx context.Context, ws subject.WorkspaceID, of delivery.Row) ([]delivery.Row, error)
	ContactByID(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID) (subject.Contact, bool, error)
	EventsByID(ctx context.Context, refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
	Draft(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (map[string]any, error)
	NewID(now time.Time) int64
}

// Answers is the service.
type Answers struct {
	store   Store
	catalog *catalog.Catalog
	journal journal.Writer
}

// New makes the service.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Answers {
	return &Answers{store: s, catalog: c, journal: w}
}

// Link is a delivery that a public id stands for.
type Link struct {
	Workspace subject.WorkspaceID
	Delivery  delivery.ID
}

// Locate returns the delivery of a public id, in whichever workspace it is (docs/decisions/0001-public-ids.md). ErrNotFound: the id is
// none of a delivery. The delivery need not exist.
func (a *Answers) Locate(ctx context.Context, id string) (Link, error) {
	kind, ws, row, ok := a.catalog.Decode(id)
	if !ok { // another process may have made a workspace
		if err := a.catalog.Refresh(ctx); err != nil {
			return Link{}, fmt.Errorf("find the workspace of a link: %w", err)
		}
		kind, ws, row, ok = a.catalog.Decode(id)
	}
	if !ok || kind != key.KindDelivery {
		return Link{}, ErrNotFound
	}
	return Link{ws, delivery.ID(row)}, nil
}

// Survey is what a delivery asks, and how far it is.
type Survey struct {
	Name     string
	Form     *survey.Form
	Set      int64 // number of the set whose questions they are
	Delivery delivery.Row
	State    delivery.Answering
	Draft    map[string]any // nil: none, or the delivery takes no answer
	Reading  plan.Reading   // what texts and conditions may read
	Locales  []string       // of texts, the best one first
}

// Survey returns what a delivery asks at now; ErrNotFound: there is no such delivery, or it asks nothing.
func (a *Answers) Survey(ctx context.Context, l Link, now time.Time) (Survey, error) {
	row, asked, err := a.find(ctx, l)
	if err != nil {
		return Survey{}, err
	}
	rows, err := a.store.DeliveriesOfContact(ctx, l.Workspace, row)
	if err != nil {
		return Survey{}, err
	}
	late := asked.Trigger.Timing.AcceptLate
	s := Survey{Name: asked.Survey.Name, Form: &asked.Survey.Form, Set: asked.Set.Number, Delivery: row, State: row.Answering(rows, late)}
	if s.Reading, err = a.reading(ctx, row, asked, now); err != nil {
		return Survey{}, err
	}
	s.Locales = []string{row.Locale, s.Reading.Contact.Locale, asked.Workflow.Locale, asked.Set.Workspace.Locale}
	if s.State == delivery.TakesAnswer {
		if s.Draft, err = a.store.Draft(ctx, l.Workspace, row.ID); err != nil {
			return Survey{}, err
		}
	}
	return s, nil
}

// find reads a delivery and what it asks; ErrNotFound: there is no such delivery, or it asks nothing. A further message of a conversation stands for the one that began it.
func (a *Answers) find(ctx context.Context, l Link) (delivery.Row, plan.Asked, error) {
	row, err := a.store.DeliveryByID(ctx, l.Workspace, l.Delivery)
	if err == nil && row.Turn > 0 {
		row, err = a.beginning(ctx, row)
	}
	if errors.Is(err, store.ErrNotFound) {
		return row, plan.Asked{}, ErrNotFound
	} else if err != nil {
		return row, plan.Asked{}, fmt.Errorf("read the delivery of a survey: %w", err)
	}
	q, err := a.asked(ctx, row)
	return row, q, err
}

// beginning returns the delivery that began the conversation of a further message.
func (a *Answers) beginning(ctx context.Context, of delivery.Row) (delivery.Row, error) {
	rows, err := a.store.DeliveriesOfContact(ctx, of.Workspace, of)
	if err != nil {
		return of, err
	}
	for _, row := range rows {
		if row.Turn == 0 && row.Channel == of.Channel && row.Topic == of.Topic {
			return row, nil
		}
	}
	return of, store.ErrNotFound
}

// asked returns what a delivery asks; ErrNotFound: nothing.
func (a *Answers) asked(ctx context.Context, row delivery.Row) (plan.Asked, error) {
	var set *definition.Set
	var err error
	if number := row.AskedBy(); number > 0 {
		set, err = a.catalog.At(ctx, row.Workspace, number)
	} else {
		set, err = a.catalog.Latest(ctx, row.Workspace)
	}
	if err != nil {
		return plan.Asked{}, fmt.Errorf("read the questions: %w", err)
	}
	q, ok := plan.Asks(set, row)
	if !ok {
		return q, ErrNotFound
	}
	return q, nil
}

func (a *Answers) reading(ctx context.Context, row delivery.Row, q plan.Asked, now time.Time) (plan.Reading, error) {
	contact, _, err := a.store.ContactByID(ctx, row.Workspace, row.Contact)
	if err != nil {
		return plan.Reading{}, fmt.Errorf("read the contact of a survey: %w", err)
	}
	r := plan.Reading{Set: q.Set, Workflow: q.Workflow, Delivery: row, Contact: contact, Now: now, Zones: &a.catalog.Zones}
	if row.Event == 0 {
		return r, nil
	}
	ref := store.EventRef{Workspace: row.Workspace, ID: row.Event}
	events, err := a.store.EventsByID(ctx, []store.EventRef{ref})
	if err != nil {
		return plan.Reading{}, fmt.Errorf("read the event of a survey: %w", err)
	}
	r.Event = events[ref].Event
	return r, nil
}

// Open notes that a person has opened the survey (C31), and reports whether that changed anything: the delivery may have been opened
// before, or take no answer.
func (a *Answers) Open(ctx context.Context, l Link, now time.Time) (changed bool, err error) {
	found, _, err := a.find(ctx, l)
	if err != nil {
		return false, err
	}
	var opened delivery.Row
	err = a.onDelivery(ctx, found, nil, func(tx *store.Tx, row delivery.Row, rows []delivery.Row) error {
		if opened, changed = row.Open(); !changed {
			return nil
		}
		return tx.WriteAnswered(now, rows, []delivery.Row{opened})
	})
	if err != nil {
		return false, err
	}
	if changed {
		a.journal.Write(entry(journal.Opened, opened, "", now))
	}
	return changed, nil
}

// SaveDraft keeps answers that are not submitted yet. They are not checked; the questions that the survey has not are left out. It
// returns ErrAnswered or ErrClosed if the delivery takes no answer any more.
func (a *Answers) SaveDraft(ctx context.Context, l Link, given map[string]any, now time.Time) error {
	found, asked, err := a.find(ctx, l)
	if err != nil {
		return err
	}
	kept := make(map[string]any, len(given))
	for id, value := range given {
		if asked.Survey.Form.Question(id) != nil {
			kept[id] = value
		}
	}
	return a.onDelivery(ctx, found, nil, func(tx *store.Tx, row delivery.Row, rows []delivery.Row) error {
		if err := refusal(row.Answering(rows, asked.Trigger.Timing.AcceptLate)); err != nil {
			return err
		}
		return tx.SaveDraft(l.Workspace, found.ID, kept, now)
	})
}

// Submission is what somebody answers.
type Submission struct {
	Answers map[string]any // JSON values by question
	AgentID string         // who answers on the contact's behalf; empty: the contact
}

// Submit takes answers (C33). It returns *Invalid if some are refused, ErrAnswered, ErrClosed or ErrNotFound.
func (a *Answers) Submit(ctx context.Context, l Link, sub Submission, now time.Time, once *store.Idempotent[delivery.Response]) (delivery.Response, error) {
	for try := 1; ; try++ {
		found, asked, err := a.find(ctx, l)
		if err != nil {
			return delivery.Response{}, err
		}
		reading, err := a.reading(ctx, found, asked, now)
		if err != nil {
			return delivery.Response{}, err
		}
		result := asked.Survey.Form.Check(sub.Answers, reading.Input())
		if len(result.Problems) > 0 {
			return delivery.Response{}, a.refused(ctx, found, asked, result)
		}
		r := delivery.Response{
			Workspace: l.Workspace, ID: a.store.NewID(now), Delivery: found.ID, Workflow: found.Workflow, Survey: asked.Survey.Name,
			Definitions: asked.Set.Number, Locale: found.Locale, Answers: result.Answers, AgentID: sub.AgentID, CreatedAt: now,
		}
		told, err := a.facts(ctx, reading)
		if err != nil {
			return delivery.Response{}, err
		}
		entries, err := a.write(ctx, found, asked, r, told, once)
		if errors.Is(err, errOthers) && try < tries {
			continue
		}
		if err != nil {
			return delivery.Response{}, err
		}
		for _, e := range entries {
			a.journal.Write(e)
		}
		return r, nil
	}
}

// refused is the error of answers that were not taken: that the delivery takes none any more comes first.
func (a *Answers) refused(ctx context.Context, found delivery.Row, q plan.Asked, result survey.Result) error {
	rows, err := a.store.DeliveriesOfContact(ctx, found.Workspace, found)
	if err != nil {
		return err
	}
	if err := refusal(found.Answering(rows, q.Trigger.Timing.AcceptLate)); err != nil {
		return err
	}
	return &Invalid{result.Problems}
}

// facts reads what the outbox event of an answer is written from.
func (a *Answers) facts(ctx context.Context, r plan.Reading) (outcome.Facts, error) {
	ws, err := a.catalog.Known(ctx, r.Delivery.Workspace)
	if err != nil {
		return outcome.Facts{}, err
	}
	set, err := a.catalog.Current(ctx, r.Delivery.Workspace)
	if err != nil {
		return outcome.Facts{}, fmt.Errorf("read the routes of an answer: %w", err)
	}
	return tell.Answered(ws, r, set), nil
}

// write writes a response that was checked, with what follows for the deliveries of the same instance and contact.
func (a *Answers) write(ctx context.Context, found delivery.Row, q plan.Asked, r delivery.Response, told outcome.Facts,
	once *store.Idempotent[delivery.Response],
) (entries []journal.Entry, err error) {
	now := r.CreatedAt
	err = a.onDelivery(ctx, found, once, func(tx *store.Tx, row delivery.Row, rows []delivery.Row) error {
		if err := refusal(row.Answering(rows, q.Trigger.Timing.AcceptLate)); err != nil {
			return err
		}
		if row.SurveySet != found.SurveySet {
			return errOthers
		}
		entries = nil
		changed := delivery.Answer(rows, row.ID, now)
		for _, d := range changed {
			if d.ID == row.ID {
				told.Delivery = d
				entries = append(entries, entry(journal.Responded, d, reason.Answered, now))
			} else {
				entries = append(entries, entry(journal.Cancelled, d, reason.AnsweredElsewhere, now))
			}
		}
		if err := tx.WriteAnswered(now, rows, changed); err != nil {
			return err
		}
		if err := tell.Response(tx, told, r); err != nil {
			return err
		}
		return once.Keep(tx, r.Workspace, r)
	})
	return entries, err
}

// onDelivery runs work with a delivery and the others of its instance and contact, locked; found is the delivery as it was read before.
func (a *Answers) onDelivery(ctx context.Context, found delivery.Row, once *store.Idempotent[delivery.Response],
	work func(*store.Tx, delivery.Row, []delivery.Row) error,
) error {
	for try := 1; ; try++ {
		err := a.store.Write(ctx, func(tx *store.Tx) error {
			if err := once.Begin(tx, found.Workspace); err != nil {
				return err
			}
			rows, err := tx.LockDeliveriesOfContact(found.Workspace, found.Instance, found.Contact)
			if err != nil {
				return err
			}
			cancelled, err := tx.CancelledAt(found.Workspace, []instance.ID{found.Instance})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if row.ID == found.ID {
					return work(tx, row.Shown(cancelled[row.Instance]), rows)
				}
			}
			return errMoved
		})
		if !errors.Is(err, errMoved) || try == tries {
			return err
		}
		if found, _, err = a.find(ctx, Link{found.Workspace, found.ID}); err != nil {
			return err
		}
	}
}

// errMoved means that the delivery got another contact after it was read: contacts were merged.
var errMoved = errors.New("the delivery has another contact now")

// refusal is the error of a delivery that takes no answer.
func refusal(state delivery.Answering) error {
	switch state {
	case delivery.Answered:
		return ErrAnswered
	case delivery.Closed:
		return ErrClosed
	case delivery.TakesAnswer:
	}
	return nil
}

func entry(what journal.What, d delivery.Row, why reason.Reason, now time.Time) journal.Entry {
	return journal.Entry{
		At: now, What: what, Workspace: d.Workspace, Workflow: d.Workflow, WorkflowVersion: d.WorkflowVersion, Trigger: d.Trigger, Key: d.Key,
		Event: d.Event, Instance: d.Instance, Delivery: d.ID, Contact: d.CustomerRef, Address: d.Address, Channel: d.Channel, Locale: d.Locale,
		Step: d.Step, Reason: why,
	}
}
