package app

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// subscriptions is the engine as the page that ends subscriptions sees it.
type subscriptions struct {
	engine *engine.Engine
	links  key.LinkKeys
	clock  clock.Clock
}

// Subscriptions is an engine in the shape that public pages ask for. links open the tokens of unsubscribe links.
func Subscriptions(e *engine.Engine, links key.LinkKeys, clock clock.Clock) public.Subscriptions {
	return subscriptions{e, links, clock}
}

// Following implements public.Subscriptions.
func (s subscriptions) Following(ctx context.Context, token string) (public.Leaving, error) {
	return s.by(token, func(ws subject.WorkspaceID, l topic.Leaving) (topics.Left, error) {
		return s.engine.Topics().Following(ctx, ws, l)
	})
}

// Leave implements public.Subscriptions.
func (s subscriptions) Leave(ctx context.Context, token string) (public.Leaving, error) {
	return s.by(token, func(ws subject.WorkspaceID, l topic.Leaving) (topics.Left, error) {
		return s.engine.Topics().Leave(ctx, ws, l, s.clock.Now())
	})
}

// by opens a token and does what it allows. A contact who is gone has nothing left to end.
func (s subscriptions) by(token string, do func(subject.WorkspaceID, topic.Leaving) (topics.Left, error)) (public.Leaving, error) {
	link, err := s.links.Open(key.LinkUnsubscribe, token, s.clock.Now())
	switch {
	case errors.Is(err, key.ErrLinkExpired):
		return public.Leaving{}, public.ErrExpired
	case err != nil:
		return public.Leaving{}, public.ErrNotFound
	}
	leaving, ok := topic.ParseLeaving(link.Subject)
	if !ok {
		return public.Leaving{}, public.ErrNotFound
	}
	left, err := do(subject.WorkspaceID(link.Workspace), leaving)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return public.Leaving{}, err
	}
	return public.Leaving{Locale: left.Contact.Locale, Titles: left.Titles}, nil
}
