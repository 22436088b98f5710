package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/store"
)

func scopes() []string { return app.Scopes() }

type keysCmd struct {
	Create createKeyCmd `cmd:"" help:"Make an API key and print it, this once."`
	List   listKeysCmd  `cmd:"" help:"List the API keys."`
	Rotate rotateKeyCmd `cmd:"" help:"Give an API key a new secret and print it, this once."`
	Revoke revokeKeyCmd `cmd:"" help:"End an API key."`
}

type createKeyCmd struct {
	config.Database
	ofWorkspace
	Name   string   `name:"name" required:"" placeholder:"NAME" help:"What the key is for; it stands in the audit log."`
	Scopes []string `name:"scopes" required:"" sep:"," enum:"${scopes}" placeholder:"SCOPE" help:"What it may do: ${scopes}. admin contains the others."`
	expiry
	jsonOnly
}

// expiry is when a key ends by itself.
type expiry struct {
	Expires civil.Duration `name:"expires" placeholder:"DURATION" help:"How long the key is accepted, such as 90d or 1y. Default: for ever."`
}

func (e expiry) at(now time.Time) (time.Time, error) {
	if e.Expires.Negative() {
		return time.Time{}, errors.New("--expires: a length of time from now on, such as 90d")
	}
	if e.Expires.IsZero() {
		return time.Time{}, nil
	}
	return e.Expires.AddTo(now, time.UTC), nil
}

// Help is the long help.
func (createKeyCmd) Help() string {
	return `Works on the database itself, with or without a running server; a new database is made ready. Only a hash of
the key is stored, so it cannot be shown again. A key belongs to one workspace: all requests with it act in that workspace.

  admin        everything, freeing keys of instances included
  ingest       post events
  read         see instances, deliveries, definitions, reasons
  operate      cancel, retry, release, tick
  definitions  apply definitions, but for what decides where secrets go
  secrets      set and remove secrets; with definitions, apply what decides where they go
  metrics      see the numbers at /metrics

  export CARILLON_KEY=$(carillon keys create --name laptop --scopes admin)`
}

// Run makes a key.
func (c *createKeyCmd) Run(s *session) error {
	now := (&clock.System{}).Now()
	expires, err := c.expiry.at(now)
	if err != nil {
		return err
	}
	return c.withWorkspace(s, c.DB, true, func(db *store.Store, ws store.Workspace) error {
		key, err := app.CreateKeyUntil(s.ctx, db, ws, c.Name, c.Scopes, now, expires)
		if err != nil {
			return err
		}
		if c.JSON {
			made := map[string]any{"name": c.Name, "scopes": c.Scopes, "key": key}
			instants(made, "expires_at", expires)
			return printJSON(s.Out, made)
		}
		if s.Terminal {
			s.note("API key %q with %s. It is not shown again:", c.Name, strings.Join(c.Scopes, ", "))
		}
		fmt.Fprintln(s.Out, key)
		return nil
	})
}

type listKeysCmd struct {
	config.Database
	ofWorkspace
	output
}

// Run lists the keys.
func (c *listKeysCmd) Run(s *session) error {
	return c.withWorkspace(s, c.DB, false, func(db *store.Store, ws store.Workspace) error {
		keys, err := db.Keys(s.ctx, ws.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.Out, keysJSON(keys))
		}
		rows := make([][]string, len(keys))
		for i, k := range keys {
			rows[i] = []string{k.Name, strings.Join(k.Scopes, ","), c.at(k.CreatedAt), c.at(k.UsedAt), c.at(k.ExpiresAt), c.at(k.OldUntil), c.at(k.RevokedAt)}
		}
		s.table([]string{"name", "scopes", "created_at", "used_at", "expires_at", "old_secret_until", "revoked_at"}, rows)
		return nil
	})
}

func keysJSON(keys []store.APIKey) map[string]any {
	list := make([]map[string]any, len(keys))
	for i, k := range keys {
		list[i] = map[string]any{"name": k.Name, "scopes": k.Scopes, "created_at": k.CreatedAt}
		instants(list[i], "used_at", k.UsedAt, "expires_at", k.ExpiresAt, "old_secret_until", k.OldUntil, "revoked_at", k.RevokedAt)
	}
	return map[string]any{"keys": list}
}

