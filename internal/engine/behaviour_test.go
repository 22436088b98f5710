package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const day = 24 * time.Hour

// alert is a workflow without a survey; rest is added at its end.
func alert(name, event, rest string) string {
	return fmt.Sprintf(`
workflow: %s
type: alert
triggers:
  - id: t
    event: %s
audience:
  - to: event.recipient
channel: memory
message:
  sms:
    text: "{{ event.kind }}"
%s---
`, name, event, rest)
}

const memory = "channel: memory:default\nprovider: memory\n"

func event(kind, id, address string) string {
	return fmt.Sprintf(`{"kind": %q, "id": %q, "recipient": {"address": %q}}`, kind, id, address)
}

// Shows: C12, C13.
func TestOneBadItemFailsNoOther(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, nil)
		got := b.PostAll(
			event("up", "1", "a@x.org"),
			`{"kind": "up", "id": "2", "payload": {"a": "b\u0000c"}, "recipient": {"address": "a@x.org"}}`,
			`{"kind": "up", "id": "3"}`,
			event("other", "4", "a@x.org"),
			event("up", "1", "a@x.org"),
			event("up", "5", "b@x.org"),
			`{"kind": "up", "kind": "down"}`,
		)
		want := []struct {
			outcome ingest.Outcome
			reason  reason.Reason
		}{
			{ingest.Created, ""},
			{ingest.Failed, reason.InvalidEvent},
			{ingest.Failed, reason.NoRecipient},
			{ingest.NoMatch, reason.NoWorkflow},
			{ingest.Skipped, reason.Duplicate},
			{ingest.Created, ""},
			{ingest.Failed, reason.InvalidEvent},
		}
		for i, w := range want {
			if got[i].Outcome != w.outcome || got[i].Reason != w.reason {
				t.Errorf("item %d: %s %s, want %s %s", i, got[i].Outcome, got[i].Reason, w.outcome, w.reason)
			}
		}
		if got[4].Instances[0].ID != got[0].Instances[0].ID {
			t.Error("a duplicate within the batch does not name the first one's instance")
		}
		// An event that failed because it had no recipient left no trace of its key: corrected, it counts as new.
		if corrected := b.Post(event("up", "3", "c@x.org")); corrected.Outcome != ingest.Created {
			t.Errorf("the corrected event: %+v", corrected)
		}
	})
}

// Shows: C11, C14.
func TestEventsWithoutARecipeAreKnownByIDElseByContent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, nil)
		tests := []struct {
			name, event string
			want        ingest.Outcome
		}{
			{"first", `{"kind": "up", "payload": {"n": 1}, "recipient": {"address": "a@x.org"}}`, ingest.Created},
			{"the same content", `{"payload": {"n": 1.0}, "kind": "up", "recipient": {"address": "a@x.org"}}`, ingest.Skipped},
			{"another number", `{"kind": "up", "payload": {"n": 2}, "recipient": {"address": "a@x.org"}}`, ingest.Created},
			{"another instant", `{"kind": "up", "payload": {"n": 1}, "occurred_at": "2026-05-14T05:00:00Z", "recipient": {"address": "a@x.org"}}`, ingest.Created},
			{"an id", `{"kind": "up", "id": "x", "payload": {"n": 1}, "recipient": {"address": "a@x.org"}}`, ingest.Created},
			{"the same id with other content", `{"kind": "up", "id": "x", "payload": {"n": 9}, "recipient": {"address": "a@x.org"}}`, ingest.Skipped},
		}
		for _, test := range tests {
			if got := b.Post(test.event); got.Outcome != test.want {
				t.Errorf("%s: %s, want %s", test.name, got.Outcome, test.want)
			}
		}
	})
}

func TestStatementsOfABatchDoNotGrowWithIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, nil)
		count := func(n int) (ingest, send int64) {
			events := make([]string, n)
			for i := range events {
				events[i] = event("up", fmt.Sprintf("%d-%d", n, i), fmt.Sprintf("p%d-%d@x.org", n, i))
			}
			before := s.Statements()
			b.PostAll(events...)
			after := s.Statements()
			b.At(b.Clock.Now())
			return after - before, s.Statements() - after
		}
		count(1) // compiles the definitions
		ingestFew, sendFew := count(2)
		ingestMany, sendMany := count(90) // a claim of as many as it may take asks whose turn it is among the workspaces
		if ingestMany > ingestFew || sendMany > sendFew {
			t.Errorf("2 events: %d + %d statements, 90 events: %d + %d", ingestFew, sendFew, ingestMany, sendMany)
		}
	})
}

