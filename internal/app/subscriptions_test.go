package app_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
)

// What a person is to confirm is a list of its own, and ends with all that they follow.
//
// Shows: E2.
func TestSubscriptionsToConfirm(t *testing.T) {
	t.Parallel()
	settings := server(filepath.Join(t.TempDir(), "carillon.db"))
	settings.Work = false
	c := admin(t, start(t, app.Config{Server: settings}))
	if _, err := c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: aTopic + "---\ntopic: letter\nconfirm: true\n"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PostContacts(t.Context(), client.ContactInput{ID: "ann", Addresses: map[string]string{"inbox": "ann"}}); err != nil {
		t.Fatal(err)
	}
	list := func(q client.SubscriptionQuery) []client.Subscription {
		t.Helper()
		page, err := c.Subscriptions(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return page.Items
	}
	answer, err := c.Subscribe(t.Context(), client.SubscriptionInput{Contact: "ann", Topic: "letter", Frequency: "immediate"}, client.SubscriptionInput{Contact: "ann", Topic: "tax", Frequency: "immediate"})
	if err != nil || answer.Pending != 1 || answer.Created != 1 {
		t.Fatalf("%+v %v", answer, err)
	}
	waits := list(client.SubscriptionQuery{Contact: "ann", Pending: true})
	if len(waits) != 1 || waits[0].Topic != "letter" || waits[0].Status != "pending" || !waits[0].StartedAt.IsZero() || waits[0].ExpiresAt.Sub(waits[0].RequestedAt) != 7*24*time.Hour {
		t.Errorf("to be confirmed: %+v", waits)
	}
	if has := list(client.SubscriptionQuery{Contact: "ann"}); len(has) != 1 || has[0].Topic != "tax" || has[0].StartedAt.IsZero() {
		t.Errorf("subscriptions: %+v", has)
	}
	if none := list(client.SubscriptionQuery{Contact: "zoe", Pending: true}); len(none) > 0 {
		t.Errorf("of nobody: %+v", none)
	}
	for _, q := range []client.SubscriptionQuery{{Pending: true}, {Pending: true, Contact: "ann", Ended: true}, {Pending: true, Contact: "ann", Topic: "tax"}, {Pending: true, Topic: "tax"}} {
		var problem *client.Problem
		if _, err := c.Subscriptions(t.Context(), q); !errors.As(err, &problem) || problem.Status != 422 {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if answer, err = c.Unsubscribe(t.Context(), client.SubscriptionInput{Contact: "ann", All: true}); err != nil || answer.Changed != 1 || !slices.Equal(answer.Items[0].Topics, []string{"letter", "tax"}) {
		t.Errorf("the end of all: %+v %v", answer, err)
	}
	if left := append(list(client.SubscriptionQuery{Contact: "ann"}), list(client.SubscriptionQuery{Contact: "ann", Pending: true})...); len(left) > 0 {
		t.Errorf("after the end: %+v", left)
	}
}
