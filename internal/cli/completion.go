package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the long help.
func (completionCmd) Help() string {
	return `bash   carillon completion bash > ~/.local/share/bash-completion/completions/carillon
zsh    carillon completion zsh > "${fpath[1]}/_carillon"
fish   carillon completion fish > ~/.config/fish/completions/carillon.fish

A new shell completes commands, flags and the values that a flag may have; elsewhere it completes files.`
}

// Run prints the script.
func (c *completionCmd) Run(s *session) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(s.Out, strings.ReplaceAll(script, DefaultName, s.program.Name))
	return err
}

// Each script asks the program itself, so that it stays right after an update.
const (
	bashScript = `_carillon() {
  local IFS=$'\n'
  COMPREPLY=($(carillon __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _carillon carillon
`
	zshScript = `#compdef carillon
_carillon() {
  local -a found
  local word about
  while IFS=$'\t' read -r word about; do
    found+=("${word//:/\\:}:$about")
  done < <(carillon __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#found} )); then
    _describe carillon found
  else
    _files
  fi
}
compdef _carillon carillon
`
	fishScript = `function __carillon_complete
    set -l words (commandline -opc) (commandline -ct)
    carillon __complete $words[2..-1] 2>/dev/null
end
complete -c carillon -a '(__carillon_complete)'
`
)

// completeCmd is what the scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:""`
}

// Run prints what the last word may become, each with what it means behind a tab.
func (c *completeCmd) Run(s *session, parser *kong.Kong) error {
	for _, one := range complete(parser.Model.Node, c.Words) {
		if _, err := fmt.Fprintf(s.Out, "%s\t%s\n", one.word, one.about); err != nil {
			return err
		}
	}
	return nil
}

// candidate is one word with what it means.
type candidate struct{ word, about string }

// complete lists what the last of the words of a command may become: commands, flags or the values of a flag. None: a file,
// or whatever else the user knows.
func complete(node *kong.Node, words []string) []candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var open *kong.Flag // its value comes next
	for _, word := range words[:len(words)-1] {
		switch {
		case word == "=": // bash parts --flag=value into three words
		case open != nil:
			open = nil
		case strings.HasPrefix(word, "--"):
			if name, _, whole := strings.Cut(word, "="); !whole {
				open = valueFlag(node, name)
			}
		default:
			if child := childOf(node, word); child != nil {
				node = child
			}
		}
	}
	name, value, whole := strings.Cut(last, "=")
	switch {
	case open != nil:
		return matching(strings.TrimPrefix(last, "="), valuesOf(open))
	case whole && strings.HasPrefix(name, "--"):
		if open = valueFlag(node, name); open == nil {
			return nil
		}
		found := matching(value, valuesOf(open))
		for i := range found {
			found[i].word = name + "=" + found[i].word
		}
		return found
	case strings.HasPrefix(last, "-"):
		return matching(last, flagsOf(node))
	}
	var children []candidate
	for _, child := range node.Children {
		if !child.Hidden {
			children = append(children, candidate{child.Name, child.Help})
		}
	}
	if len(children) == 0 && len(node.Positional) > 0 {
		children = enumerated(node.Positional[0].Enum)
	}
	return matching(last, children)
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func flagsOf(node *kong.Node) (list []candidate) {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			list = append(list, candidate{"--" + flag.Name, flag.Help})
		}
	}
	return list
}

// valueFlag is the flag of that name, if it takes a value.
func valueFlag(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if "--"+flag.Name == name && !flag.IsBool() {
				return flag
			}
		}
	}
	return nil
}

// valuesOf are the values that a flag may have, where they are known: those of its enum, or of the list that its tag "values" names.
func valuesOf(flag *kong.Flag) (list []candidate) {
	switch flag.Tag.Get("values") {
	case "reasons":
		for _, r := range reason.All() {
			list = append(list, candidate{string(r.Reason), r.Sentence})
		}
	case "session_statuses":
		return words(delivery.SessionStatuses())
	case "delivery_statuses":
		return words(delivery.Statuses())
	case "instance_statuses":
		return words(instance.Statuses())
	case "outcomes":
		return words(definition.Outcomes())
	case "outbox_statuses":
		return words(outbox.Statuses())
	default:
		return enumerated(flag.Enum)
	}
	return list
}

func words[T ~string](list []T) []candidate {
	out := make([]candidate, len(list))
	for i, one := range list {
		out[i].word = string(one)
	}
	return out
}

func enumerated(enum string) (list []candidate) {
	for value := range strings.SplitSeq(enum, ",") {
		if value != "" {
			list = append(list, candidate{word: value})
		}
	}
	return list
}

func matching(prefix string, list []candidate) (found []candidate) {
	for _, one := range list {
		if strings.HasPrefix(one.word, prefix) {
			found = append(found, one)
		}
	}
	return found
}