// Shows: C44.
func TestNoChannelWaitsForAPersonOrExpires(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		b.Apply(strings.ReplaceAll(csi, "channel: memory\n", "channel: sms:nobody\n"))
		r := b.Post(visit)
		id := r.Instances[0].Deliveries[0].ID
		b.At(enginetest.Start.Add(time.Minute))
		row := b.Delivery(id)
		if row.Status != delivery.Scheduled || row.Reason != reason.NoChannel || !row.SendAt.IsZero() {
			t.Fatalf("without a channel: %+v", row)
		}
		if log := b.Attempts(id); len(log) != 1 || log[0].Number != 0 || log[0].Outcome != delivery.AttemptNone {
			t.Errorf("log %+v", log)
		}
		b.Apply("channel: sms:nobody\nprovider: memory\n")
		if _, err := b.Operator().RetryDelivery(t.Context(), b.Workspace.ID, id, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		b.At(b.Now())
		if row = b.Delivery(id); row.Status != delivery.Sent {
			t.Errorf("after the channel came: %+v", row)
		}
	})
}

// Shows: C47, C52.
func TestAWorkerLostAfterItsIntent(t *testing.T) {
	t.Parallel()
	died := errors.New("died")
	tests := []struct {
		name      string
		point     string
		onUnknown string
		want      delivery.Status
		accepted  int
		attempts  []delivery.Outcome
	}{
		{"before the intent nothing has happened", sender.BeforeIntent, "resend", delivery.Sent, 1, []delivery.Outcome{delivery.AttemptDelivered}},
		{"after the intent it is sent again", sender.AfterIntent, "resend", delivery.Sent, 1, []delivery.Outcome{delivery.AttemptUnknown, delivery.AttemptDelivered}},
		{"before the result it is sent again under the same key", sender.BeforeResult, "resend", delivery.Sent, 1, []delivery.Outcome{delivery.AttemptUnknown, delivery.AttemptDelivered}},
		{"a channel that holds waits for a person", sender.AfterIntent, "hold", delivery.Unknown, 0, []delivery.Outcome{delivery.AttemptUnknown}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				var at string
				b := enginetest.Setup(t, s, strings.ReplaceAll(csi, "provider: memory\n", "provider: memory\non_unknown: "+test.onUnknown+"\n"), func(c *engine.Config) {
					c.Failpoint = func(point string) error {
						if point == at {
							return died
						}
						return nil
					}
				})
				id := b.Post(visit).Instances[0].Deliveries[0].ID
				at = test.point
				if _, err := b.Tick(t.Context()); !errors.Is(err, died) {
					t.Fatalf("got %v, want %v", err, died)
				}
				at = ""
				if test.point != sender.BeforeIntent {
					if r := b.At(enginetest.Start.Add(sender.DefaultLease - time.Second)); r.Processed != 0 {
						t.Errorf("taken over before the lease ended: %+v", r)
					}
				}
				due, err := b.NextDue(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if want := enginetest.Start.Add(sender.DefaultLease); test.point != sender.BeforeIntent && !due.Equal(want) {
					t.Errorf("next due %s, want the end of the lease %s", due, want)
				}
				b.At(enginetest.Start.Add(sender.DefaultLease))
				row := b.Delivery(id)
				if row.Status != test.want {
					t.Errorf("status %s, want %s: %+v", row.Status, test.want, row)
				}
				if n := len(b.Provider.Sent()); n != test.accepted {
					t.Errorf("accepted %d times, want %d", n, test.accepted)
				}
				var outcomes []delivery.Outcome
				for _, a := range b.Attempts(id) {
					outcomes = append(outcomes, a.Outcome)
				}
				if fmt.Sprint(outcomes) != fmt.Sprint(test.attempts) {
					t.Errorf("attempts %v, want %v", outcomes, test.attempts)
				}
			})
		})
	}
}

