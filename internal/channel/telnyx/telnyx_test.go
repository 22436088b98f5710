package telnyx_test

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/telnyx"
	"github.com/carillonhq/carillon/internal/channel/vendortest"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
)

const (
	apiKey  = "KEY0123456789"
	calling = "https://carillon.example.org/v1/inbound/sms:backup"
)

var now = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

func provider(t testing.TB) channel.Provider {
	t.Helper()
	client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}, Timeout: time.Minute})
	t.Cleanup(client.Close)
	return telnyx.Provider(client)
}

// open opens a channel; the settings replace those of every test.
func open(t testing.TB, settings map[string]string) *telnyx.Channel {
	t.Helper()
	all := map[string]string{"api_key": apiKey, "from": vendortest.Number, "public_key": vendortest.PublicKey(), "callback_url": calling, "url": "http://127.0.0.1:9"}
	for name, value := range settings {
		all[name] = value
	}
	ch, err := provider(t).Open(all)
	if err != nil {
		t.Fatal(err)
	}
	return ch.(*telnyx.Channel)
}

func outgoing(to string) channel.Outgoing {
	return channel.Outgoing{DeliveryID: "d_1", Channel: "sms:backup", IdempotencyKey: "key-1", Address: to, Text: "Do you have a fever? é 🙏", Step: 2, Attempt: 3}
}

// Shows: C42.
func TestSend(t *testing.T) {
	t.Parallel()
	v := vendortest.NewTelnyx(t, apiKey)
	for name, settings := range map[string]map[string]string{
		"a number": {"from": vendortest.Number},
		"a name":   {"from": "CLINIC", "messaging_profile_id": "40017d0b"},
	} {
		settings["url"] = v.URL
		receipt, err := open(t, settings).Send(t.Context(), outgoing("+254700000001"))
		sent := v.Messages()
		if err != nil || len(sent) == 0 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := sent[len(sent)-1]
		key := got.Header.Get("Idempotency-Key")
		if receipt.ProviderID != got.ID || got.To != "+254700000001" || got.From != settings["from"] || got.Text != "Do you have a fever? é 🙏" || got.Callback != calling || key != "key-1" ||
			gocmp.Diff([]string{"d_1", "step:2"}, got.Tags) != "" {
			t.Errorf("%s: %+v, receipt %+v", name, got, receipt)
		}
	}
}

// What a refusal means, and that no error has a secret, the address or the text.
func TestRefusals(t *testing.T) {
	t.Parallel()
	v := vendortest.NewTelnyx(t, apiKey)
	for name, row := range map[string]struct {
		answer vendortest.Answer
		key    string
		to     string
		want   channel.SendError
	}{
		"an invalid number":         {to: "0700", want: channel.SendError{Reason: reason.PermanentError}},
		"somebody who replied STOP": {answer: vendortest.Answer{Status: 422, Code: 40300}, want: channel.SendError{Reason: reason.PermanentError}},
		"too many":                  {answer: vendortest.Answer{Status: 429, Code: 10011, After: "7"}, want: channel.SendError{Reason: reason.TemporaryError, Retry: true, RetryAfter: 7 * time.Second}},
		"Telnyx is out of order":    {answer: vendortest.Answer{Status: 500}, want: channel.SendError{Reason: reason.TemporaryError, Retry: true, Away: true}},
		"a key that is refused":     {key: "another", want: channel.SendError{Reason: reason.TemporaryError, Retry: true, Away: true}},
		"no answer":                 {answer: vendortest.Answer{Lose: true}, want: channel.SendError{Reason: reason.ReplyLost, Retry: true, Unknown: true, Away: true}},
	} {
		if row.answer != (vendortest.Answer{}) {
			v.Next(row.answer)
		}
		_, err := open(t, map[string]string{"url": v.URL, "api_key": cmp.Or(row.key, apiKey)}).Send(t.Context(), outgoing(cmp.Or(row.to, "+254700000001")))
		var got *channel.SendError
		if !errors.As(err, &got) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := got.Error()
		if got.Err = nil; *got != row.want {
			t.Errorf("%s: %+v, want %+v", name, *got, row.want)
		}
		for _, secret := range []string{cmp.Or(row.key, apiKey), "+254700000001", "fever"} {
			if strings.Contains(said, secret) {
				t.Errorf("%s: the error has %q: %s", name, secret, said)
			}
		}
	}
}

func called(c vendortest.Called) channel.Callback {
	return channel.Callback{Header: c.Header, Body: []byte(c.Body), At: now}
}

