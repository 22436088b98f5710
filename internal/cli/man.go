package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
)

type manCmd struct {
	Command []string `arg:"" optional:"" help:"The command whose page is printed, such as deliveries list."`
	Dir     string   `name:"dir" type:"path" placeholder:"FOLDER" help:"Write a page for every command into this folder."`
}

// Help is the long help.
func (manCmd) Help() string {
	return `  carillon man deliveries list | man -l -
  carillon man --dir /usr/local/share/man/man1`
}

// Run writes manual pages.
func (c *manCmd) Run(s *session, parser *kong.Kong) error {
	node := parser.Model.Node
	if c.Dir == "" {
		for _, word := range c.Command {
			if node = childOf(node, word); node == nil || node.Hidden {
				return fmt.Errorf("there is no command carillon %s\n    carillon --help lists them", strings.Join(c.Command, " "))
			}
		}
		if s.Terminal {
			s.note("%s", strings.TrimSpace("carillon man "+strings.Join(c.Command, " "))+" | man -l - shows this as a page")
		}
		return writePage(s.Out, node)
	}
	if len(c.Command) > 0 {
		return errors.New("--dir writes the pages of all commands: leave the command out")
	}
	return writePages(c.Dir, node)
}

// writePages writes the page of a command and those of the commands below it.
func writePages(dir string, node *kong.Node) error {
	var text strings.Builder
	if err := writePage(&text, node); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, pageName(node)+".1"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write a manual page: %w", err)
	}
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		if err := writePages(dir, child); err != nil {
			return err
		}
	}
	return nil
}

// pageName is how man finds the page of a command: carillon-deliveries-list.
func pageName(node *kong.Node) string {
	if node.Parent == nil {
		return node.Name
	}
	return pageName(node.Parent) + "-" + node.Name
}

// writePage writes the page of a command in the language of man(7).
func writePage(w io.Writer, node *kong.Node) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name := pageName(node)
	help, about, _ := strings.Cut(node.Help, "\n\n")
	line(`.TH "%s" 1 "" "carillon %s" "Carillon"`, strings.ToUpper(name), roff(version()))
	line(".SH NAME\n%s \\- %s", roff(name), roff(strings.ReplaceAll(help, "\n", " ")))
	line(".SH SYNOPSIS\n.B %s", roff(strings.TrimSpace(strings.ReplaceAll(name, "-", " ")+" "+arguments(node))))
	if about += "\n\n" + node.Detail; strings.TrimSpace(about) != "" {
		line(".SH DESCRIPTION\n.nf\n%s\n.fi", roff(strings.TrimSpace(about)))
	}
	commands(line, node)
	if len(node.Positional) > 0 {
		line(".SH ARGUMENTS")
	}
	for _, p := range node.Positional {
		line(".TP\n.B %s\n%s", roff(p.Name), roff(p.Help))
	}
	flags := node.AllFlags(true)
	if len(flags) > 0 {
		line(".SH OPTIONS")
	}
	for _, group := range flags {
		for _, flag := range group {
			line(".TP\n.B %s\n%s", roff("--"+placeholder(flag)), roff(helpOf(flag.Value)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commands lists what is below a command.
func commands(line func(string, ...any), node *kong.Node) {
	shown := false
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		if !shown {
			line(".SH COMMANDS")
			shown = true
		}
		line(".TP\n.BR %s (1)\n%s", roff(pageName(child)), roff(child.Help))
	}
}

func arguments(node *kong.Node) string {
	var words []string
	if len(node.Children) > 0 {
		words = append(words, "<command>")
	}
	for _, p := range node.Positional {
		words = append(words, p.Summary())
	}
	return strings.Join(append(words, "[flags]"), " ")
}

func placeholder(flag *kong.Flag) string {
	if flag.IsBool() {
		return flag.Name
	}
	return flag.Name + "=" + flag.FormatPlaceHolder()
}

// roff is a text that man prints as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