func TestCatchUp(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "timing:\n  catch_up: 12h\n")+alert("b", "later", "timing:\n  offset: 2d\n  catch_up: 12h\n")+memory, nil)
		exact := b.Post(event("up", "1", "a@x.org")).Instances[0].Deliveries[0].ID
		b.At(enginetest.Start.Add(12 * time.Hour))
		if row := b.Delivery(exact); row.Status != delivery.Sent {
			t.Errorf("exactly as late as allowed: %s %s", row.Status, row.Reason)
		}
		planned := b.Post(event("later", "2", "a@x.org")).Instances[0].Deliveries[0].ID
		b.At(b.Now().Add(2*day + 12*time.Hour + time.Microsecond))
		if row := b.Delivery(planned); row.Status != delivery.Skipped || row.Reason != reason.Stale || row.CompletedAt.IsZero() {
			t.Errorf("later than allowed: %s %s", row.Status, row.Reason)
		}
		old := b.Post(`{"kind": "up", "occurred_at": "2026-05-01T00:00:00Z", "recipient": {"address": "a@x.org"}}`)
		if got := old.Instances[0].Deliveries[0].Status; got != delivery.Skipped {
			t.Errorf("an event of long ago: %s, want skipped", got)
		}
	})
}

func TestMessagesWithoutAQuestionEndWhenSent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, nil)
		id := b.Post(event("up", "1", "a@x.org")).Instances[0].Deliveries[0].ID
		b.At(b.Now())
		b.At(b.Now().Add(400 * day))
		if row := b.Delivery(id); row.Status != delivery.Sent || row.CompletedAt.IsZero() {
			t.Errorf("got %s %s", row.Status, row.Reason)
		}
		if due, err := b.NextDue(t.Context()); err != nil || !due.IsZero() {
			t.Errorf("something is still due at %s, %v", due, err)
		}
	})
}

// Shows: C16.
func TestPinnedWorkIsUntouchedByEdits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		version := func(pin, text string) string {
			return strings.Replace(alert("a", "up", "pin: "+pin+"\ntiming:\n  offset: 1d\n"), "{{ event.kind }}", text, 1) + memory
		}
		for _, pin := range []string{"true", "false"} {
			b := enginetest.Setup(t, s, version(pin, "before"), nil)
			b.Post(event("up", pin, "a@x.org"))
			b.Apply(version(pin, "after"))
			b.At(b.Now().Add(day))
			sent := b.Provider.Sent()
			want := map[string]string{"true": "before", "false": "after"}[pin]
			if len(sent) != 1 || sent[0].Text != want {
				t.Errorf("pin %s: sent %+v, want %s", pin, sent, want)
			}
		}
	})
}

// Shows: C4.
func TestASwitchedOffWorkflow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		with := func(enabled string) string { return alert("a", "up", "enabled: "+enabled+"\n") + memory }
		b := enginetest.Setup(t, s, with("true"), nil)
		id := b.Post(event("up", "1", "a@x.org")).Instances[0].Deliveries[0].ID
		b.Apply(with("false"))
		if got := b.Post(event("up", "2", "a@x.org")); got.Outcome != ingest.NoMatch || got.Reason != reason.WorkflowInactive {
			t.Errorf("a new event: %+v", got)
		}
		for range 3 {
			b.At(b.Now().Add(2 * time.Minute))
		}
		if row := b.Delivery(id); row.Status != delivery.Scheduled || len(b.Provider.Sent()) != 0 || len(b.Attempts(id)) != 0 {
			t.Errorf("what was made already: %+v", row)
		}
		b.Apply(with("true"))
		b.At(b.Now().Add(2 * time.Minute))
		if row := b.Delivery(id); row.Status != delivery.Sent {
			t.Errorf("switched on again: %+v", row)
		}
	})
}

