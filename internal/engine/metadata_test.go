package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The metadata of a message reaches the channel, rendered for the contact, with each step. A value that is too long fails the message and names itself.
func TestMetadataReachesTheChannel(t *testing.T) {
	t.Parallel()
	const definitions = `
channel: sms
provider: memory
---
workflow: visit
type: alert
triggers: [{id: t, event: e}]
audience: [{to: event.recipient}]
channel: sms
message:
  metadata: {campaign: spring, ward: "{{ event.ward }}", day: {en: Monday, sw: Jumatatu}, none: "{{ event.none }}", step: "{{ step }}"}
  sms: {text: Come}
`
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, definitions, nil)
		b.Post(`{"id": "1", "kind": "e", "payload": {"ward": "3 <b>", "none": null}, "recipient": {"address": "+1", "locale": "sw"}}`)
		b.At(enginetest.Start)
		sent := b.Provider.Sent()
		if len(sent) != 1 {
			t.Fatalf("sent %d messages", len(sent))
		}
		want := map[string]string{"campaign": "spring", "ward": "3 <b>", "day": "Jumatatu", "step": "1"}
		if diff := cmp.Diff(want, sent[0].Metadata); diff != "" {
			t.Error(diff)
		}
		long := b.Post(`{"id": "2", "kind": "e", "payload": {"ward": "` + strings.Repeat("ä", 501) + `", "none": null}, "recipient": {"address": "+2"}}`)
		b.At(enginetest.Start)
		row := b.Delivery(long.Instances[0].Deliveries[0].ID)
		if n := len(b.Provider.Sent()); n != 0 || row.Reason != reason.CannotRender {
			t.Errorf("sent %d messages, and the delivery is %s %s", n, row.Status, row.Reason)
		}
	})
}
