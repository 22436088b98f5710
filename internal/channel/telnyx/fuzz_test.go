package telnyx_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/vendortest"
	"github.com/carillonhq/carillon/internal/feedback"
)

// FuzzWebhook: whatever comes signed is read, or refused with the field, and nothing is read that no database keeps or that says of nobody.
func FuzzWebhook(f *testing.F) {
	for _, body := range []string{
		`{"data":{"event_type":"message.received","id":"ev","payload":{"id":"m","from":{"phone_number":"+254700000001"},"text":"yes","received_at":"2026-05-14T10:00:00.000+00:00"}}}`,
		`{"data":{"event_type":"message.finalized","id":"ev","payload":{"id":"m","to":[{"phone_number":"+1","status":"delivery_failed"}],"tags":["d_1","step:2"],"errors":[{"code":"40001","title":"a\nb"}]}}}`,
		`{"data":{"event_type":"message.sent","payload":{"to":[{"phone_number":"","status":"sent"}],"tags":["step:1","step:-1"]}}}`,
	} {
		f.Add(body)
	}
	ch := open(f, nil)
	f.Fuzz(func(t *testing.T, body string) {
		if !json.Valid([]byte(body)) {
			return
		}
		in, err := ch.Inbound(called(vendortest.Webhook(calling, now, json.RawMessage(body))))
		var wrong *channel.CallbackError
		if err != nil && (!errors.As(err, &wrong) || wrong.Field == "") {
			t.Error(err)
		}
		for _, r := range in.Reports {
			if r.Status == "" || r.Address == "" && r.Delivery == "" || r.Step < 0 || r.Soft && r.Status != feedback.Bounced ||
				strings.ContainsAny(r.Address+r.Message+r.Detail, "\x00\n") {
				t.Errorf("%+v", r)
			}
		}
		for _, r := range in.Replies {
			if r.ID == "" || r.From == "" || strings.ContainsRune(r.ID+r.From, 0) {
				t.Errorf("%+v", r)
			}
		}
	})
}
