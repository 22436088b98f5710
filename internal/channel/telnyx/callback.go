package telnyx

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/endpoint"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/signature"
)

// The headers of a webhook.
const (
	headerSignature = "Telnyx-Signature-Ed25519"
	headerTimestamp = "Telnyx-Timestamp"
)

// signedBy says how Telnyx signs.
const signedBy = "Telnyx signs with the key of the account, and a webhook is taken for five minutes: public_key of the channel has to be the public part of that key"

// Inbound checks that a webhook is Telnyx's, and reads it.
func (c *Channel) Inbound(in channel.Callback) (channel.Inbound, error) {
	if len(c.public) == 0 {
		return channel.Inbound{}, channel.ErrNoInbound
	}
	if err := c.verify(in); err != nil {
		return channel.Inbound{}, &channel.NotSignedError{Err: err, Hint: signedBy}
	}
	return read(in.Body)
}

// verify checks the signature, of the timestamp and the body, and how old it is.
func (c *Channel) verify(in channel.Callback) error {
	stamp := in.Header.Get(headerTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New(headerTimestamp + " is missing, or is no number of seconds")
	}
	if age := in.At.Sub(time.Unix(seconds, 0)); age > signature.MaxAge || age < -signature.MaxAge {
		return errors.New(headerTimestamp + " is more than five minutes away")
	}
	signed, err := base64.StdEncoding.DecodeString(in.Header.Get(headerSignature))
	if err != nil || !ed25519.Verify(c.public, slices.Concat([]byte(stamp+"|"), in.Body), signed) {
		return errors.New(headerSignature + " is missing, or is of another key or another body")
	}
	return nil
}

// webhook is the body of a webhook.
type webhook struct {
	Data struct {
		Type    string  `json:"event_type"`
		ID      string  `json:"id"`
		Payload payload `json:"payload"`
	} `json:"data"`
}

type payload struct {
	ID         string    `json:"id"`
	Direction  string    `json:"direction"`
	From       party     `json:"from"`
	To         []party   `json:"to"`
	Text       string    `json:"text"`
	ReceivedAt time.Time `json:"received_at"`
	Tags       []string  `json:"tags"`
	Errors     []failure `json:"errors"`
}

type party struct {
	Number string `json:"phone_number"`
	Status string `json:"status"`
}

type failure struct {
	Code  string `json:"code"`
	Title string `json:"title"`
}

// statuses are what Telnyx's statuses of outgoing messages mean. Others say nothing that is not known.
var statuses = map[string]feedback.Status{ //nolint:gochecknoglobals // never changes
	"queued": feedback.Accepted, "sending": feedback.Accepted, "sent": feedback.Accepted, "delivery_unconfirmed": feedback.Accepted,
	"delivered": feedback.Delivered, "read": feedback.Read,
	"sending_failed": feedback.Bounced, "delivery_failed": feedback.Bounced, "expired": feedback.Bounced,
}

// dead are the codes that say of a number that it takes no messages. The causes of all others may pass.
var dead = map[string]bool{ //nolint:gochecknoglobals // never changes
	"40001": true, // a landline, or a number that cannot be routed to
	"40310": true, // no valid number
}

// read reads a webhook that is Telnyx's. One of another kind says nothing.
func read(body []byte) (in channel.Inbound, err error) {
	var w webhook
	if err := json.Unmarshal(body, &w); err != nil {
		return in, &channel.CallbackError{Field: "body", Err: errors.New("is no webhook of a message")}
	}
	p := w.Data.Payload
	in.ID = endpoint.Plain(w.Data.ID)
	switch id := endpoint.Plain(p.ID); {
	case w.Data.Type == "message.received":
		from := endpoint.Address(p.From.Number)
		if id == "" || from == "" {
			return in, &channel.CallbackError{Field: "data.payload", Err: errors.New("lacks the id of the message, or who it is from")}
		}
		in.Replies = []channel.Reply{{ID: id, From: from, Text: p.Text, At: p.ReceivedAt}}
	case (w.Data.Type == "message.sent" || w.Data.Type == "message.finalized") && len(p.To) > 0:
		status, known := statuses[p.To[0].Status]
		of, step := p.delivery()
		to := endpoint.Address(p.To[0].Number)
		if !known || of == "" && to == "" {
			break
		}
		code, detail := "", ""
		if len(p.Errors) > 0 {
			code, detail = p.Errors[0].Code, p.Errors[0].Code+" "+p.Errors[0].Title
		}
		in.Reports = []feedback.Report{{
			Status: status, Soft: status == feedback.Bounced && !dead[code], Address: to, Delivery: of, Step: step, Message: id, Detail: feedback.Line(detail),
		}}
	}
	return in, nil
}

// delivery reads of which delivery and step a message is, from its tags; empty and 0: it is not known.
func (p payload) delivery() (of string, step int) {
	for i := 0; i+1 < len(p.Tags); i++ {
		text, ok := strings.CutPrefix(p.Tags[i+1], tagStep)
		if n, err := strconv.Atoi(text); ok && err == nil && n > 0 {
			return p.Tags[i], n
		}
	}
	return "", 0
}
