package message

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// corpusCase is one template of a public conformance corpus: golden_liquid.json of the project Golden Liquid.
type corpusCase struct {
	Name     string         `json:"name"`
	Template string         `json:"template"`
	Data     map[string]any `json:"data"`
	Result   *string        `json:"result"`
	Results  []string       `json:"results"`
	Invalid  bool           `json:"invalid"`
}

// rendered is how many templates of the corpus, as of April 2026, give the text that it expects. A change that refuses one more fails the
// test. One that reads more of the language raises the number.
const rendered = 601

// TestCorpus compares the language with a public conformance corpus. Each valid template gives the text that the corpus expects, or
// is refused; none gives another text, and no more of them are refused than were. The corpus is not part of this repository:
// CARILLON_LIQUID_CORPUS names the directory that holds golden_liquid.json.
func TestCorpus(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("CARILLON_LIQUID_CORPUS")
	if dir == "" {
		t.Skip("CARILLON_LIQUID_CORPUS names no directory with golden_liquid.json: the language is not held against the public corpus")
	}
	file, err := os.Open(filepath.Join(dir, "golden_liquid.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var corpus struct {
		Tests []corpusCase `json:"tests"`
	}
	d := json.NewDecoder(file)
	d.UseNumber()
	if err := d.Decode(&corpus); err != nil {
		t.Fatal(err)
	}
	var valid, equal, refused, differing, lenient int
	for _, c := range corpus.Tests {
		got, err := c.render()
		switch {
		case c.Invalid:
			if err == nil {
				lenient++
				if testing.Verbose() {
					t.Logf("accepted though invalid: %s: %q gives %q", c.Name, c.Template, got)
				}
			}
			continue
		case err != nil:
			refused++
			if testing.Verbose() {
				t.Logf("refused: %s: %q: %v", c.Name, c.Template, err)
			}
		case c.expects(got):
			equal++
		default:
			differing++
			t.Errorf("%s: %q with %v\ngot  %q\nwant %q", c.Name, c.Template, c.Data, got, c.wants())
		}
		valid++
	}
	t.Logf("%d templates: %d valid, of them %d equal, %d refused, %d differing; %d invalid, of them %d accepted",
		len(corpus.Tests), valid, equal, refused, differing, len(corpus.Tests)-valid, lenient)
	if equal < rendered {
		t.Errorf("%d valid templates give the text that the corpus expects, want at least %d: the language refuses more than it did", equal, rendered)
	}
}

func (c corpusCase) render() (string, error) {
	tpl, err := Parse(c.Template, Plain)
	if err != nil {
		return "", err
	}
	return tpl.Render(c.Data, Limits{})
}

func (c corpusCase) expects(got string) bool { return slices.Contains(c.wants(), got) }

func (c corpusCase) wants() []string {
	if c.Result != nil {
		return []string{*c.Result}
	}
	return c.Results
}