// A webhook that is not signed by the account, for this body, and lately, is none.
func TestSignatures(t *testing.T) {
	t.Parallel()
	v := &vendortest.Vendor{}
	ch := open(t, nil)
	for name, row := range map[string]struct {
		at     time.Time
		change func(*channel.Callback)
		signed bool
	}{
		"now":                   {now, nil, true},
		"four minutes ago":      {now.Add(-4 * time.Minute), nil, true},
		"old":                   {now.Add(-6 * time.Minute), nil, false},
		"of the future":         {now.Add(6 * time.Minute), nil, false},
		"with another time":     {now, func(c *channel.Callback) { c.Header.Set("Telnyx-Timestamp", "1778752801") }, false},
		"with no time":          {now, func(c *channel.Callback) { c.Header.Del("Telnyx-Timestamp") }, false},
		"of another body":       {now, func(c *channel.Callback) { c.Body = append(c.Body, ' ') }, false},
		"without a signature":   {now, func(c *channel.Callback) { c.Header = http.Header{"Telnyx-Timestamp": c.Header["Telnyx-Timestamp"]} }, false},
		"with a short one":      {now, func(c *channel.Callback) { c.Header.Set("Telnyx-Signature-Ed25519", "AAAA") }, false},
		"with one of no base64": {now, func(c *channel.Callback) { c.Header.Set("Telnyx-Signature-Ed25519", "%") }, false},
	} {
		in := called(v.Received(calling, "m-1", "+254700000001", "yes", row.at))
		if row.change != nil {
			row.change(&in)
		}
		if _, err := ch.Inbound(in); errors.Is(err, channel.ErrNotSigned) == row.signed || row.signed && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := open(t, map[string]string{"public_key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="})
	var refused *channel.NotSignedError
	if _, err := other.Inbound(called(v.Received(calling, "m-1", "+254700000001", "yes", now))); !errors.As(err, &refused) || !errors.Is(err, channel.ErrNotSigned) || !strings.Contains(refused.Hint, "public_key") {
		t.Errorf("of another account: %v", err)
	}
	if _, err := open(t, map[string]string{"public_key": ""}).Inbound(called(v.Received(calling, "m-1", "+254700000001", "yes", now))); !errors.Is(err, channel.ErrNoInbound) {
		t.Errorf("a channel without webhooks: %v", err)
	}
}

// What Telnyx's webhooks mean.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	v := &vendortest.Vendor{}
	ch := open(t, nil)
	s := vendortest.Sent{ID: "tx-1", To: "+254700000001", From: vendortest.Number, Tags: []string{"d_1", "step:2"}}
	report := func(s feedback.Status, soft bool, detail, word string) channel.Inbound {
		return channel.Inbound{ID: "ev-tx-1" + word, Reports: []feedback.Report{{Status: s, Soft: soft, Address: "+254700000001", Delivery: "d_1", Step: 2, Message: "tx-1", Detail: detail}}}
	}
	unasked := s
	unasked.Tags = []string{"spring", "step:x"}
	for name, row := range map[string]struct {
		in   vendortest.Called
		want channel.Inbound
	}{
		"sent":             {v.Finalized(s, "sent", "", 1, now), report(feedback.Accepted, false, "", "sent")},
		"delivered":        {v.Finalized(s, "delivered", "", 2, now), report(feedback.Delivered, false, "", "delivered")},
		"unconfirmed":      {v.Finalized(s, "delivery_unconfirmed", "", 1, now), report(feedback.Accepted, false, "", "delivery_unconfirmed")},
		"failed":           {v.Finalized(s, "delivery_failed", "40008", 1, now), report(feedback.Bounced, true, "40008 it went wrong", "delivery_failed")},
		"a landline":       {v.Finalized(s, "delivery_failed", "40001", 1, now), report(feedback.Bounced, false, "40001 it went wrong", "delivery_failed")},
		"expired":          {v.Finalized(s, "expired", "40005", 1, now), report(feedback.Bounced, true, "40005 it went wrong", "expired")},
		"a status to come": {v.Finalized(s, "teleported", "", 1, now), channel.Inbound{ID: "ev-tx-1teleported"}},
		"tags of others":   {v.Finalized(unasked, "delivered", "", 1, now), channel.Inbound{ID: "ev-tx-1delivered", Reports: []feedback.Report{{Status: feedback.Delivered, Address: "+254700000001", Message: "tx-1"}}}},
		"a reply":          {v.Received(calling, "m-2", "+254700000001", " نعم 🙏\x00", now), channel.Inbound{ID: "ev-m-2", Replies: []channel.Reply{{ID: "m-2", From: "+254700000001", Text: " نعم 🙏\x00", At: now}}}},
		"of another kind":  {vendortest.Webhook(calling, now, map[string]any{"data": map[string]any{"event_type": "call.initiated", "id": "ev-9", "payload": map[string]any{}}}), channel.Inbound{ID: "ev-9"}},
	} {
		got, err := ch.Inbound(called(row.in))
		if diff := gocmp.Diff(row.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	for name, body := range map[string]any{
		"no object": []int{1},
		"no sender": map[string]any{"data": map[string]any{"event_type": "message.received", "payload": map[string]any{"id": "m-1"}}},
		"no id":     map[string]any{"data": map[string]any{"event_type": "message.received", "payload": map[string]any{"from": map[string]any{"phone_number": "+1"}}}},
	} {
		var wrong *channel.CallbackError
		if _, err := ch.Inbound(called(vendortest.Webhook(calling, now, body))); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Settings that cannot be right are refused when definitions are checked, without their value.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := provider(t)
	for name, settings := range map[string]map[string]string{
		"from":         {"from": "a sender of more than eleven"},
		"public_key":   {"public_key": "c2hvcnQ="},
		"callback_url": {"callback_url": "carillon.example.org"},
		"url":          {"url": "ftp://api.example.org"},
	} {
		var wrong *channel.SettingError
		if err := p.Check(settings); !errors.As(err, &wrong) || wrong.Setting != name || strings.Contains(err.Error(), settings[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Check(map[string]string{"from": "12345", "public_key": vendortest.PublicKey(), "callback_url": calling + "?workspace=two"}); err != nil {
		t.Error(err)
	}
}
