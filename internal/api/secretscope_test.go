package api_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

// guarded is what is in force before each attempt.
const guarded = `
channel: sms:gateway
provider: http
settings: {url: "https://sms.example.org/send", token: {secret: TOKEN}}
---
channel: sms:plain
provider: http
settings: {url: "https://plain.example.org/send"}
---
channel: email:relay
provider: smtp
settings: {host: mail.example.org, username: carillon, password: {file: mail-password}, from: "a@example.org"}
---
channel: webhook:crm
provider: webhook
settings: {url: "https://crm.example.org/hook", secret: {env: CRM_SECRET}}
---
sink: webhook:complaints
provider: webhook
settings: {url: "https://complaints.example.org/hook", secret: {env: CRM_SECRET}}
---
sink: bi
provider: file
settings: {path: bi.jsonl}
`

// A key that may only write definitions changes nothing that decides where a secret goes, by whatever way; with the scope secrets
// it is applied, and the answer names it.
func TestSecretsCannotBeCarriedAway(t *testing.T) {
	t.Parallel()
	const (
		gateway = "channel: sms:gateway\nprovider: http\n"
		relay   = "channel: email:relay\nprovider: smtp\n"
		crm     = "channel: webhook:crm\nprovider: webhook\n"
	)
	attempts := []struct {
		name  string
		files []string // one after the other; the last one is judged, those before must be allowed
		want  string   // what the refusal names; empty: allowed
	}{
		{"as it is in force", []string{guarded}, ""},
		{"as it is, written in another way", []string{gateway + "settings:\n  # nothing new\n  token: {secret: TOKEN}\n  url: https://sms.example.org/send\n"}, ""},
		{"what is about the flow alone", []string{gateway + "settings: {url: \"https://sms.example.org/send\", token: {secret: TOKEN}}\nrate: 5/s\nconcurrency: 3\non_unknown: hold\n"}, ""},
		{"who a mail is from", []string{relay + "settings: {host: mail.example.org, username: carillon, password: {file: mail-password}, from: \"b@example.org\", reply_to: \"c@example.org\", helo: example.org}\n"}, ""},
		{"an address beside no secret", []string{"channel: sms:plain\nprovider: http\nsettings: {url: \"https://evil.example/\"}\n"}, ""},
		{"a new channel without a secret", []string{"channel: sms:more\nprovider: http\nsettings: {url: \"https://evil.example/\"}\n"}, ""},
		{"a sink without a secret", []string{"sink: bi\nprovider: file\nsettings: {path: x.jsonl}\n"}, ""},

		{"the address beside a secret", []string{gateway + "settings: {url: \"https://evil.example/\", token: {secret: TOKEN}}\n"}, "channel sms:gateway (settings.url)"},
		{"the address, and the secret taken away", []string{gateway + "settings: {url: \"https://evil.example/\"}\n"}, "channel sms:gateway (settings.token, settings.url)"},
		{"the secret taken away", []string{gateway + "settings: {url: \"https://sms.example.org/send\"}\n"}, "channel sms:gateway (settings.token)"},
		{"another secret", []string{gateway + "settings: {url: \"https://sms.example.org/send\", token: {secret: OTHER}}\n"}, "channel sms:gateway (settings.token)"},
		{"the same name kept elsewhere", []string{gateway + "settings: {url: \"https://sms.example.org/send\", token: {env: TOKEN}}\n"}, "channel sms:gateway (settings.token)"},
		{"the address of look-ups", []string{gateway + "settings: {url: \"https://sms.example.org/send\", lookup: \"https://evil.example/{key}\", token: {secret: TOKEN}}\n"}, "channel sms:gateway (settings.lookup)"},
		{"the address out of a secret", []string{gateway + "settings: {url: {secret: ADDRESS}, token: {secret: TOKEN}}\n"}, "channel sms:gateway (settings.url)"},
		{"a scheme without TLS", []string{gateway + "settings: {url: \"http://sms.example.org/send\", token: {secret: TOKEN}}\n"}, "channel sms:gateway (settings.url)"},
		{"the provider", []string{"channel: sms:gateway\nprovider: webhook\nsettings: {url: \"https://sms.example.org/send\", secret: {secret: TOKEN}}\n"}, "channel sms:gateway (provider, settings.secret, settings.token)"},
		{"a secret in a channel that had none", []string{"channel: sms:plain\nprovider: http\nsettings: {url: \"https://plain.example.org/send\", token: {secret: TOKEN}}\n"}, "channel sms:plain (settings.token)"},
		{"a channel under another name", []string{"channel: sms:renamed\nprovider: http\nsettings: {url: \"https://evil.example/\", token: {secret: TOKEN}}\n"}, "channel sms:renamed (provider, settings.token, settings.url)"},
		{"the default channel by its short name", []string{"channel: sms\nprovider: http\nsettings: {url: \"https://evil.example/\", token: {secret: TOKEN}}\n"}, "channel sms:default (provider, settings.token, settings.url)"},
		{"first the address, then the secret", []string{
			"channel: sms:later\nprovider: http\nsettings: {url: \"https://evil.example/\"}\n",
			"channel: sms:later\nprovider: http\nsettings: {url: \"https://evil.example/\", token: {secret: TOKEN}}\n",
		}, "channel sms:later (settings.token)"},
		{"two channels at once", []string{gateway + "settings: {url: \"https://evil.example/\", token: {secret: TOKEN}}\n---\n" + crm + "settings: {url: \"https://evil.example/\", secret: {env: CRM_SECRET}}\n"}, "channel sms:gateway (settings.url); channel webhook:crm (settings.url)"},
		{"hidden among harmless ones", []string{"channel: sms:plain\nprovider: http\nsettings: {url: \"https://other.example/\"}\n---\n" + gateway + "settings: {url: \"https://evil.example/\", token: {secret: TOKEN}}\n"}, "channel sms:gateway (settings.url)"},
		{"the host beside a password of a file", []string{relay + "settings: {host: evil.example, username: carillon, password: {file: mail-password}, from: \"a@example.org\"}\n"}, "channel email:relay (settings.host)"},
		{"the port", []string{relay + "settings: {host: mail.example.org, port: \"2525\", username: carillon, password: {file: mail-password}, from: \"a@example.org\"}\n"}, "channel email:relay (settings.port)"},
		{"how the password is protected", []string{relay + "settings: {host: mail.example.org, auth: plain, username: carillon, password: {file: mail-password}, from: \"a@example.org\"}\n"}, "channel email:relay (settings.auth)"},
		{"another file", []string{relay + "settings: {host: mail.example.org, username: carillon, password: {file: /run/secrets/other}, from: \"a@example.org\"}\n"}, "channel email:relay (settings.password)"},
		{"a secret as the sender", []string{relay + "settings: {host: mail.example.org, username: carillon, password: {file: mail-password}, from: {secret: TOKEN}}\n"}, "channel email:relay (settings.from)"},
		{"a second secret to sign with", []string{crm + "settings: {url: \"https://crm.example.org/hook\", secret: {env: CRM_SECRET}, old_secret: {env: TOKEN}}\n"}, "channel webhook:crm (settings.old_secret)"},
		{"the address of a sink", []string{"sink: webhook:complaints\nprovider: webhook\nsettings: {url: \"https://evil.example/\", secret: {env: CRM_SECRET}}\n"}, "sink webhook:complaints (settings.url)"},
		{"the provider of a sink", []string{"sink: webhook:complaints\nprovider: nats\nsettings: {url: \"tls://evil.example\", subject: a, credentials: {env: CRM_SECRET}}\n"}, "sink webhook:complaints (provider, settings.credentials, settings.secret, settings.subject, settings.url)"},
		{"a new sink", []string{"sink: mine\nprovider: webhook\nsettings: {url: \"https://evil.example/\", secret: {secret: TOKEN}}\n"}, "sink mine (provider, settings.secret, settings.url)"},
	}
	each(t, func(t *testing.T, b *bundle) {
		for name, value := range map[string]string{"TOKEN": "hunter2", "OTHER": "hunter3"} {
			if _, err := b.SetSecret(t.Context(), name, value); err != nil {
				t.Fatal(err)
			}
		}
		writer := b.as(b.newKey(b.app.Workspace(), "writer", "definitions"))
		both := b.as(b.newKey(b.app.Workspace(), "both", "definitions", "secrets"))
		for _, tc := range attempts {
			b.apply(guarded)
			for i, text := range tc.files {
				files := []client.File{{Name: "a.yaml", Text: text}}
				before, err := b.Definitions(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				applied, err := writer.Apply(t.Context(), files)
				if i < len(tc.files)-1 || tc.want == "" {
					if err != nil || applied.SecretChanges != nil {
						t.Errorf("%s: refused, or it names %+v: %v", tc.name, applied.SecretChanges, err)
					}
					continue
				}
				var p *client.Problem
				if !errors.As(err, &p) || p.Status != http.StatusForbidden || p.Code != client.CodeForbidden || !strings.Contains(p.Detail, "the scope secrets") ||
					!strings.Contains(p.Detail, ": "+tc.want+"; nothing was changed") || !strings.Contains(p.Hint, "--scopes definitions,secrets") {
					t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
					continue
				}
				after, err := b.Definitions(t.Context())
				if diff := cmp.Diff(before, after); err != nil || diff != "" {
					t.Errorf("%s: refused, and something changed: %v\n%s", tc.name, err, diff)
				}
				if applied, err = both.Apply(t.Context(), files); err != nil {
					t.Errorf("%s, with the scope secrets: %v", tc.name, err)
					continue
				}
				if got := changesNamed(applied); got != tc.want {
					t.Errorf("%s: the answer names %q, want %q", tc.name, got, tc.want)
				}
				if _, err := writer.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: guarded}}); err == nil && !strings.Contains(tc.name, "new") && !strings.Contains(tc.name, "name") && !strings.Contains(tc.name, "first") {
					t.Errorf("%s: the former version was put back without the scope", tc.name)
				}
			}
		}
	})
}

