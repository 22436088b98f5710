package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/reason"
)

// What a person does is answered with what it changed, and can be seen at once.
// Shows: C10.
func TestOperate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		_, in, d := b.post(b.Client, signedUp("1"))

		cancelled, err := b.CancelInstance(ctx, in)
		if diff := cmp.Diff(client.Operated{Changed: true, Instance: in, Deliveries: []string{d}}, cancelled); err != nil || diff != "" {
			t.Fatalf("cancel: %v (-want +got):\n%s", err, diff)
		}
		one, err := b.Delivery(ctx, d)
		if err != nil || one.Status != "cancelled" || one.Reason != "cancelled_by_operator" || one.Message != reason.CancelledByPerson.Sentence() {
			t.Errorf("got %+v, %v", one.Delivery, err)
		}
		again, err := b.CancelInstance(ctx, in)
		if err != nil || again.Changed {
			t.Errorf("cancel again: %+v, %v", again, err)
		}

		retried, err := b.RetryDelivery(ctx, d)
		if err != nil || retried.NewInstance == "" || !strings.HasSuffix(retried.NewKey, ":retry:1") || len(retried.NewDeliveries) != 1 {
			t.Fatalf("retry: %+v, %v", retried, err)
		}
		if tick, err := b.Tick(ctx); err != nil || tick.Processed != 1 {
			t.Fatalf("tick: %+v, %v", tick, err)
		}
		sent, err := b.Delivery(ctx, retried.NewDeliveries[0])
		if err != nil || sent.Status != "sent" || len(sent.AttemptLog) != 1 || sent.AttemptLog[0].Outcome != "delivered" {
			t.Fatalf("got %+v, %v", sent, err)
		}
		want := []client.Content{{
			Step: 1, At: start, Channel: "inbox:default", Address: "1@example.org", Subject: "Welcome", Text: "Welcome, Ada",
		}}
		if diff := cmp.Diff(want, sent.Contents); diff != "" {
			t.Errorf("content (-want +got):\n%s", diff)
		}

		_, err = b.ReleaseInstance(ctx, in)
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusConflict || p.Code != client.CodeNotPossible {
			t.Errorf("release of what is not held: %v", err)
		}

		instance, err := b.Instance(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		forgot, err := b.Forget(ctx, instance.Key)
		if err != nil || forgot.Instance != in || !forgot.Changed {
			t.Errorf("forget: %+v, %v", forgot, err)
		}
		b.clock.Set(start.Add(time.Minute))
		if _, fresh, _ := b.post(b.Client, signedUp("1")); fresh == in || fresh == retried.NewInstance {
			t.Errorf("the event after forgetting met %s", fresh)
		}
	})
}

func TestReasons(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	got, err := b.Reasons(t.Context())
	if err != nil || len(got.Reasons) != len(reason.All()) || got.Reasons[0].Reason != string(reason.All()[0].Reason) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A cancel that meets a message in flight says each time that it came too late.
// Shows: C10.
func TestCancelOfWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx, g := t.Context(), newGateway(t)
		b.apply("channel: sms:gateway\nprovider: http\nsettings: {url: " + g.URL + "}\n---\n" +
			"workflow: text\ntype: custom\ntriggers: {id: t, event: text}\ntiming: {offset: 0d, reminders: [1d]}\naudience: [{to: event.recipient}]\nchannel: sms:gateway\nmessage: {sms: {text: Hello}}\n")
		_, in, d := b.post(b.Client, client.Event{ID: "1", Kind: "text", Recipient: &client.Recipient{Address: "+9647700000001"}})
		want := client.Operated{
			Instance: in, Deliveries: []string{}, BeingSent: []string{d}, Reason: "being_sent", Message: reason.BeingSent.Sentence(),
		}
		g.answer(http.StatusOK, func() {
			for name, cancel := range map[string]func() (client.Operated, error){
				"delivery":       func() (client.Operated, error) { return b.CancelDelivery(ctx, d) },
				"the same again": func() (client.Operated, error) { return b.CancelDelivery(ctx, d) },
				"instance":       func() (client.Operated, error) { return b.CancelInstance(ctx, in) },
			} {
				got, err := cancel()
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
				}
			}
			if page := b.page("/deliveries/" + d); !strings.Contains(page, "It is being sent, and may arrive. Nothing follows it: A person cancelled it.") {
				t.Errorf("the console shows %s", page)
			}
		})
		if tick, err := b.Tick(ctx); err != nil || tick.Processed != 1 {
			t.Fatalf("tick: %+v, %v", tick, err)
		}
		if one, err := b.Delivery(ctx, d); err != nil || one.Status != "sent" || !one.SendAt.IsZero() || one.StopReason != "cancelled_by_operator" {
			t.Errorf("got %+v, %v; want it sent, and no reminder", one.Delivery, err)
		}
	})
}

