package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/cli"
)

// A shell completes every command and every flag of it.
func TestEveryCommandIsCompleted(t *testing.T) {
	t.Parallel()
	complete := cli.Completed()
	for _, words := range cli.Commands() {
		last := words[len(words)-1]
		if got := complete(append(slices.Clone(words[:len(words)-1]), last[:len(last)-1])...); !slices.Contains(got, last) {
			t.Errorf("carillon %s is completed to %q", strings.Join(words, " "), got)
		}
	}
	for _, c := range cli.Leaves() {
		got := complete(append(slices.Clone(c.Words), "--")...)
		for _, flag := range c.Flags {
			if !slices.Contains(got, "--"+flag) {
				t.Errorf("carillon %s -- is completed to %q, without --%s", strings.Join(c.Words, " "), got, flag)
			}
		}
	}
}

// Every command has a manual page, which names its flags and the pages of the commands below it.
func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, errs, status := run(t, false, "", "man", "--dir", dir); status != cli.ExitOK {
		t.Fatal(errs)
	}
	page := func(words []string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, strings.Join(append([]string{"carillon"}, words...), "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		return strings.ReplaceAll(string(text), `\-`, "-")
	}
	for _, words := range cli.Commands() {
		name := strings.Join(append([]string{"carillon"}, words...), "-")
		if text := page(words); !strings.HasPrefix(text, `.TH "`+strings.ToUpper(name)+`" 1`) {
			t.Errorf("%s.1 begins with %.100q", name, text)
		}
		if above := page(words[:len(words)-1]); !strings.Contains(above, ".BR "+name+" (1)\n") {
			t.Errorf("the page above it does not name %s", name)
		}
	}
	for _, c := range cli.Leaves() {
		text := page(c.Words)
		for _, flag := range c.Flags {
			if !strings.Contains(text, ".B --"+flag) {
				t.Errorf("the page of carillon %s does not name --%s", strings.Join(c.Words, " "), flag)
			}
		}
	}
}
