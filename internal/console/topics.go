package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// subscriptionLine is a topic that somebody follows.
type subscriptionLine struct {
	topic, frequency, source string
	since                    time.Time
}

// subscriptions lists what a contact follows, the newest first.
func (c *console) subscriptions(ctx context.Context, contact subject.ContactID) ([]subscriptionLine, error) {
	list, err := c.Store.SubscriptionsOf(ctx, store.SubscriptionFilter{Contact: contact, Limit: pageSize})
	if err != nil {
		return nil, fmt.Errorf("what contact %d follows: %w", contact, err)
	}
	lines := make([]subscriptionLine, len(list))
	for i, s := range list {
		lines[i] = subscriptionLine{topic: s.TopicName, frequency: s.Frequency, source: string(s.Source), since: s.Since}
	}
	return lines, nil
}

// digestRun returns what is known of an instance that is a run of a digest; nothing for any other.
func (c *console) digestRun(ctx context.Context, in instance.Row) ([]fact, error) {
	run, err := c.Store.DigestRun(ctx, in.Workspace, in.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	words := map[store.RunStatus]string{
		store.RunExpanding: "its messages are being made", store.RunSending: "all its messages are made, and some wait", store.RunDone: "done",
	}
	return known([]fact{
		{name: "digest run", value: words[run.Status()]},
		{name: "items from", at: run.Window.From},
		{name: "items before", at: run.Window.End},
		{name: "all done", at: run.OverAt},
	}), nil
}
