package callback_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/callback"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/signature"
)

var now = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

func secret(name string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 24))[:24])
}

// signed is a callback that is signed with a secret.
func signed(t testing.TB, with, body string) channel.Callback {
	t.Helper()
	k, err := signature.Parse(with)
	if err != nil {
		t.Fatal(err)
	}
	header, err := signature.Sign([]signature.Key{k}, "msg_1", now, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return channel.Callback{Header: header, Body: []byte(body), At: now}
}

func open(t testing.TB, settings map[string]string) callback.Receiver {
	t.Helper()
	in, err := callback.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// What a callback says is read whole, in its order; texts of people as they wrote them.
func TestRead(t *testing.T) {
	t.Parallel()
	in := open(t, map[string]string{callback.SettingSecret: secret("new"), callback.SettingOldSecret: secret("old")})
	const body = `{"feedback": [{"status": "bounced", "address": " ann@example.org ", "detail": "550"}, {"status": "delivered", "delivery": "d_1"}],
		"replies": [{"id": "m-1", "from": " +254700000001 ", "text": "\u0000 نعم\n🙏 ", "at": "2026-05-14T12:05:00+03:00"}, {"id": "m-2", "from": "bob"}]}`
	want := channel.Inbound{
		ID:      "msg_1",
		Reports: []feedback.Report{{Status: feedback.Bounced, Address: "ann@example.org", Detail: "550"}, {Status: feedback.Delivered, Delivery: "d_1"}},
		Replies: []channel.Reply{{ID: "m-1", From: "+254700000001", Text: "\x00 نعم\n🙏 ", At: time.Date(2026, 5, 14, 9, 5, 0, 0, time.UTC)}, {ID: "m-2", From: "bob"}},
	}
	for _, with := range []string{secret("new"), secret("old")} {
		got, err := in.Inbound(signed(t, with, body))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A callback is refused that is not signed with a secret of the channel, for just this body and this time.
func TestNotSigned(t *testing.T) {
	t.Parallel()
	const body = `{"replies": [{"id": "m-1", "from": "bob"}]}`
	if _, err := (callback.Receiver{}).Inbound(signed(t, secret("new"), body)); !errors.Is(err, channel.ErrNoInbound) {
		t.Errorf("without a secret: %v", err)
	}
	in := open(t, map[string]string{callback.SettingSecret: secret("new")})
	for name, change := range map[string]func(*channel.Callback){
		"another body": func(c *channel.Callback) { c.Body = append(c.Body, ' ') },
		"too late":     func(c *channel.Callback) { c.At = c.At.Add(6 * time.Minute) },
		"too early":    func(c *channel.Callback) { c.At = c.At.Add(-6 * time.Minute) },
		"no header":    func(c *channel.Callback) { c.Header = http.Header{} },
		"another id":   func(c *channel.Callback) { c.Header.Set("Webhook-Id", "msg_2") },
		"another time": func(c *channel.Callback) { c.Header.Set("Webhook-Timestamp", "1778752801") },
		"no time":      func(c *channel.Callback) { c.Header.Set("Webhook-Timestamp", "now") },
		"half a text":  func(c *channel.Callback) { c.Header.Set("Webhook-Signature", "v1,") },
		"another version": func(c *channel.Callback) {
			c.Header.Set("Webhook-Signature", strings.Replace(c.Header.Get("Webhook-Signature"), "v1,", "v2,", 1))
		},
	} {
		c := signed(t, secret("new"), body)
		if change(&c); c.Header.Get("Webhook-Id") == "" && name != "no header" {
			t.Fatal("the headers have other names")
		}
		if got, err := in.Inbound(c); !errors.Is(err, channel.ErrNotSigned) || len(got.Replies) > 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := in.Inbound(signed(t, secret("old"), body)); !errors.Is(err, channel.ErrNotSigned) {
		t.Errorf("another secret: %v", err)
	}
}

// A secret that cannot be one is refused by the name of its setting, and is not repeated.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for want, settings := range map[string]map[string]string{
		callback.SettingSecret:    {callback.SettingSecret: "hunter2"},
		callback.SettingOldSecret: {callback.SettingOldSecret: secret("old")},
	} {
		_, err := callback.Open(settings)
		var wrong *channel.SettingError
		if !errors.As(err, &wrong) || wrong.Name() != want || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", settings, err)
		}
	}
}

// What is wrong is said by its place, with what to write.
func TestWrong(t *testing.T) {
	t.Parallel()
	in := open(t, map[string]string{callback.SettingSecret: secret("new")})
	for body, want := range map[string]channel.CallbackError{
		`nope`:           {Field: "body", Err: errors.New("is not JSON"), Hint: "the keys are feedback and replies"},
		`{"replys": []}`: {Field: "body", Err: errors.New(`has an unknown key "replys"`), Hint: "the keys are feedback and replies"},
		`{"replies": [{"id": "1", "from": "+254700000001", "at": "yesterday"}]}`: {
			Field: "body.replies[0].at", Err: errors.New("is no instant"), Hint: "write it as RFC 3339, such as 2026-05-14T10:00:00Z, or leave it out",
		},
		`{"replies": [{"id": "1", "form": "+254700000001"}]}`: {Field: "body.replies[0]", Err: errors.New(`has an unknown key "form"`), Hint: "a reply has id, from, text and at"},
		`{"replies": [{"id": 1, "from": "+254700000001"}]}`:   {Field: "body.replies[0].id", Err: errors.New("cannot be a JSON number"), Hint: "a reply has id, from, text and at"},
		`{"feedback": [{"status": "bounced", "message": "SM1"}]}`: {
			Field: "body.feedback[0].address", Err: errors.New("is missing, and so is delivery: nothing says whom the report is about"),
			Hint: "write address, or delivery: the id that the request to the provider had as id",
		},
	} {
		var got *channel.CallbackError
		if _, err := in.Inbound(signed(t, secret("new"), body)); !errors.As(err, &got) || got.Field != want.Field || got.Err.Error() != want.Err.Error() || got.Hint != want.Hint {
			t.Errorf("%s: %v, want %v", body, err, &want)
		}
	}
}
