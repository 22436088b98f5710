package app_test

import (
	"bytes"
	"fmt"
	"net"
	"net/mail"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
)

const bouncing = `
workflow: news
type: notice
triggers: {id: now, event: item.published}
audience: {topics: matched}
channel: email
message: {email: {subject: "{{ item.title }}", text: "{{ item.title }}"}}
---
workflow: receipt
type: notice
triggers: {id: paid, event: paid}
audience: {to: event.recipient}
channel: email
fallback: [inbox]
message:
  email: {subject: Paid, text: Thank you}
  inbox: {text: "Your mail address takes no mail. Thank you"}
---
topic: tax
---
topic: visas
---
channel: email
provider: smtp
settings: {host: 127.0.0.1, port: "%s", tls: none, from: News <news@example.org>}
---
channel: inbox
provider: inbox
`

// notice writes the report that a mail server sends back for a mail that it had accepted.
func notice(t *testing.T, sent []byte, to, action, status string) []byte {
	t.Helper()
	header, _, ok := bytes.Cut(sent, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("the mail has no body: %q", sent)
	}
	return fmt.Appendf(nil, "From: MAILER-DAEMON@mx.test\r\nTo: news@example.org\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n"+
		"--b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.test\r\n\r\n"+
		"Final-Recipient: rfc822; %s\r\nAction: %s\r\nStatus: %s\r\nDiagnostic-Code: smtp; said the server\r\n\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\n%s\r\n\r\n--b--\r\n",
		to, action, status, header)
}

// A mail server accepts mails and reports later that it could not deliver them. An address that does not exist gets no more mail, and the
// subscriptions of its owner end; a full mailbox changes nothing, and neither does a report about somebody else. A complaint ends subscriptions alone.
func TestBouncesAndComplaints(t *testing.T) {
	t.Parallel()
	box := &mailbox{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mx := smtp.NewServer(box)
	mx.Domain = "mx.test"
	go func() { _ = mx.Serve(listener) }()
	t.Cleanup(func() { _ = mx.Close() })
	settings := server(filepath.Join(t.TempDir(), "carillon.db"))
	settings.Work = false
	at := clock.NewManual(time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC))
	a := start(t, app.Config{Server: settings, Clock: at})
	f := follower{t, a, admin(t, a)}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: fmt.Sprintf(bouncing, port)}}); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"ann tax", "ann visas", "bob tax", "cyd tax"} {
		who, name, _ := strings.Cut(of, " ")
		if _, err := f.c.Subscribe(t.Context(), client.SubscriptionInput{Address: who + "@example.org", Topic: name, Frequency: "immediate"}); err != nil {
			t.Fatal(err)
		}
	}
	// sent returns the mails that arrived since the last call, by their recipients.
	sent := func() map[string][]byte {
		t.Helper()
		for range 4 {
			if _, err := f.c.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mails := map[string][]byte{}
		for _, raw := range box.taken() {
			m, err := mail.ReadMessage(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			mails[strings.Trim(m.Header.Get("To"), "<>")] = raw
		}
		return mails
	}
	publish := func(id string, want ...string) map[string][]byte {
		t.Helper()
		if _, err := f.c.Publish(t.Context(), map[string]any{"id": id, "title": id, "topics": []string{"tax"}}); err != nil {
			t.Fatal(err)
		}
		mails := sent()
		for _, who := range want {
			if mails[who] == nil {
				t.Errorf("%s: nothing reached %s", id, who)
			}
		}
		if len(mails) != len(want) {
			t.Errorf("%s reached %d, want %q", id, len(mails), want)
		}
		return mails
	}
	report := func(raw []byte, want client.FeedbackReport) {
		t.Helper()
		answer, err := f.c.ReportMail(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		for i := range answer.Reports {
			answer.Reports[i].Detail, answer.Reports[i].Delivery = "", ""
		}
		if diff := cmp.Diff([]client.FeedbackReport{want}, answer.Reports); diff != "" {
			t.Error(diff)
		}
	}
	mails := publish("1", "ann@example.org", "bob@example.org", "cyd@example.org")
	report(notice(t, mails["bob@example.org"], "bob@example.org", "failed", "5.2.2"), client.FeedbackReport{Status: "deferred", Address: "bob@example.org", Known: true})
	report(notice(t, mails["ann@example.org"], "ANN@example.org", "failed", "5.1.1"), client.FeedbackReport{Status: "bounced", Address: "ANN@example.org", Known: true, Stopped: true, Ended: 2})
	report(notice(t, mails["ann@example.org"], "ann@example.org", "failed", "5.1.1"), client.FeedbackReport{Status: "bounced", Address: "ann@example.org", Known: true})
	complaint := func(to string) []byte {
		return []byte("Content-Type: multipart/report; report-type=feedback-report; boundary=b\n\n--b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\nOriginal-Rcpt-To: " + to + "\n\n--b--\n")
	}
	report(complaint("cyd@example.org"), client.FeedbackReport{Status: "complained", Address: "cyd@example.org", Known: true, Ended: 1})
	report(complaint("nobody@example.org"), client.FeedbackReport{Status: "complained", Address: "nobody@example.org"})
	publish("2", "bob@example.org")
	found, err := f.c.Subscriptions(t.Context(), client.SubscriptionQuery{Contact: "nobody"})
	if err != nil || len(found.Items) != 0 {
		t.Errorf("%+v, %v", found, err)
	}

	// What is no subscription still goes to who has complained, and by another channel to an address that takes no mail.
	pay := func(id, who string) {
		t.Helper()
		if _, err := f.c.PostEvents(t.Context(), client.Event{ID: id, Kind: "paid", Recipient: &client.Recipient{Address: who + "@example.org"}}); err != nil {
			t.Fatal(err)
		}
	}
	pay("e1", "ann")
	pay("e2", "cyd")
	if got := sent(); len(got) != 1 || got["cyd@example.org"] == nil {
		t.Errorf("%d mails", len(got))
	}
	reasons := func() (list []string) {
		t.Helper()
		all, err := f.c.Deliveries(t.Context(), client.DeliveryQuery{Workflow: "receipt"})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all.Items {
			list = append(list, strings.TrimSpace(d.Channel+" "+d.Status+" "+d.Reason))
		}
		return list
	}
	if diff := cmp.Diff([]string{"email:default sent delivered", "inbox:default sent delivered", "email:default skipped address_stopped"}, reasons()); diff != "" {
		t.Error(diff)
	}
	news, err := f.c.Deliveries(t.Context(), client.DeliveryQuery{Workflow: "news"})
	if err != nil {
		t.Fatal(err)
	}
	receipts := map[string]int{}
	for _, d := range news.Items {
		detail, err := f.c.Delivery(t.Context(), d.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range detail.Receipts {
			receipts[d.Address+" "+d.Status+" "+r.Status]++
		}
	}
	if diff := cmp.Diff(map[string]int{"ann@example.org sent bounced": 1, "bob@example.org sent deferred": 1}, receipts); diff != "" {
		t.Error(diff)
	}

	if answer, err := f.c.AllowAddress(t.Context(), "Ann@Example.org"); err != nil || !answer.Changed {
		t.Errorf("%+v, %v", answer, err)
	}
	if answer, err := f.c.AllowAddress(t.Context(), "ann@example.org"); err != nil || answer.Changed {
		t.Errorf("%+v, %v", answer, err)
	}
	pay("e3", "ann")
	if got := sent(); len(got) != 1 || got["ann@example.org"] == nil {
		t.Errorf("%d mails", len(got))
	}
}
