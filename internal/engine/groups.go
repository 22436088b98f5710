package engine

import (
	"context"

	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// StopsOf returns the kinds of channels on which nothing is sent to a contact, and why.
func (e *Engine) StopsOf(ctx context.Context, ws store.Workspace, c subject.Contact) ([]store.StoppedKind, error) {
	return e.contacts.Stops(ctx, ws, c)
}

// GroupsOf returns the names of the groups in force to which each of some contacts belongs, in their order.
func (e *Engine) GroupsOf(ctx context.Context, ws subject.WorkspaceID, contacts []subject.ContactRow) ([][]string, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	list := make([][]string, len(contacts))
	for i, c := range contacts {
		list[i] = plan.GroupsOf(set, c.Contact, nil)
	}
	return list, nil
}
