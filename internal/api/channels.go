package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
)

type testChannel struct {
	Key  string `path:"key" minLength:"1" maxLength:"200" doc:"Kind and name, such as email:default; the kind alone is its default."`
	Body client.ChannelTest
}

func (a *API) channels() {
	tags := []string{"channels"}
	route(a, http.MethodGet, "/v1/channels", ScopeRead, huma.Operation{
		OperationID: "list-channels", Summary: "The channels that are defined, and how they are; never a setting", Tags: tags,
		Description: "state is what the process that answers knows of its own requests.",
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.Channels], error) {
		list, err := a.Engine.Channels(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		return &body[client.Channels]{list}, nil
	})
	route(a, http.MethodPost, "/v1/channels/{key}/test", ScopeOperate, huma.Operation{
		OperationID: "test-channel", Summary: "Send one real message through a channel, now", Tags: tags,
		Description: "The answer waits for the provider and is 200 whatever became of the message. The breaker, the lists of addresses, " +
			"suppression, concurrency and timeout count as for every message, limits and rate do not, and no delivery is made. " +
			"With an Idempotency-Key nothing is sent twice: the same request again is answered with outcome unknown until the first has ended. " +
			"It is audited, without the text.",
	}, func(ctx context.Context, c Caller, in *testChannel) (*body[client.ChannelTested], error) {
		tested, err := a.Engine.TestChannel(ctx, c.Workspace, c.Name, channelKey(in.Key), in.Body, once(a, c, func(t client.ChannelTested) client.ChannelTested { return t }))
		if err != nil {
			return nil, err
		}
		return &body[client.ChannelTested]{tested}, nil
	})
}

// channelKey is the whole key of a channel, which definitions may shorten too.
func channelKey(text string) string {
	if strings.Contains(text, ":") {
		return text
	}
	return text + ":default"
}
