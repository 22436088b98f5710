package acceptance

import (
	"encoding/json"
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
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

// The rows of what readers and publishers meet: mails, the click that ends a subscription, and the ingest of items.

// govMail is a digest with the parts of one of their mails. Their headings need no space after the mark.
const govMail = `workspace: default
timezone: Europe/London
base_url: https://www.example.org
cadence: {max_per_day: 0}
---
workflow: updates
type: digest
triggers:
  - {id: immediate, event: item.published, audience: {topics: matched, frequency: immediate}, message: {email: {subject: "{{ item.title }}", text: "{{ item.title }}\n\nWhy am I getting this email?\nYou asked to be told at once about:\n{{ item.topics[0] }}\n{% unless item.ends %}Unsubscribe: {{ unsubscribe_link }}\n{% endunless %}Change your preferences: {{ manage_link }}\n"}}}
  - {id: daily, schedule: {every: 1d, at: "08:30", period: 1d, period_end: "08:00"}, audience: {topics: all, frequency: daily}}
  - {id: weekly, schedule: {every: 1w, days: [sat], at: "08:30", period: 1w, period_end: "08:00"}, audience: {topics: all, frequency: weekly}}
digest: {bundle: subscription}
channel: email
message:
  email:
    subject: "{{ trigger.id | capitalize }} update from GOV.UK for: {{ digest.sections[0].topic.title }}"
    text: |
      Your {{ trigger.id }} update from GOV.UK.
      {% for s in digest.sections %}
      # {{ s.topic.title }}
      ---
      {% for i in s.items %}{{ i.title }}
      Summary: {{ i.description | strip_markdown }}
      Change: {{ i.change_note | replace_first: "#", "# " | strip_markdown }}
      Time: {{ i.updated | date: "%-I:%M%P, %-d %B %Y" }}
      {% endfor %}---
      Unsubscribe: {{ s.unsubscribe_link }}
      {% endfor %}
---
workflow: receipts
type: custom
triggers: {id: paid, event: paid}
audience: {to: event.recipient}
channel: email
message: {email: {subject: Paid, text: Thanks}}
---
channel: email
provider: memory
---
topic: L1
title: TITLE
`

// mailWorld is a world with links, in which A follows L1.
func mailWorld(t *testing.T, s *store.Store, title, frequency string) (w govWorld, keys key.LinkKeys) {
	keys, err := key.ParseLinkKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	if err != nil {
		t.Fatal(err)
	}
	w = govWorld{enginetest.Setup(t, s, "workspace: default\n", func(c *engine.Config) { c.Links = keys }), t}
	w.Clock.Set(time.Date(2018, 4, 6, 10, 0, 0, 0, time.UTC))
	w.Apply(strings.Replace(govMail, "TITLE", title, 1))
	w.people("A", "other")
	for _, person := range []string{"A", "other"} {
		w.address(person, person+"@example.org")
	}
	w.follow("L1", frequency, "A")
	return w, keys
}

// digestMail is the mail of an item as somebody gets it on the Saturday.
func (w govWorld) digestMail(fields map[string]any) channel.Outgoing {
	w.t.Helper()
	return w.digestMailAt(fields, time.Date(2018, 4, 7, 8, 0, 0, 0, time.UTC))
}

// digestMailAt is the mail of an item as somebody gets it by an instant.
func (w govWorld) digestMailAt(fields map[string]any, by time.Time) channel.Outgoing {
	w.t.Helper()
	fields["id"], fields["topics"] = "c1", []string{"L1"}
	raw, err := json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	if results, err := w.PublishOnce(w.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil || results[0].Error != nil {
		w.t.Fatal(err, results[0].Error)
	}
	w.until(by)
	sent := w.Provider.Sent()
	if len(sent) != 1 {
		rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 5})
		w.t.Fatalf("%d mails of %d deliveries: %v %v", len(sent), len(rows), w.Attempts(rows[0].ID), err)
	}
	return sent[0]
}

// partsOf are the parts of a text in their order: each ends where the match of its pattern ends.
func partsOf(text string, patterns map[string]string) []string {
	at := map[string]int{}
	for name, pattern := range patterns {
		if found := regexp.MustCompile(pattern).FindStringIndex(text); found != nil {
			at[name] = found[1]
		}
	}
	names := []string{}
	for name := range at {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return at[a] - at[b] })
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, " (")
	}
	return names
}

