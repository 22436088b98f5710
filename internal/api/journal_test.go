package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
)

// Every list of what happened is narrowed by instants, written as such or as how long ago they are.
func TestListsByTime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		event, in, delivery := b.post(b.Client, signedUp("one"))
		b.clock.Set(start.Add(48 * time.Hour))
		_, _, later := b.post(b.Client, signedUp("two"))
		if answer, err := b.PostEvents(t.Context(), signedUp("two")); err != nil || answer.Skipped != 1 {
			t.Fatalf("%+v, %v", answer, err)
		}

		list, err := b.Deliveries(t.Context(), client.DeliveryQuery{Since: "1d"})
		if err != nil || len(list.Items) != 1 || list.Items[0].ID != later {
			t.Errorf("deliveries since 1d: %+v, %v", list.Items, err)
		}
		list, err = b.Deliveries(t.Context(), client.DeliveryQuery{Until: start.Add(time.Hour).Format(time.RFC3339)})
		if err != nil || len(list.Items) != 1 || list.Items[0].ID != delivery {
			t.Errorf("deliveries until an hour later: %+v, %v", list.Items, err)
		}
		instances, err := b.Instances(t.Context(), client.InstanceQuery{Until: "1d"})
		if err != nil || len(instances.Items) != 1 || instances.Items[0].ID != in {
			t.Errorf("instances: %+v, %v", instances.Items, err)
		}
		instances, err = b.Instances(t.Context(), client.InstanceQuery{Reason: "workflow_paused"})
		if err != nil || len(instances.Items) != 0 {
			t.Errorf("instances with another reason: %+v, %v", instances.Items, err)
		}
		events, err := b.Events(t.Context(), client.EventQuery{Kind: "signed-up", Until: "1d"})
		if err != nil || len(events.Items) != 1 || events.Items[0].ID != event || events.Items[0].Recipient == nil || !strings.Contains(string(events.Items[0].Trace), "welcome") {
			t.Errorf("events: %+v, %v", events.Items, err)
		}
		decisions, err := b.Decisions(t.Context(), client.DecisionQuery{Since: "1h", Workflow: "welcome", Reason: "duplicate"})
		if err != nil || len(decisions.Items) != 1 || decisions.Items[0].Instance == "" || decisions.Items[0].Message == "" {
			all, _ := b.Decisions(t.Context(), client.DecisionQuery{})
			t.Errorf("decisions: %+v, %v; all: %+v", decisions.Items, err, all.Items)
		}
		status, text := b.ask(http.MethodGet, "/v1/deliveries?since=yesterday", "")
		if p := problemOf(t, text); status != http.StatusUnprocessableEntity || p.Field != "query.since" || !strings.Contains(p.Hint, "1d") {
			t.Errorf("got %d %s", status, text)
		}
	})
}
