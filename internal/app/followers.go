package app

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// followers is an engine in the shape that the pages for those who follow topics ask for.
type followers struct {
	engine *engine.Engine
	links  key.LinkKeys
	clock  clock.Clock
}

// Followers is an engine in the shape that public pages ask for. links open the tokens of links to manage and to confirm subscriptions.
func Followers(e *engine.Engine, links key.LinkKeys, clock clock.Clock) public.Followers {
	return followers{e, links, clock}
}

// Managed implements public.Followers.
func (f followers) Managed(ctx context.Context, token string) (public.Managed, error) {
	ws, of, err := f.manager(token, f.clock.Now())
	if errors.Is(err, public.ErrExpired) {
		err = f.renewable(ctx, token)
	}
	if err != nil {
		return public.Managed{}, err
	}
	m, err := f.engine.Topics().Managed(ctx, ws, of.Contact, f.clock.Now())
	if err != nil {
		return public.Managed{}, missing(err)
	}
	page := public.Managed{Locale: m.Contact.Locale}
	for _, t := range m.Topics {
		page.Topics = append(page.Topics, public.ManagedTopic(t))
	}
	return page, nil
}

// Choose implements public.Followers.
func (f followers) Choose(ctx context.Context, token string, chosen map[string]string) (refused bool, err error) {
	id, of, err := f.manager(token, f.clock.Now())
	if err != nil || len(chosen) == 0 {
		return false, err
	}
	ws, err := f.engine.Workspace(ctx, id)
	if err != nil {
		return false, missing(err)
	}
	names, err := f.engine.Topics().Choose(ctx, ws, of.Contact, chosen, f.clock.Now())
	return len(names) > 0, missing(err)
}

// LeaveAll implements public.Followers.
func (f followers) LeaveAll(ctx context.Context, token string) error {
	id, of, err := f.manager(token, f.clock.Now())
	if err != nil {
		return err
	}
	ws, err := f.engine.Workspace(ctx, id)
	if err != nil {
		return missing(err)
	}
	return missing(f.engine.Topics().LeaveAll(ctx, ws, of.Contact, f.clock.Now()))
}

// Renew implements public.Followers.
func (f followers) Renew(ctx context.Context, token string) error {
	id, of, err := f.expired(token)
	if err != nil {
		return err
	}
	ws, err := f.engine.Workspace(ctx, id)
	if err != nil {
		return missing(err)
	}
	m, err := f.engine.Topics().Managed(ctx, id, of.Contact, f.clock.Now())
	if err != nil {
		return missing(err)
	}
	return f.engine.SendLink(ctx, ws, m.Contact)
}

// OffersLinks implements public.Followers.
func (f followers) OffersLinks(ctx context.Context, workspace string) error {
	ws, err := f.engine.WorkspaceNamed(ctx, workspace)
	if err != nil {
		return missing(err)
	}
	offers, err := f.engine.OffersLinks(ctx, ws.ID)
	if err == nil && !offers {
		err = public.ErrNotFound
	}
	return err
}

// SendLink implements public.Followers.
func (f followers) SendLink(ctx context.Context, workspace, address string) error {
	if subject.CheckSignUp(address) != nil {
		return public.ErrInvalid
	}
	ws, err := f.engine.WorkspaceNamed(ctx, workspace)
	if err != nil {
		return missing(err)
	}
	return f.engine.SendLinkTo(ctx, ws, address)
}

// Requested implements public.Followers.
func (f followers) Requested(ctx context.Context, token string) (public.Requested, error) {
	ws, of, err := f.confirming(token)
	if err != nil {
		return public.Requested{}, err
	}
	q, err := f.engine.Topics().Requested(ctx, ws, of, f.clock.Now())
	if err != nil {
		return public.Requested{}, missing(err)
	}
	return public.Requested{Locale: q.Contact.Locale, Title: q.Title, Frequency: q.Frequency, Confirmed: q.Confirmed}, nil
}

// Confirm implements public.Followers.
func (f followers) Confirm(ctx context.Context, token string) error {
	id, of, err := f.confirming(token)
	if err != nil {
		return err
	}
	ws, err := f.engine.Workspace(ctx, id)
	if err != nil {
		return missing(err)
	}
	return missing(f.engine.Topics().Confirm(ctx, ws, of, f.clock.Now()))
}

// manager opens a token for the page where its holder manages what they follow.
func (f followers) manager(token string, now time.Time) (subject.WorkspaceID, topic.Managing, error) {
	link, err := f.open(key.LinkManage, token, now)
	if err != nil {
		return 0, topic.Managing{}, err
	}
	of, ok := topic.ParseManaging(link.Subject)
	if !ok {
		return 0, of, public.ErrNotFound
	}
	return subject.WorkspaceID(link.Workspace), of, nil
}

// renewFor is how long after it has expired a link can be replaced.
const renewFor = 2 * 365 * 24 * time.Hour

// expired opens a token that has expired: it was valid renewFor before, or less.
func (f followers) expired(token string) (subject.WorkspaceID, topic.Managing, error) {
	return f.manager(token, f.clock.Now().Add(-renewFor))
}

// renewable is ErrRenewable if a new link can be sent to the holder of an expired one, else ErrExpired.
func (f followers) renewable(ctx context.Context, token string) error {
	ws, _, err := f.expired(token)
	if err != nil {
		return err
	}
	offers, err := f.engine.OffersLinks(ctx, ws)
	switch {
	case err != nil:
		return err
	case offers:
		return public.ErrRenewable
	}
	return public.ErrExpired
}

func (f followers) confirming(token string) (subject.WorkspaceID, topic.Confirming, error) {
	link, err := f.open(key.LinkConfirm, token, f.clock.Now())
	if err != nil {
		return 0, topic.Confirming{}, err
	}
	of, ok := topic.ParseConfirming(link.Subject)
	if !ok {
		return 0, of, public.ErrNotFound
	}
	return subject.WorkspaceID(link.Workspace), of, nil
}

func (f followers) open(purpose key.LinkPurpose, token string, now time.Time) (key.Link, error) {
	link, err := f.links.Open(purpose, token, now)
	switch {
	case errors.Is(err, key.ErrLinkExpired):
		return key.Link{}, public.ErrExpired
	case err != nil:
		return key.Link{}, public.ErrNotFound
	}
	return link, nil
}

// missing has the pages answer the errors of the engine.
func missing(err error) error {
	switch {
	case errors.Is(err, topics.ErrNothingRequested):
		return public.ErrNothing
	case errors.Is(err, store.ErrNotFound):
		return public.ErrNotFound
	}
	return err
}
