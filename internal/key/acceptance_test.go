package key

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// acceptance reads a file of the acceptance data.
func acceptance(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("CARILLON_ACCEPTANCE_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "acceptance")
	}
	data, err := os.ReadFile(filepath.Join(dir, "sources", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// dedupHashes runs the vectors of adp-dedup-hash.json twice: with the values as texts, as the file has them, and with numbers and truth
// values as JSON values. The hashes must be the same (C8).
func dedupHashes(t *testing.T, data []byte) (cases int, wrong []string) {
	t.Helper()
	var file struct {
		ByteLength int `json:"byte_length"` // of the first vector's string
		Vectors    []struct {
			Name      string
			Recipe    []string
			Values    map[string]string
			Canonical string // with ␟ in place of U+001F
			SHA256    string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for i, v := range file.Vectors {
		cases++
		asText := func(path string) (any, bool) { value, ok := v.Values[path]; return value, ok }
		asJSON := func(path string) (any, bool) {
			value, ok := v.Values[path]
			if parsed, err := decodeJSON(value); err == nil {
				return parsed, ok
			}
			return value, ok
		}
		for form, lookup := range map[string]func(string) (any, bool){"texts": asText, "JSON": asJSON} {
			text, _ := DedupString(v.Recipe, lookup)
			if want := strings.ReplaceAll(v.Canonical, "␟", "\x1f"); text != want {
				wrong = append(wrong, fmt.Sprintf("%s, %s: the string is %q, want %q", v.Name, form, text, want))
			}
			if got := Hash(text); got != v.SHA256 {
				wrong = append(wrong, fmt.Sprintf("%s, %s: the hash is %s, want %s", v.Name, form, got, v.SHA256))
			}
			if i == 0 && len(text) != file.ByteLength {
				wrong = append(wrong, fmt.Sprintf("%s, %s: %d bytes, want %d", v.Name, form, len(text), file.ByteLength))
			}
		}
	}
	return cases, wrong
}

// decodeJSON reads one JSON value, with numbers as json.Number.
func decodeJSON(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("%q is more than one value", text)
	}
	return v, nil
}

// Shows: C8, C9.
func TestAcceptanceDedupHash(t *testing.T) {
	t.Parallel()
	cases, wrong := dedupHashes(t, acceptance(t, "adp-dedup-hash.json"))
	for _, w := range wrong {
		t.Error(w)
	}
	if cases < 11 {
		t.Errorf("only %d cases", cases)
	}
	t.Logf("%d cases", cases)
}

// TestAcceptanceBites changes one expected value at a time. Each change must make the test fail.
func TestAcceptanceBites(t *testing.T) {
	t.Parallel()
	data := acceptance(t, "adp-dedup-hash.json")
	for _, change := range []struct{ name, from, to string }{
		{"a digit of a hash", "6383108901bdd1b1", "7383108901bdd1b1"},
		{"a character of a string", "candidate.wip=40956", "candidate.wip=40957"},
		{"a value", `"candidate.invoiceNumber": "11045237"`, `"candidate.invoiceNumber": "11045238"`},
		{"the number of bytes", `"byte_length": 92`, `"byte_length": 93`},
	} {
		t.Run(change.name, func(t *testing.T) {
			t.Parallel()
			changed := bytes.Replace(data, []byte(change.from), []byte(change.to), 1)
			if bytes.Equal(changed, data) {
				t.Fatalf("%q does not stand in the data", change.from)
			}
			if _, wrong := dedupHashes(t, changed); len(wrong) == 0 {
				t.Errorf("%s was changed and nothing was noticed", change.name)
			}
		})
	}
}
