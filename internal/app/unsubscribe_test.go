package app_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/key"
)

const aTopic = `
workflow: news
type: digest
triggers: {id: now, event: item.published}
audience: {topics: matched, frequency: immediate}
channel: inbox
message: {inbox: {text: "{{ unsubscribe_link }}"}}
---
topic: tax
title: {en: Tax, de: Steuern}
---
channel: inbox
provider: inbox
`

// The link of a message ends the subscription that it is about, also the one that has taken its place, and nothing else. It is bound to its purpose,
// person and workspace, and each changed bit makes it invalid.
//
// Shows: E15.
func TestUnsubscribeLink(t *testing.T) {
	t.Parallel()
	settings := server(filepath.Join(t.TempDir(), "carillon.db"))
	settings.Work = false
	a := start(t, app.Config{Server: settings})
	c := admin(t, a)
	if _, err := c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: aTopic}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PostContacts(t.Context(), client.ContactInput{ID: "ann", Locale: "de", Addresses: map[string]string{"inbox": "ann"}}); err != nil {
		t.Fatal(err)
	}
	follow := func(frequency string) {
		t.Helper()
		if _, err := c.Subscribe(t.Context(), client.SubscriptionInput{Contact: "ann", Topic: "tax", Frequency: frequency}); err != nil {
			t.Fatal(err)
		}
	}
	active := func() (list []string) {
		t.Helper()
		found, err := c.Subscriptions(t.Context(), client.SubscriptionQuery{Contact: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found.Items {
			list = append(list, s.Topic+" "+s.Frequency)
		}
		return list
	}
	visit := func(method, link, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, link, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	follow("immediate")
	if _, err := c.Publish(t.Context(), map[string]any{"id": "1", "topics": []string{"tax"}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	found, err := c.Deliveries(t.Context(), client.DeliveryQuery{})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("%+v %v", found, err)
	}
	detail, err := c.Delivery(t.Context(), found.Items[0].ID)
	if err != nil || len(detail.Contents) == 0 {
		t.Fatalf("%+v %v", detail, err)
	}
	link := regexp.MustCompile(`http://\S+/u/\S+`).FindString(detail.Contents[0].Text)
	if link == "" {
		t.Fatalf("there is no link in %q", detail.Contents[0].Text)
	}
	if status, page := visit(http.MethodGet, link, ""); status != http.StatusOK || !strings.Contains(page, "Steuern") || len(active()) != 1 {
		t.Fatalf("%d %s", status, page)
	}
	const oneClick = "List-Unsubscribe=One-Click"
	token := link[strings.LastIndex(link, "/")+1:]
	for i := range token {
		other := byte('A')
		if token[i] == other {
			other = 'B'
		}
		changed := strings.TrimSuffix(link, token) + token[:i] + string(other) + token[i+1:]
		if status, _ := visit(http.MethodPost, changed, oneClick); status != http.StatusNotFound && status != http.StatusTooManyRequests {
			t.Errorf("with another sign at %d: %d", i, status)
		}
	}
	sign := func(l key.Link) string {
		t.Helper()
		text, err := a.Links().Sign(l)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(link, token) + text
	}
	opened, err := a.Links().Open(key.LinkUnsubscribe, token, time.Now())
	if err != nil || opened.Expires.Before(time.Now().AddDate(0, 11, 0)) {
		t.Fatalf("%+v %v", opened, err)
	}
	for name, l := range map[string]key.Link{
		"another purpose":    {Purpose: key.LinkManage, Workspace: opened.Workspace, Subject: opened.Subject},
		"another workspace":  {Purpose: key.LinkUnsubscribe, Workspace: 99, Subject: opened.Subject},
		"another person":     {Purpose: key.LinkUnsubscribe, Workspace: opened.Workspace, Subject: "1/topic/1"},
		"no subject of ours": {Purpose: key.LinkUnsubscribe, Workspace: opened.Workspace, Subject: "everything"},
		"an expired one":     {Purpose: key.LinkUnsubscribe, Workspace: opened.Workspace, Subject: opened.Subject, Expires: time.Now().Add(-time.Hour)},
	} {
		status, _ := visit(http.MethodPost, sign(l), oneClick)
		want := map[string]int{"an expired one": http.StatusGone, "another workspace": http.StatusOK, "another person": http.StatusOK}[name]
		if want == 0 {
			want = http.StatusNotFound
		}
		if status != want || len(active()) != 1 {
			t.Errorf("%s: %d", name, status)
		}
	}
	follow("daily")
	for range 2 {
		if status, page := visit(http.MethodPost, link, oneClick); status != http.StatusOK || len(active()) != 0 {
			t.Errorf("%d %s, and active are %q", status, page, active())
		}
	}
}
