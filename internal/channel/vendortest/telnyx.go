package vendortest

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// signing is the key of webhooks, the same in every test.
var signing = ed25519.NewKeyFromSeed([]byte("0123456789abcdef0123456789abcdef")) //nolint:gochecknoglobals // never changes

// PublicKey is the key by which webhooks are known to be Telnyx's, as its console shows it.
func PublicKey() string {
	public, _ := signing.Public().(ed25519.PublicKey)
	return base64.StdEncoding.EncodeToString(public)
}

// NewTelnyx starts a server that takes messages as Telnyx's API v2 does.
func NewTelnyx(t testing.TB, key string) *Vendor {
	t.Helper()
	v := &Vendor{Secret: key}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		refuse := func(status, code int, title string) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]any{{"code": fmt.Sprint(code), "title": title, "detail": title + ": " + key}}})
		}
		var m struct {
			From, To, Text string
			WebhookURL     string   `json:"webhook_url"`
			Profile        string   `json:"messaging_profile_id"`
			Tags           []string `json:"tags"`
		}
		switch {
		case r.Method != http.MethodPost || r.URL.Path != "/v2/messages":
			refuse(http.StatusNotFound, 10005, "Resource not found")
			return
		case r.Header.Get("Authorization") != "Bearer "+key:
			refuse(http.StatusUnauthorized, 10009, "Authentication failed")
			return
		case json.NewDecoder(r.Body).Decode(&m) != nil || m.Text == "":
			refuse(http.StatusUnprocessableEntity, 10004, "Missing required parameter")
			return
		case !strings.HasPrefix(m.To, "+"):
			refuse(http.StatusUnprocessableEntity, 40310, "Invalid 'to' address")
			return
		case !strings.HasPrefix(m.From, "+") && m.Profile == "":
			refuse(http.StatusUnprocessableEntity, 40305, "Invalid 'from' address")
			return
		}
		id, answer := v.take(Sent{To: m.To, From: m.From, Text: m.Text, Callback: m.WebhookURL, Header: r.Header, Tags: m.Tags}, "tx-")
		switch {
		case answer.Status != 0:
			if answer.After != "" {
				w.Header().Set("Retry-After", answer.After)
			}
			refuse(answer.Status, answer.Code, "refused")
		case answer.Lose:
			panic(http.ErrAbortHandler)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{
				"record_type": "message", "id": id, "direction": "outbound", "tags": m.Tags, "to": []map[string]any{{"phone_number": m.To, "status": "queued"}},
			}})
		}
	}))
	t.Cleanup(v.Close)
	return v
}

// Finalized is Telnyx's webhook of a message that it has taken; try counts those of the same event.
func (v *Vendor) Finalized(s Sent, status, code string, try int, at time.Time) Called {
	errors := []map[string]any{}
	if code != "" {
		errors = append(errors, map[string]any{"code": code, "title": "it went wrong"})
	}
	kind := "message.finalized"
	if status == "sent" {
		kind = "message.sent"
	}
	return Webhook(s.Callback, at, map[string]any{
		"data": map[string]any{
			"record_type": "event", "id": "ev-" + s.ID + status, "event_type": kind, "occurred_at": at.UTC().Format(time.RFC3339Nano),
			"payload": map[string]any{
				"record_type": "message", "direction": "outbound", "id": s.ID, "type": "SMS", "from": map[string]any{"phone_number": s.From},
				"to": []map[string]any{{"phone_number": s.To, "status": status, "line_type": "Wireless"}}, "text": s.Text, "tags": s.Tags, "errors": errors,
				"received_at": at.UTC().Format(time.RFC3339Nano), "completed_at": nil,
			},
		},
		"meta": map[string]any{"attempt": try, "delivered_to": s.Callback},
	})
}

// Received is Telnyx's webhook of a message that somebody has written to a number.
func (v *Vendor) Received(to, id, from, text string, at time.Time) Called {
	return Webhook(to, at, map[string]any{
		"data": map[string]any{
			"record_type": "event", "id": "ev-" + id, "event_type": "message.received", "occurred_at": at.UTC().Format(time.RFC3339Nano),
			"payload": map[string]any{
				"record_type": "message", "direction": "inbound", "id": id, "type": "SMS", "from": map[string]any{"phone_number": from, "carrier": "c"},
				"to": []map[string]any{{"phone_number": Number, "status": "webhook_delivered"}}, "text": text, "received_at": at.UTC().Format("2006-01-02T15:04:05.000+00:00"),
			},
		},
		"meta": map[string]any{"attempt": 1, "delivered_to": to},
	})
}

// Webhook is a body that is signed as Telnyx does.
func Webhook(to string, at time.Time, body any) Called {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Telnyx-Timestamp", stamp)
	header.Set("Telnyx-Signature-Ed25519", base64.StdEncoding.EncodeToString(ed25519.Sign(signing, append([]byte(stamp+"|"), raw...))))
	return Called{URL: to, Header: header, Body: string(raw)}
}
