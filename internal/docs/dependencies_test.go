package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Every direct dependency has its line, and no line outlives its dependency.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	direct := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read("go.mod"), -1) {
		direct[m[1]] = true
	}
	if len(direct) < 5 {
		t.Fatalf("found only %d dependencies in go.mod", len(direct))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\S+)` \\|").FindAllStringSubmatch(read("docs", "reference", "dependencies.md"), -1) {
		if !direct[m[1]] {
			t.Errorf("%s is explained and not used", m[1])
		}
		delete(direct, m[1])
	}
	for module := range direct {
		t.Errorf("%s is used and not explained in docs/reference/dependencies.md", module)
	}
}
