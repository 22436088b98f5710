package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/cli"
)

// shared are the flags of many commands that do the same in each: one script shows them. What they do in every command that has
// them is held by TestEveryCommandSaysWhatIsWrong.
func shared() []string {
	return []string{"server", "key", "key-file", "timezone", "cursor", "db", "workspace"}
}

// Every command is run for real by a script, once so that it does what it is for and once so that it fails, and with each of its
// flags. A new command or flag without a script fails here.
func TestEveryCommandHasAScript(t *testing.T) {
	t.Parallel()
	done, failed, flags := map[string]bool{}, map[string]bool{}, map[string]bool{}
	named := cli.Named()
	for _, line := range scriptLines(t) {
		c := named(line.args)
		name := strings.Join(c.Words, " ")
		if line.fails {
			failed[name] = true
		} else {
			done[name] = true
		}
		for _, flag := range c.Flags {
			flags[name+" --"+flag], flags["--"+flag] = true, true
		}
	}
	for _, c := range cli.Leaves() {
		name := strings.Join(c.Words, " ")
		if !done[name] {
			t.Errorf("no script runs carillon %s", name)
		}
		if !failed[name] {
			t.Errorf("no script shows how carillon %s fails", name)
		}
		for _, flag := range c.Flags {
			switch {
			case slices.Contains(shared(), flag) && flags["--"+flag]:
			case !flags[name+" --"+flag]:
				t.Errorf("no script runs carillon %s --%s", name, flag)
			}
		}
	}
}

type scriptLine struct {
	args  []string
	fails bool
}

// scriptLines are the lines of all scripts that run the program.
func scriptLines(t *testing.T) (lines []scriptLine) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := strings.Cut(string(text), "\n-- ")
		for line := range strings.Lines(script) {
			negated, fails := strings.CutPrefix(strings.TrimSpace(line), "! ")
			if args, ok := strings.CutPrefix(negated, "exec carillon"); ok {
				lines = append(lines, scriptLine{words(args), fails})
			}
		}
	}
	return lines
}

// words parts a line as the scripts do: by blanks, outside of single quotes. The text after the command is left out.
func words(line string) (list []string) {
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				list = append(list, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		list = append(list, word.String())
	}
	if n := len(list); n > 0 && strings.HasPrefix(list[n-1], "&") {
		list = list[:n-1]
	}
	return list
}
