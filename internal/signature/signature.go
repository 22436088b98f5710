// Package signature signs outgoing requests, and checks incoming ones, as Standard Webhooks (https://www.standardwebhooks.com) lays down, with HMAC-SHA256 under a
// secret that both sides hold.
//
//	webhook-id         the id of the message: the same in every try
//	webhook-timestamp  seconds of the Unix epoch, of this try
//	webhook-signature  v1,BASE64 over "id.timestamp.body", one for each secret, parted by blanks
//
// While secrets are exchanged a request is signed with the new one and the old one, so that receivers may hold either.
package signature

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	secretPrefix = "whsec_"
	// The standard asks for 24 to 64 bytes.
	minSecret, maxSecret = 24, 64
)

// Key signs with one secret.
type Key struct {
	text string // in base64, without the prefix
	hook *standardwebhooks.Webhook
}

// Parse reads a secret: whsec_ and 24 to 64 bytes in base64. Its error never repeats it.
func Parse(secret string) (Key, error) {
	const form = "must be whsec_ and 24 to 64 bytes in base64"
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return Key{}, errors.New(form)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) < minSecret || len(raw) > maxSecret {
		return Key{}, errors.New(form)
	}
	hook, err := standardwebhooks.NewWebhookRaw(raw)
	return Key{text, hook}, err
}

// Hidden returns the secret as it is written without its prefix, for the list of what no error may repeat.
func (k Key) Hidden() string { return k.text }

// Sign returns the headers of a request, with a signature of each key. An id with a full stop, which parts what is signed, or with anything
// that is no plain character of a header, is refused.
func Sign(keys []Key, id string, at time.Time, body []byte) (http.Header, error) {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '.' }) {
		return nil, errors.New("the id of the message cannot stand in webhook-id")
	}
	signatures := make([]string, len(keys))
	for i, k := range keys {
		var err error
		if signatures[i], err = k.hook.Sign(id, at, body); err != nil {
			return nil, err
		}
	}
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return header, nil
}

// MaxAge is how far the timestamp of a request may be from when it comes.
const MaxAge = 5 * time.Minute

// Verify returns the id of a request that is signed with one of the keys, near the instant at which it came. It compares signatures in constant time.
func Verify(keys []Key, header http.Header, body []byte, at time.Time) (id string, err error) {
	seconds, err := strconv.ParseInt(header.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return "", errors.New("webhook-timestamp is missing, or is no number of seconds")
	}
	if age := at.Sub(time.Unix(seconds, 0)); age > MaxAge || age < -MaxAge {
		return "", errors.New("webhook-timestamp is more than five minutes away")
	}
	if id = header.Get(standardwebhooks.HeaderWebhookID); id == "" {
		return "", errors.New("webhook-id is missing")
	}
	for _, k := range keys {
		if err = k.hook.VerifyIgnoringTimestamp(body, header); err == nil {
			return id, nil
		}
	}
	return "", errors.New("webhook-signature is missing, or is of another secret or another body")
}

// Of returns the signatures in the headers of a request, for the list of what no error may repeat.
func Of(header http.Header) []string {
	return strings.Fields(header.Get(standardwebhooks.HeaderWebhookSignature))
}
