package api_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/signature"
)

// secretOf is a secret of Standard Webhooks.
func secretOf(name string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 24))[:24])
}

// calledBack is a callback.
type calledBack struct {
	secret, id, path, body string
	at                     time.Time
	change                 func(http.Header)
}

func (b *bundle) call(c calledBack) (int, string) {
	b.Helper()
	k, err := signature.Parse(c.secret)
	if err != nil {
		b.Fatal(err)
	}
	header, err := signature.Sign([]signature.Key{k}, c.id, c.at, []byte(c.body))
	if err != nil {
		b.Fatal(err)
	}
	if c.change != nil {
		c.change(header)
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.app.URL()+c.path, strings.NewReader(c.body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header = header
	res, err := (&http.Client{Transport: b.check}).Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, strings.TrimSuffix(string(raw), "\n")
}

const inbound = `
channel: email:one
provider: http
settings: {url: http://127.0.0.1:9/, inbound_secret: {secret: one}, old_inbound_secret: {secret: before}}
---
channel: email:two
provider: http
settings: {url: http://127.0.0.1:9/, inbound_secret: {secret: two}}
---
channel: email:none
provider: http
settings: {url: http://127.0.0.1:9/}
`

// letters leave by one of them.
const letters = `---
workflow: letters
type: custom
triggers: {id: letter, event: letter}
audience: {to: event.recipient}
channel: email:one
message: {email: {subject: Hello, text: Hello}}
`

// A provider calls back, signed: what it reports counts once, however often it calls.
func TestInbound(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		for _, name := range []string{"one", "before", "two"} {
			if _, err := b.SetSecret(t.Context(), name, secretOf(name)); err != nil {
				t.Fatal(err)
			}
		}
		b.apply(inbound + letters)
		letter := client.Event{ID: "ann", Kind: "letter", Recipient: &client.Recipient{Address: "ann@example.org", CustomerRef: "cust-ann"}}
		_, _, d := b.post(b.Client, letter)
		sent, err := b.Delivery(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.FindTopic(t.Context(), client.TopicInput{Topic: "tax"}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Subscribe(t.Context(), client.SubscriptionInput{Contact: "cust-ann", Topic: "tax", Frequency: "daily"}); err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"feedback": [{"status": "complained", "address": %q, "delivery": %q, "detail": "marked as spam"}, {"status": "bounced", "address": "nobody@example.org"}]}`, sent.Address, d)
		ok := calledBack{secret: secretOf("one"), id: "msg_1", path: "/v1/inbound/email:one?workspace=" + b.app.Workspace().Name, body: body, at: b.clock.Now()}
		receipts := func() int {
			t.Helper()
			detail, err := b.Delivery(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			return len(detail.Receipts)
		}
		with := func(f func(*calledBack)) calledBack {
			c := ok
			f(&c)
			return c
		}
		for name, tt := range map[string]struct {
			call calledBack
			want int
		}{
			"another channel's secret": {with(func(c *calledBack) { c.secret = secretOf("two") }), 401},
			"another channel":          {with(func(c *calledBack) { c.path = strings.Replace(c.path, "one", "two", 1) }), 401},
			"too old":                  {with(func(c *calledBack) { c.at = c.at.Add(-6 * time.Minute) }), 401},
			"too early":                {with(func(c *calledBack) { c.at = c.at.Add(6 * time.Minute) }), 401},
			"another id":               {with(func(c *calledBack) { c.change = func(h http.Header) { h.Set("webhook-id", "msg_2") } }), 401},
			"no signature":             {with(func(c *calledBack) { c.change = func(h http.Header) { h.Del("webhook-signature") } }), 401},
			"no headers":               {with(func(c *calledBack) { c.change = func(h http.Header) { clear(h) } }), 401},
			"no such channel":          {with(func(c *calledBack) { c.path = strings.Replace(c.path, "one", "nothing", 1) }), 404},
			"a channel without secret": {with(func(c *calledBack) { c.path = strings.Replace(c.path, "one", "none", 1) }), 404},
			"a channel of no provider": {with(func(c *calledBack) { c.path = strings.Replace(c.path, "email:one", "memory:default", 1) }), 404},
			"another workspace":        {with(func(c *calledBack) { c.path = "/v1/inbound/email:one?workspace=other" }), 404},
		} {
			if status, answer := b.call(tt.call); status != tt.want || strings.Contains(answer, "whsec_") {
				t.Errorf("%s: %d %s", name, status, answer)
			} else if status == http.StatusUnauthorized && !strings.Contains(problemOf(t, answer).Hint, "with the channel's inbound_secret") {
				t.Errorf("%s: %s says not how to sign", name, answer)
			}
		}
		if n := receipts(); n != 0 {
			t.Fatalf("%d receipts by refused callbacks", n)
		}
		// Another channel may not report on it: for that one there is no such delivery.
		other := with(func(c *calledBack) {
			c.path, c.secret = strings.Replace(c.path, "one", "two", 1), secretOf("two")
			c.body = fmt.Sprintf(`{"feedback": [{"status": "bounced", "delivery": %q}, {"status": "complained", "delivery": %[1]q, "address": "nobody@example.org"}]}`, d)
		})
		if status, answer := b.call(other); status != http.StatusNoContent || receipts() != 0 {
			t.Errorf("by another channel: %d %s, %d receipts", status, answer, receipts())
		}
		if one, err := b.Contact(t.Context(), "cust-ann"); err != nil || len(one.Stopped) != 0 {
			t.Errorf("by another channel: %+v, %v", one.Stopped, err)
		}
		if list, err := b.Subscriptions(t.Context(), client.SubscriptionQuery{Contact: "cust-ann"}); err != nil || len(list.Items) != 1 {
			t.Errorf("by another channel: %+v, %v", list.Items, err)
		}
		for range 2 {
			if status, answer := b.call(ok); status != http.StatusNoContent || answer != "" {
				t.Errorf("%d %s", status, answer)
			}
		}
		if n := receipts(); n != 1 {
			t.Errorf("%d receipts", n)
		}
		if status, answer := b.call(with(func(c *calledBack) { c.body = strings.Replace(c.body, "complained", "delivered", 1) })); status != 422 || problemOf(t, answer).Code != client.CodeKeyReused {
			t.Errorf("the same id with another report: %d %s", status, answer)
		}
		if status, answer := b.call(with(func(c *calledBack) { c.body += " " })); status != http.StatusNoContent || receipts() != 1 {
			t.Errorf("the same id and report, written otherwise: %d %s", status, answer)
		}
		if status, answer := b.call(with(func(c *calledBack) { c.secret, c.id = secretOf("before"), "msg_old" })); status != http.StatusNoContent {
			t.Errorf("with the secret before: %d %s", status, answer)
		}
		list, err := b.Subscriptions(t.Context(), client.SubscriptionQuery{Contact: "cust-ann", Ended: true})
		if err != nil || len(list.Items) != 1 || list.Items[0].EndReason != "complained" {
			t.Errorf("%+v, %v", list.Items, err)
		}
		// With a secret that another one has in their hands, a single bit makes the difference.
		raw := []byte(ok.body)
		for i := range raw {
			flipped := bytes.Clone(raw)
			flipped[i] ^= 1
			b.clock.Set(b.clock.Now().Add(time.Second)) // for so long a failure counts
			if status, _ := b.call(with(func(c *calledBack) {
				k, err := signature.Parse(c.secret)
				if err != nil {
					t.Fatal(err)
				}
				c.at = b.clock.Now()
				signed, err := signature.Sign([]signature.Key{k}, c.id, c.at, raw)
				if err != nil {
					t.Fatal(err)
				}
				c.body = string(flipped)
				c.change = func(h http.Header) { h.Set("webhook-signature", signed.Get("webhook-signature")) }
			})); status != http.StatusUnauthorized {
				t.Fatalf("a flipped bit at %d: %d", i, status)
			}
		}
	})
}

// What a callback says wrongly is refused by its place, and nothing of it counts.
func TestWrongCallbacks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		if _, err := b.SetSecret(t.Context(), "two", secretOf("two")); err != nil {
			t.Fatal(err)
		}
		b.apply("channel: email:two\nprovider: http\nsettings: {url: http://127.0.0.1:9/, inbound_secret: {secret: two}}\n---\nchannel: email:broken\nprovider: http\nsettings: {url: http://127.0.0.1:9/, inbound_secret: {secret: broken}}\n")
		for n, tt := range []struct {
			body  string
			field string
		}{
			{``, "body"},
			{`nope`, "body"},
			{`{"replies": [{"id": "1", "from": "+254700000001", "at": 12}]}`, "body.replies[0].at"},
			{`{"replies": [{"id": "1", "from": "+254700000001"}, {"id": "2", "from": "+254700000001", "message": "x"}]}`, "body.replies[1]"},
			{`{"replies": [7]}`, "body.replies[0]"},
			{`[]`, "body"},
			{`{"feedback": [{"status": "bounced", "address": "a@example.org"}]} {}`, "body"},
			{`{"fedback": []}`, "body"},
			{`{"feedback": []}`, "body"},
			{`{"feedback": [], "replies": []}`, "body"},
			{`{"replies": [{"from": "+254700000001", "text": "hello"}]}`, "body.replies[0].id"},
			{`{"replies": [{"id": "1", "from": "+254700000001"}, {"id": "2", "from": " ", "text": "hello"}]}`, "body.replies[1].from"},
			{`{"replies": [{"id": "` + strings.Repeat("a", 255) + `", "from": "+254700000001"}]}`, "body.replies[0].id"},
			{`{"replies": [{"id": "1", "from": "` + strings.Repeat("1", 255) + `"}]}`, "body.replies[0].from"},
			{`{"replies": [{"id": "1", "from": "+254\u0000"}]}`, "body.replies[0].from"},
			{`{"replies": [{"id": "1", "from": "+254700000001", "at": "yesterday"}]}`, "body.replies[0].at"},
			{`{"feedback": [` + strings.Repeat(`{"status": "bounced", "address": "a@example.org"},`, 1000) + `{"status": "bounced", "address": "a@example.org"}]}`, "body"},
			{`{"feedback": [{"status": "failed", "address": "a@example.org"}]}`, "body.feedback[0].status"},
			{`{"feedback": [{"status": "bounced", "address": "a@example.org"}, {"status": "bounced", "address": " "}]}`, "body.feedback[1].address"},
			{`{"feedback": [{"status": "bounced", "address": "` + strings.Repeat("a", 255) + `"}]}`, "body.feedback[0].address"},
			{`{"feedback": [{"status": "bounced", "address": "a@example.org", "detail": "` + strings.Repeat("x", 501) + `"}]}`, "body.feedback[0].detail"},
			{`{"feedback": [{"status": "bounced", "address": "a@example.org", "detail": "\u0000"}]}`, "body.feedback[0].detail"},
			{`{"feedback": [{"status": "read", "address": "a@example.org", "soft": true}]}`, "body.feedback[0].soft"},
			{`{"feedback": [{"status": "read", "address": "a@example.org", "step": -1}]}`, "body.feedback[0].step"},
			{`{"feedback": [{"status": "read", "address": "a@example.org", "message": "` + strings.Repeat("m", 255) + `"}]}`, "body.feedback[0].message"},
		} {
			status, answer := b.call(calledBack{secret: secretOf("two"), id: fmt.Sprint("msg_", n), path: "/v1/inbound/email:two?workspace=" + b.app.Workspace().Name, body: tt.body, at: b.clock.Now()})
			if status != http.StatusUnprocessableEntity || problemOf(t, answer).Field != tt.field || !strings.Contains(problemOf(t, answer).Hint, "nothing of the request was taken in") {
				t.Errorf("%.80s: %d %s", tt.body, status, answer)
			}
		}
		status, answer := b.call(calledBack{secret: secretOf("two"), id: "large", path: "/v1/inbound/email:two?workspace=" + b.app.Workspace().Name, body: strings.Repeat(" ", api.MaxBody+1), at: b.clock.Now()})
		if status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %s", status, answer)
		}
		if !slices.ContainsFunc(api.New(api.Deps{}).Routes(), func(r api.Route) bool { return r.Signed && r.Scope == "" }) {
			t.Error("no route is signed")
		}
		if _, err := b.SetSecret(t.Context(), "broken", "hunter2"); err != nil {
			t.Fatal(err)
		}
		status, answer = b.call(calledBack{secret: secretOf("two"), id: "late", path: "/v1/inbound/email:broken?workspace=" + b.app.Workspace().Name, body: `{"replies": []}`, at: b.clock.Now()})
		if status != http.StatusServiceUnavailable || !strings.Contains(answer, "setting inbound_secret of the channel") || strings.Contains(answer, "hunter2") {
			t.Errorf("a secret that is none: %d %s", status, answer)
		}
	})
}

// What people reply comes with a callback: a workflow hears of it once, with whatever it holds, and who asks to stop is stopped.
func TestInboundReplies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		for _, name := range []string{"one", "before", "two"} {
			if _, err := b.SetSecret(t.Context(), name, secretOf(name)); err != nil {
				t.Fatal(err)
			}
		}
		b.apply(inbound + "---\nworkflow: heard\ntype: notice\ntriggers: {id: t, event: reply.received}\naudience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: \"{{ event.keyword }} {{ event.text }}\"}}\n---\nchannel: inbox\nprovider: inbox\n")
		if _, err := b.PutContact(t.Context(), client.ContactInput{ID: "ann", Addresses: map[string]string{"email": "ann@example.org"}}); err != nil {
			t.Fatal(err)
		}
		call := func(id, body string) (int, string) {
			t.Helper()
			return b.call(calledBack{secret: secretOf("one"), id: id, path: "/v1/inbound/email:one?workspace=" + b.app.Workspace().Name, body: body, at: b.clock.Now()})
		}
		const said = `{"replies": [{"id": "m-1", "from": "Ann@Example.org", "text": "\u0000\u202bنعم\u202c 🙏", "at": "2026-05-14T05:00:00Z"}, {"id": "m-2", "from": "nobody@example.org", "text": "stop"}], "feedback": [{"status": "bounced", "address": "zoe@example.org"}]}`
		for _, id := range []string{"msg_1", "msg_1", "msg_2"} {
			if status, answer := call(id, said); status != http.StatusNoContent || answer != "" {
				t.Errorf("%s: %d %s", id, status, answer)
			}
		}
		if status, answer := call("msg_3", `{"replies": [{"id": "m-3", "from": "ann@example.org", "text": "Stop.", "at": "2030-01-01T00:00:00Z"}]}`); status != http.StatusNoContent {
			t.Errorf("%d %s", status, answer)
		}
		events, err := b.Events(t.Context(), client.EventQuery{Kind: "reply.received"})
		if err != nil || len(events.Items) != 2 {
			t.Fatalf("%d events, %v", len(events.Items), err)
		}
		first, err := b.Event(t.Context(), events.Items[1].ID)
		if err != nil || !strings.Contains(string(first.Payload), `نعم`) || !first.OccurredAt.Equal(time.Date(2026, 5, 14, 5, 0, 0, 0, time.UTC)) {
			t.Errorf("%s at %s, %v", first.Payload, first.OccurredAt, err)
		}
		if last := events.Items[0]; last.OccurredAt.After(b.clock.Now()) {
			t.Errorf("a reply of tomorrow is one of %s", last.OccurredAt)
		}
		one, err := b.Contact(t.Context(), "ann")
		if err != nil || len(one.Stopped) != 1 || one.Stopped[0].Kind != "email" || one.Stopped[0].Reason != "opted_out" || !one.Stopped[0].Since.Equal(b.clock.Now()) {
			t.Errorf("%+v, %v", one.Stopped, err)
		}
		if done, err := b.StartKind(t.Context(), "ann", "email"); err != nil || !done.Changed {
			t.Errorf("%+v, %v", done, err)
		}
		if done, err := b.StopKind(t.Context(), "ann", "email", "asked us"); err != nil || !done.Changed {
			t.Errorf("%+v, %v", done, err)
		}
		var refused *client.Problem
		if _, err := b.StopKind(t.Context(), "ann", "sms", "asked us"); !errors.As(err, &refused) || refused.Status != 422 || refused.Field != "kind" {
			t.Errorf("without an address: %v", err)
		}
		if _, err := b.StopKind(t.Context(), "ann", "inbox", "asked us"); !errors.As(err, &refused) || refused.Status != 422 {
			t.Errorf("a kind that cannot be stopped: %v", err)
		}
		forged, err := b.PostEvents(t.Context(), client.Event{Kind: "reply.received", ID: "forged", Payload: map[string]any{"text": "hello"}})
		if err != nil || forged.Items[0].Outcome != "failed" || forged.Items[0].Field != "kind" {
			t.Errorf("%+v, %v", forged, err)
		}
	})
}
