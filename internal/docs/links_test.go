package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks: every link between pages leads to a file, and every page is reached from the index.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`(?:\]\(|src="|srcset=")([^)"#\s]+)`)
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
	index := map[string]bool{filepath.Join(root, "README.md"): true, filepath.Join(root, "docs", "index.md"): true}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			target := filepath.Join(filepath.Dir(page), filepath.FromSlash(m[1]))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
			if page == filepath.Join(root, "docs", "index.md") {
				index[target] = true
			}
		}
	}
	for _, page := range pages {
		if !index[page] {
			t.Errorf("docs/index.md does not lead to %s", page)
		}
	}
}
