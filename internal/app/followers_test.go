package app_test

import (
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
)

const followed = `
workflow: news
type: digest
triggers:
  - {id: now, event: item.published, audience: {topics: matched, frequency: immediate}}
  - {id: daily, schedule: {every: 1d, at: "08:00", period: 1d}, audience: {topics: all, frequency: daily}}
channel: inbox
message: {inbox: {text: "{{ unsubscribe_link }} {{ manage_link }}"}}
---
workflow: confirm
type: notice
audience: {to: event.recipient}
triggers: {id: asked, event: subscription.requested}
channel: inbox
message: {inbox: {text: "{{ event.title }} {{ event.frequency }} {{ event.reminder }} {{ confirm_link }}"}}
---
workflow: link
type: notice
audience: {to: event.recipient}
triggers: {id: asked, event: subscription.link_requested}
channel: inbox
message: {inbox: {text: "{{ manage_link }}"}}
---
topic: tax
title: {en: Tax, de: Steuern}
frequencies: [daily, immediate]
confirm: true
---
topic: visas
---
channel: inbox
provider: inbox
`

// follower is a server with topics, its API, and the requests of a reader without a sign-in.
type follower struct {
	*testing.T
	a *app.App
	c *client.Client
}

func newFollower(t *testing.T) follower {
	t.Helper()
	settings := server(filepath.Join(t.TempDir(), "carillon.db"))
	settings.Work = false
	a := start(t, app.Config{Server: settings})
	f := follower{t, a, admin(t, a)}
	if _, err := f.c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: followed}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// visit makes a request as a browser does, without following redirects.
