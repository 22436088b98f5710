package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/sink"
)

// DefaultName is the name of the program that is built from cmd/carillon.
const DefaultName = "carillon"

// Program is a binary: its name, and what it has beside the built-in parts. The zero value is the built-in one.
type Program struct {
	// Name is what people type, and what help and errors say; empty: DefaultName. Letters, digits, dots, - and _.
	Name string
	// Sinks are providers of sinks beside the built-in ones, under other names.
	Sinks []sink.Provider
	// Functions are what expressions may call, and Audiences what audiences may name.
	Functions, Audiences []*expr.Function
}

// Run runs one command of the built-in program and returns its exit status.
func Run(ctx context.Context, args []string, stdio Stdio) int {
	return Program{}.Run(ctx, args, stdio)
}

// check finds the mistakes of the author of a binary.
func (p Program) check() error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(p.Name) {
		return fmt.Errorf("%q cannot be the name of a program: it has letters, digits, dots, - and _", p.Name)
	}
	name := regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	var names []string
	for _, built := range app.DefinitionOptions(nil).Sinks {
		names = append(names, built.Name)
	}
	for _, own := range p.Sinks {
		switch {
		case !name.MatchString(own.Name):
			return fmt.Errorf("%q cannot be the name of a sink: it has small letters, digits, - and _, begins with a letter, and is not longer than 64", own.Name)
		case slices.Contains(names, own.Name):
			return fmt.Errorf("there is a provider of sinks named %q already: register the function under another name", own.Name)
		}
		names = append(names, own.Name)
	}
	for _, own := range p.Audiences {
		if !name.MatchString(own.Name) {
			return fmt.Errorf("%q cannot be the name of an audience function: it has small letters, digits, - and _, begins with a letter, and is not longer than 64", own.Name)
		}
	}
	if len(p.Functions) == 0 {
		return nil
	}
	_, err := expr.NewCompiler(p.Functions...)
	return err
}

// definitions says which providers definitions may name.
func (p Program) definitions() loader.Options {
	o := app.DefinitionOptions(app.Providers(nil, nil), p.Sinks...)
	o.Functions, o.Audiences = p.Functions, append(o.Audiences, p.Audiences...)
	return o
}

// ownName matches the name of the built-in program where it stands for a command.
var ownName = regexp.MustCompile(`(^|[\s(])carillon([\s:]|$)`)

// named has a text name this program.
func (p Program) named(text string) string {
	if p.Name == "" || p.Name == DefaultName {
		return text
	}
	return ownName.ReplaceAllString(text, "${1}"+p.Name+"${2}")
}

// rename has the help of every command name this program.
func (p Program) rename(parser *kong.Kong) error {
	if p.Name == DefaultName {
		return nil
	}
	return kong.Visit(parser.Model, func(at kong.Visitable, next kong.Next) error {
		switch at := at.(type) {
		case *kong.Node:
			at.Help, at.Detail = p.named(at.Help), p.named(at.Detail)
			if at.Name == "completion" {
				at.Detail = strings.ReplaceAll(at.Detail, DefaultName, p.Name) // names of files
			}
		case *kong.Value:
			at.Help = p.named(at.Help)
		}
		return next(nil)
	})
}

// complain writes an error, with the remedy on a line of its own, and returns the exit status.
func (p Program) complain(w io.Writer, err error) int {
	var own exit
	if err == nil {
		return ExitOK
	}
	if errors.As(err, &own) {
		return int(own)
	}
	var text strings.Builder
	report(&text, err)
	fmt.Fprint(w, p.named(text.String()))
	return ExitFailed
}
