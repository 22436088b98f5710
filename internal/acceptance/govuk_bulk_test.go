package acceptance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/telemetry"
)

// The rows of what is done to the subscriptions of many, and of the answers to those who ask for one, over the API.

// bulkWorld is a world with the API, in which the people of a row follow topics.
func bulkWorld(t *testing.T, s *store.Store, r govRow) *world {
	w := newWorld(t, s, govDefinitions("UTC", 8, []string{"L1", "L2", "L3"}))
	subs, _ := r.Given["subs"].([]any)
	for _, v := range subs {
		sub := dig(v)
		w.must(http.MethodPost, "/v1/contacts", map[string]any{"contacts": []any{map[string]any{"id": sub["subscriber"], "addresses": map[string]any{"inbox": sub["subscriber"]}}}})
		one := map[string]any{"contact": sub["subscriber"], "topic": sub["list"]}
		if sub["ended_at"] != nil {
			defer w.must(http.MethodPost, "/v1/subscriptions/end", map[string]any{"subscriptions": []any{one}})
		}
		w.must(http.MethodPost, "/v1/subscriptions", map[string]any{"subscriptions": []any{map[string]any{"contact": sub["subscriber"], "topic": sub["list"], "frequency": sub["freq"]}}})
	}
	return w
}

// goOn are the subscriptions that go on, as the row lists them, and why the others ended.
func (w *world) goOn() (active [][]string, ended map[string]string) {
	w.Helper()
	rows, err := w.Store.Subscriptions(w.Context(), w.Workspace.ID, store.SubscriptionFilter{Ended: true, Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	active, ended = [][]string{}, map[string]string{}
	for _, s := range rows {
		if s.Active() {
			active = append(active, []string{s.ContactExtID, s.TopicName, s.Frequency})
		} else {
			ended[s.ContactExtID+" "+s.TopicName] = string(s.EndReason)
		}
	}
	slices.SortFunc(active, func(a, b []string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	return active, ended
}

func (w *world) work() {
	w.Helper()
	for range 5 {
		if _, err := w.Tick(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

// bulkUnsubscribe ends the subscriptions to a topic. Where they take a body and an id of a message, ours take an item.
func bulkUnsubscribe(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := bulkWorld(t, s, r)
	used, _ := r.Given["used_ids"].([]any)
	for _, id := range used {
		if status, answer := w.post("/v1/items", map[string]any{"items": []any{map[string]any{"id": id}}}); status != http.StatusAccepted {
			t.Fatal(answer)
		}
	}
	request := map[string]any{"action": "unsubscribe", "topics": []any{r.When["list"]}}
	if body := r.When["body"]; body != nil {
		told := map[string]any{"body": body}
		if id := r.When["sender_message_id"]; id != nil {
			told["id"] = id
		}
		request["item"] = told
	}
	status, _ := w.post("/v1/subscriptions/bulk", request)
	w.work()
	active, _ := w.goOn()
	ids := []string{}
	subs, _ := r.Given["subs"].([]any)
	for _, v := range subs {
		if slices.ContainsFunc(active, func(one []string) bool { return one[0] == dig(v)["subscriber"] && one[1] == dig(v)["list"] }) {
			ids = append(ids, fmt.Sprint(dig(v)["id"]))
		}
	}
	return map[string]any{"status": status, "active": ids}
}

// bulkMigrate moves the people of a topic to another one. Their mail to the operator is our entry of the audit.
func bulkMigrate(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := bulkWorld(t, s, r)
	w.must(http.MethodPost, "/v1/subscriptions/bulk", map[string]any{"action": "migrate", "topics": []any{r.When["from"]}, "to": r.When["to"]})
	w.work()
	active, why := w.goOn()
	ended := [][]string{}
	for _, v := range r.Given["subs"].([]any) {
		if reason := why[fmt.Sprint(dig(v)["subscriber"], " ", dig(v)["list"])]; reason != "" {
			ended = append(ended, []string{fmt.Sprint(dig(v)["id"]), reason})
		}
	}
	audits, err := s.AuditLog(t.Context(), w.Workspace.ID, store.Page{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, a := range audits {
		if a.Action == "migrate many" && a.Actor == "acceptance" {
			told++
		}
	}
	return map[string]any{"active": active, "ended": ended, "operator_mail": told}
}

// unsubscribeRow ends subscriptions that have ended, or never were. Their 404 is an answer that says so of each: unchanged, or failed.
func unsubscribeRow(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := bulkWorld(t, s, r)
	statuses := []int{}
	for _, id := range r.When["id"].([]any) {
		one := map[string]any{"contact": "nobody", "topic": "L1"}
		for _, v := range r.Given["subs"].([]any) {
			if dig(v)["id"] == id {
				one["contact"], one["topic"] = dig(v)["subscriber"], dig(v)["list"]
			}
		}
		_, answer := w.post("/v1/subscriptions/end", map[string]any{"subscriptions": []any{one}})
		status := http.StatusNoContent
		if outcome := dig(answer, "items", 0)["outcome"]; outcome == "unchanged" || outcome == "failed" {
			status = http.StatusNotFound
		}
		statuses = append(statuses, status)
	}
	return map[string]any{"status": statuses}
}

// unsubscribeAll ends all subscriptions of a person, and reads the metric.
func unsubscribeAll(t *testing.T, s *store.Store, r govRow) map[string]any {
	metrics := telemetry.NewMetrics(telemetry.MetricsOptions{Now: func() time.Time { return enginetest.Start }})
	s.OnFollowed(func(n map[store.Followed]int) {
		for of, count := range n {
			metrics.Subscriptions(string(of.Source), string(of.Reason), count)
		}
	})
	w := bulkWorld(t, s, r)
	w.must(http.MethodPost, "/v1/subscriptions/end", map[string]any{"subscriptions": []any{map[string]any{"contact": r.When["subscriber"], "all": true}}})
	active, _ := w.goOn()
	page := httptest.NewRecorder()
	metrics.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	counted := map[string]any{}
	for _, found := range regexp.MustCompile(`(?m)^carillon_subscriptions_ended_total\{reason="(\w+)"\} (\d+)$`).FindAllStringSubmatch(page.Body.String(), -1) {
		n := 0
		if _, err := fmt.Sscan(found[2], &n); err != nil {
			t.Fatal(err)
		}
		counted[found[1]] = n
	}
	return map[string]any{"active": active, "metric": counted}
}

// subscribeErrors asks for subscriptions that cannot be. One that is refused is named in the answer, by its field.
func subscribeErrors(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := bulkWorld(t, s, r)
	try := func(one map[string]any, statuses map[string]int) int {
		status, answer := w.post("/v1/subscriptions", map[string]any{"subscriptions": []any{one}})
		if status == http.StatusOK && dig(answer, "items", 0)["outcome"] == "failed" {
			return statuses[fmt.Sprint(dig(answer, "items", 0)["field"])]
		}
		return status
	}
	with := func(secret string) int {
		w.key = secret
		return try(map[string]any{"address": "a@example.org", "topic": "L1", "frequency": "daily"}, nil)
	}
	reads := app.NewKey()
	if err := s.CreateKey(t.Context(), store.APIKey{
		ID: s.NewID(enginetest.Start), Workspace: w.Workspace.ID, Name: "reads", Hash: api.HashKey(reads), Scopes: []string{"read"}, CreatedAt: enginetest.Start,
	}); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"unknown_list":    try(map[string]any{"address": "a@example.org", "topic": "nope", "frequency": "daily"}, map[string]int{"topic": http.StatusNotFound}),
		"missing_address": try(map[string]any{"topic": "L1", "frequency": "daily"}, map[string]int{"contact": http.StatusBadRequest}),
		"missing_list":    try(map[string]any{"address": "a@example.org", "frequency": "daily"}, map[string]int{"topic": http.StatusBadRequest}),
		"address_invalid": try(map[string]any{"address": "me@localhost", "topic": "L1", "frequency": "daily"}, map[string]int{"address": http.StatusUnprocessableEntity}),
		"not_logged_in":   with(""),
		"no_permission":   with(reads),
	}
}

// footerOf reads the footer of a message, which its author writes. One that tells the end of a subscription leaves the link out.
func footerOf(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, _ := mailWorld(t, s, "Visas", fmt.Sprint(r.Given["freq"]))
	mail := w.digestMailAt(map[string]any{"title": "A title", "ends": r.Given["omit_unsubscribe"] == true}, w.Clock.Now())
	parts := map[string]string{
		"why-heading": `Why am I getting this email\?`, "reason for this frequency": "You asked to be told at once about:", "list title": `(?m)^L1$`,
		"unsubscribe link (this subscription, token)": `Unsubscribe: https://www\.example\.org/\S+`,
		"manage-preferences link (address)":           `Change your preferences: https://www\.example\.org/\S+`,
	}
	at := map[string]int{}
	order := []string{}
	for name, pattern := range parts {
		if found := regexp.MustCompile(pattern).FindStringIndex(mail.Text); found != nil {
			at[name], order = found[0], append(order, name)
		}
	}
	slices.SortFunc(order, func(a, b string) int { return at[a] - at[b] })
	return map[string]any{"order": order}
}