// instants adds the times that there are.
func instants(to map[string]any, pairs ...any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		if at, ok := pairs[i+1].(time.Time); ok && !at.IsZero() {
			to[name] = at
		}
	}
}

type rotateKeyCmd struct {
	config.Database
	ofWorkspace
	Name    string          `arg:"" help:"The key's name."`
	Expires civil.Duration  `name:"expires" placeholder:"DURATION" help:"How long the key is accepted from now on, such as 90d or 1y. Default: as long as before."`
	Grace   *civil.Duration `name:"grace" placeholder:"DURATION" xor:"former" help:"How long the former secret is still accepted. Default: 1d."`
	Now     bool            `name:"now" xor:"former" help:"End the former secret now, and with it the console sessions that it began: for one that has leaked."`
	jsonOnly
}

// Help is the long help.
func (rotateKeyCmd) Help() string {
	return `The key keeps its name and its scopes. Those who use it take the new secret while the former one is still accepted. A
second rotation within that time ends the first secret at once. With --expires the key ends that long after now; without
it, when it would have ended anyway.

  export CARILLON_KEY=$(carillon keys rotate laptop)`
}

// Run gives a key a new secret.
func (c *rotateKeyCmd) Run(s *session) error {
	now := (&clock.System{}).Now()
	expires, err := expiry{c.Expires}.at(now)
	if err != nil {
		return err
	}
	grace := app.RotationGrace
	switch {
	case c.Now:
		grace = 0
	case c.Grace != nil:
		grace = c.Grace.AddTo(now, time.UTC).Sub(now)
	}
	if grace < 0 {
		return errors.New("--grace: a length of time from now on, such as 1h; --now ends the former secret at once")
	}
	return c.withWorkspace(s, c.DB, false, func(db *store.Store, ws store.Workspace) error {
		key, k, err := app.RotateKey(s.ctx, db, ws, c.Name, now, grace, expires)
		if err != nil {
			return err
		}
		if c.JSON {
			made := map[string]any{"name": k.Name, "scopes": k.Scopes, "key": key}
			instants(made, "expires_at", k.ExpiresAt, "old_secret_until", k.OldUntil)
			return printJSON(s.Out, made)
		}
		if s.Terminal {
			s.note("API key %q has a new secret. It is not shown again:", c.Name)
		}
		fmt.Fprintln(s.Out, key)
		if !k.OldUntil.IsZero() {
			s.note("the former secret is accepted until %s", k.OldUntil.UTC().Format(time.RFC3339))
		}
		return nil
	})
}

type revokeKeyCmd struct {
	config.Database
	ofWorkspace
	Names []string `arg:"" name:"name" help:"The key's name; several are done one after the other."`
}

// Help is the long help.
func (revokeKeyCmd) Help() string {
	return `A running server refuses the key within five seconds. The name may be used again.`
}

// Run ends a key.
func (c *revokeKeyCmd) Run(s *session) error {
	now := (&clock.System{}).Now()
	return c.withWorkspace(s, c.DB, false, func(db *store.Store, ws store.Workspace) error {
		return each(s, form{list: len(c.Names) != 1}, c.Names, func(name string) (string, error) {
			ended, err := db.RevokeKey(s.ctx, ws.ID, name, now)
			if err == nil && !ended {
				err = fmt.Errorf("there is no key named %q in force\n    carillon keys list lists them", name)
			}
			return name, err
		}, func(name string) error {
			_, err := fmt.Fprintln(s.Out, "revoked", name)
			return err
		})
	})
}

// withStore opens a database for one piece of work. One that is not to be migrated has to be there.
func withStore(s *session, db string, migrate bool, work func(*store.Store, store.Workspace) error) error {
	if !migrate {
		if err := present(db); err != nil {
			return err
		}
	}
	opened, ws, err := app.OpenStore(s.ctx, db, store.Options{}, migrate, (&clock.System{}).Now)
	if err != nil {
		return err
	}
	return errors.Join(work(opened, ws), opened.Close())
}
