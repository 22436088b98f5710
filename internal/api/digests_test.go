package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const news = `
workflow: news
type: digest
triggers:
  - id: daily
    schedule: {every: 1d, at: "08:30", timezone: UTC, period: 1d, period_end: "08:00"}
    audience: {topics: all, frequency: daily}
channel: inbox
message:
  inbox: {text: "{% for s in digest.sections %}{{ s.topic.title }}{% endfor %}"}
---
topic: tax
match: [{tags: {policy: {any: [tax]}}}]
---
topic: visas
match: [{tags: {policy: {any: [visas]}}}]
`

// The instance of a digest's run says what its window was and where it stands, and why it had nothing for a contact.
//
// Shows: R21, E19.
func TestARunOfADigest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply(news)
		ask := func(method, path, body string) string {
			t.Helper()
			status, answer := b.ask(method, path, body)
			if status >= 300 {
				t.Fatal(path, answer)
			}
			return answer
		}
		for _, name := range []string{"ann", "bob", "cid", "dan"} {
			ask("PUT", "/v1/contacts/"+name, fmt.Sprintf(`{"addresses": {"inbox": %q}}`, name))
		}
		ask("POST", "/v1/subscriptions", `{"subscriptions": [{"contact": "ann", "topic": "tax", "frequency": "daily"},
			{"contact": "bob", "topic": "visas", "frequency": "daily"}, {"contact": "cid", "topic": "tax", "frequency": "daily"}]}`)
		ask("POST", "/v1/items", `{"items": [{"id": "1", "tags": {"policy": ["tax"]}}]}`)
		tick := func() {
			for range 6 {
				if _, err := b.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		tick()
		ask("POST", "/v1/subscriptions/end", `{"subscriptions": [{"contact": "cid", "topic": "tax"}]}`)
		now := b.clock.Now()
		run := time.Date(now.Year(), now.Month(), now.Day()+1, 8, 30, 0, 0, time.UTC)
		b.clock.Set(run)
		tick()

		var page struct{ Items []struct{ ID, Status string } }
		if err := json.Unmarshal([]byte(ask("GET", "/v1/instances?workflow=news&status=completed", "")), &page); err != nil || len(page.Items) != 1 {
			t.Fatal(page, err)
		}
		type shown struct {
			Deliveries []struct {
				CustomerRef string `json:"customer_ref"`
			}
			DigestRun map[string]string `json:"digest_run"`
			Without   map[string]string
		}
		show := func(query string) (one shown) {
			t.Helper()
			if err := json.Unmarshal([]byte(ask("GET", "/v1/instances/"+page.Items[0].ID+query, "")), &one); err != nil {
				t.Fatal(err)
			}
			return one
		}
		at := func(hour, minute, days int) string {
			return time.Date(run.Year(), run.Month(), run.Day()-days, hour, minute, 0, 0, time.UTC).Format(time.RFC3339)
		}
		want := map[string]string{
			"status": "done", "window_start": at(8, 0, 1), "window_end": at(8, 0, 0), "begun_at": at(8, 30, 0), "expanded_at": at(8, 30, 0), "over_at": at(8, 30, 0),
		}
		if diff := cmp.Diff(want, show("").DigestRun); diff != "" {
			t.Errorf("the run (-want +got):\n%s", diff)
		}
		for name, tt := range map[string]struct {
			deliveries int
			reason     string
		}{"ann": {1, ""}, "bob": {0, "nothing_new"}, "cid": {0, "unsubscribed"}, "dan": {0, ""}} {
			if one := show("?contact=" + name); len(one.Deliveries) != tt.deliveries || one.Without["reason"] != tt.reason || (tt.reason != "") != (one.Without["contact"] == name) {
				t.Errorf("%s: %+v", name, one)
			}
		}
		if status, answer := b.ask("GET", "/v1/instances/"+page.Items[0].ID+"?contact=nobody", ""); status != 422 {
			t.Error(status, answer)
		}
		if status, answer := b.ask("POST", "/v1/instances/"+page.Items[0].ID+"/retry", `{"scope": "some"}`); status != 422 {
			t.Error(status, answer)
		}
		ask("POST", "/v1/instances/"+page.Items[0].ID+"/retry", `{"scope": "all"}`)
		tick()
		var sent struct{ Items []struct{ Key string } }
		if err := json.Unmarshal([]byte(ask("GET", "/v1/deliveries?to=ann&status=sent", "")), &sent); err != nil || len(sent.Items) != 2 {
			t.Error(sent, err)
		}
	})
}

// What a person is to confirm is one page of one person: what else is asked for with it is refused.
func TestPendingIsOnePage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		for query, field := range map[string]string{
			"pending=true": "query.pending", "pending=true&contact=ann&ended=true": "query.pending",
			"pending=true&contact=ann&cursor=x": "query.cursor", "pending=true&contact=ann&topic=tax": "query.topic",
		} {
			if status, answer := b.ask("GET", "/v1/subscriptions?"+query, ""); status != 422 || !strings.Contains(answer, `"`+field+`"`) {
				t.Errorf("%s: %d %s", query, status, answer)
			}
		}
	})
}
