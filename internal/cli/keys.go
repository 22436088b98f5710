package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/store"
)

func scopes() []string { return app.Scopes() }

type keysCmd struct {
	Create createKeyCmd `cmd:"" help:"Make an API key and print it, this once."`
	List   listKeysCmd  `cmd:"" help:"List the API keys."`
	Revoke revokeKeyCmd `cmd:"" help:"End an API key."`
}

type createKeyCmd struct {
	config.Database
	Name   string   `name:"name" required:"" placeholder:"NAME" help:"What the key is for; it stands in the audit log."`
	Scopes []string `name:"scopes" required:"" sep:"," enum:"${scopes}" placeholder:"SCOPE" help:"What it may do: ${scopes}. admin contains the others."`
	jsonOnly
}

// Help is the long help.
func (createKeyCmd) Help() string {
	return `Works on the database itself, with or without a running server; a new database is made ready. Only a hash of
the key is stored, so it cannot be shown again.

  admin        everything, freeing keys of instances included
  ingest       post events
  read         see instances, deliveries, definitions, reasons
  operate      cancel, retry, release, tick
  definitions  apply definitions
  metrics      see the numbers at /metrics

  export CARILLON_KEY=$(carillon keys create --name laptop --scopes admin)`
}

// Run makes a key.
func (c *createKeyCmd) Run(s *session) error {
	now := (&clock.System{}).Now()
	return withStore(s, c.DB, true, func(db *store.Store, ws store.Workspace) error {
		key, err := app.CreateKey(s.ctx, db, ws, c.Name, c.Scopes, now)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.Out, map[string]any{"name": c.Name, "scopes": c.Scopes, "key": key})
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
	output
}

// Run lists the keys.
func (c *listKeysCmd) Run(s *session) error {
	return withStore(s, c.DB, false, func(db *store.Store, ws store.Workspace) error {
		keys, err := db.Keys(s.ctx, ws.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.Out, keysJSON(keys))
		}
		rows := make([][]string, len(keys))
		for i, k := range keys {
			rows[i] = []string{k.Name, strings.Join(k.Scopes, ","), c.at(k.CreatedAt), c.at(k.RevokedAt)}
		}
		s.table([]string{"name", "scopes", "created_at", "revoked_at"}, rows)
		return nil
	})
}

func keysJSON(keys []store.APIKey) map[string]any {
	list := make([]map[string]any, len(keys))
	for i, k := range keys {
		list[i] = map[string]any{"name": k.Name, "scopes": k.Scopes, "created_at": k.CreatedAt}
		if !k.RevokedAt.IsZero() {
			list[i]["revoked_at"] = k.RevokedAt
		}
	}
	return map[string]any{"keys": list}
}

type revokeKeyCmd struct {
	config.Database
	Name string `arg:"" help:"The key's name."`
}

// Help is the long help.
func (revokeKeyCmd) Help() string {
	return `A running server refuses the key within five seconds. The name may be used again.`
}

// Run ends a key.
func (c *revokeKeyCmd) Run(s *session) error {
	now := (&clock.System{}).Now()
	return withStore(s, c.DB, false, func(db *store.Store, ws store.Workspace) error {
		ended, err := db.RevokeKey(s.ctx, ws.ID, c.Name, now)
		if err == nil && !ended {
			err = fmt.Errorf("there is no key named %q in force", c.Name)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(s.Out, "revoked", c.Name)
		return nil
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
