package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// One batch, after many edits and a pause, is pinned to more sets than the catalog keeps: the batch is made smaller instead of failing for ever.
func TestABatchPinnedToMoreSetsThanAreKept(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine compiles 220 workflows; TestNothingIsPlannedByAnOldSet applies sets at the same time")
	pinned := func(t *testing.T, s *store.Store) {
		const edits = 110
		b := enginetest.Setup(t, s, memory, nil)
		for i := range edits {
			at := fmt.Sprintf("{{ event.kind }} %d", i)
			b.Apply(strings.Replace(alert("known", "up", ""), "{{ event.kind }}", at, 1) +
				strings.Replace(strings.Replace(alert("computed", "up", ""), "{{ event.kind }}", at, 1), "to: event.recipient", "to: event.who", 1))
			got := b.Post(fmt.Sprintf(`{"kind": "up", "id": "%d", "payload": {"who": "p"}, "recipient": {"address": "a@x.org", "customer_ref": "p"}}`, i))
			if got.Outcome != ingest.Created {
				t.Fatalf("edit %d: %+v", i, got)
			}
		}
		w := sendersOf(b, s, provider("memory", func() error { return nil }))
		x := fanout.New(s, catalog.New(s, enginetest.Options(nil)), nil, nil)
		var expanded, sent int
		for step := 0; expanded < edits || sent < 2*edits; step++ {
			n, err := x.Step(t.Context(), b.Now(), 500)
			if err != nil {
				t.Fatal(err)
			}
			counts, err := w.Step(t.Context(), b.Now(), 500)
			if err != nil {
				t.Fatal(err)
			}
			expanded, sent = expanded+n, sent+counts.Claimed
			if step > 2*edits {
				t.Fatalf("after %d steps %d instances are expanded and %d messages sent", step, expanded, sent)
			}
		}
	}
	for _, database := range storetest.EveryDatabase(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			pinned(t, storetest.Open(t, storetest.URL(t, database)))
		})
	}
}