func digestMail(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, _ := mailWorld(t, s, fmt.Sprint(r.Given["list_title"]), fmt.Sprint(r.Given["freq"]))
	mail := w.digestMail(map[string]any{"title": "A title", "description": "", "change_note": "", "updated": "2018-04-06T10:00:00Z"})
	subject := regexp.MustCompile(`^(\w+) update .* for: (.*)$`).FindStringSubmatch(mail.Subject)
	if subject == nil {
		t.Fatalf("subject %q", mail.Subject)
	}
	return map[string]any{
		"subject": fmt.Sprintf("{period:%s} update ... for: %s", subject[1], subject[2]),
		"body_order": partsOf(mail.Text, map[string]string{
			"opening line": "Your weekly update", "heading: list title": "# Test title 1", "rule (first)": `# .*\n---`, "change block": "A title", "rule (last)": `Time: .*\n---`,
			"footer": "Unsubscribe: https",
		}),
	}
}

func changeBlock(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, _ := mailWorld(t, s, "Visas", "weekly")
	mail := w.digestMail(map[string]any{"title": "A title", "description": r.Given["description"], "change_note": r.Given["change_note"], "updated": r.Given["updated"]})
	line := func(name string) string {
		_, rest, _ := strings.Cut(mail.Text, "\n"+name+": ")
		text, _, _ := strings.Cut(rest, "\n")
		return text
	}
	return map[string]any{"change_note_text": line("Change"), "summary_text": line("Summary"), "time_text": line("Time")}
}

// oneClickHeaders sends a message about a topic, and one about none.
func oneClickHeaders(t *testing.T, s *store.Store, _ govRow) map[string]any {
	w, _ := mailWorld(t, s, "Visas", "weekly")
	offers := []bool{w.digestMail(map[string]any{"title": "A title", "description": "", "change_note": "", "updated": "2018-04-06T10:00:00Z"}).Headers["List-Unsubscribe"] != ""}
	w.Post(`{"id": "1", "kind": "paid", "recipient": {"address": "a@example.org"}}`)
	w.until(w.Clock.Now())
	for _, mail := range w.Provider.Sent() {
		offers = append(offers, mail.Headers["List-Unsubscribe"] != "")
	}
	return map[string]any{"one_click_url": offers}
}

