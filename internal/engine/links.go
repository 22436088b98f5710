package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// linkEvery is how often a contact can ask for a link to the page where they manage what they follow: ten times an hour (GOV.UK), whichever process they ask.
const linkEvery = 6 * time.Minute

// OffersLinks reports whether a workflow sends the links that people ask for: it has a trigger that listens to subscription.link_requested.
func (e *Engine) OffersLinks(ctx context.Context, ws subject.WorkspaceID) (bool, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return false, fmt.Errorf("read the definitions: %w", err)
	}
	for _, w := range set.Workflows() {
		for _, t := range w.Trigger {
			if on := t.OnEvent(); on != nil && on.Kind == definition.LinkRequested && w.Enabled && t.Enabled {
				return true, nil
			}
		}
	}
	return false, nil
}

// SendLink appends the event by which a contact gets a link to the page where they manage what they follow.
func (e *Engine) SendLink(ctx context.Context, ws store.Workspace, c subject.Contact) error {
	now := e.config.Clock.Now()
	results, err := e.Ingest(ctx, ws, []ingest.Item{ingest.Own(subject.Event{
		Kind: definition.LinkRequested, ExtID: "link-" + strconv.FormatInt(int64(c.ID), 10) + "-" + strconv.FormatInt(now.Unix()/int64(linkEvery/time.Second), 10),
		Recipient: &subject.Recipient{CustomerRef: c.ExtID}, Payload: map[string]any{},
	}, now)})
	if err != nil {
		return fmt.Errorf("ask for a link: %w", err)
	}
	if refused := results[0].Error; refused != nil {
		return fmt.Errorf("ask for a link: %w", refused)
	}
	return nil
}

// SendLinkTo is SendLink for the contact who has an address, if they follow a topic. It does not say whether there is one.
func (e *Engine) SendLinkTo(ctx context.Context, ws store.Workspace, address string) error {
	hash := key.NewKeyed(ws.Secret, key.PurposeAddress).Hash(subject.NormalizeAddress(address))
	var contact subject.Contact
	follows := false
	err := e.config.Store.Read(ctx, func(tx *store.Tx) error {
		found, err := tx.Contacts([]store.RecipientIn{{Workspace: ws.ID, RecipientRef: store.RecipientRef{Address: address, AddressHash: hash}}})
		if err != nil || found[0].ID == 0 {
			return err
		}
		contact = found[0]
		active, err := tx.ActiveSubscriptions(ws.ID, []subject.ContactID{contact.ID})
		follows = len(active) > 0
		return err
	})
	if err != nil {
		return fmt.Errorf("find who has an address: %w", err)
	}
	if !follows {
		return nil
	}
	return e.SendLink(ctx, ws, contact)
}

// Workspace returns a workspace by its id. store.ErrNotFound: there is none.
func (e *Engine) Workspace(ctx context.Context, ws subject.WorkspaceID) (store.Workspace, error) {
	known, err := e.catalog.Known(ctx, ws)
	var missing *catalog.Missing
	if errors.As(err, &missing) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Workspace{}, fmt.Errorf("find a workspace: %w", err)
	}
	return known.Workspace, nil
}

// WorkspaceNamed returns a workspace by its name. store.ErrNotFound: there is none.
func (e *Engine) WorkspaceNamed(ctx context.Context, name string) (store.Workspace, error) {
	ws, ok, err := e.config.Store.WorkspaceByName(ctx, name)
	if err == nil && !ok {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Workspace{}, fmt.Errorf("find a workspace: %w", err)
	}
	return ws, nil
}
