package ingest_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// An event that is new for one workflow and known to another one is created: it is stored, its new occasion is sent, and its answer names both. It is
// a duplicate only if every workflow knows it.
//
// Shows: C11, C13.
func TestAnEventThatIsNewForOneWorkflow(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		post := func(number int, address string) ingest.Result {
			t.Helper()
			results, err := b.Ingest(t.Context(), b.ws, parsed(order(number, 50, address)), enginetest.Start, nil)
			if err != nil {
				t.Fatal(err)
			}
			return results[0]
		}
		first := post(1, "a@example.org")
		half := post(1, "b@example.org") // the order is known by its number, the follow-up by the contact too
		if half.Outcome != ingest.Created || half.Reason != "" || half.Event == 0 || half.Event == first.Event {
			t.Errorf("new for one workflow: %+v", half)
		}
		outcomes := map[string]ingest.InstanceResult{}
		for _, one := range half.Instances {
			outcomes[one.Workflow] = one
		}
		if known := outcomes["order"]; known.Outcome != ingest.Skipped || known.Reason != reason.Duplicate || known.ID != first.Instances[0].ID && known.ID != first.Instances[1].ID {
			t.Errorf("known to one: %+v", known)
		}
		if made := outcomes["follow-up"]; made.Outcome != ingest.Created || len(made.Deliveries) != 1 {
			t.Errorf("new for the other: %+v", made)
		}
		if again := post(1, "b@example.org"); again.Outcome != ingest.Skipped || again.Reason != reason.Duplicate || again.Event != 0 || len(again.Instances) != 2 {
			t.Errorf("known to both: %+v", again)
		}
		counts, err := s.Counts(t.Context(), b.ws.ID)
		if err != nil || counts.Events != 2 {
			t.Errorf("%d events are stored, %v", counts.Events, err)
		}
	})
}

// A request that was planned by an older set never joins the transaction of one that was planned by the set in force. It gets its own transaction,
// which finds that its set is not in force any more.
func TestAnOlderPlanJoinsNoGroup(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apart(orders(1))
		var options loader.Options
		bundle := enginetest.Setup(t, s, "", func(c *engine.Config) { options = c.Definitions })
		older, err := catalog.New(s, options).Current(t.Context(), b.ws.ID)
		if err != nil {
			t.Fatal(err)
		}
		bundle.Apply(strings.ReplaceAll(rules, "Thank you", "Thanks"))
		calls := orders(5)[1:]
		b.apart(calls[:1]) // the new set is loaded
		var late error
		var running sync.WaitGroup
		b.together(calls[1:3], func() { // one holds the only transaction, one waits, and the older one waits behind it
			running.Go(func() { _, late = b.IngestBy(t.Context(), b.ws, older, calls[3].items, enginetest.Start) })
			b.await(2)
		})
		running.Wait()
		b.created(calls[:3]...)
		if !errors.Is(late, store.ErrStaleDefinitions) {
			t.Errorf("the older plan: %v, want %v", late, store.ErrStaleDefinitions)
		}
		rows, err := s.Instances(t.Context(), b.ws.ID, store.InstanceFilter{Workflow: "order"}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		by := map[int64]int{}
		for _, row := range rows {
			by[row.WorkflowVersion]++
		}
		if by[1] != 1 || by[2] != 3 {
			t.Errorf("instances by version: %v, want one of the first and three of the second", by)
		}
	})
}