// A cancel of an occasion with more deliveries than it ends at once names the run that ends them, also when it is asked for again.
// Shows: P5.
func TestCancelOfALargeOccasion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		const people = 501
		ctx := t.Context()
		b.apply("workflow: news\ntype: custom\ntriggers: {id: t, event: news}\ntiming: {reminders: [1d]}\naudience: [{persona: Reader}]\nchannel: inbox\n" +
			"message: {inbox: {text: x}}\n---\npersona: Reader\ncadence: {max_per_month: 10000}\n---\nchannel: inbox\nprovider: inbox\n")
		var list []string
		for i := range people {
			list = append(list, fmt.Sprintf(`{"id": "p%d", "addresses": {"inbox": "p%[1]d"}, "persona": "Reader"}`, i))
		}
		if status, body := b.ask(http.MethodPost, "/v1/contacts", `{"contacts": [`+strings.Join(list, ",")+`]}`); status != http.StatusOK {
			t.Fatal(status, body)
		}
		posted, err := b.PostEvents(ctx, client.Event{ID: "1", Kind: "news"})
		if err != nil {
			t.Fatal(err)
		}
		in := posted.Items[0].Instances[0].ID
		for range 5 {
			if _, err := b.Tick(ctx); err != nil {
				t.Fatal(err)
			}
		}
		cancelled, err := b.CancelInstance(ctx, in)
		if err != nil || !cancelled.Changed || cancelled.Run == "" || len(cancelled.Deliveries) != 0 {
			t.Fatalf("cancel: %+v, %v", cancelled, err)
		}
		again, err := b.CancelInstance(ctx, in)
		if err != nil || again.Changed || again.Run != cancelled.Run {
			t.Errorf("again: %+v, %v", again, err)
		}
		if one, err := b.Instance(ctx, in); err != nil || one.CancelledAt.IsZero() {
			t.Errorf("the instance: %+v, %v", one.Instance, err)
		}
		if _, body := b.ask(http.MethodGet, "/v1/instances/"+in, ""); !strings.Contains(body, `"cancelled_at":"`) || strings.Contains(body, `"status":"scheduled"`) || !strings.Contains(body, `"status":"cancelled"`) {
			t.Errorf("at once: %s", body)
		}
		for status, want := range map[string]int{"scheduled": 0, "cancelled": 1} {
			if list, err := b.Deliveries(ctx, client.DeliveryQuery{Instance: in, Status: status, Limit: 1}); err != nil || len(list.Items) != want {
				t.Errorf("listed as %s: %+v, %v", status, list.Items, err)
			}
		}
		for range 3 {
			if _, err := b.Tick(ctx); err != nil {
				t.Fatal(err)
			}
		}
		runs, err := b.Runs(ctx, client.RunQuery{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(runs.Items, func(r client.Run) bool { return r.ID == cancelled.Run })
		if i < 0 || runs.Items[i].Status != "done" || runs.Items[i].Done != people || runs.Items[i].Changed == 0 || runs.Items[i].Total != people || !strings.HasPrefix(runs.Items[i].Subject, "instance custom:news:") {
			t.Errorf("runs %+v", runs.Items)
		}
	})
}
