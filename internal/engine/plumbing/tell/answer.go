package tell

import (
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/outcome"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Answered returns what the outbox event of an answer is written from: the survey is the one that was asked, and the routes are those in force. A
// workflow that was removed has none.
func Answered(ws catalog.Workspace, asked plan.Reading, inForce *definition.Set) outcome.Facts {
	f := outcome.Facts{Reading: asked, Workspace: ws.Name, IDs: ws.IDs}
	if w := inForce.Workflow(asked.Delivery.Workflow); w != nil {
		f.Set, f.Workflow = inForce, w
		return f
	}
	removed := *asked.Workflow
	removed.Sinks = nil
	f.Workflow = &removed
	return f
}

// ResponseTx is what Response needs of a transaction.
type ResponseTx interface {
	DeleteDraft(ws subject.WorkspaceID, id delivery.ID) error
	AddResponse(r delivery.Response) error
	AddOutboxEvents(list []store.NewOutboxEvent) error
}

// Response writes a response, in the place of its draft, with its outbox event. The delivery of the facts is the row as it is with the response.
func Response(tx ResponseTx, f outcome.Facts, r delivery.Response) error {
	if err := tx.DeleteDraft(r.Workspace, r.Delivery); err != nil {
		return err
	}
	if err := tx.AddResponse(r); err != nil {
		return err
	}
	event, sinks, err := outcome.Response(f, r)
	if err != nil {
		return err
	}
	return tx.AddOutboxEvents([]store.NewOutboxEvent{{Event: event, Sinks: sinks}})
}
