package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// ShellQuoted is the name of a database as the hint of serve shows it.
func ShellQuoted(text string) string { return shellQuoted(text) }

// Commands lists every command by its words, groups of commands included.
func Commands() [][]string {
	parser, err := newParser(Stdio{Out: io.Discard, Err: io.Discard})
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
