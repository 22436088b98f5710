// Package cli is the command line: verbs on nouns.
//
// A command parses what it was given, calls one thing, and prints what came of it. Lists and details are aligned
// on a terminal and parted by tabs in a pipe, where nothing is ever coloured, shortened or animated; --json prints
// the API's own answer. Results go to the standard output, everything else to the standard error.
//
// Exit status: 0 done · 1 refused or failed · 64 the command line itself is wrong. Where a command has more, its
// help says so.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/outbox"
)

// Exit statuses.
const (
	ExitOK      = 0
	ExitFailed  = 1
	ExitChanges = 2  // of a dry run: something would change
	ExitUsage   = 64 // EX_USAGE of sysexits.h; 2 and 3 are results of commands that compare
)

// Stdio is where a command reads and writes.
type Stdio struct {
	In       io.Reader
	Out      io.Writer
	Err      io.Writer
	Terminal bool // Out is read by a person
}

// grammar is every command.
type grammar struct {
	Demo  demoCmd  `cmd:"" help:"See it at work on this machine, in ten seconds."`
	Serve serveCmd `cmd:"" help:"Run the engine, the HTTP API and the console."`

	Check       checkCmd       `cmd:"" group:"rules" help:"Check definition files, with or without a server."`
	Test        testCmd        `cmd:"" group:"rules" help:"Run scenarios: proof of what the definitions do, in virtual time."`
	Apply       applyCmd       `cmd:"" group:"rules" help:"Put definition files in force."`
	Definitions definitionsCmd `cmd:"" group:"rules" help:"See, delete and roll back the definitions in force."`

	Status        statusCmd        `cmd:"" group:"work" help:"See how late messages are, and what waits for a person."`
	Events        eventsCmd        `cmd:"" group:"work" help:"Post events and list them."`
	Ingest        ingestCmd        `cmd:"" group:"work" help:"Take in the rows of a CSV or NDJSON file as events."`
	Contacts      contactsCmd      `cmd:"" group:"work" help:"Keep contacts, the people who get messages."`
	Groups        groupsCmd        `cmd:"" group:"work" help:"See groups, the sets of contacts that are defined."`
	Topics        topicsCmd        `cmd:"" group:"work" help:"See and make topics, which people subscribe to."`
	Subscriptions subscriptionsCmd `cmd:"" group:"work" help:"See, begin and end subscriptions to topics."`
	Items         itemsCmd         `cmd:"" group:"work" help:"Publish items, and see which topics they belong to."`
	Feedback      feedbackCmd      `cmd:"" group:"work" help:"Take in bounces and complaints."`
	Records       recordsCmd       `cmd:"" group:"work" help:"Keep records, the things that triggers watch."`
	Decisions     decisionsCmd     `cmd:"" group:"work" help:"See which occasions made no instance, and why."`
	Throttles     throttlesCmd     `cmd:"" group:"work" help:"See when contexts of workflows fired, and when they may fire again."`
	Runs          runsCmd          `cmd:"" group:"work" help:"See how far work over many rows is, such as evaluating all records after an edit."`
	Workflows     workflowsCmd     `cmd:"" group:"work" help:"See workflows, pause and resume them."`
	Preview       previewCmd       `cmd:"" group:"work" help:"See what a workflow is going to do next."`
	Run           runCmd           `cmd:"" group:"work" help:"Run a workflow by hand, now."`
	Instances     instancesCmd     `cmd:"" group:"work" help:"See and steer instances, the occasions of workflows."`
	Deliveries    deliveriesCmd    `cmd:"" group:"work" help:"See and steer deliveries, the messages to people."`
	Sessions      sessionsCmd      `cmd:"" group:"work" help:"See the conversations with people."`
	Responses     responsesCmd     `cmd:"" group:"work" help:"See and export the answers to surveys."`
	Outbox        outboxCmd        `cmd:"" group:"work" help:"See outcomes that go to other systems, and have them tried again."`
	Sinks         sinksCmd         `cmd:"" group:"work" help:"See, pause and enable sinks."`
	Channels      channelsCmd      `cmd:"" group:"work" help:"See channels, and send a test through one."`
	Tick          tickCmd          `cmd:"" group:"work" help:"Run every pass once, now."`
	Reasons       reasonsCmd       `cmd:"" group:"work" help:"List every named outcome with its sentence."`

	Keys       keysCmd       `cmd:"" group:"admin" help:"Make, list, rotate and revoke API keys."`
	Workspaces workspacesCmd `cmd:"" group:"admin" help:"Make and list workspaces, which know nothing of each other."`

	Migrate migrateCmd `cmd:"" group:"admin" help:"Bring the database's schema up to date, or show its state."`
	Backup  backupCmd  `cmd:"" group:"admin" help:"Copy a SQLite database while it is in use."`
	Restore restoreCmd `cmd:"" group:"admin" help:"Put a copy in the place of a SQLite database."`

	AcceptRestore acceptRestoreCmd `cmd:"" group:"admin" help:"Let a copy of a database send what is due."`
	Secrets       secretsCmd       `cmd:"" group:"admin" help:"Set, list and remove secrets of channels."`
	Version       versionCmd       `cmd:"" group:"admin" help:"Print the version."`
	Completion    completionCmd    `cmd:"" group:"admin" help:"Print a script by which a shell completes commands."`
	Man           manCmd           `cmd:"" group:"admin" help:"Write the manual pages."`

	Complete completeCmd `cmd:"" name:"__complete" hidden:"" passthrough:""`
}

