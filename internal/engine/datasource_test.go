package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// reports are two workflows for one event: one reads a document, and one with another channel reads nothing.
const reports = `
workflow: report
type: report
triggers:
  - id: t
    event: asked
audience: {to: event.recipient}
channel: email
message:
  data:
    rates:
      http: https://rates.example.org/today.json
      timeout: 5s
  email:
    subject: Rates
    text: "{{ data.rates.EUR }}"
---
workflow: plain
type: alert
triggers:
  - id: t
    event: asked
audience: {to: event.recipient}
channel: sms
message:
  sms: {text: Plain}
---
channel: email
provider: memory
---
channel: sms
provider: memory
`

// documents returns the document of the test.
type documents func(context.Context) (any, error)

func (d documents) Document(ctx context.Context, _ string) (any, error) { return d(ctx) }

// telling is a channel that notifies the test of each message that has left.
type telling struct {
	channel.Channel
	reported func(channel.Outgoing)
}

func (c telling) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	receipt, err := c.Channel.Send(ctx, out)
	c.reported(out)
	return receipt, err
}

// A message that waits for a document delays no other channel.
func TestASlowDocumentKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		left, once := make(chan struct{}), sync.Once{}
		b := enginetest.Setup(t, s, reports, func(c *engine.Config) {
			c.Concurrency = 0
			c.Documents = documents(func(ctx context.Context) (any, error) {
				select {
				case <-left:
					return map[string]any{"EUR": 1.5}, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})
			for i, p := range c.Providers {
				open := p.Open
				c.Providers[i].Open = func(settings map[string]string) (channel.Channel, error) {
					inner, err := open(settings)
					return telling{inner, func(out channel.Outgoing) {
						if out.Text == "Plain" {
							once.Do(func() { close(left) })
						}
					}}, err
				}
			}
		})
		b.Post(`{"kind": "asked", "id": "1", "recipient": {"address": "ann@example.org"}}`)
		b.At(b.Clock.Now())
		var texts []string
		for _, m := range b.Provider.Sent() {
			texts = append(texts, m.Text)
		}
		if len(texts) != 2 || texts[0] != "Plain" || texts[1] != "1.5" {
			t.Errorf("sent %q", texts)
		}
	})
}

// A message whose document cannot be read is retried after the backoff, and is never sent without it.
//
// Shows: B46.
func TestADocumentThatIsAwayIsTriedAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		asked := 0
		b := enginetest.Setup(t, s, reports, func(c *engine.Config) {
			c.NoJitter = true
			c.Documents = documents(func(context.Context) (any, error) {
				if asked++; asked < 3 {
					return nil, errors.New("away")
				}
				return map[string]any{"EUR": 2}, nil
			})
		})
		result := b.Post(`{"kind": "asked", "id": "1", "recipient": {"address": "ann@example.org"}}`)
		for _, after := range []time.Duration{0, 5 * time.Minute, 20 * time.Minute} {
			b.At(enginetest.Start.Add(after))
		}
		var id delivery.ID
		for _, i := range result.Instances {
			if i.Workflow == "report" {
				id = i.Deliveries[0].ID
			}
		}
		attempts := b.Attempts(id)
		if len(attempts) != 3 || attempts[0].Reason != reason.CannotRead || attempts[0].Error != "data_unavailable: data.rates: away" || attempts[2].Outcome != delivery.AttemptDelivered {
			t.Errorf("attempts: %+v", attempts)
		}
		if sent := b.Provider.Sent(); len(sent) != 2 || sent[1].Text != "2" {
			t.Errorf("sent %+v", sent)
		}
	})
}

// A message that is folded, or has fold members, and reads data since an edit leaves by itself.
//
// Shows: R7.
func TestMessagesWithDataAreNotFolded(t *testing.T) {
	t.Parallel()
	const rest = `channel: email
provider: memory
---
workspace: default
cadence: {cooldown: 2h}
`
	workflow := func(name string, reads bool) string {
		head := "workflow: " + name + "\ntype: alert\npin: false\ntriggers: [{id: t, event: " + name + "}]\naudience: {to: event.recipient}\nchannel: email\n"
		if reads {
			return head + "message:\n  data:\n    classes: {records: class, count: true}\n  email:\n    subject: x\n    text: \"{{ data.classes.count }} classes\"\n---\n"
		}
		return head + "limits: {at_send: fold}\nmessage:\n  email: {subject: x, text: " + name + "}\n---\n"
	}
	for edited, want := range map[string][]string{"a": {"0 classes", "b"}, "b": {"0 classes", "a"}} {
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			b := enginetest.Setup(t, s, workflow("a", false)+workflow("b", false)+rest, nil)
			for i, kind := range []string{"a", "a", "b"} {
				b.Clock.Set(enginetest.Start.Add(time.Duration(i) * 5 * time.Minute))
				b.Post(fmt.Sprintf(`{"kind": %q, "id": "%d", "recipient": {"address": "ann@example.org"}}`, kind, i))
				b.At(b.Clock.Now())
			}
			if sent := b.Provider.Sent(); len(sent) != 1 {
				t.Fatalf("%d were sent at once", len(sent))
			}
			b.Apply(workflow(edited, true))
			var texts []string
			for hours := range 6 {
				b.At(enginetest.Start.Add(time.Duration(hours) * time.Hour))
			}
			for _, m := range b.Provider.Sent() {
				texts = append(texts, m.Text)
			}
			slices.Sort(texts)
			if !slices.Equal(texts, want) {
				t.Errorf("%s reads data by now: sent %q, want %q", edited, texts, want)
			}
		})
	}
}
