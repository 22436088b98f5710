package twilio_test

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/twilio"
	"github.com/carillonhq/carillon/internal/channel/vendortest"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
)

const (
	token   = "12345678901234567890123456789012"
	calling = "https://carillon.example.org/v1/inbound/sms:main"
)

func provider(t testing.TB) channel.Provider {
	t.Helper()
	client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}, Timeout: time.Minute})
	t.Cleanup(client.Close)
	return twilio.Provider(client)
}

// open opens a channel; the settings replace those of every test.
func open(t testing.TB, settings map[string]string) *twilio.Channel {
	t.Helper()
	all := map[string]string{"account_sid": vendortest.Account, "auth_token": token, "from": vendortest.Number, "callback_url": calling, "url": "http://127.0.0.1:9"}
	for name, value := range settings {
		all[name] = value
	}
	ch, err := provider(t).Open(all)
	if err != nil {
		t.Fatal(err)
	}
	return ch.(*twilio.Channel)
}

func outgoing(kind, to string) channel.Outgoing {
	return channel.Outgoing{DeliveryID: "d_1", Channel: kind + ":main", IdempotencyKey: "key-1", Address: to, Text: "Do you have a fever? é 🙏 & more", Step: 2, Attempt: 3}
}

// Shows: C42.
func TestSend(t *testing.T) {
	t.Parallel()
	v := vendortest.NewTwilio(t, token)
	for name, row := range map[string]struct {
		from, kind string
		want       vendortest.Sent
	}{
		"a text message":       {vendortest.Number, "sms", vendortest.Sent{To: "+254700000001", From: vendortest.Number}},
		"of a name":            {"CLINIC", "sms", vendortest.Sent{To: "+254700000001", From: "CLINIC"}},
		"of a service":         {vendortest.Service, "sms", vendortest.Sent{To: "+254700000001", From: vendortest.Service}},
		"WhatsApp":             {vendortest.Number, "whatsapp", vendortest.Sent{To: "whatsapp:+254700000001", From: "whatsapp:" + vendortest.Number}},
		"WhatsApp of services": {vendortest.Service, "whatsapp", vendortest.Sent{To: "whatsapp:+254700000001", From: vendortest.Service}},
	} {
		receipt, err := open(t, map[string]string{"url": v.URL, "from": row.from}).Send(t.Context(), outgoing(row.kind, "+254700000001"))
		sent := v.Messages()
		if err != nil || len(sent) == 0 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := sent[len(sent)-1]
		if receipt.ProviderID != got.ID || got.To != row.want.To || got.From != row.want.From || got.Text != "Do you have a fever? é 🙏 & more" || got.Callback != calling+"?delivery=d_1&step=2" {
			t.Errorf("%s: %+v, receipt %+v", name, got, receipt)
		}
	}
	template := outgoing("whatsapp", "+254700000001")
	template.Metadata = map[string]string{"content_sid": "HX1", "content_variables": `{"1": "Ann"}`, "ward": "3"}
	if _, err := open(t, map[string]string{"url": v.URL}).Send(t.Context(), template); err != nil || v.Messages()[5].Text != `HX1{"1": "Ann"}` {
		t.Errorf("a template: %v, %+v", err, v.Messages())
	}
	if template.Turn = 1; !sends(t, open(t, map[string]string{"url": v.URL}), template) || v.Messages()[6].Text != template.Text {
		t.Errorf("the next message of a conversation: %+v", v.Messages())
	}
	if _, err := open(t, map[string]string{"url": v.URL, "callback_url": ""}).Send(t.Context(), outgoing("sms", "+254700000001")); err != nil || v.Messages()[7].Callback != "" {
		t.Errorf("without callbacks: %v, %+v", err, v.Messages()[7])
	}
	if _, err := open(t, map[string]string{"url": v.URL, "callback_url": calling + "?workspace=two"}).Send(t.Context(), outgoing("sms", "+254700000001")); err != nil || v.Messages()[8].Callback != calling+"?workspace=two&delivery=d_1&step=2" {
		t.Errorf("of a workspace: %v, %+v", err, v.Messages()[8])
	}
}

