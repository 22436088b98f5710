package twilio

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio signs with it
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/endpoint"
	"github.com/carillonhq/carillon/internal/feedback"
)

// headerSignature has the signature of a callback.
const headerSignature = "X-Twilio-Signature"

// signedBy says how Twilio signs.
const signedBy = "Twilio signs with the account's auth_token over the address that it was given: callback_url of the channel has to be that address, and auth_token that of the account"

// Inbound checks that a callback is Twilio's, and reads it.
func (c *Channel) Inbound(in channel.Callback) (channel.Inbound, error) {
	if c.callback == "" {
		return channel.Inbound{}, channel.ErrNoInbound
	}
	form, err := url.ParseQuery(string(in.Body))
	if err != nil {
		return channel.Inbound{}, &channel.NotSignedError{Err: errors.New("the body is no form"), Hint: signedBy}
	}
	if err := c.verify(in, form); err != nil {
		return channel.Inbound{}, &channel.NotSignedError{Err: err, Hint: signedBy}
	}
	query, err := url.ParseQuery(in.Query)
	if err != nil {
		return channel.Inbound{}, &channel.CallbackError{Field: "query", Err: errors.New("cannot be read")}
	}
	return read(form, query)
}

// verify checks the signature: of the address that Twilio called, and of the parameters in the order of their names. A proxy in front may change the scheme,
// the host and the path of what comes here, so these are those of the setting. Twilio writes the port or leaves it out.
func (c *Channel) verify(in channel.Callback, form url.Values) error {
	signature, err := base64.StdEncoding.DecodeString(in.Header.Get(headerSignature))
	if err != nil || len(signature) == 0 {
		return errors.New(headerSignature + " is missing, or is no base64")
	}
	called, err := url.Parse(c.callback)
	if err != nil {
		return errors.New("the setting " + settingCallback + " cannot be read")
	}
	called.RawQuery = in.Query
	var fields strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := slices.Compact(slices.Sorted(slices.Values(form[name])))
		for _, value := range values {
			fields.WriteString(name + value)
		}
	}
	for _, host := range ports(called) {
		called.Host = host
		for _, token := range c.tokens {
			mac := hmac.New(sha1.New, []byte(token))
			mac.Write([]byte(called.String() + fields.String()))
			if hmac.Equal(mac.Sum(nil), signature) {
				return nil
			}
		}
	}
	return errors.New(headerSignature + " is of another token, another address or another body")
}

// ports are the ways to write the host of an address, with its port and without.
func ports(u *url.URL) []string {
	host, _, _ := strings.Cut(u.Host, ":")
	if strings.HasPrefix(u.Host, "[") || u.Hostname() == "" {
		return []string{u.Host}
	}
	port := map[string]string{"https": "443", "http": "80"}[u.Scheme]
	if own := u.Port(); own != "" {
		port = own
	}
	return []string{u.Host, host, host + ":" + port}
}

// statuses are what Twilio's statuses of outgoing messages mean. Others say nothing that is not known.
var statuses = map[string]feedback.Status{ //nolint:gochecknoglobals // never changes
	"accepted": feedback.Accepted, "scheduled": feedback.Accepted, "queued": feedback.Accepted, "sending": feedback.Accepted, "sent": feedback.Accepted,
	"delivered": feedback.Delivered, "partially_delivered": feedback.Delivered, "read": feedback.Read,
	"undelivered": feedback.Bounced, "failed": feedback.Bounced, "canceled": feedback.Bounced,
}

// dead are the codes that say of a number that it takes no messages. The causes of all others may pass, such as a telephone that is switched off.
var dead = map[string]bool{ //nolint:gochecknoglobals // never changes
	"21211": true, // no valid number
	"21614": true, // no mobile number
	"21635": true, // a landline
	"30005": true, // nobody has the number
	"30006": true, // a landline, or a carrier that takes no messages
	"63003": true, // not on WhatsApp
	"63024": true, // no valid recipient
}

// read reads a callback that is Twilio's: of an outgoing message, or of one that came in.
func read(form, query url.Values) (in channel.Inbound, err error) {
	id := endpoint.Plain(form.Get("MessageSid"))
	if id == "" {
		return in, &channel.CallbackError{Field: "MessageSid", Err: errors.New("is missing: Twilio's id of the message")}
	}
	word := form.Get("MessageStatus")
	if word == "" && form.Has("Body") || word == "received" {
		from := address(form.Get("From"))
		if from == "" {
			return in, &channel.CallbackError{Field: "From", Err: errors.New("is missing, or is no address")}
		}
		in.Replies = []channel.Reply{{ID: id, From: from, Text: form.Get("Body")}}
		return in, nil
	}
	status, known := statuses[word]
	to := address(form.Get("To"))
	if !known || to == "" && !query.Has(paramDelivery) {
		return in, nil
	}
	step, _ := strconv.Atoi(query.Get(paramStep)) // another address was given to Twilio: not known
	code := form.Get("ErrorCode")
	in.Reports = []feedback.Report{{
		Status: status, Soft: status == feedback.Bounced && !dead[code], Address: to, Delivery: query.Get(paramDelivery), Step: max(step, 0), Message: id,
		Detail: feedback.Line(strings.TrimSpace(code + " " + form.Get("ErrorMessage"))),
	}}
	return in, nil
}

// address is a number without the prefix that Twilio writes for WhatsApp; empty if it is none.
func address(text string) string { return endpoint.Address(strings.TrimPrefix(text, whatsApp+":")) }
