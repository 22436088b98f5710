package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/carillonhq/carillon/client"
)

// ShellQuoted is the name of a database as the hint of serve shows it.
func ShellQuoted(text string) string { return shellQuoted(text) }

// Cell is a text as a table shows it.
func Cell(text string) string { return cell(text) }

// Said is the text of a line of a conversation as it is printed.
func Said(l client.SessionLine, terminal bool) []string { return said(l, terminal) }

// Commands lists every command by its words, groups of commands included.
func Commands() [][]string {
	parser, err := newParser(Program{Name: DefaultName}, Stdio{Out: io.Discard, Err: io.Discard})
	if err != nil {
		panic(err)
	}
	var list [][]string
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if command, ok := node.(*kong.Node); ok && command.Type == kong.CommandNode && !command.Hidden {
			list = append(list, strings.Fields(command.FullPath())[1:])
		}
		return next(nil)
	})
	if err != nil {
		panic(err)
	}
	return list
}

// Command is a command that does something, with its flags.
type Command struct {
	Words []string
	Flags []string
}

// Leaves lists every command that does something; those that list others are left out.
func Leaves() (list []Command) {
	parser, err := newParser(Program{Name: DefaultName}, Stdio{Out: io.Discard, Err: io.Discard})
	if err != nil {
		panic(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		c := Command{Words: strings.Fields(leaf.FullPath())[1:]}
		for _, group := range leaf.AllFlags(true) {
			for _, flag := range group {
				if flag.Name != "help" {
					c.Flags = append(c.Flags, flag.Name)
				}
			}
		}
		list = append(list, c)
	}
	return list
}

// Named returns a function that says which command a line names and which flags it gives, as far as the line can be read.
func Named() func(args []string) Command {
	parser, err := newParser(Program{Name: DefaultName}, Stdio{Out: io.Discard, Err: io.Discard})
	if err != nil {
		panic(err)
	}
	return func(args []string) (c Command) {
		if len(args) > 0 && args[0] == "--version" {
			args = []string{"version"}
		}
		parsed, err := kong.Trace(parser, args)
		if err != nil {
			panic(err)
		}
		for _, path := range parsed.Path {
			switch {
			case path.Command != nil:
				c.Words = append(c.Words, path.Command.Name)
			case path.Flag != nil:
				c.Flags = append(c.Flags, path.Flag.Name)
			}
		}
		return c
	}
}

// Completed returns a function that says what the last of some words may become.
func Completed() func(words ...string) []string {
	parser, err := newParser(Program{Name: DefaultName}, Stdio{Out: io.Discard, Err: io.Discard})
	if err != nil {
		panic(err)
	}
	return func(words ...string) (list []string) {
		for _, one := range complete(parser.Model.Node, words) {
			list = append(list, one.word)
		}
		return list
	}
}