// active are the subscriptions of the row that A has, by their ids.
func (w govWorld) active(subs []any) []string {
	w.t.Helper()
	c, _, err := w.Store.ContactByExtID(w.Context(), w.Workspace.ID, "A")
	if err != nil {
		w.t.Fatal(err)
	}
	ids := []string{}
	err = w.Store.Read(w.Context(), func(tx *store.Tx) error {
		listed, err := tx.SubscriptionsOfContact(w.Workspace.ID, c.ID)
		for _, sub := range listed {
			for i := len(subs) - 1; i >= 0 && sub.Active(); i-- { // the newest one of that topic
				if dig(subs[i])["list"] == "L1" {
					ids = append(ids, fmt.Sprint(dig(subs[i])["id"]))
					break
				}
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

// oneClickWorld lets the subscriptions of a row happen, and makes the link of one to L1: of A, or of the subscriber that the row names.
func oneClickWorld(t *testing.T, s *store.Store, r govRow) (w govWorld, visit func(method, token, body string) int, sign func(person string, l key.Link) string) {
	w, keys := mailWorld(t, s, "Visas", fmt.Sprint(dig(r.Given["subs"].([]any)[0])["freq"]))
	for _, v := range r.Given["subs"].([]any)[1:] { // it takes the place of the one before
		w.Clock.Set(w.Clock.Now().Add(time.Hour))
		if first := dig(r.Given["subs"].([]any)[0]); first["freq"] == dig(v)["freq"] {
			w.follow("L1", "", "A")
		}
		w.follow("L1", fmt.Sprint(dig(v)["freq"]), "A")
	}
	pages := public.Handler(nil, public.Options{Clock: w.Clock, Subscriptions: app.Subscriptions(w.Engine, keys, w.Clock)})
	visit = func(method, token, body string) int {
		request := httptest.NewRequest(method, "/u/"+token, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer := httptest.NewRecorder()
		pages.ServeHTTP(answer, request)
		return answer.Code
	}
	sign = func(person string, l key.Link) string {
		c, _, err := s.ContactByExtID(t.Context(), w.Workspace.ID, person)
		if err != nil {
			t.Fatal(err)
		}
		of, err := s.Topic(t.Context(), w.Workspace.ID, "L1")
		if err != nil {
			t.Fatal(err)
		}
		l.Purpose, l.Workspace, l.Subject = key.LinkUnsubscribe, int64(w.Workspace.ID), topic.Leaving{Contact: c.ID, Topic: of.ID}.String()
		token, err := keys.Sign(l)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	return w, visit, sign
}

// oneClickPost answers the click of a mail program. A link of ours names its subscription itself, so that one with the token of somebody else is a forged one. What
// they answer with 401 is 404 here, or 410 if the link was valid once.
func oneClickPost(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, visit, sign := oneClickWorld(t, s, r)
	token := dig(r.When["token"])
	link := key.Link{Expires: w.Clock.Now().AddDate(1, 0, 0)}
	if token["expired"] == true {
		link.Expires = w.Clock.Now().Add(-time.Second)
	}
	text := sign("A", link)
	if person := fmt.Sprint(token["subscriber"]); person != "A" {
		other := sign(person, link)
		text = text[:len(text)-20] + other[len(other)-20:]
	}
	status := visit(http.MethodPost, text, "List-Unsubscribe=One-Click")
	if status == http.StatusNotFound || status == http.StatusGone {
		status = http.StatusUnauthorized
	}
	return map[string]any{"status": status, "active": w.active(r.Given["subs"].([]any))}
}

// unsubscribePage follows the link of a subscription that has ended: its page is about the one that has taken its place.
func unsubscribePage(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, visit, sign := oneClickWorld(t, s, r)
	text := sign("A", key.Link{Expires: w.Clock.Now().AddDate(1, 0, 0)})
	subs := r.Given["subs"].([]any)
	before, shown := w.active(subs), visit(http.MethodGet, text, "")
	kept := w.active(subs)
	left := visit(http.MethodPost, text, "confirm=yes")
	if shown != http.StatusOK || left != http.StatusSeeOther || !slices.Equal(before, kept) || len(before) != 1 || len(w.active(subs)) != 0 {
		return map[string]any{"redirect_to": fmt.Sprint(before, shown, kept, left)}
	}
	return map[string]any{"redirect_to": before[0]}
}

// ingestOf publishes an item again. They refuse it with 409; here the answer names it as skipped.
func ingestOf(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := newWorld(t, s, "workspace: default\n")
	publish := func(path, id, version any) map[string]any {
		status, answer := w.post("/v1/items", map[string]any{"items": []any{map[string]any{"id": fmt.Sprint(path, id), "version": version}}})
		if status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
		return dig(answer, "items", 0)
	}
	for _, v := range r.Given["known"].([]any) {
		known := v.([]any)
		publish(known[0], known[1], known[2])
	}
	status := http.StatusAccepted
	if again := publish(r.When["path"], r.When["key"], r.When["public_at"]); again["outcome"] == "skipped" && again["reason"] == "duplicate" {
		status = http.StatusConflict
	}
	return map[string]any{"status": status}
}

// ingestErrors publishes without an id, which is what an item needs here, without a key, and with one that may only read.
func ingestErrors(t *testing.T, s *store.Store, _ govRow) map[string]any {
	w := newWorld(t, s, "workspace: default\n")
	missing := http.StatusAccepted
	if _, answer := w.post("/v1/items", map[string]any{"items": []any{map[string]any{"title": "x"}}}); dig(answer, "items", 0)["outcome"] == "failed" {
		missing = http.StatusUnprocessableEntity
	}
	with := func(secret string) int {
		w.key = secret
		status, _ := w.post("/v1/items", map[string]any{"items": []any{map[string]any{"id": "1"}}})
		return status
	}
	reads := app.NewKey()
	if err := s.CreateKey(t.Context(), store.APIKey{
		ID: s.NewID(enginetest.Start), Workspace: w.Workspace.ID, Name: "reads", Hash: api.HashKey(reads), Scopes: []string{"read"}, CreatedAt: enginetest.Start,
	}); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"title_missing": missing, "no_login": with(""), "no_permission": with(reads)}
}

// matchedAgain has further steps meet an item that was matched and processed.
func matchedAgain(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := govAt(t, s, time.Date(2017, 1, 1, 10, 0, 0, 0, time.UTC), govDefinitions("UTC", 8, []string{"L1"}))
	w.people("A")
	w.follow("L1", "immediate", "A")
	w.publish("c1", "L1")
	w.until(w.Clock.Now())
	last := func() (n int64) {
		err := s.Read(t.Context(), func(tx *store.Tx) (err error) { n, err = tx.LastMatch(w.Workspace.ID); return err })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, sent := last(), len(w.Provider.Sent())
	if before != 1 || sent != 1 {
		t.Fatal(before, sent)
	}
	w.publish("c1", "L1") // known
	w.until(w.Clock.Now().Add(time.Minute))
	added, mails := int(last()-before), len(w.Provider.Sent())
	if r.op() == "match" {
		return map[string]any{"new_matches": added}
	}
	return map[string]any{"matches": added, "mails": mails}
}