func sends(t *testing.T, ch channel.Channel, out channel.Outgoing) bool {
	t.Helper()
	_, err := ch.Send(t.Context(), out)
	return err == nil
}

// What a refusal means, and that no error has a secret, the address or the text.
func TestRefusals(t *testing.T) {
	t.Parallel()
	v := vendortest.NewTwilio(t, token)
	ch := open(t, map[string]string{"url": v.URL})
	for name, row := range map[string]struct {
		answer vendortest.Answer
		token  string
		to     string
		want   channel.SendError
	}{
		"an invalid number":            {to: "0700", want: channel.SendError{Reason: reason.PermanentError}},
		"somebody who replied STOP":    {answer: vendortest.Answer{Status: 400, Code: 21610}, want: channel.SendError{Reason: reason.PermanentError}},
		"too many":                     {answer: vendortest.Answer{Status: 429, Code: 20429, After: "7"}, want: channel.SendError{Reason: reason.TemporaryError, Retry: true, RetryAfter: 7 * time.Second}},
		"a full queue":                 {answer: vendortest.Answer{Status: 400, Code: 21611}, want: channel.SendError{Reason: reason.TemporaryError, Retry: true}},
		"Twilio is out of order":       {answer: vendortest.Answer{Status: 503}, want: channel.SendError{Reason: reason.TemporaryError, Retry: true, Away: true}},
		"a token that is refused":      {token: "another", want: channel.SendError{Reason: reason.TemporaryError, Retry: true, Away: true}},
		"an account that is suspended": {answer: vendortest.Answer{Status: 403, Code: 20005}, want: channel.SendError{Reason: reason.TemporaryError, Retry: true, Away: true}},
		"no answer":                    {answer: vendortest.Answer{Lose: true}, want: channel.SendError{Reason: reason.ReplyLost, Retry: true, Unknown: true, Away: true}},
	} {
		if row.answer != (vendortest.Answer{}) {
			v.Next(row.answer)
		}
		by := ch
		if row.token != "" {
			by = open(t, map[string]string{"url": v.URL, "auth_token": row.token})
		}
		_, err := by.Send(t.Context(), outgoing("sms", cmp.Or(row.to, "+254700000001")))
		var got *channel.SendError
		if !errors.As(err, &got) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := got.Error()
		if got.Err = nil; *got != row.want {
			t.Errorf("%s: %+v, want %+v", name, *got, row.want)
		}
		for _, secret := range []string{token, "another", vendortest.Account, "+254700000001", "fever"} {
			if strings.Contains(said, secret) {
				t.Errorf("%s: the error has %q: %s", name, secret, said)
			}
		}
	}
}

func called(c vendortest.Called) channel.Callback {
	_, query, _ := strings.Cut(c.URL, "?")
	return channel.Callback{Header: c.Header, Query: query, Body: []byte(c.Body)}
}

// The example of Twilio's documentation has the signature that stands there.
func TestSignatureAsDocumented(t *testing.T) {
	t.Parallel()
	form := url.Values{"CallSid": {"CA1234567890ABCDE"}, "Caller": {"+12349013030"}, "Digits": {"1234"}, "From": {"+12349013030"}, "To": {"+18005551212"}}
	header := http.Header{"X-Twilio-Signature": {"0/KCTR6DLpKmkAf8muzZqo1nDgQ="}}
	ch := open(t, map[string]string{"auth_token": "12345", "callback_url": "https://mycompany.com/myapp.php"})
	in := channel.Callback{Header: header, Query: "foo=1&bar=2", Body: []byte(form.Encode())}
	var wrong *channel.CallbackError
	if _, err := ch.Inbound(in); !errors.As(err, &wrong) { // it is signed, and no message
		t.Errorf("%v", err)
	}
	in.Query = "foo=1&bar=3"
	var refused *channel.NotSignedError
	if _, err := ch.Inbound(in); !errors.As(err, &refused) || !errors.Is(err, channel.ErrNotSigned) || !strings.Contains(refused.Hint, "callback_url") {
		t.Errorf("of another address: %v", err)
	}
}

