package cli

import (
	"fmt"
	"strconv"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/store"
)

type workspacesCmd struct {
	Create createWorkspaceCmd `cmd:"" help:"Make a workspace."`
	List   listWorkspacesCmd  `cmd:"" help:"List the workspaces."`
}

type createWorkspaceCmd struct {
	config.Database
	Name string `arg:"" help:"Its name: letters, digits, dots, _ and -."`
	jsonOnly
}

// Help is the long help.
func (createWorkspaceCmd) Help() string {
	return `A workspace has its own API keys, definitions, contacts, records, secrets and messages. No workspace reads or changes
anything of another, and two of them may use the same names. Every database begins with the workspace "default".

Works on the database itself, with or without a running server; a new database is made ready. Make a key for the workspace
next. Commands and programs that use that key work in that workspace:

  carillon workspaces create clinic
  export CARILLON_KEY=$(carillon keys create --workspace clinic --name admin --scopes admin)`
}

// Run makes a workspace.
func (c *createWorkspaceCmd) Run(s *session) error {
	now := (&clock.System{}).Now()
	return withStore(s, c.DB, true, func(db *store.Store, _ store.Workspace) error {
		ws, err := app.CreateWorkspace(s.ctx, db, c.Name, now)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.Out, workspaceJSON(ws))
		}
		fmt.Fprintln(s.Out, "created", ws.Name)
		return nil
	})
}

type listWorkspacesCmd struct {
	config.Database
	output
}

// Help is the long help.
func (listWorkspacesCmd) Help() string {
	return `definitions is the number of the definition set in force; 0: none was applied.`
}

// Run lists the workspaces.
func (c *listWorkspacesCmd) Run(s *session) error {
	return withStore(s, c.DB, false, func(db *store.Store, _ store.Workspace) error {
		all, err := db.Workspaces(s.ctx)
		if err != nil {
			return err
		}
		rows, list := make([][]string, len(all)), make([]map[string]any, len(all))
		for i, ws := range all {
			rows[i], list[i] = []string{ws.Name, strconv.FormatInt(ws.Definitions, 10), c.at(ws.CreatedAt)}, workspaceJSON(ws)
		}
		if c.JSON {
			return printJSON(s.Out, map[string]any{"workspaces": list})
		}
		s.table([]string{"name", "definitions", "created_at"}, rows)
		return nil
	})
}

func workspaceJSON(ws store.Workspace) map[string]any {
	return map[string]any{"name": ws.Name, "definitions": ws.Definitions, "created_at": ws.CreatedAt}
}

// ofWorkspace is the flag of commands that work on the database itself, in one workspace.
type ofWorkspace struct {
	Workspace string `name:"workspace" default:"${workspace}" placeholder:"NAME" help:"The workspace: ${workspace}, or one that carillon workspaces create has made."`
}

// withWorkspace is withStore in that workspace.
func (o ofWorkspace) withWorkspace(s *session, db string, migrate bool, work func(*store.Store, store.Workspace) error) error {
	return withStore(s, db, migrate, func(db *store.Store, ws store.Workspace) error {
		if o.Workspace == ws.Name {
			return work(db, ws)
		}
		ws, ok, err := db.WorkspaceByName(s.ctx, o.Workspace)
		if err == nil && !ok {
			err = fmt.Errorf("there is no workspace named %q\n    carillon workspaces create %s", o.Workspace, o.Workspace)
		}
		if err != nil {
			return err
		}
		return work(db, ws)
	})
}
