package engine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// One request ends all subscriptions of a person, and drops what they were to confirm. Others keep theirs, and nothing that waits leaves.
//
// Shows: E2, P5.
func TestEndAllSubscriptions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsOfTopics+"---\ntopic: letter\nconfirm: true\n", "ann", "bob")
		end := func(raw string) topics.Subscribed {
			t.Helper()
			list := []topics.Request{topics.ParseRequest(json.RawMessage(raw), true)}
			results, err := w.Topics().Unsubscribe(t.Context(), w.Workspace, list, w.Clock.Now(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return results[0]
		}
		says := func(what string, got topics.Subscribed, outcome string, topics ...string) {
			t.Helper()
			if string(got.Outcome) != outcome || !slices.Equal(got.Topics, topics) {
				t.Errorf("%s: %s %v %v, want %s %v", what, got.Outcome, got.Topics, got.Error, outcome, topics)
			}
		}
		for _, of := range []string{"ann tax immediate", "ann visas immediate", "ann letter immediate", "bob tax immediate"} {
			p := strings.Fields(of)
			w.subscribe(p[0], p[1], p[2])
		}
		w.person("ann", `"persona": "Manager", "cadence": {"quiet_hours": "09:00-11:00"}`)
		w.publish(`{"id": "1", "tags": {"policy": "tax"}}`)
		w.mustBe("who may be reached", w.told(), []string{"bob 1"})
		says("all of hers", end(`{"contact": "ann", "all": true}`), "changed", "letter", "tax", "visas")
		says("again", end(`{"contact": "ann", "all": true}`), "unchanged")
		w.Clock.Set(at("12:00"))
		w.publish(`{"id": "2", "tags": {"policy": "tax"}}`)
		w.mustBe("after the end", w.told(), []string{"bob 2"})
		row, err := s.ContactRow(t.Context(), w.Workspace.ID, "ann")
		if err != nil {
			t.Fatal(err)
		}
		if left, err := s.RequestsOfContact(t.Context(), w.Workspace.ID, row.ID); err != nil || len(left) > 0 {
			t.Errorf("still to confirm: %v %v", left, err)
		}
		w.signUp("Eve@example.org", "tax", "immediate")
		says("by address", end(`{"address": "eve@example.org", "all": true}`), "changed", "tax")
		for raw, field := range map[string]string{
			`{"address": "nobody@example.org", "all": true}`:      "address",
			`{"contact": "zoe", "all": true}`:                     "contact",
			`{"contact": "ann", "all": true, "topic": "tax"}`:     "all",
			`{"contact": "ann", "all": false}`:                    "topic",
			`{"contact": "ann", "all": "yes"}`:                    "all",
			`{"contact": "ann", "all": true, "confirmed": false}`: "confirmed",
			`{"all": true}`: "contact",
		} {
			if got := end(raw); got.Error == nil || got.Error.Field != field {
				t.Errorf("%s: %v, want an error of %s", raw, got.Error, field)
			}
		}
		if got := topics.ParseRequest(json.RawMessage(`{"contact": "ann", "topic": "tax", "frequency": "daily", "all": true}`), false); got.Err == nil || got.Err.Field != "all" {
			t.Errorf("all of a subscription that begins: %v", got.Err)
		}
		w.Clock.Set(at("12:00").Add(time.Hour))
		w.mustBe("later", w.told(), nil)
	})
}
