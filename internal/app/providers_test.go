package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/function"
)

// The settings of the sinks that the program ships with are checked with their definitions: each mistake has its place.
//
// Shows: C50.
func TestSettingsOfSinks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"provider: nats\nsettings:\n  url: nats://127.0.0.1:4222\n  subject: csi.tickets\n":                    nil,
		"provider: nats\nsettings:\n  url: http://127.0.0.1:4222\n  subject: csi.tickets\n":                    {"4:8 setting url: must be nats://HOST:PORT or tls://HOST:PORT, several with commas between; credentials have a setting of their own"},
		"provider: nats\nsettings:\n  url: nats://127.0.0.1:4222\n  subject: csi.*\n":                          {"5:12 setting subject: must be one subject, such as csi.tickets: words with dots between, without blanks, * and >, and without $ in front"},
		"provider: nats\nsettings:\n  url: {env: NATS_URL}\n  subject: csi.tickets\n  credentials: {env: C}\n": nil,
		"provider: webhook\nsettings:\n  url: https://complaints.example.org/hook\n  secret: {env: S}\n":       nil,
		"provider: webhook\nsettings:\n  url: complaints.example.org/hook\n  secret: {env: S}\n":               {"4:8 setting url: must be an http or https address without a user, a password and a fragment"},
		"provider: webhook\nsettings:\n  url: https://complaints.example.org/hook\n  secret: whsec_aGVsbG8=\n": {"5:11 a secret is never written into a definition"},
		"provider: file\nsettings:\n  path: responses.ndjson\n":                                                nil,
		"provider: file\nsettings:\n  path: ../carillon.db\n":                                                  {"4:9 setting path: must be a path below the folder of --sink-dir, such as responses.ndjson"},
		"provider: file\nsettings:\n  path: carillon.db\n":                                                     {"4:9 setting path: must end in .ndjson or .jsonl"},
		"provider: workflow\n":                             nil,
		"provider: workflow\nsettings:\n  to: complaint\n": {`4:3 provider workflow has no setting "to"`},
		"provider: inbox\n":                                {`2:11 no provider named "inbox"`},
	} {
		file := definition.File{Name: "a.yaml", Text: []byte("sink: s\n" + text)}
		_, problems := loader.Load([]definition.File{file}, app.DefinitionOptions(app.Providers(nil, nil)))
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Message))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A conversation on a channel that takes no replies is warned of: those whose callbacks are signed with inbound_secret need it.
func TestConversationsNeedASecret(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string]int{
		"http\nsettings: {url: https://gateway.example.org/}":                              1,
		"http\nsettings: {url: https://gateway.example.org/, inbound_secret: {secret: A}}": 0,
		"webhook\nsettings: {url: https://gateway.example.org/, secret: {secret: A}}":      1,
		"memory": 0,
		"twilio\nsettings: {account_sid: AC0123456789abcdef0123456789abcdef, auth_token: {secret: A}, from: \"+15005550006\"}": 0,
	} {
		file := definition.File{Name: "a.yaml", Text: []byte("workflow: w\ntype: survey\ntriggers: {id: t, event: e}\naudience: {to: event.recipient}\nchannel: sms:a\nmessage: {survey: s, mode: conversation}\n" +
			"---\nsurvey: s\ntitle: S\nquestions: [{id: q, type: text, text: Q}]\n---\nchannel: sms:a\nprovider: " + provider + "\n")}
		_, problems := loader.Load([]definition.File{file}, app.DefinitionOptions(app.Providers(nil, nil)))
		if len(problems) != want || want > 0 && (!problems[0].Warning || problems[0].Line != 12) {
			t.Errorf("%s: %v", provider, problems)
		}
	}
}

// Each provider of sinks has a name of its own, and says what it and its settings are for.
func TestSinksAreDescribed(t *testing.T) {
	t.Parallel()
	names := map[string]sink.Provider{}
	for _, p := range app.Sinks(nil, nil, "") {
		if _, twice := names[p.Name]; twice || p.Doc == "" || p.Check == nil || p.Open == nil {
			t.Errorf("%s: %+v", p.Name, p)
		}
		names[p.Name] = p
		for _, s := range p.Settings {
			if s.Name == "" || s.Doc == "" {
				t.Errorf("%s: setting %+v", p.Name, s)
			}
		}
	}
}

// A process accepts definitions that name the providers of sinks that it was given, and no others, and hands outcomes to them.
func TestFurtherSinks(t *testing.T) {
	t.Parallel()
	got := make(chan sink.Message, 1)
	own := function.Provider("tickets", func(_ context.Context, m sink.Message) error {
		got <- m
		return nil
	})
	a := start(t, app.Config{Server: server(filepath.Join(t.TempDir(), "carillon.db")), Sinks: []sink.Provider{own}})
	c := admin(t, a)
	_, err := c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: "sink: s\nprovider: tikets\n"}})
	var problem *client.Problem
	if !errors.As(err, &problem) || len(problem.Problems) != 1 || problem.Problems[0].Hint != "did you mean tickets?" {
		t.Errorf("got %+v", err)
	}
	const text = `workflow: w
type: notice
triggers: [{id: t, event: e}]
audience: {to: event.recipient}
channel: inbox
message: {inbox: {text: Hello}}
sinks: [{sink: s, events: delivery.sent}]
---
channel: inbox
provider: inbox
---
sink: s
provider: tickets
`
	if _, err := c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PostEvents(t.Context(), client.Event{ID: "1", Kind: "e", Recipient: &client.Recipient{Address: "ada"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-got:
		if m.Type != "delivery.sent" || m.ID == "" || m.Workspace != app.DefaultWorkspace || !json.Valid(m.Body) {
			t.Errorf("got %+v", m)
		}
	case <-time.After(patience):
		t.Error("the function was not called")
	}
}
