package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

func TestContacts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		id := "ann/b c%2F?"
		got, err := b.PutContact(t.Context(), client.ContactInput{
			ID: id, Name: "Ann", Locale: "de", Timezone: "Europe/Berlin", Addresses: map[string]string{"email": "Ann@Example.org", "sms": "+49 30 000-001"},
			Attributes: map[string]any{"vip": true},
		})
		want := client.Contact{
			ID: id, Name: "Ann", Locale: "de", Timezone: "Europe/Berlin", Addresses: map[string]string{"email": "ann@example.org", "sms": "+4930000001"},
			Attributes: map[string]any{"vip": true}, CreatedAt: start,
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("put (-want +got)\n%s%v", diff, err)
		}
		if got, err = b.Contact(t.Context(), id); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("read %s %v", cmp.Diff(want, got), err)
		}
		got, err = b.ChangeContact(t.Context(), id, map[string]any{"name": nil, "addresses": map[string]any{"sms": nil}})
		want.Name, want.Addresses, want.UpdatedAt = "", map[string]string{"email": "ann@example.org"}, start
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("changed (-want +got)\n%s%v", diff, err)
		}

		answer, err := b.PostContacts(t.Context(), client.ContactInput{ID: id, Name: "Ann"}, client.ContactInput{ID: "bob"},
			client.ContactInput{ID: "bob"}, client.ContactInput{Name: "nobody"}, client.ContactInput{ID: "cid", Locale: "?"})
		if err != nil || answer.Created != 1 || answer.Changed != 1 || answer.Unchanged != 1 || answer.Failed != 2 || len(answer.Items) != 5 {
			t.Errorf("%+v %v", answer, err)
		}
		if item := answer.Items[4]; item.Outcome != "failed" || item.Reason != "invalid_contact" || item.Field != "locale" || item.Hint == "" {
			t.Errorf("refused: %+v", item)
		}
		var listed []string
		for c, err := range b.AllContacts(t.Context(), client.ContactQuery{Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, c.ID)
		}
		slices.Sort(listed)
		if !slices.Equal(listed, []string{id, "bob"}) {
			t.Errorf("listed %q", listed)
		}

		stopped, err := b.SuppressContact(t.Context(), id, "complained")
		if err != nil || !stopped.Changed || !stopped.Contact.Suppressed || stopped.Contact.SuppressReason != "complained" || !stopped.Contact.SuppressedAt.Equal(start) {
			t.Errorf("%+v %v", stopped, err)
		}
		if stopped, err = b.UnsuppressContact(t.Context(), id); err != nil || !stopped.Changed || stopped.Contact.Suppressed {
			t.Errorf("%+v %v", stopped, err)
		}
	})
}

func TestContactsRefuse(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	many := strings.Repeat(`{"id":"a"},`, client.MaxContacts) + `{"id":"a"}`
	for _, test := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{"PUT", "/v1/contacts/a", `{"persona": "x"}`, 422, client.CodeInvalidRequest, "body.persona"},
		{"PUT", "/v1/contacts/a", `{"id": "b"}`, 422, client.CodeInvalidRequest, "body.id"},
		{"PUT", "/v1/contacts/a", `{"attributes": {"x": 1, "x": 2}}`, 422, client.CodeInvalidRequest, "body"},
		{"PUT", "/v1/contacts/a", `{"attributes": {"x": "` + strings.Repeat("x", 17<<10) + `"}}`, 422, client.CodeInvalidRequest, "body.attributes"},
		{"PUT", "/v1/contacts/addr:1", `{}`, 422, client.CodeInvalidRequest, "body.id"},
		{"PUT", "/v1/contacts/" + strings.Repeat("a", 257), `{}`, 422, client.CodeInvalidRequest, "body.id"},
		{"PUT", "/v1/contacts/a", `{`, 400, client.CodeInvalidJSON, "body"},
		{"PATCH", "/v1/contacts/a", `{}`, 404, client.CodeNotFound, ""},
		{"POST", "/v1/contacts", `{"contacts": {}}`, 422, client.CodeInvalidRequest, "body.contacts"},
		{"POST", "/v1/contacts", `{}`, 422, client.CodeInvalidRequest, "body.contacts"},
		{"POST", "/v1/contacts", `{"contacts": [], "more": 1}`, 422, client.CodeInvalidRequest, "body.more"},
		{"POST", "/v1/contacts", `{"contacts": [` + many + `]}`, 422, client.CodeInvalidRequest, "body.contacts"},
		{"POST", "/v1/contacts/a/suppress", `{"reason": " "}`, 422, client.CodeInvalidRequest, "body.reason"},
		{"POST", "/v1/contacts/a/suppress", `{"reason": "asked"}`, 404, client.CodeNotFound, ""},
		{"POST", "/v1/contacts/a/merge", `{"into": "b"}`, 404, client.CodeNotFound, ""},
		{"DELETE", "/v1/contacts/a", ``, 405, client.CodeNotAllowed, ""},
	} {
		status, text := b.ask(test.method, test.path, test.body)
		if p := problemOf(t, text); status != test.status || p.Code != test.code || p.Field != test.field {
			t.Errorf("%s %.30s %.60s: got %d %s %s (%s), want %d %s %s", test.method, test.path, test.body, status, p.Code, p.Field, p.Detail, test.status, test.code, test.field)
		}
	}
	if status, text := b.ask(http.MethodGet, "/v1/contacts", ""); status != http.StatusOK || text != `{"items":[]}` {
		t.Errorf("something was kept: %d %s", status, text)
	}
}

