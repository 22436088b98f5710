package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const csi = `
workflow: csi-gr
type: survey
ext_id: "4523"
triggers:
  - id: csi-gr-trigger
    event: service-visit-closed
    when:
      field: candidate.jobType
      op: is
      value: GR
    dedup: [templateId, recipient.address, candidate.dealerId, candidate.wip]
timing:
  reminders: [1d]
  expire_after: 30d
audience:
  - to: event.recipient
channel: memory
message:
  survey: csi-gr
---
survey: csi-gr
title: Your visit
invitation:
  text:
    en: "{% if step > 1 %}Reminder: {% endif %}how was your visit? {{ survey.link }}"
    ar: "كيف كانت زيارتك؟ {{ survey.link }}"
questions:
  - id: rate
    type: rating
    text: How?
    min: 1
    max: 10
---
channel: memory:default
provider: memory
`

const visit = `{"kind": "service-visit-closed", "payload": {"wip": "40956", "dealerId": "1", "jobType": "GR"},
  "recipient": {"address": "+964 770 000 0001", "locale": "ar", "customer_ref": "cust-123"}}`

// Shows: C2, C5, C11, C15, C21, C28.
func TestWalkthrough(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		first := b.Post(visit)
		if first.Outcome != ingest.Created || len(first.Instances) != 1 || len(first.Instances[0].Deliveries) != 1 {
			t.Fatalf("got %+v", first)
		}
		id := first.Instances[0].Deliveries[0].ID
		if got, want := first.Instances[0].Key, "survey:csi-gr:event:6383108901bdd1b187b55f88d5c3ddce0670dfe24a066f34655538f1d4564efa"; got != want {
			t.Errorf("key %s, want %s", got, want)
		}
		again := b.Post(visit)
		if again.Outcome != ingest.Skipped || again.Reason != reason.Duplicate || again.Instances[0].Deliveries[0].ID != id {
			t.Errorf("the same event again: %+v", again)
		}
		if r := b.At(enginetest.Start.Add(26 * time.Second)); r.Processed != 1 {
			t.Fatalf("processed %d, want 1", r.Processed)
		}
		sent := b.Provider.Sent()
		if len(sent) != 1 || sent[0].Locale != "ar" || sent[0].Step != 1 {
			t.Fatalf("sent %+v", sent)
		}
		row := b.Delivery(id)
		if row.Status != delivery.Sent || !row.SendAt.Equal(enginetest.Start.Add(26*time.Second+24*time.Hour)) || row.RemindersRemaining != 0 {
			t.Errorf("row %+v", row)
		}
		if r := b.At(row.SendAt.Add(-time.Second)); r.Any() {
			t.Errorf("a second early: %+v", r)
		}
		b.At(row.SendAt)
		if row = b.Delivery(id); row.Step != 2 || !row.SendAt.IsZero() || row.Status != delivery.Sent {
			t.Errorf("after the reminder: %+v", row)
		}
		if r := b.At(row.LastSentAt.Add(30 * 24 * time.Hour)); r.Any() {
			t.Errorf("at the grace itself: %+v", r)
		}
		if r := b.At(row.LastSentAt.Add(30*24*time.Hour + time.Second)); r.Expired != 1 {
			t.Errorf("past the grace: %+v", r)
		}
		if row = b.Delivery(id); row.Status != delivery.Expired || row.Reason != reason.NoResponse {
			t.Errorf("in the end: %+v", row)
		}
	})
}

// Shows: C45, C46, C47.
func TestLadder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi+"---\nworkspace: default\nretry:\n  jitter: none\n", nil)
		id := b.Post(visit).Instances[0].Deliveries[0].ID
		b.Provider.Next(channel.Temporary(errors.New("busy")), enginetest.ErrThrow, channel.Lost(errors.New("reset")), nil)
		at := enginetest.Start
		for i, wait := range []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour} {
			b.At(at)
			row := b.Delivery(id)
			if row.Status != delivery.Scheduled || row.RetryCount != i+1 || !row.SendAt.Equal(at.Add(wait)) {
				t.Fatalf("after failure %d: %+v", i+1, row)
			}
			at = row.SendAt
		}
		b.At(at)
		if row := b.Delivery(id); row.Status != delivery.Sent || row.AttemptNo != 4 || row.RetryCount != 0 {
			t.Errorf("in the end: %+v", row)
		}
		if sent := b.Provider.Sent(); len(sent) != 1 || b.Provider.Repeats != 1 {
			t.Errorf("accepted %d times with %d repeats, want once with one", len(sent), b.Provider.Repeats)
		}
		var outcomes []delivery.Outcome
		for _, a := range b.Attempts(id) {
			outcomes = append(outcomes, a.Outcome)
		}
		want := []delivery.Outcome{delivery.AttemptFailed, delivery.AttemptFailed, delivery.AttemptUnknown, delivery.AttemptDelivered}
		if len(outcomes) != len(want) {
			t.Fatalf("attempts %v, want %v", outcomes, want)
		}
		for i := range want {
			if outcomes[i] != want[i] {
				t.Errorf("attempts %v, want %v", outcomes, want)
			}
		}
	})
}
