package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Channels lists channels.
type Channels struct {
	Items []Channel `json:"items" doc:"Ordered by key."`
}

// Channel is a defined channel. Its settings are never returned.
type Channel struct {
	Key            string       `json:"key" doc:"Kind and name, such as email:default."`
	Kind           string       `json:"kind" doc:"Such as email or sms."`
	Provider       string       `json:"provider" doc:"What sends the messages, such as smtp or twilio."`
	OnUnknown      string       `json:"on_unknown" enum:"resend,hold,verify" doc:"What follows when the outcome of an attempt is unknown."`
	IdempotencyTTL string       `json:"idempotency_ttl,omitempty" doc:"How long the provider knows a key; for ever when absent."`
	Rate           string       `json:"rate,omitempty" doc:"Such as 50/s, over all processes; no bound when absent."`
	Concurrency    int          `json:"concurrency" doc:"Requests of one process at once, at most."`
	Timeout        string       `json:"timeout" doc:"Of one request."`
	OnlyTo         []string     `json:"only_to,omitempty" doc:"The addresses that it may send to; all when absent."`
	State          ChannelState `json:"state" doc:"The state in the process that answers; other processes may have seen more."`
}

// States of a channel's breaker.
const (
	BreakerClosed   = "closed"    // messages pass
	BreakerOpen     = "open"      // the provider is away: nothing is handed over before open_until
	BreakerHalfOpen = "half_open" // the next message is a probe
)

// ChannelState is the state of a channel in one process, since the start of the process or the last change of the channel.
type ChannelState struct {
	Breaker        string    `json:"breaker" enum:"closed,open,half_open" doc:"closed: messages pass. open: the provider is away, nothing is handed over. half_open: the next message is a probe."`
	OpenUntil      time.Time `json:"open_until,omitzero" doc:"When a message is tried again. Absent while the breaker is closed."`
	Failures       int       `json:"failures" doc:"Requests in a row that found the provider away."`
	InFlight       int       `json:"in_flight" doc:"Requests that are in flight."`
	LastAcceptedAt time.Time `json:"last_accepted_at,omitzero" doc:"When the provider last took a message."`
	LastFailedAt   time.Time `json:"last_failed_at,omitzero" doc:"When a request last failed."`
	LastFailure    string    `json:"last_failure,omitempty" doc:"How the last failed request failed; never holds the message."`
}

// ChannelTest is a message to try a channel with.
type ChannelTest struct {
	To      string `json:"to" minLength:"1" maxLength:"256" pattern:"\\S" doc:"Where to: a telephone number, an e-mail address …"`
	Subject string `json:"subject,omitempty" maxLength:"500" doc:"A default when absent."`
	Text    string `json:"text,omitempty" maxLength:"10000" doc:"A default when absent."`
}

// ChannelTested says what became of a test.
type ChannelTested struct {
	Accepted     bool   `json:"accepted" doc:"Whether the provider took the message."`
	Outcome      string `json:"outcome" enum:"delivered,failed,unknown,none" doc:"Of the attempt; none: nothing was sent, the reason says why."`
	Reason       string `json:"reason" doc:"See GET /v1/reasons."`
	Message      string `json:"message" doc:"The reason in words."`
	Error        string `json:"error,omitempty" doc:"What the provider or the channel said."`
	ProviderID   string `json:"provider_id,omitempty" doc:"The provider's id of the message."`
	Milliseconds int64  `json:"milliseconds" doc:"How long the request took."`
}

// Channels lists the channels that are defined, with what the answering process knows of them.
func (c *Client) Channels(ctx context.Context) (Channels, error) {
	return get[Channels](ctx, c, "/v1/channels", nil)
}

// TestChannel sends one real message through a channel, now. An answer without an error says what became of it; look at
// Accepted.
func (c *Client) TestChannel(ctx context.Context, channel string, test ChannelTest) (ChannelTested, error) {
	var answer ChannelTested
	err := c.call(ctx, http.MethodPost, "/v1/channels/"+url.PathEscape(channel)+"/test", test, &answer)
	return answer, err
}
