// Package carillon is for a binary of one's own: the whole program, with functions of one's own as sinks, in conditions and as audiences.
//
//	func main() {
//		carillon.Main(carillon.Options{
//			Sinks:     map[string]carillon.Sink{"tickets": openTicket},
//			Functions: map[string]carillon.Function{"eligible": {Takes: []carillon.Kind{carillon.Object}, Gives: carillon.Bool, Call: eligible}},
//			Audiences: map[string]carillon.Audience{"on-call": onCall},
//		})
//	}
//
// Such a binary has the command line of the program that it replaces, from serve to check, under its own name. Definitions use functions
// by their names:
//
//	sink: complaints
//	provider: tickets
//
//	when: eligible(record)
//
//	audience:
//	  - function: on-call
//
// The binary's check knows the names, so that a definition that names another one is refused. The program carillon itself is this package
// without options.
//
// What is exported here, and the package client, is what other programs may build on.
package carillon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/carillonhq/carillon/internal/cli"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/function"
)

// Options say what a binary has beside the built-in parts.
type Options struct {
	// Name is what people type: help and errors begin with it. Empty: the name under which the binary was started.
	Name string
	// Sinks are functions by the name that definitions give as the provider of a sink: small letters, digits, - and _, and not the name
	// of a built-in provider, such as webhook. Several sinks may use one function.
	Sinks map[string]Sink
	// Functions are functions by the name under which expressions call them: letters, digits and _, and not a name that expressions have
	// already, such as age.
	Functions map[string]Function
	// Audiences are functions by the name that an audience gives: small letters, digits, - and _.
	Audiences map[string]Audience
}

// Main runs the command that the process was started with and ends the process with its exit status. SIGINT and SIGTERM stop a server
// gracefully; a second one ends it at once.
//
// A mistake in the options, such as a name that is taken, is an error of every command.
func Main(o Options) {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, release)
	//nolint:forbidigo // Main is the main function of a binary
	os.Exit(run(ctx, os.Args, cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: terminal(os.Stdout)}, o))
}

// run runs a command. The first argument is the path of the binary.
func run(ctx context.Context, args []string, stdio cli.Stdio, o Options) int {
	p, err := o.program(args[0])
	if err != nil {
		fmt.Fprintf(stdio.Err, "%s: %v\n", p.Name, err)
		return cli.ExitFailed
	}
	return p.Run(ctx, args[1:], stdio)
}

// program is what the command line gets of the options.
func (o Options) program(path string) (cli.Program, error) {
	p := cli.Program{Name: o.Name}
	if p.Name == "" {
		p.Name = strings.TrimSuffix(filepath.Base(path), ".exe")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Sinks)) {
		call := o.Sinks[name]
		if call == nil {
			return p, fmt.Errorf("the function of the sink %q is nil", name)
		}
		p.Sinks = append(p.Sinks, function.Provider(name, func(ctx context.Context, m sink.Message) error {
			return asError(call(ctx, Event{ID: m.ID, Type: m.Type, At: m.At, Workspace: m.Workspace, Group: m.Group, Body: m.Body}))
		}))
	}
	var err error
	if p.Functions, err = o.functions(); err != nil {
		return p, err
	}
	p.Audiences, err = o.audiences()
	return p, err
}

// asError says what follows an error of a function.
func asError(err error) error {
	var f *failure
	if err == nil || !errors.As(err, &f) {
		return err
	}
	switch f.retry {
	case sink.Permanent:
		return sink.Refused(err)
	case sink.Gone:
		return sink.NotWanted(err)
	case sink.Temporary:
	}
	later := sink.Failed(err)
	later.After = f.after
	return later
}

// terminal reports whether a person reads the file.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
