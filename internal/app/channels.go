package app

import (
	"context"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/telemetry"
)

func (o operations) Channels(ctx context.Context, ws store.Workspace) (client.Channels, error) {
	defined, err := o.engine.DefinedChannels(ctx, ws.ID)
	if err != nil {
		return client.Channels{}, err
	}
	list := client.Channels{Items: make([]client.Channel, len(defined))}
	for i, c := range defined {
		def, s := c.Definition, c.State
		list.Items[i] = client.Channel{
			Key: def.Key, Kind: def.Kind, Provider: def.Provider, OnUnknown: def.OnUnknown, IdempotencyTTL: short(def.KeyLife),
			Rate: s.Rate, Concurrency: s.Concurrency, Timeout: short(c.Timeout), OnlyTo: def.OnlyTo,
			State: client.ChannelState{
				Breaker: string(s.Breaker), OpenUntil: s.OpenUntil, Failures: s.Failures, InFlight: s.InFlight,
				LastAcceptedAt: s.AcceptedAt, LastFailedAt: s.FailedAt, LastFailure: s.Failure,
			},
		}
	}
	return list, nil
}

// short is a duration as definitions write it: 24h, not 24h0m0s; empty for none.
func short(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

func (o operations) TestChannel(
	ctx context.Context, ws store.Workspace, actor, channel string, t client.ChannelTest, once *store.Idempotent[client.ChannelTested],
) (client.ChannelTested, error) {
	trial := sender.Trial{Channel: channel, Actor: actor, To: t.To, Subject: t.Subject, Text: t.Text}
	tried, err := o.engine.TryChannel(ctx, ws, trial, store.From(once, tested))
	return tested(tried), err
}

func tested(t sender.Tried) client.ChannelTested {
	return client.ChannelTested{
		Accepted: t.Outcome == delivery.AttemptDelivered, Outcome: string(t.Outcome), Reason: string(t.Reason), Message: t.Reason.Sentence(),
		Error: t.Error, ProviderID: t.ProviderID, Milliseconds: t.Took.Milliseconds(),
	}
}

// channelGauges are the states of all workspaces' channels together.
func (a *App) channelGauges() []telemetry.Channel {
	var list []telemetry.Channel
	for _, s := range a.engine.Channels() {
		list = append(list, telemetry.Channel{Name: s.Channel, Open: s.Breaker != flow.Closed, InFlight: s.InFlight})
	}
	return list
}
