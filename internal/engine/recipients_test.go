package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// What is counted before a run is whom the run then concerns: each person once, whether they are named, in a group, or everybody, over many pages, and
// an address without a contact. Nothing is made by the count.
func TestRecipientsAreWhomTheRunConcerns(t *testing.T) {
	t.Parallel()
	const definitions = `
channel: inbox
provider: inbox
---
group: even
where: contact.attributes.even == true
---
workflow: tip
type: broadcast
triggers: [{id: weekly, schedule: {every: 1w, days: [mon], at: "10:00"}}]
audience:
  - {to: 'vars.team'}
  - {address: '"somebody"', kind: inbox}
  - {group: even, where: contact.attributes.paused != true}
vars: {team: [c1, c2, c2, nobody]}
channel: inbox
message: {inbox: {text: Hello}}
---
workflow: asked
type: alert
triggers: [{id: t, event: e}]
audience: [{to: event.recipient}]
channel: inbox
message: {inbox: {text: Hello}}
`
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, definitions)
		w.many("c", 1201, func(i int) string { // 601 are even; of these c0 is paused
			return fmt.Sprintf(`"attributes": {"even": %t, "paused": %t}`, i%2 == 0, i == 0)
		})
		w.suppress("c4", true)
		got, err := w.CountRecipients(t.Context(), w.Workspace.ID, "tip", 3)
		if err != nil {
			t.Fatal(err)
		}
		want := recipients.Answer{Trigger: "weekly", Count: 602, New: 1, Suppressed: 1} // c1, an address, and 600 of the group, c2 among them
		sample := got.Sample
		if got.Sample = nil; !cmp.Equal(want, got) || len(sample) != 3 {
			t.Errorf("%s\n%+v", cmp.Diff(want, got), sample)
		}
		if again, err := w.CountRecipients(t.Context(), w.Workspace.ID, "tip", 0); err != nil || !cmp.Equal(want, again) {
			t.Errorf("the count has changed something: %v\n%s", err, cmp.Diff(want, again))
		}
		if _, err := w.RunManually(t.Context(), w.Workspace, "tip", "1", "ann", nil); err != nil {
			t.Fatal(err)
		}
		for w.tick() {
		}
		made, err := w.Store.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 2000})
		if err != nil || len(made) != got.Count {
			t.Errorf("%d are counted, and the run makes %d deliveries, %v", got.Count, len(made), err)
		}
		var manual *recipients.NotManualError
		if _, err := w.CountRecipients(t.Context(), w.Workspace.ID, "asked", 3); !errors.As(err, &manual) {
			t.Error(err)
		}
		if _, err := w.CountRecipients(t.Context(), w.Workspace.ID, "none", 3); !errors.Is(err, recipients.ErrNotFound) {
			t.Error(err)
		}
	})
}