// To take a definition out of force takes its references away, by whatever way. A channel that refers to no secret goes without the scope.
func TestSecretsAreNotTakenOutOfForce(t *testing.T) {
	t.Parallel()
	const plain = "channel: sms:plain\nprovider: http\nsettings: {url: \"https://plain.example.org/send\"}\n"
	without := func(texts ...string) string { // what is guarded, without these
		rest := strings.Split(guarded, "---")
		rest = slices.DeleteFunc(rest, func(doc string) bool {
			return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(doc, text) })
		})
		return strings.Join(rest, "---")
	}
	deleted := func(kind, name string) func(*testing.T, *client.Client, bool) (client.Applied, error) {
		return func(t *testing.T, c *client.Client, dry bool) (client.Applied, error) {
			return c.DeleteDefinition(t.Context(), kind, name, dry)
		}
	}
	pruned := func(text string) func(*testing.T, *client.Client, bool) (client.Applied, error) {
		return func(t *testing.T, c *client.Client, dry bool) (client.Applied, error) {
			return c.ApplyWith(t.Context(), []client.File{{Name: "a.yaml", Text: text}}, client.ApplyOptions{Prune: true, DryRun: dry})
		}
	}
	rolledBack := func(t *testing.T, c *client.Client, dry bool) (client.Applied, error) {
		return c.RollbackDefinitions(t.Context(), client.Rollback{DryRun: dry})
	}
	const (
		gateway = "channel sms:gateway (provider, settings.token, settings.url)"
		relay   = "channel email:relay (provider, settings.from, settings.host, settings.password, settings.username)"
		crm     = "channel webhook:crm (provider, settings.secret, settings.url)"
		sink    = "sink webhook:complaints (provider, settings.secret, settings.url)"
	)
	attempts := []struct {
		name string
		was  []string // what is in force, one after the other
		edit func(t *testing.T, c *client.Client, dry bool) (client.Applied, error)
		want string // what the refusal names; empty: allowed
	}{
		{"a channel without a secret is deleted", []string{guarded}, deleted("channel", "sms:plain"), ""},
		{"a sink without a secret is deleted", []string{guarded}, deleted("sink", "bi"), ""},
		{"a channel without a secret is pruned", []string{guarded}, pruned(without("sms:plain")), ""},
		{"a channel without a secret goes by a rollback", []string{without("sms:plain"), plain}, rolledBack, ""},

		{"a channel with a stored secret is deleted", []string{guarded}, deleted("channel", "sms:gateway"), gateway},
		{"a channel with a secret of a file is deleted", []string{guarded}, deleted("channel", "email:relay"), relay},
		{"a channel with a secret of the environment is deleted", []string{guarded}, deleted("channel", "webhook:crm"), crm},
		{"a sink with a secret is deleted", []string{guarded}, deleted("sink", "webhook:complaints"), sink},
		{"a channel with a stored secret is pruned", []string{guarded}, pruned(without("sms:gateway")), gateway},
		{"a channel with a secret of the environment is pruned", []string{guarded}, pruned(without("webhook:crm")), crm},
		{"a sink with a secret is pruned", []string{guarded}, pruned(without("webhook:complaints")), sink},
		{"all of them are pruned, among harmless ones", []string{guarded}, pruned(plain), relay + "; " + gateway + "; " + crm + "; " + sink},
		{"a channel with a secret goes by a rollback", []string{without("sms:gateway"), guarded}, rolledBack, gateway},
	}
	each(t, func(t *testing.T, b *bundle) {
		if _, err := b.SetSecret(t.Context(), "TOKEN", "hunter2"); err != nil {
			t.Fatal(err)
		}
		writer := b.as(b.newKey(b.app.Workspace(), "writer", "definitions"))
		both := b.as(b.newKey(b.app.Workspace(), "both", "definitions", "secrets"))
		for _, tc := range attempts {
			for i, text := range tc.was {
				if _, err := b.ApplyWith(t.Context(), []client.File{{Name: "a.yaml", Text: text}}, client.ApplyOptions{Prune: i == 0}); err != nil {
					t.Fatal(err)
				}
			}
			before, err := b.Definitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			foreseen, err := tc.edit(t, writer, true)
			if missing := map[bool]string{true: "secrets"}[tc.want != ""]; err != nil || foreseen.Preview == nil || foreseen.Preview.MissingScope != missing || changesNamed(foreseen) != tc.want {
				t.Errorf("%s: the preview says %+v, it names %q: %v", tc.name, foreseen.Preview, changesNamed(foreseen), err)
			}
			if tc.want == "" {
				applied, err := tc.edit(t, writer, false)
				if err != nil || applied.SecretChanges != nil || applied.Number == before.Number {
					t.Errorf("%s: refused, without effect, or it names %+v: %v", tc.name, applied.SecretChanges, err)
				}
				continue
			}
			_, err = tc.edit(t, writer, false)
			var p *client.Problem
			if !errors.As(err, &p) || p.Status != http.StatusForbidden || p.Code != client.CodeForbidden || !strings.Contains(p.Detail, ": "+tc.want+"; nothing was changed") {
				t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
			}
			after, err := b.Definitions(t.Context())
			if diff := cmp.Diff(before, after); err != nil || diff != "" {
				t.Errorf("%s: refused, and something changed: %v\n%s", tc.name, err, diff)
			}
			if applied, err := tc.edit(t, both, false); err != nil || changesNamed(applied) != tc.want {
				t.Errorf("%s, with the scope secrets: it names %q, want %q: %v", tc.name, changesNamed(applied), tc.want, err)
			}
		}
	})
}

