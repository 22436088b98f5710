package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRequirementsAreExplained holds the page of requirements against the code: every code and every product decision that a comment names is on the
// page, and the page has no other. A decision without "product" before it could be one of docs/decisions, and is refused.
func TestRequirementsAreExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "contributing", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]?\d+) \| .+ \|$`).FindAllStringSubmatch(string(page), -1) {
		if explained[m[1]] {
			t.Errorf("the page has %s twice", m[1])
		}
		explained[m[1]] = true
	}
	named := map[string]string{}
	for place, comment := range comments(t) {
		for _, code := range requirementsIn(comment) {
			named[code] = place
		}
		if bareDecision(comment) {
			t.Errorf("%s: write \"product decision 48\", or name the file below docs/decisions: %s", place, comment)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(named)) {
		if !explained[code] {
			t.Errorf("%s: %s is not on the page", named[code], code)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(explained)) {
		if named[code] == "" {
			t.Errorf("no comment names %s: take it off the page", code)
		}
	}
}

var (
	requirement     = regexp.MustCompile(`\b([A-DPR])(\d{1,2})(?:[-–][A-DPR]?(\d{1,2}))?\b`)
	productDecision = regexp.MustCompile(`(?i)\bproduct decisions? (\d+(?:(?:, | and )\d+)*)`)
	decision        = regexp.MustCompile(`(?i)(product )?\bdecisions? \d`)
	number          = regexp.MustCompile(`\d+`)
)

// requirementsIn returns the codes that a comment names, with those inside a range such as B27-B29, and the numbers of product decisions.
func requirementsIn(comment string) (codes []string) {
	for _, m := range requirement.FindAllStringSubmatch(comment, -1) {
		first, _ := strconv.Atoi(m[2])
		last, err := strconv.Atoi(m[3])
		if err != nil {
			last = first
		}
		for n := first; n <= last; n++ {
			codes = append(codes, m[1]+strconv.Itoa(n))
		}
	}
	for _, m := range productDecision.FindAllStringSubmatch(comment, -1) {
		codes = append(codes, number.FindAllString(m[1], -1)...)
	}
	return codes
}

// bareDecision reports whether a comment names a decision by its number only.
func bareDecision(comment string) bool {
	return slices.ContainsFunc(decision.FindAllStringSubmatch(comment, -1), func(m []string) bool { return m[1] == "" })
}

func TestRequirementsIn(t *testing.T) {
	t.Parallel()
	for comment, want := range map[string]string{
		"// Shows: A15, C9.": "A15 C9", "// (B27-B29, product decisions 29 and 31)": "B27 B28 B29 29 31", "// Product decision 6.": "6",
		"// docs/decisions/0009 and RFC 8058": "", "// SHA1 of the decision 4": "",
	} {
		if got := strings.Join(requirementsIn(comment), " "); got != want {
			t.Errorf("%s: got %q, want %q", comment, got, want)
		}
	}
	for comment, want := range map[string]bool{"// (decision 4)": true, "// Decision 6.": true, "// product decision 4": false, "// docs/decisions/0009": false} {
		if got := bareDecision(comment); got != want {
			t.Errorf("%s: got %v, want %v", comment, got, want)
		}
	}
}

// comments returns the groups of line comments of the Go files, each on one line, by the place of its first line.
func comments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || filepath.Base(path) == "requirements_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		n, place := 0, ""
		for line := range strings.Lines(string(text)) {
			n++
			code, comment, ok := strings.Cut(strings.TrimSpace(line), "//")
			if !ok {
				place = ""
				continue
			}
			if place == "" || code != "" {
				place = path + ":" + strconv.Itoa(n)
			}
			all[place] += " " + strings.TrimSpace(comment)
		}
		return err
	})
	if err != nil || len(all) < 5000 {
		t.Fatalf("%d comments, %v", len(all), err)
	}
	return all
}

// TestFilesInCommentsExist: every Go file that a comment of a package or a page for contributors names exists.
func TestFilesInCommentsExist(t *testing.T) {
	t.Parallel()
	files, pages := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		files[filepath.Base(path)] = true
		text, err := os.ReadFile(path)
		if doc, _, ok := strings.Cut(string(text), "\npackage "); ok {
			pages[path] = doc
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	contributing, err := filepath.Glob(filepath.Join(root, "docs", "contributing", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range contributing {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(text)
	}
	file := regexp.MustCompile(`\b[\w]+\.go\b`)
	for path, text := range pages {
		for _, name := range file.FindAllString(text, -1) {
			if !files[name] {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	}
}