// A request of contacts is remembered like any other.
func TestContactsOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		for _, c := range []struct{ key, want string }{{"k", "1 0"}, {"k", "1 0"}, {"other", "0 1"}} {
			answer, err := b.WithIdempotencyKey(c.key).PostContacts(t.Context(), client.ContactInput{ID: "bob"})
			if got := fmt.Sprint(answer.Created, answer.Unchanged); err != nil || got != c.want {
				t.Errorf("got %s, want %s, %v", got, c.want, err)
			}
		}
	})
}

// A person's own limits, and what was used up of them.
//
// Shows: A42, A43.
func TestContactLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		_, err := b.PutContact(t.Context(), client.ContactInput{
			ID: "ann", Timezone: "Europe/Berlin", Addresses: map[string]string{"inbox": "ann"},
			Cadence: &client.Cadence{
				Limits:   client.Limits{Cooldown: "2h", MaxPerDay: 3, TypeLimits: map[string]int{"custom": 2}, QuietHours: "22:00-06:00"},
				Channels: map[string]client.Limits{"memory": {MaxPerWeek: 1}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		known, err := b.Contact(t.Context(), "ann")
		if err != nil || known.Cadence == nil || known.Cadence.Cooldown != "2h" || known.Cadence.Channels["memory"].MaxPerWeek != 1 {
			t.Errorf("kept %+v, %v", known.Cadence, err)
		}
		if _, err := b.PostEvents(t.Context(), client.Event{Kind: "signed-up", Recipient: &client.Recipient{CustomerRef: "ann"}}); err != nil {
			t.Fatal(err)
		}
		got, err := b.ContactLimits(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Channels) != 2 || len(got.Channels[0].Waiting) != 1 || got.Channels[0].Waiting[0].Workflow != "welcome" {
			t.Fatalf("got %+v", got)
		}
		got.Channels[0].Waiting = nil
		want := client.ContactLimits{ID: "ann", Timezone: "Europe/Berlin", At: start, Channels: []client.ChannelLimits{
			{Kind: "inbox", Limits: []client.LimitUse{
				{Limit: "cooldown", From: "person", Value: "2h", FreeAt: start, Says: "no cooldown"},
				{Limit: "type_limits", Type: "custom", From: "person", Value: "2", Used: 1, Max: 2, FreeAt: start, Says: "1 of 2 custom messages today"},
				{Limit: "max_per_day", From: "person", Value: "3", Used: 1, Max: 3, FreeAt: start, Says: "1 of 3 today"},
				{Limit: "quiet_hours", From: "person", Value: "22:00-06:00", FreeAt: start, Says: "free"},
			}},
			{Kind: "memory", Limits: []client.LimitUse{{Limit: "max_per_week", From: "person", Value: "1", Max: 1, FreeAt: start, Says: "0 of 1 this week"}}},
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		var problem *client.Problem
		if _, err := b.ContactLimits(t.Context(), "nobody"); !errors.As(err, &problem) || problem.Code != client.CodeNotFound {
			t.Errorf("nobody: %v", err)
		}
	})
}

// Two contacts become one by the client; a survivor that does not exist is named.
//
// Shows: R20.
func TestMergeContact(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		if _, err := b.PostContacts(t.Context(), client.ContactInput{ID: "old", Addresses: map[string]string{"email": "old@example.org"}}, client.ContactInput{ID: "ann"}); err != nil {
			t.Fatal(err)
		}
		if status, text := b.ask("POST", "/v1/contacts/old/merge", `{"into": "nobody"}`); status != http.StatusNotFound || problemOf(t, text).Field != "body.into" {
			t.Errorf("%d %s", status, text)
		}
		merged, err := b.MergeContact(t.Context(), "old", "ann")
		if err != nil || !merged.Changed || merged.Contact.MergedInto != "ann" || merged.Survivor.Addresses["email"] != "old@example.org" {
			t.Errorf("%+v, %v", merged, err)
		}
		if status, text := b.ask("PATCH", "/v1/contacts/old", `{"name": "Old"}`); status != http.StatusUnprocessableEntity || problemOf(t, text).Field != "body.id" {
			t.Errorf("%d %s", status, text)
		}
	})
}