func (f follower) visit(link string, form url.Values) (status int, page, location string) {
	f.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r, err := http.NewRequestWithContext(f.Context(), method, link, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	once := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := once.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		f.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header.Get("Location")
}

// mustVisit fails if the page does not say what it should.
func (f follower) mustVisit(link string, form url.Values, status int, says ...string) {
	f.Helper()
	got, page, _ := f.visit(link, form)
	for _, text := range says {
		if !strings.Contains(page, text) {
			f.Errorf("%s does not say %q", link, text)
		}
	}
	if got != status {
		f.Errorf("%s: status %d, want %d", link, got, status)
	}
}

// texts returns the texts that were sent since the last call, the oldest first, and keeps what was seen.
func (f follower) texts(seen map[string]bool) (list []string) {
	f.Helper()
	for range 4 {
		if _, err := f.c.Tick(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
	found, err := f.c.Deliveries(f.Context(), client.DeliveryQuery{})
	if err != nil {
		f.Fatal(err)
	}
	for i := len(found.Items) - 1; i >= 0; i-- {
		if id := found.Items[i].ID; !seen[id] {
			seen[id] = true
			detail, err := f.c.Delivery(f.Context(), id)
			if err != nil {
				f.Fatal(err)
			}
			for _, content := range detail.Contents {
				list = append(list, content.Text)
			}
		}
	}
	return list
}

func (f follower) mustFollow(what string, want ...string) {
	f.Helper()
	found, err := f.c.Subscriptions(f.Context(), client.SubscriptionQuery{})
	if err != nil {
		f.Fatal(err)
	}
	var list []string
	for _, s := range found.Items {
		list = append(list, s.Topic+" "+s.Frequency+" "+s.Source)
	}
	if diff := cmp.Diff(want, list); diff != "" {
		f.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

var linkIn = regexp.MustCompile(`http://\S+/[cmu]/\S+`) //nolint:gochecknoglobals // a pattern

// Somebody signs up by an address, confirms it, and later chooses what they get by a link, without a sign-in.
func TestFollowerByLinks(t *testing.T) {
	t.Parallel()
	f := newFollower(t)
	yes, seen := url.Values{"confirm": {"yes"}}, map[string]bool{}
	signUp := func(frequency, outcome string) {
		t.Helper()
		answer, err := f.c.Subscribe(t.Context(), client.SubscriptionInput{Address: "Ann@example.org", Locale: "de", Topic: "tax", Frequency: frequency})
		if err != nil || answer.Items[0].Outcome != outcome {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	signUp("immediate", "pending")
	signUp("daily", "pending") // takes its place
	signUp("daily", "pending") // asks nobody again
	if _, err := f.c.Publish(t.Context(), map[string]any{"id": "1", "topics": []string{"tax"}}); err != nil {
		t.Fatal(err)
	}
	f.mustFollow("before it is confirmed")
	asked := f.texts(seen)
	if len(asked) != 1 || !strings.HasPrefix(asked[0], "Steuern daily false http") {
		t.Fatalf("sent: %q", asked)
	}
	confirm := linkIn.FindString(asked[0])
	f.mustVisit(confirm, nil, http.StatusOK, "Steuern", "Jeden Tag", "Bestätigen")
	f.mustFollow("after a look at the page")
	if status, _, location := f.visit(confirm, yes); status != http.StatusSeeOther || !strings.HasSuffix(confirm, location) {
		t.Errorf("%d, to %q", status, location)
	}
	f.mustFollow("confirmed", "tax daily api")
	f.mustVisit(confirm, yes, http.StatusSeeOther)
	f.mustVisit(confirm, nil, http.StatusOK, "Abonniert")
	signUp("daily", "unchanged")
	signUp("immediate", "pending")
	f.mustFollow("a change waits to be confirmed", "tax daily api")
	if asked = f.texts(seen); len(asked) != 1 || !strings.HasPrefix(asked[0], "Steuern immediate false") {
		t.Fatalf("sent: %q", asked)
	}
	f.mustVisit(linkIn.FindString(asked[0]), yes, http.StatusSeeOther)
	f.mustFollow("the change is confirmed", "tax immediate frequency_changed")

	// A link to the page, for who has none.
	lost := f.a.URL() + "/m/-/default"
	f.mustVisit(lost, nil, http.StatusOK, "E-mail address")
	f.mustVisit(lost, url.Values{"address": {"nobody@example.org"}}, http.StatusOK, "a link arrives there")
	f.mustVisit(lost, url.Values{"address": {"me@localhost"}}, http.StatusUnprocessableEntity, "me@localhost", "such as name@example.com")
	f.mustVisit(lost, url.Values{"address": {" ANN@example.org"}}, http.StatusOK, "a link arrives there")
	f.mustVisit(lost, url.Values{"address": {"ann@example.org"}}, http.StatusOK, "a link arrives there")
	f.mustVisit(f.a.URL()+"/m/-/elsewhere", nil, http.StatusNotFound)
	asked = f.texts(seen)
	if len(asked) != 1 {
		t.Fatalf("sent: %q", asked)
	}
	manage := linkIn.FindString(asked[0])
	f.mustVisit(manage, nil, http.StatusOK, "Steuern", `value="immediate" checked`, "Jeden Tag", "Gar nicht", "Alle Themen abbestellen")
	f.mustFollow("after a look at the page", "tax immediate frequency_changed")
	f.mustVisit(manage, url.Values{"was:tax": {"immediate"}, "to:tax": {"immediate"}}, http.StatusSeeOther)
	f.mustFollow("the same again", "tax immediate frequency_changed")
	if _, _, location := f.visit(manage, url.Values{"was:tax": {"immediate"}, "to:tax": {"hourly"}}); !strings.HasSuffix(location, "refused") {
		t.Errorf("to %q", location)
	}
	f.mustVisit(manage+"?saved&refused", nil, http.StatusOK, "wird nicht mehr angeboten")
	if _, _, location := f.visit(manage, url.Values{"was:tax": {"immediate"}, "to:tax": {"daily"}}); !strings.HasSuffix(location, "?saved") {
		t.Errorf("to %q", location)
	}
	f.mustVisit(manage+"?saved", nil, http.StatusOK, "Ihre Auswahl ist gespeichert", `value="daily" checked`)
	f.mustFollow("another frequency", "tax daily frequency_changed")
	f.mustVisit(manage, url.Values{"was:tax": {"daily"}, "to:tax": {"daily"}, "all": {"yes"}}, http.StatusSeeOther)
	f.mustFollow("left")
	f.mustVisit(manage, nil, http.StatusOK, "Sie haben dieses Thema abbestellt", `value="" checked`)
	f.mustVisit(manage, url.Values{"was:tax": {""}, "to:tax": {"daily"}}, http.StatusSeeOther)
	f.mustFollow("back again", "tax daily manage_link")
	f.mustVisit(manage, url.Values{}, http.StatusBadRequest)

	audit, err := f.a.Store().AuditLog(t.Context(), f.a.Workspace().ID, store.Page{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	actors := map[string]int{}
	for _, entry := range audit {
		actors[entry.Actor]++
	}
	if actors["manage link"] != 3 || actors["confirm link"] != 2 {
		t.Errorf("the audit has %v", actors)
	}
}

// A token opens the pages of its own purpose, until it expires; whose link has expired can have a new one sent to them.
func TestFollowersTokens(t *testing.T) {
	t.Parallel()
	f := newFollower(t)
	seen := map[string]bool{}
	if _, err := f.c.Subscribe(t.Context(), client.SubscriptionInput{Address: "ann@example.org", Topic: "tax", Frequency: "immediate", Confirmed: true}); err != nil {
		t.Fatal(err)
	}
	f.mustFollow("known to want it", "tax immediate api")
	if _, err := f.c.Publish(t.Context(), map[string]any{"id": "1", "topics": []string{"tax"}}); err != nil {
		t.Fatal(err)
	}
	sent := f.texts(seen)
	if len(sent) != 1 {
		t.Fatalf("sent: %q", sent)
	}
	links := linkIn.FindAllString(sent[0], -1)
	token := func(link string) string { return link[strings.LastIndex(link, "/")+1:] }
	opened, err := f.a.Links().Open(key.LinkManage, token(links[1]), time.Now())
	if err != nil || opened.Expires.Before(time.Now().AddDate(0, 0, 28)) || opened.Expires.After(time.Now().AddDate(0, 0, 31)) {
		t.Fatalf("%+v %v", opened, err)
	}
	sign := func(l key.Link) string {
		t.Helper()
		text, err := f.a.Links().Sign(l)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	confirm := sign(key.Link{Purpose: key.LinkConfirm, Workspace: opened.Workspace, Subject: opened.Subject + "/visas"})
	for path, tokens := range map[string][]string{
		"/m/": {token(links[0]), confirm}, "/u/": {token(links[1]), confirm}, "/c/": {token(links[0]), token(links[1])},
	} {
		for _, one := range tokens {
			f.mustVisit(f.a.URL()+path+one, nil, http.StatusNotFound)
			f.mustVisit(f.a.URL()+path+one, url.Values{"confirm": {"yes"}, "was:tax": {"immediate"}, "to:tax": {""}}, http.StatusNotFound)
		}
	}
	for name, l := range map[string]key.Link{
		"another workspace": {Purpose: key.LinkManage, Workspace: 99, Subject: opened.Subject},
		"another person":    {Purpose: key.LinkManage, Workspace: opened.Workspace, Subject: "1"},
		"no subject":        {Purpose: key.LinkManage, Workspace: opened.Workspace, Subject: "everything"},
	} {
		if status, _, _ := f.visit(f.a.URL()+"/m/"+sign(l), url.Values{"was:tax": {"immediate"}, "to:tax": {""}}); status != http.StatusNotFound {
			t.Errorf("%s: status %d", name, status)
		}
	}
	for _, forged := range []url.Values{
		{"was:visas": {""}, "to:visas": {"immediate"}}, // that they never followed
		{"was:tax": {"immediate"}, "to:tax": {"every-minute"}},
		{"was:tax": {"immediate"}, "to:tax": {"daily\x00"}},
		{"was:tax\x00": {"immediate"}, "to:tax\x00": {"daily"}},
	} {
		status, _, location := f.visit(links[1], forged)
		if status != http.StatusSeeOther || !strings.HasSuffix(location, "&refused") {
			t.Errorf("%v: status %d, to %q", forged, status, location)
		}
	}
	f.mustVisit(f.a.URL()+"/c/"+confirm, nil, http.StatusGone, "There is nothing to confirm")
	f.mustVisit(f.a.URL()+"/c/"+confirm, url.Values{"confirm": {"yes"}}, http.StatusGone, "There is nothing to confirm")
	f.mustFollow("after all of them", "tax immediate api")

	old := f.a.URL() + "/m/" + sign(key.Link{Purpose: key.LinkManage, Workspace: opened.Workspace, Subject: opened.Subject, Expires: time.Now().Add(-time.Hour)})
	f.mustVisit(old, nil, http.StatusGone, "This link has expired", "Send me a new link")
	f.mustVisit(old, url.Values{"was:tax": {"immediate"}, "to:tax": {""}}, http.StatusGone)
	f.mustVisit(old, url.Values{"confirm": {"yes"}}, http.StatusOK, "Please look at your messages")
	if sent = f.texts(seen); len(sent) != 1 || !strings.Contains(sent[0], "/m/") {
		t.Errorf("sent: %q", sent)
	}
	ancient := f.a.URL() + "/m/" + sign(key.Link{Purpose: key.LinkManage, Workspace: opened.Workspace, Subject: opened.Subject, Expires: time.Now().AddDate(-3, 0, 0)})
	f.mustVisit(ancient, url.Values{"confirm": {"yes"}}, http.StatusGone)
	f.mustFollow("after all of them", "tax immediate api")
}
