package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/channel/vendortest"
	"github.com/carillonhq/carillon/internal/feedback"
)

// vendors ask a survey by Twilio, and send alarms by Twilio, else by Telnyx.
const vendors = `
workflow: checkup
type: survey
triggers: {id: over, event: visit}
audience: {to: event.recipient}
channel: whatsapp:main
message: {survey: health, mode: conversation}
---
survey: health
title: How are you?
questions:
  - {id: fever, type: yes_no, required: true, text: Fever?}
conversation: {invalid: Please answer with yes or no., closing: Thank you.}
---
workflow: alarm
type: notice
triggers: {id: alarm, event: alarm}
audience: {to: event.recipient}
channel: sms:main
fallback: ["sms:backup"]
limits: {critical: true}
message: {sms: {text: "Alarm {{ event.n }}"}}
---
channel: sms:main
provider: twilio
settings: {url: %[1]s, account_sid: %[3]s, auth_token: {secret: twilio}, from: "+15005550006", callback_url: "https://carillon.test/v1/inbound/sms:main?workspace=%[4]s"}
---
channel: whatsapp:main
provider: twilio
settings: {url: %[1]s, account_sid: %[3]s, auth_token: {secret: twilio}, from: "+15005550006", callback_url: "https://carillon.test/v1/inbound/whatsapp:main?workspace=%[4]s"}
---
channel: sms:backup
provider: telnyx
settings: {url: %[2]s, api_key: {secret: telnyx}, from: "+15005550007", public_key: "%[5]s", callback_url: "https://carillon.test/v1/inbound/sms:backup?workspace=%[4]s"}
`