func TestExpandedAudience(t *testing.T) {
	t.Parallel()
	const definitions = `
workflow: a
type: alert
triggers:
  - id: t
    event: order
    dedup: [candidate.n]
audience:
  - address: event.copies
    kind: email
  - to: event.managers
    where: contact.locale != "xx"
  - to: event.recipient
channel: memory
message:
  sms:
    text: "order {{ event.n }}"
---
` + memory
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, definitions, nil)
		// Contacts of earlier events are known by their reference.
		b.Post(`{"kind": "order", "payload": {"n": 1}, "recipient": {"address": "m1@x.org", "customer_ref": "m1"}}`)
		b.At(b.Now())
		b.Provider.Sent()
		r := b.Post(`{"kind": "order", "payload": {"n": 2, "copies": ["C@x.org", "d@x.org", "c@X.org"], "managers": ["m1", "ghost"]},
			"recipient": {"address": "e@x.org"}}`)
		if row := b.Instance(r.Instances[0].ID); row.Status != instance.Pending {
			t.Fatalf("instance %+v", row)
		}
		b.At(b.Now())
		var to []string
		for _, out := range b.Provider.Sent() {
			to = append(to, out.Address)
		}
		if got, want := len(to), 4; got != want {
			t.Errorf("sent to %v, want c, d, m1 and e once each", to)
		}
		if row := b.Instance(r.Instances[0].ID); row.Status != instance.Completed || row.Reason != reason.Expanded {
			t.Errorf("instance %+v", row)
		}
		if again := b.At(b.Now().Add(day)); again.Any() {
			t.Errorf("a day later: %+v", again)
		}
	})
}

func TestAnAudienceThatCannotBeComputedIsHeld(t *testing.T) {
	t.Parallel()
	const definitions = "workflow: a\ntype: alert\ntriggers:\n  - id: t\n    event: order\naudience:\n  - to: event.who\nchannel: memory\nmessage:\n  sms:\n    text: hi\n---\n" + memory
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, definitions, nil)
		id := b.Post(`{"kind": "order", "id": "1", "payload": {"who": {"not": "a name"}}}`).Instances[0].ID
		at := b.Now()
		for range 4 {
			b.At(at)
			if row := b.Instance(id); !row.NextRetryAt.IsZero() {
				at = row.NextRetryAt
			}
		}
		row := b.Instance(id)
		if !row.Held() || row.Status != instance.Pending || row.Reason != reason.RetriesUsedUp {
			t.Fatalf("after the ladder: %+v", row)
		}
		if r := b.At(at.Add(day)); r.Any() {
			t.Errorf("a held instance was taken up: %+v", r)
		}
		if _, err := b.Operator().Release(t.Context(), b.Workspace.ID, id, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		if r := b.At(b.Now()); r.Expanded != 1 {
			t.Errorf("released: %+v", r)
		}
	})
}

// Shows: C10, C55.
func TestOperators(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		op, ws, ctx := b.Operator(), b.Workspace.ID, t.Context()
		first := b.Post(visit).Instances[0]
		id := first.Deliveries[0].ID

		if _, err := op.CancelDelivery(ctx, ws, id, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		if r := b.At(b.Now()); r.Processed != 0 || b.Delivery(id).Status != delivery.Cancelled {
			t.Errorf("cancelled: %+v %+v", r, b.Delivery(id))
		}
		if again := b.Post(visit); again.Outcome != ingest.Skipped {
			t.Errorf("a cancel frees no key: %+v", again)
		}

		retried, err := op.RetryDelivery(ctx, ws, id, "ann", b.Now())
		if err != nil || retried.NewKey != first.Key+":retry:1" {
			t.Fatalf("retry: %+v, %v", retried, err)
		}
		b.At(b.Now())
		sent := b.Provider.Sent()
		if len(sent) != 1 {
			t.Fatalf("sent %d", len(sent))
		}
		var twice *operator.StateError
		if _, err := op.RetryDelivery(ctx, ws, id, "ann", b.Now()); !errors.As(err, &twice) {
			t.Errorf("the same retry again: %v", err)
		}

		if _, err := op.Forget(ctx, ws, first.Key, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		fresh := b.Post(visit)
		if fresh.Outcome != ingest.Created || fresh.Instances[0].Key != first.Key+":retry:2" {
			t.Fatalf("after forget: %+v", fresh)
		}
		b.At(b.Now())
		if more := b.Provider.Sent(); len(more) != 1 || more[0].IdempotencyKey == sent[0].IdempotencyKey {
			t.Errorf("after forget: sent %+v", more)
		}
		if again := b.Post(visit); again.Outcome != ingest.Skipped || again.Instances[0].Key != first.Key+":retry:2" {
			t.Errorf("the same event after that: %+v", again)
		}

		var state *operator.StateError
		if _, err := op.Release(ctx, ws, first.ID, "ann", b.Now()); !errors.As(err, &state) {
			t.Errorf("release of what is not held: %v", err)
		}
		if _, err := op.CancelDelivery(ctx, ws, delivery.ID(1), "ann", b.Now()); !errors.Is(err, operator.ErrNotFound) {
			t.Errorf("cancel of nothing: %v", err)
		}
		if _, err := op.Forget(ctx, ws, "survey:csi-gr:event:none", "ann", b.Now()); !errors.Is(err, operator.ErrNotFound) {
			t.Errorf("forget of nothing: %v", err)
		}
		log, err := s.AuditLog(ctx, ws, store.Page{Limit: 10})
		if err != nil || len(log) < 4 {
			t.Errorf("audit log %+v, %v", log, err)
		}
	})
}

