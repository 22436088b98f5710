package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/carillonhq/carillon/client"
)

type definitionsCmd struct {
	List     listDefinitionsCmd     `cmd:"" help:"List the definitions in force with their versions."`
	Show     showDefinitionCmd      `cmd:"" help:"Print a definition as it was written: in force, of a version, or of a set."`
	History  historyCmd             `cmd:"" help:"List the sets that came into force, with what each changed."`
	Rollback rollbackDefinitionsCmd `cmd:"" help:"Put an earlier version of a definition, or of the whole set, in force again."`
	Delete   deleteDefinitionCmd    `cmd:"" help:"Take a definition out of force."`
}

type listDefinitionsCmd struct {
	Set int64 `name:"set" placeholder:"N" help:"Of an earlier set, by its number."`
	remote
	jsonOnly
}

// Run lists definitions.
func (c *listDefinitionsCmd) Run(s *session) error {
	set, err := call(c.remote, func(api *client.Client) (client.Definitions, error) {
		if c.Set > 0 {
			return api.DefinitionsAt(s.ctx, c.Set)
		}
		return api.Definitions(s.ctx)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, set)
	}
	rows := make([][]string, len(set.Definitions))
	for i, d := range set.Definitions {
		rows[i] = []string{d.Kind, d.Name, fmt.Sprint(d.Version)}
	}
	s.table([]string{"kind", "name", "version"}, rows)
	return nil
}

// inForce is where a definition is looked for unless a version or a set is named.
const inForce = "in force"

type definitionArgs struct {
	Kind string `arg:"" help:"Its kind, such as workflow."`
	Name string `arg:"" help:"Its name."`
}

type showDefinitionCmd struct {
	definitionArgs
	Version int64 `name:"version" placeholder:"N" xor:"which" help:"This version, as history lists it."`
	Set     int64 `name:"set" placeholder:"N" xor:"which" help:"The version of this set, as history lists it."`
	remote
	jsonOnly
}

// unknown names the definition that a server has not found; its answer repeats nothing of the request.
func (d definitionArgs) unknown(err error, where string) error {
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		list := "carillon definitions list lists those in force"
		if where != inForce {
			list = fmt.Sprintf("carillon definitions history %s %s lists its versions", d.Kind, d.Name)
		}
		return fmt.Errorf("there is no %s %q %s\n    %s", d.Kind, d.Name, where, list)
	}
	return err
}

// Run prints a definition.
func (c *showDefinitionCmd) Run(s *session) error {
	d, err := call(c.remote, func(api *client.Client) (client.Definition, error) {
		return api.Definition(s.ctx, c.Kind, c.Name, c.Version, c.Set)
	})
	if err != nil {
		switch {
		case c.Version > 0:
			return c.unknown(err, fmt.Sprintf("of version %d", c.Version))
		case c.Set > 0:
			return c.unknown(err, fmt.Sprintf("in set %d", c.Set))
		}
		return c.unknown(err, inForce)
	}
	if c.JSON {
		return printJSON(s.Out, d)
	}
	fmt.Fprintln(s.Out, strings.TrimRight(d.Text, "\n"))
	return nil
}

type historyCmd struct {
	Kind   string `arg:"" optional:"" help:"Of one definition: its kind."`
	Name   string `arg:"" optional:"" help:"Its name."`
	Before int64  `name:"before" placeholder:"N" help:"The sets before this one, by its number."`
	Limit  int    `name:"limit" default:"50" help:"How many sets, at most 500."`
	remote
	output
}

// Help is the long help.
func (historyCmd) Help() string {
	return `The newest set first, a line for each definition that it changed. definitions show prints the text of a version, and
definitions rollback puts it in force again.

A set that an earlier release applied says neither when nor by whom.`
}

// Run lists sets.
func (c *historyCmd) Run(s *session) error {
	history, err := call(c.remote, func(api *client.Client) (client.DefinitionHistory, error) {
		return api.DefinitionHistory(s.ctx, client.HistoryQuery{Kind: c.Kind, Name: c.Name, Before: c.Before, Limit: c.Limit})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, history)
	}
	var rows [][]string
	for _, set := range history.Sets {
		for _, change := range set.Changes {
			rows = append(rows, []string{fmt.Sprint(set.Number), c.at(set.At), set.Actor, set.Action, change.Action, change.Kind, change.Name, fmt.Sprint(change.Version)})
		}
	}
	s.table([]string{"set", "at", "by", "action", "change", "kind", "name", "version"}, rows)
	return nil
}

type deleteDefinitionCmd struct {
	definitionArgs
	DryRun bool `name:"dry-run" help:"Print what would become of what waits; change nothing."`
	remote
	jsonOnly
}

// Help is the long help.
func (deleteDefinitionCmd) Help() string {
	return `What waits of a workflow is withdrawn, with the reason workflow_inactive; what was sent stays. A definition that others
need is refused, and they are named. It is audited; definitions rollback KIND NAME brings it back.

Exit status: 0 done · 1 refused, nothing was changed · 2 with --dry-run: it would be deleted.`
}

// Run deletes a definition.
func (c *deleteDefinitionCmd) Run(s *session) error {
	applied, err := call(c.remote, func(api *client.Client) (client.Applied, error) {
		return api.DeleteDefinition(s.ctx, c.Kind, c.Name, c.DryRun)
	})
	if err != nil {
		return c.unknown(err, inForce)
	}
	return s.applied(applied, c.JSON)
}

type rollbackDefinitionsCmd struct {
	Kind    string `arg:"" optional:"" help:"Of one definition: its kind. Without kind and name it is about the whole set."`
	Name    string `arg:"" optional:"" help:"Its name."`
	Version int64  `name:"version" placeholder:"N" xor:"which" help:"This version of the definition. Default: the one before that in force."`
	Set     int64  `name:"set" placeholder:"N" xor:"which" help:"As of this set. Default for the whole set: the one before that in force."`
	DryRun  bool   `name:"dry-run" help:"Print what would change and what would become of what waits; change nothing."`
	remote
	jsonOnly
}

// Help is the long help.
func (rollbackDefinitionsCmd) Help() string {
	return `It is an apply of the earlier text: it passes the same checks, and comes into force as a new version. What decides where
a secret goes needs a key with the scope secrets besides. Of a set, what came since is deleted. What was withdrawn or sent
meanwhile stays so, except for what is planned by a date of a record or by the calendar, which is planned again.

Exit status: 0 done, or nothing to change · 1 there is an error, nothing was changed · 2 with --dry-run: something would
change.`
}

// unknown says where the versions and the sets are listed that a rollback may name.
func (c *rollbackDefinitionsCmd) unknown(err error) error {
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		more := *p
		more.Hint = strings.TrimSpace("carillon definitions history "+c.Kind+" "+c.Name) + " lists what can come back"
		return &more
	}
	return err
}

// Run puts an earlier version in force.
func (c *rollbackDefinitionsCmd) Run(s *session) error {
	applied, err := call(c.remote, func(api *client.Client) (client.Applied, error) {
		return api.RollbackDefinitions(s.ctx, client.Rollback{Kind: c.Kind, Name: c.Name, Version: c.Version, Set: c.Set, DryRun: c.DryRun})
	})
	if err != nil {
		return c.unknown(err)
	}
	return s.applied(applied, c.JSON)
}
