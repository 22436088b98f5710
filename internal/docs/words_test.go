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

// privateWords are words of a dialect that readers would have to learn, each with the plain word of the glossary.
var privateWords = map[string]string{
	`who(m)?ever`:                 "name the person or the part",
	`anew`:                        "again",
	`what stands`:                 "name it",
	`nobody (of )?whom`:           "name the persons",
	`(is|are|was|were) told`:      "is notified, gets a message",
	`(is|are|was|were) looked at`: "is evaluated, is tested",
	`intakes?`:                    "ingest",
	`checkers?|glances?`:          "evaluator, evaluation",
	`expanders?`:                  "fanout",
	`replan(s|ned|ning)?`:         "reschedule",
	`outlets?`:                    "channel, channelpool",
	`sweepers?`:                   "expiry",
	`siev(e|es)`:                  "prefilter",
	`sift(s|ed|ing)?`:             "backfill",
	`unheard`:                     "undelivered",
	`kin`:                         "related records",
	`riders?`:                     "fold member",
	`heirs?|bequeath(s|ed)?`:      "survivor, fold head",
	`estates?`:                    "what is reassigned",
	`handovers?`:                  "merge",
	`sprouts?|sow(s|n)?`:          "successor",
	`(put(s|ting)?|set) aside`:    "park, move",
	`on the wire`:                 "in flight",
	`giv(en|es|ing) back`:         "refund, release, return",
	`freights?`:                   "import job",
	`berths?`:                     "channel",
}

// unlisted are the places that the rule does not hold for: history, what is given or generated, and the words of the schema.
var unlisted = []string{
	"CHANGELOG.md", "docs/decisions", "docs/index.md", "internal/docs/words_test.go", "internal/api/testdata/clients",
	"testdata/acceptance", ".git", ".tools", "bin",
}

// TestWordsAreThoseOfTheGlossary keeps the dialect out of code, docs, examples and tests.
func TestWordsAreThoseOfTheGlossary(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	words := make([]string, 0, len(privateWords))
	for word := range privateWords {
		words = append(words, word)
	}
	slices.Sort(words)
	private := regexp.MustCompile(`(?i)\b(` + strings.Join(words, "|") + `)\b`)
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if slices.Contains(unlisted, name) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.IsDir() || strings.HasSuffix(name, "_templ.go") || strings.Contains(name, "/rapid/") ||
			!slices.Contains([]string{".go", ".md", ".templ", ".yaml", ".txtar"}, filepath.Ext(name)) {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if found := private.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is a private word (%s)\n%s", name, n, found, insteadOf(found), strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("%d files were read, %v", files, err)
	}
}

func insteadOf(found string) string {
	for word, instead := range privateWords {
		if regexp.MustCompile(`(?i)^(` + word + `)$`).MatchString(found) {
			return instead
		}
	}
	return ""
}
