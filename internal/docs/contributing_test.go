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

// mostFunctions is how many functions a page on one thing's way may name.
const mostFunctions = 10

// TestContributingNamesWhatExists holds the pages for contributors against the code: every path and every test that they name
// exists, and so does every function, with its file.
func TestContributingNamesWhatExists(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "contributing", "*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	code := goFiles(t)
	named := regexp.MustCompile("`([^`\n]+)`")
	path := regexp.MustCompile(`^(cmd|client|docs|examples|internal)(/[\w.*-]+)*$`)
	function := regexp.MustCompile(`^([a-z]\w*)\.(?:(\w+)\.)?(\w+)$`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		functions := map[string]bool{}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			name := m[1]
			switch f := function.FindStringSubmatch(name); {
			case strings.Contains(name, "NNNNN"):
			case path.MatchString(name):
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
					t.Errorf("%s: %s does not exist", page, name)
				}
			case strings.HasPrefix(name, "Test"):
				if !code.declares("", "", name) {
					t.Errorf("%s: no test is called %s", page, name)
				}
			case f != nil && code.packages[f[1]]:
				if !code.declares(f[1], f[2], f[3]) {
					t.Errorf("%s: %s does not exist", page, name)
				}
				functions[name] = true
			}
		}
		if !slices.Contains([]string{"index.md", "requirements.md"}, filepath.Base(page)) && (len(functions) < 4 || len(functions) > mostFunctions) {
			t.Errorf("%s names %d functions, want 4 to %d", page, len(functions), mostFunctions)
		}
	}
}

// source is the text of the Go files, by package.
type source struct {
	packages map[string]bool
	text     map[string]string
}

func goFiles(t *testing.T) source {
	t.Helper()
	s := source{map[string]bool{}, map[string]string{}}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		pkg := filepath.Base(filepath.Dir(path))
		s.packages[pkg] = true
		s.text[pkg] += string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// declares reports whether a function, a method or a type of that name is declared; an empty package means any.
func (s source) declares(pkg, of, name string) bool {
	receiver := `(?:\(\w* ?\*?\w+(?:\[\w+\])?\) )?`
	if of != "" {
		receiver = `\(\w* ?\*?` + of + `(?:\[\w+\])?\) `
	}
	declared := regexp.MustCompile(`(?m)^(?:func ` + receiver + name + `[\[(]|type ` + name + `\b)`)
	for p, text := range s.text {
		if (pkg == "" || p == pkg) && declared.MatchString(text) {
			return true
		}
	}
	return false
}