// back hands in what a vendor calls back with, by way of a proxy in front of the server.
func (b *bundle) back(c vendortest.Called) int {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, strings.Replace(c.URL, "https://carillon.test", b.app.URL(), 1), strings.NewReader(c.Body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header = c.Header
	res, err := (&http.Client{Transport: b.check}).Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// inFull brings a delivery with all that is known of it, each attempt and receipt as a text.
func (b *bundle) inFull(id string) (d client.DeliveryDetail, attempts, receipts []string) {
	b.Helper()
	d, err := b.Delivery(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range d.AttemptLog {
		attempts = append(attempts, a.Outcome+" "+a.Reason)
	}
	for _, r := range d.Receipts {
		receipts = append(receipts, fmt.Sprintf("%s of %d %s", feedback.Name(feedback.Status(r.Status), r.Soft), r.Attempt, r.Detail))
	}
	return d, attempts, receipts
}

// Vendors of text messages, as they document themselves: messages go out, a lost answer is settled by what the vendor reports, receipts stand on their attempts, a
// dead number goes to nobody, and a conversation by WhatsApp is answered and stopped.
//
// Shows: R19, P4.
func TestVendors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		const token, key = "12345678901234567890123456789012", "KEY0123456789"
		twilio, telnyx := vendortest.NewTwilio(t, token), vendortest.NewTelnyx(t, key)
		for name, value := range map[string]string{"twilio": token, "telnyx": key} {
			if _, err := b.SetSecret(ctx, name, value); err != nil {
				t.Fatal(err)
			}
		}
		b.apply(fmt.Sprintf(vendors, twilio.URL, telnyx.URL, vendortest.Account, b.app.Workspace().Name, vendortest.PublicKey()))
		for n, who := range []string{"ann", "bob"} {
			number := fmt.Sprintf("+25470000000%d", n+1)
			if _, err := b.PutContact(ctx, client.ContactInput{ID: who, Addresses: map[string]string{"sms": number, "whatsapp": number}}); err != nil {
				t.Fatal(err)
			}
		}
		alarm := func(who, n string) string {
			t.Helper()
			b.clock.Set(b.clock.Now().Add(time.Minute))
			_, _, first := b.post(b.Client, client.Event{ID: n, Kind: "alarm", Recipient: &client.Recipient{CustomerRef: who}, Payload: map[string]any{"n": n}})
			b.tick()
			b.tick()
			return first
		}
		mustBe := func(what string, got, want any) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", what, diff)
			}
		}

		// The answer is lost: the delivery waits, until Twilio reports.
		twilio.Next(vendortest.Answer{Lose: true})
		id := alarm("ann", "1")
		if d, _, _ := b.inFull(id); d.Status != "unknown" {
			t.Errorf("%s %s", d.Status, d.Reason)
		}
		sent := twilio.Messages()[0]
		mustBe("a callback that is not signed", b.back(vendortest.Signed("another", sent.Callback, nil)), http.StatusUnauthorized)
		mustBe("sent", b.back(twilio.Status(sent, "sent", "")), http.StatusNoContent)
		b.tick()
		mustBe("delivered", b.back(twilio.Status(sent, "delivered", "")), http.StatusNoContent)
		mustBe("delivered again", b.back(twilio.Status(sent, "delivered", "")), http.StatusNoContent)
		d, attempts, receipts := b.inFull(id)
		mustBe("the delivery", d.Status, "sent")
		mustBe("attempts", attempts, []string{"unknown reply_lost", "delivered reported"})
		mustBe("receipts", receipts, []string{"delivered of 2 "})
		mustBe("messages", len(twilio.Messages()), 1)

		// Twilio refuses, so that Telnyx sends; both report.
		twilio.Next(vendortest.Answer{Status: 400, Code: 21610})
		id = alarm("ann", "2")
		backup := telnyx.Messages()[0]
		for try := 1; try <= 2; try++ {
			mustBe("finalized", b.back(telnyx.Finalized(backup, "delivered", "", try, b.clock.Now())), http.StatusNoContent)
		}
		mustBe("an old webhook", b.back(telnyx.Finalized(backup, "delivery_failed", "40001", 1, b.clock.Now().Add(-time.Hour))), http.StatusUnauthorized)
		failed, _, _ := b.inFull(id)
		mustBe("the first", failed.Status+" "+failed.Reason, "failed permanent_error")
		list, err := b.Deliveries(ctx, client.DeliveryQuery{Workflow: "alarm"})
		if err != nil {
			t.Fatal(err)
		}
		_, _, receipts = b.inFull(list.Items[0].ID)
		mustBe("receipts of Telnyx", receipts, []string{"delivered of 1 "})

		// A telephone that is switched off gets the next message; a number that nobody has gets none.
		id = alarm("ann", "3")
		mustBe("switched off", b.back(twilio.Status(twilio.Messages()[1], "undelivered", "30003")), http.StatusNoContent)
		alarm("ann", "4")
		mustBe("messages", len(twilio.Messages()), 3)
		mustBe("no such number", b.back(twilio.Status(twilio.Messages()[2], "undelivered", "30005")), http.StatusNoContent)
		mustBe("late", b.back(twilio.Status(twilio.Messages()[1], "delivered", "")), http.StatusNoContent)
		_, _, receipts = b.inFull(id)
		mustBe("receipts", receipts, []string{"soft bounce of 1 30003", "delivered of 1 "})
		d, _, _ = b.inFull(alarm("ann", "5"))
		mustBe("to a dead number", d.Status+" "+d.Reason, "skipped address_stopped")

		// A conversation by WhatsApp goes on: that kind of channel has not bounced.
		_, _, first := b.post(b.Client, client.Event{ID: "visit", Kind: "visit", Recipient: &client.Recipient{CustomerRef: "ann"}})
		b.tick()
		at := strings.Split(twilio.Messages()[3].Callback, "&delivery")[0]
		mustBe("to", twilio.Messages()[3].To, "whatsapp:+254700000001")
		for n, text := range []string{"ma 🙏", "NO"} {
			b.clock.Set(b.clock.Now().Add(time.Minute))
			for range 2 {
				mustBe(text, b.back(twilio.Incoming(at, fmt.Sprint("SM-in-", n), "whatsapp:+254700000001", text)), http.StatusNoContent)
			}
			b.tick()
		}
		b.tick()
		var texts []string
		for _, s := range twilio.Messages()[4:] {
			texts = append(texts, s.Text)
		}
		mustBe("what is said", texts, []string{"Please answer with yes or no.", "Thank you."})
		d, _, _ = b.inFull(first)
		mustBe("the survey", d.Status+" "+d.Reason, "responded answered")

		// A reply by Telnyx stops that kind of channel.
		mustBe("stop", b.back(telnyx.Received("https://carillon.test/v1/inbound/sms:backup?workspace="+b.app.Workspace().Name, "m-9", "+254700000002", "STOP", b.clock.Now())), http.StatusNoContent)
		d, _, _ = b.inFull(alarm("bob", "6"))
		mustBe("to who stopped", d.Status+" "+d.Reason, "skipped opted_out")
	})
}