// changesNamed are the secret changes that an answer names, in the words of a refusal.
func changesNamed(applied client.Applied) string {
	named := make([]string, len(applied.SecretChanges))
	for i, c := range applied.SecretChanges {
		named[i] = c.Kind + " " + c.Name + " (" + strings.Join(c.Fields, ", ") + ")"
	}
	return strings.Join(named, "; ")
}

// The scope secrets alone sets secrets and applies nothing; definitions alone sets none.
func TestScopeSecrets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		for scope, want := range map[string]struct{ set, apply int }{
			"definitions": {http.StatusForbidden, http.StatusOK}, "secrets": {http.StatusOK, http.StatusForbidden}, "admin": {http.StatusOK, http.StatusOK},
		} {
			key := b.newKey(b.app.Workspace(), "one "+scope, scope)
			if got, text := b.askAs(key, http.MethodPut, "/v1/secrets/"+scope, `{"value":"hunter2"}`); got != want.set {
				t.Errorf("%s sets a secret: %d %s, want %d", scope, got, text, want.set)
			}
			if got, text := b.askAs(key, http.MethodPost, "/v1/definitions", `{"files":[{"name":"a.yaml","text":"channel: memory:more\nprovider: memory\n"}]}`); got != want.apply {
				t.Errorf("%s applies: %d %s, want %d", scope, got, text, want.apply)
			}
		}
	})
}