const description = `Triggered, scheduled and rate-limited messages: the right one, to the right person, at the
right moment, once, and never too often.

Commands that talk to a server find it by --server and --key or --key-file, or CARILLON_SERVER and
CARILLON_KEY.`

// session is what a command runs with.
type session struct {
	ctx context.Context
	Stdio
	program Program
	command string
}

// exit ends a command with a status of its own; what there was to say has been said.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// stop is how the parser's hooks (--help) end the run.
type stop struct{ status int }

// Run runs one command and returns its exit status. A mistake of the program's author is one of every command.
func (p Program) Run(ctx context.Context, args []string, stdio Stdio) (status int) {
	if p.Name == "" {
		p.Name = DefaultName
	}
	out := &checked{Writer: stdio.Out}
	stdio.Out = out
	defer func() { status = out.verdict(status, p.Name, stdio.Err) }()
	defer func() {
		if thrown := recover(); thrown != nil {
			ended, ok := thrown.(stop)
			if !ok {
				panic(thrown)
			}
			status = ended.status
		}
	}()
	if err := p.check(); err != nil {
		fmt.Fprintf(stdio.Err, "%s: %v\n", p.Name, err)
		return ExitFailed
	}
	parser, err := newParser(p, stdio)
	if err != nil {
		fmt.Fprintf(stdio.Err, "%s: %v\n", p.Name, err)
		return ExitUsage
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "--version": // no flag of the parser: commands have a --version of their own
		args = append([]string{"version"}, args[1:]...)
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	parsed, err := parser.Parse(args)
	if out.caused(err) { // the help has no room
		return ExitFailed
	}
	if err != nil {
		fmt.Fprintf(stdio.Err, "%s: %s\n", p.Name, p.named(err.Error()))
		fmt.Fprintln(stdio.Err, "   ", strings.Join(slices.Concat([]string{p.Name}, commandOf(err), []string{"--help"}), " "))
		return ExitUsage
	}
	err = parsed.Run(&session{ctx: ctx, Stdio: stdio, program: p, command: parsed.Command()}, parser)
	if out.caused(err) {
		return ExitFailed
	}
	return p.complain(stdio.Err, err)
}

func newParser(p Program, stdio Stdio) (*kong.Kong, error) {
	return kong.New(&grammar{},
		kong.Name(p.Name),
		kong.PostBuild(p.rename),
		kong.Description(description),
		kong.Writers(stdio.Out, stdio.Err),
		kong.Exit(func(status int) { panic(stop{status}) }),
		kong.ValueFormatter(helpOf),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "rules", Title: "Definitions:"},
			{Key: "work", Title: "Messages:"},
			{Key: "admin", Title: "Administration:"},
		}),
		kong.Vars{
			"scopes": strings.Join(scopes(), ","), "workspace": app.DefaultWorkspace,
			"delivery_statuses": listed(delivery.Statuses()), "session_statuses": listed(delivery.SessionStatuses()), "instance_statuses": listed(instance.Statuses()),
			"outcomes": listed(definition.Outcomes()), "outbox_statuses": listed(outbox.Statuses()),
		},
	)
}

func listed[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, one := range list {
		words[i] = string(one)
	}
	return strings.Join(words, ", ")
}

// commandOf is the command that an error of the parser is about.
func commandOf(err error) (words []string) {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		for _, word := range strings.Fields(wrong.Context.Command()) {
			if strings.HasPrefix(word, "<") {
				break
			}
			words = append(words, word)
		}
	}
	return words
}

// helpOf is a flag's help with its default and its environment variable.
func helpOf(v *kong.Value) string {
	var more []string
	if v.HasDefault && v.Default != "" && !v.IsBool() {
		more = append(more, "default "+v.Default)
	}
	for _, env := range v.Tag.Envs {
		more = append(more, "$"+env)
	}
	if len(more) == 0 {
		return v.Help
	}
	return v.Help + " (" + strings.Join(more, ", ") + ")"
}

// report says what went wrong, with the remedy on a line of its own.
func report(w io.Writer, err error) {
	var problem *client.Problem
	if errors.As(err, &problem) {
		printProblem(w, inWords(*problem))
		return
	}
	fmt.Fprintln(w, "carillon:", err)
}

func printProblem(w io.Writer, p client.Problem) {
	for _, one := range p.Problems {
		fmt.Fprintln(w, problemText(one))
	}
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	fmt.Fprintf(w, "carillon: %s (%s)\n", text, p.Code)
	if p.Hint != "" {
		fmt.Fprintln(w, "   ", p.Hint)
	}
}

func problemText(p client.DefinitionProblem) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("\n    " + strings.ReplaceAll(p.Hint, "\n", "\n    "))
	}
	return b.String()
}
