package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSamples demands that every block says what it is, and that what a command prints comes from the command. A console is run by
// TestPages. An output that a page cannot bring about names the test's file that holds it:
//
//	```output internal/sim/testdata/failing/order.txt   the block is a part of this file, which a test compares
//	```output internal/cli/testdata/script/conflict.txtar   each line is demanded by this script
func TestSamples(t *testing.T) {
	t.Parallel()
	pages := []string{filepath.Join(root, "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	run := []string{"console", "yaml", "csv", "json", "expressions", "liquid"}
	shown := []string{"sh", "go", "ts", "text", "yml"} // what is typed, programs, drawings and files of others
	for _, path := range pages {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		prose, _, _ := strings.Cut(string(raw), "<!-- What follows is made from") // by another test
		for _, b := range blocksOf(t, prose) {
			wrong := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s:%d: "+format, append([]any{path, b.first - 1}, args...)...)
			}
			lang, file, _ := strings.Cut(b.lang, " ")
			switch {
			case lang == "output":
				if line := missingSample(t, b, file); line != "" {
					wrong("%s does not hold %q", file, line)
				}
			case slices.Contains(run, b.lang):
				if filepath.Base(path) == "README.md" && b.lang == "console" {
					wrong("the README is not run: show commands as sh")
				}
			case !slices.Contains(shown, b.lang):
				wrong("a block is one of %q, or an output with its file; this one is %q", slices.Concat(run, shown), b.lang)
			case slices.ContainsFunc(b.lines, func(line string) bool { return strings.HasPrefix(line, "$ ") }):
				wrong("what a command prints is a console, which is run")
			}
		}
	}
}

// missingSample is a line of an output that its file does not hold.
func missingSample(t *testing.T, b block, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Error(err)
		return b.lines[0]
	}
	if filepath.Ext(file) != ".txtar" {
		if strings.Contains(plain("", string(raw)), plain("", b.text())) {
			return ""
		}
		held := map[string]bool{}
		for line := range strings.Lines(string(raw)) {
			held[plain("", line)] = true
		}
		for _, line := range b.lines {
			if !held[plain("", line)] {
				return line
			}
		}
		return b.lines[0]
	}
	var demanded []*regexp.Regexp
	for _, found := range regexp.MustCompile(`(?m)^(?:stdout|stderr) '(.*)'$`).FindAllStringSubmatch(string(raw), -1) {
		demanded = append(demanded, regexp.MustCompile(strings.ReplaceAll(found[1], "''", "'")))
	}
	for _, line := range b.lines {
		piped := regexp.MustCompile(` {2,}`).ReplaceAllString(line, "\t")
		titled := !strings.Contains(piped, "\t") // the title of a part, or an empty line
		if !titled && !slices.ContainsFunc(demanded, func(r *regexp.Regexp) bool { return r.MatchString(piped) }) {
			return line
		}
	}
	return ""
}