// A cancel while the message is in flight is too late for it, and ends its reminders (P5, R18).
func TestCancelDuringASend(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, func(c *engine.Config) { c.Providers = nil })
		inFlight, goOn := make(chan struct{}), make(chan struct{})
		provider := channel.Provider{Name: "memory", Open: func(map[string]string) (channel.Channel, error) {
			return sendFunc(func() error { close(inFlight); <-goOn; return nil }), nil
		}}
		e, err := engine.New(engine.Config{Store: s, Clock: b.Clock, Providers: []channel.Provider{provider}})
		if err != nil {
			t.Fatal(err)
		}
		id := b.Post(visit).Instances[0].Deliveries[0].ID
		done := make(chan error, 1)
		go func() { _, err := e.Tick(context.WithoutCancel(t.Context())); done <- err }()
		<-inFlight
		if _, err := b.Operator().CancelDelivery(t.Context(), b.Workspace.ID, id, "ann", b.Now()); err != nil {
			t.Error(err)
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if row := b.Delivery(id); row.Status != delivery.Sent || !row.SendAt.IsZero() {
			t.Errorf("got %+v, want it sent without reminders", row)
		}
	})
}

type sendFunc func() error

func (f sendFunc) Send(context.Context, channel.Outgoing) (channel.Receipt, error) {
	return channel.Receipt{}, f()
}

// Shows: C51.
func TestRunSendsByItselfAndStopsCleanly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		sent := make(chan journal.Entry, 100)
		b := enginetest.Setup(t, s, "", func(c *engine.Config) {
			c.Clock = &clock.System{}
			c.Journal = func(e journal.Entry) {
				if e.What == journal.Sent {
					sent <- e
				}
			}
		})
		b.Apply(alert("a", "up", "") + alert("b", "soon", "timing:\n  offset: 1s\n") + memory)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		var now clock.System
		for i := range 3 {
			b.Clock.Set(now.Now())
			b.Post(event("up", fmt.Sprint(i), "a@x.org"))
			<-sent
		}
		b.Clock.Set(now.Now())
		b.Post(event("soon", "later", "a@x.org"))
		if e := <-sent; e.At.Before(e.Due) {
			t.Errorf("sent at %s, due at %s", e.At, e.Due)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Status != delivery.Sent || !row.IntentAt.IsZero() {
				t.Errorf("left behind: %+v", row)
			}
		}
	})
}

// A provider that never answers delays its own sender, and no other channel's messages.
func TestASilentProviderHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		silence := make(chan struct{})
		sent := make(chan journal.Entry, 100)
		b := enginetest.Setup(t, s, "", func(c *engine.Config) {
			c.Clock = &clock.System{}
			c.Workers = 1
			c.Patience, c.Concurrency = 20*time.Millisecond, sender.DefaultConcurrency
			c.Providers = append(c.Providers, channel.Provider{Name: "silent", Open: func(map[string]string) (channel.Channel, error) {
				return sendFunc(func() error { <-silence; return nil }), nil
			}})
			c.Definitions = enginetest.Options(c.Providers)
			c.Journal = func(e journal.Entry) {
				if e.What == journal.Sent {
					sent <- e
				}
			}
		})
		b.Apply(alert("good", "good", "") + memory + "---\n" + strings.Replace(alert("bad", "bad", ""), "channel: memory", "channel: sms", 1) +
			"channel: sms:default\nprovider: silent\n")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		var now clock.System
		for i := range 3 {
			b.Clock.Set(now.Now())
			b.Post(event("bad", fmt.Sprint("bad", i), "a@x.org"))
			b.Post(event("good", fmt.Sprint("good", i), "a@x.org"))
			if e := <-sent; e.Workflow != "good" {
				t.Errorf("sent %s", e.Workflow)
			}
		}
		close(silence)
		for range 3 {
			<-sent
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