// A callback that is not signed by the account, for this channel and this body, is none.
func TestSignatures(t *testing.T) {
	t.Parallel()
	form := func() url.Values {
		return url.Values{"MessageSid": {"SM1"}, "From": {"+254700000001"}, "Body": {"yes"}}
	}
	ch := open(t, map[string]string{"old_auth_token": "the one before"})
	for name, row := range map[string]struct {
		with, to string
		change   func(*channel.Callback)
		signed   bool
	}{
		"the token":                {token, calling, nil, true},
		"the token before":         {"the one before", calling, nil, true},
		"with a port":              {token, "https://carillon.example.org:443/v1/inbound/sms:main", nil, true},
		"with a query":             {token, calling + "?workspace=two", nil, true},
		"another token":            {"another", calling, nil, false},
		"no token":                 {"", calling, nil, false},
		"of another channel":       {token, "https://carillon.example.org/v1/inbound/sms:two", nil, false},
		"of another host":          {token, "https://other.example.org/v1/inbound/sms:main", nil, false},
		"of another query":         {token, calling + "?delivery=d_1", func(c *channel.Callback) { c.Query = "delivery=d_2" }, false},
		"of another body":          {token, calling, func(c *channel.Callback) { c.Body = []byte(strings.Replace(string(c.Body), "yes", "no", 1)) }, false},
		"with a further field":     {token, calling, func(c *channel.Callback) { c.Body = append(c.Body, "&Body=no"...) }, false},
		"without a signature":      {token, calling, func(c *channel.Callback) { c.Header = http.Header{} }, false},
		"with no base64":           {token, calling, func(c *channel.Callback) { c.Header.Set("X-Twilio-Signature", "%%") }, false},
		"with a body that is none": {token, calling, func(c *channel.Callback) { c.Body = []byte("%zz") }, false},
	} {
		in := called(vendortest.Signed(row.with, row.to, form()))
		if row.change != nil {
			row.change(&in)
		}
		if _, err := ch.Inbound(in); errors.Is(err, channel.ErrNotSigned) == row.signed || row.signed && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := open(t, map[string]string{"callback_url": ""}).Inbound(called(vendortest.Signed(token, calling, form()))); !errors.Is(err, channel.ErrNoInbound) {
		t.Errorf("a channel without callbacks: %v", err)
	}
}

// What Twilio's callbacks mean. A message that failed is bounced; its number takes no further ones only where Twilio's code says so.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	v := &vendortest.Vendor{Secret: token}
	ch := open(t, nil)
	sms := vendortest.Sent{ID: "SM1", To: "+254700000001", Callback: calling + "?delivery=d_1&step=2"}
	report := func(s feedback.Status, soft bool, detail string) channel.Inbound {
		return channel.Inbound{Reports: []feedback.Report{{Status: s, Soft: soft, Address: "+254700000001", Delivery: "d_1", Step: 2, Message: "SM1", Detail: detail}}}
	}
	whatsApp := sms
	whatsApp.To = "whatsapp:+254700000001"
	unasked := sms
	unasked.Callback = calling
	for name, row := range map[string]struct {
		in   vendortest.Called
		want channel.Inbound
	}{
		"sent":              {v.Status(sms, "sent", ""), report(feedback.Accepted, false, "")},
		"delivered":         {v.Status(sms, "delivered", ""), report(feedback.Delivered, false, "")},
		"read":              {v.Status(whatsApp, "read", ""), report(feedback.Read, false, "")},
		"switched off":      {v.Status(sms, "undelivered", "30003"), report(feedback.Bounced, true, "30003")},
		"filtered":          {v.Status(sms, "undelivered", "30007"), report(feedback.Bounced, true, "30007")},
		"no such number":    {v.Status(sms, "undelivered", "30005"), report(feedback.Bounced, false, "30005")},
		"a landline":        {v.Status(sms, "failed", "30006"), report(feedback.Bounced, false, "30006")},
		"not on WhatsApp":   {v.Status(whatsApp, "failed", "63003"), report(feedback.Bounced, false, "63003")},
		"failed":            {v.Status(sms, "failed", ""), report(feedback.Bounced, true, "")},
		"a status to come":  {v.Status(sms, "teleported", ""), channel.Inbound{}},
		"of another sender": {v.Status(unasked, "delivered", ""), channel.Inbound{Reports: []feedback.Report{{Status: feedback.Delivered, Address: "+254700000001", Message: "SM1"}}}},
		"a reply":           {v.Incoming(calling, "SM2", "+254700000001", " Yes 🙏\x00 "), channel.Inbound{Replies: []channel.Reply{{ID: "SM2", From: "+254700000001", Text: " Yes 🙏\x00 "}}}},
		"a WhatsApp reply":  {v.Incoming(calling, "SM3", "whatsapp:+254700000001", "نعم"), channel.Inbound{Replies: []channel.Reply{{ID: "SM3", From: "+254700000001", Text: "نعم"}}}},
		"a picture":         {v.Incoming(calling, "SM4", "+254700000001", ""), channel.Inbound{Replies: []channel.Reply{{ID: "SM4", From: "+254700000001"}}}},
	} {
		got, err := ch.Inbound(called(row.in))
		if diff := gocmp.Diff(row.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	for name, form := range map[string]url.Values{
		"MessageSid": {"From": {"+254700000001"}, "Body": {"x"}},
		"From":       {"MessageSid": {"SM1"}, "Body": {"x"}},
		"a long one": {"MessageSid": {strings.Repeat("S", 300)}, "From": {"+254700000001"}, "Body": {"x"}},
	} {
		var wrong *channel.CallbackError
		if _, err := ch.Inbound(called(vendortest.Signed(token, calling, form))); !errors.As(err, &wrong) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// Settings that cannot be right are refused when definitions are checked, without their value.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := provider(t)
	for name, settings := range map[string]map[string]string{
		"account_sid":  {"account_sid": "AC12"},
		"from":         {"from": "a sender of more than eleven"},
		"callback_url": {"callback_url": "carillon.example.org"},
		"url":          {"url": "ftp://api.example.org"},
	} {
		var wrong *channel.SettingError
		if err := p.Check(settings); !errors.As(err, &wrong) || wrong.Setting != name || strings.Contains(err.Error(), settings[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Check(map[string]string{"account_sid": vendortest.Account, "from": "12345", "callback_url": calling + "?workspace=two"}); err != nil {
		t.Error(err)
	}
}

// Whatever comes signed is read, or refused with the field.
func FuzzCallback(f *testing.F) {
	f.Add("MessageSid=SM1&From=%2B254700000001&Body=yes", "delivery=d_1&step=1")
	f.Add("MessageSid=SM1&MessageStatus=failed&ErrorCode=30005&To=whatsapp%3A%2B1", "step=-1")
	f.Add("%", ";")
	ch := open(f, nil)
	f.Fuzz(func(t *testing.T, body, query string) {
		form, err := url.ParseQuery(body)
		if err != nil {
			return
		}
		for name := range form {
			form[name] = form[name][:1]
		}
		if strings.ContainsAny(query, "#") {
			return
		}
		in, err := ch.Inbound(called(vendortest.Signed(token, calling+"?"+query, form)))
		var wrong *channel.CallbackError
		if err != nil && !errors.As(err, &wrong) && !errors.Is(err, channel.ErrNotSigned) {
			t.Error(err)
		}
		for _, r := range in.Reports {
			if r.Status == "" || r.Address == "" && r.Delivery == "" || r.Step < 0 || len(r.Message) > 200 || strings.ContainsAny(r.Address+r.Message+r.Detail, "\x00\n") {
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
