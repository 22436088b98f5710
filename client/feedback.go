package client

import (
	"context"
	"net/http"
	"time"
)

// Feedback is what is reported of a message after its provider had accepted it.
type Feedback struct {
	Status   string `json:"status" enum:"accepted,delivered,read,deferred,bounced,complained" doc:"accepted (its provider has it), delivered, read, deferred (it may arrive later), bounced (it could not be delivered: the address takes no messages, unless it is soft), or complained (its reader calls it unwanted)."`
	Soft     bool   `json:"soft,omitempty" doc:"Of a bounced message: its cause may pass, so that its address takes further ones."`
	Address  string `json:"address,omitempty" maxLength:"254" doc:"The address; absent: the one to which the delivery was sent."`
	Delivery string `json:"delivery,omitempty" maxLength:"64" doc:"The id of the delivery, which the message has as X-Carillon-Delivery."`
	Step     int    `json:"step,omitempty" minimum:"0" doc:"Which message of the delivery it is about: 1 is the first, 2 its first reminder; absent: the one that message names, else the first."`
	Message  string `json:"message,omitempty" maxLength:"200" doc:"The provider's id of the message."`
	Detail   string `json:"detail,omitempty" maxLength:"500" doc:"The report in the provider's words."`
}

// FeedbackAnswer says what reports have changed.
type FeedbackAnswer struct {
	Reports []FeedbackReport `json:"reports" doc:"The one that was posted, or one for each recipient that the mail names."`
}

// FeedbackReport is one report, and what it has changed.
type FeedbackReport struct {
	Status    string `json:"status" enum:"accepted,delivered,read,deferred,bounced,complained" doc:"What became of the message."`
	Soft      bool   `json:"soft,omitempty" doc:"Of a bounced message: its cause may pass, so that its address takes further ones."`
	Address   string `json:"address,omitempty" doc:"The address."`
	Delivery  string `json:"delivery,omitempty" doc:"The id that the message had."`
	Detail    string `json:"detail,omitempty" doc:"The report in the words of its sender."`
	Known     bool   `json:"known" doc:"Whether the delivery exists, or somebody has the address."`
	Settled   bool   `json:"settled" doc:"Whether the outcome of the delivery was unknown, and is not any more: its provider has the message."`
	Cancelled int    `json:"cancelled" doc:"Deliveries that were to stand in for it on another channel, and are not sent since it has arrived."`
	Stopped   bool   `json:"stopped" doc:"Whether the address takes messages no more, since this report."`
	Ended     int    `json:"ended" doc:"Subscriptions that have ended."`
}

// Allowed says whether an address was stopped.
type Allowed struct {
	Changed bool `json:"changed" doc:"false: it was not stopped."`
}

// Receipt is what was reported of a message.
type Receipt struct {
	At         time.Time `json:"at" doc:"When it was reported."`
	Status     string    `json:"status" enum:"delivered,read,deferred,bounced,complained" doc:"What became of the message."`
	Soft       bool      `json:"soft,omitempty" doc:"Of a bounced message: its cause may pass, so that its address takes further ones."`
	Attempt    int       `json:"attempt,omitempty" doc:"The number of the attempt whose message it is about; absent: not known."`
	ProviderID string    `json:"provider_id,omitempty" doc:"The provider's id of the message."`
	Detail     string    `json:"detail,omitempty" doc:"In the provider's words."`
}

// Report reports what became of a message.
func (c *Client) Report(ctx context.Context, f Feedback) (FeedbackAnswer, error) {
	var answer FeedbackAnswer
	err := c.call(ctx, http.MethodPost, "/v1/feedback", f, &answer)
	return answer, err
}

// ReportMail takes in a mail that reports a failed delivery or a complaint. It is a *Problem with the status 422 if it does neither.
func (c *Client) ReportMail(ctx context.Context, mail []byte) (FeedbackAnswer, error) {
	var answer FeedbackAnswer
	err := c.call(ctx, http.MethodPost, "/v1/feedback/mail", map[string]any{"mail": mail}, &answer)
	return answer, err
}

// AllowAddress lets messages go to an address again that was stopped.
func (c *Client) AllowAddress(ctx context.Context, address string) (Allowed, error) {
	var answer Allowed
	err := c.call(ctx, http.MethodPost, "/v1/feedback/allow", map[string]any{"address": address}, &answer)
	return answer, err
}
