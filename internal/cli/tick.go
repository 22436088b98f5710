package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/reason"
)

type tickCmd struct {
	remote
	jsonOnly
}

// Help is the long help.
func (tickCmd) Help() string {
	return `Processes what is due: evaluates records, expands instances, sends deliveries, ends those that nobody answered. A running server
does all this by itself; a tick is for tests, and for finding out that there is nothing to do.`
}

// Run ticks.
func (c *tickCmd) Run(s *session) error {
	t, err := call(c.remote, func(api *client.Client) (client.Tick, error) { return api.Tick(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, t)
	}
	s.rows([][]string{
		{"processed", fmt.Sprint(t.Processed)},
		{"evaluated", fmt.Sprint(t.Evaluated)},
		{"expanded", fmt.Sprint(t.Expanded)},
		{"reclaimed", fmt.Sprint(t.Reclaimed)},
		{"expired", fmt.Sprint(t.Expired)},
		{"dispatched", fmt.Sprint(t.Dispatched)},
		{"dead", fmt.Sprint(t.Dead)},
		{"failed", fmt.Sprint(t.Failed)},
	})
	return nil
}

type reasonsCmd struct {
	jsonOnly
}

// Run lists the reasons; the list is part of the program.
func (c *reasonsCmd) Run(s *session) error {
	var list client.Reasons
	var rows [][]string
	for _, r := range reason.All() {
		list.Reasons = append(list.Reasons, client.Reason{Reason: string(r.Reason), Class: string(r.Class), Sentence: r.Sentence})
		rows = append(rows, []string{string(r.Reason), string(r.Class), r.Sentence})
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	s.table([]string{"reason", "class", "sentence"}, rows)
	return nil
}

type versionCmd struct {
	jsonOnly
}

// Help is the long help.
func (versionCmd) Help() string { return `carillon --version prints the same.` }

// Run prints the version.
func (c *versionCmd) Run(s *session) error {
	if c.JSON {
		return printJSON(s.Out, map[string]string{"version": version()})
	}
	if s.program.Name != DefaultName {
		fmt.Fprint(s.Out, s.program.Name, ", made with ")
	}
	fmt.Fprintln(s.Out, "carillon", version())
	return nil
}

// version is that of this module as the toolchain noted it when it built the program: in a binary of one's own it is a dependency.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionIn(info)
}

func versionIn(info *debug.BuildInfo) string {
	const module = "github.com/carillonhq/carillon"
	found := info.Main.Version
	for _, d := range info.Deps {
		if d.Path != module {
			continue
		}
		if found = d.Version; d.Replace != nil {
			found = d.Replace.Version
		}
	}
	if found == "" || found == "(devel)" {
		return "devel"
	}
	return found
}
