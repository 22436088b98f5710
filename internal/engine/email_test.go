package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The email keys of a message reach the channel, rendered for the contact.
func TestEmailKeysReachTheChannel(t *testing.T) {
	t.Parallel()
	const definitions = `
channel: email
provider: memory
---
workflow: letter
type: alert
locale: sw
triggers: [{id: t, event: e}]
audience: [{to: event.recipient}]
channel: email
message:
  email:
    subject: "Hello {{ contact.id }}"
    from: "{{ candidate.clinic }} <clinic@example.org>"
    reply_to: {en: desk@example.org, sw: dawati@example.org}
    headers:
      List-Id: <news.example.org>
      X-Empty: "{{ candidate.nothing }}"
    markdown: "**Dear** {{ candidate.name }}"
`
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, definitions, nil)
		b.Post(`{"id": "1", "kind": "e", "payload": {"clinic": "Smith, Jones & Partners (Süd)", "name": "*Ann*", "nothing": null},
			"recipient": {"address": " ann@example.org ", "locale": "sw"}}`)
		b.At(enginetest.Start)
		sent := b.Provider.Sent()
		if len(sent) != 1 {
			t.Fatalf("sent %d messages", len(sent))
		}
		out := sent[0]
		if out.From != "Smith, Jones & Partners (Süd) <clinic@example.org>" || out.Address != "ann@example.org" || out.ReplyTo != "dawati@example.org" || out.Text != "**Dear** *Ann*" {
			t.Errorf("from %q, answers to %q, text %q", out.From, out.ReplyTo, out.Text)
		}
		if !strings.Contains(out.HTML, "<p><strong>Dear</strong> *Ann*</p>") || !strings.Contains(out.HTML, `<body lang="sw" dir="ltr"`) {
			t.Errorf("HTML %q", out.HTML)
		}
		if diff := cmp.Diff(map[string]string{"List-Id": "<news.example.org>"}, out.Headers); diff != "" {
			t.Error(diff)
		}
	})
}
