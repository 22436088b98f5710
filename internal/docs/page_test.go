package docs_test

import (
	"strings"
	"testing"
)

// block is a fenced part of a page.
type block struct {
	lang  string
	lines []string
	first int // the number of its first line, from 1
}

// name is the path of the file that a block is: its first line is a comment that holds nothing else.
func (b block) name() string {
	path, ok := strings.CutPrefix(b.lines[0], "# ")
	if b.lang != "yaml" || !ok || strings.Contains(path, " ") || !strings.HasSuffix(path, ".yaml") {
		return ""
	}
	return path
}

func (b block) text() string { return strings.Join(b.lines, "\n") + "\n" }

func blocksOf(t *testing.T, text string) []block {
	t.Helper()
	var all []block
	var open *block
	for i, line := range strings.Split(text, "\n") {
		lang, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{lang: lang, first: i + 2}
		case fence:
			if len(open.lines) > 0 {
				all = append(all, *open)
			}
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		}
	}
	if open != nil {
		t.Fatalf("the block of line %d is not closed", open.first-1)
	}
	return all
}

// command is what a page types at a prompt, and what comes out.
type command struct {
	line string
	want []string
	at   int // the number of its first line
	end  int // the number of the line behind its output
}

// commandsOf reads a console: "$ " begins a command, "> " continues it.
func commandsOf(b block) []command {
	var all []command
	for i, line := range b.lines {
		at := b.first + i
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, command{line: text, at: at, end: at + 1})
			continue
		}
		if len(all) == 0 {
			continue
		}
		last := &all[len(all)-1]
		if text, ok := strings.CutPrefix(line, "> "); ok && len(last.want) == 0 {
			last.line += "\n" + text
			last.at++
		} else {
			last.want = append(last.want, line)
		}
		last.end = at + 1
	}
	return all
}

// example is a line "what → result".
type example struct {
	what, result string
	line         int
}

func examplesOf(t *testing.T, b block) []example {
	t.Helper()
	all := make([]example, 0, len(b.lines))
	for i, line := range b.lines {
		what, result, ok := strings.Cut(line, "→")
		if !ok {
			t.Fatalf("line %d shows no result", b.first+i)
		}
		all = append(all, example{strings.TrimSpace(what), strings.TrimSpace(result), b.first + i})
	}
	return all
}
