package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/engine/service/ingest"
)

// What the readers of requests take keeps to the bounds, whatever the bytes are: no deeper than allowed, no key twice in
// an object, no U+0000, no half of a character. The oracle is a plain walk over the tokens of encoding/json.
func FuzzRequestBounds(f *testing.F) {
	for _, text := range []string{
		`{"kind":"x","payload":{"a":{"b":[1,2,{"c":null}]}}}`, `{"kind":"x","kind":"y"}`, `{"a":1,"\u0061":2}`, `{"kind":"x","payload":{"a":"\u0000"}}`,
		strings.Repeat(`[`, 33) + strings.Repeat(`]`, 33), strings.Repeat(`{"a":`, 32) + `1` + strings.Repeat(`}`, 32), `{"kind":"x","payload":{"n":1e999999}}`,
		`{"kind":"` + strings.Repeat("x", 257) + `"}`, `{"kind":"x","recipient":{"address":"a","address":"b"}}`, "\xff", ``,
		`{"kind":"x","payload":{"a":"\ud800"}}`, `{"kind":"x","payload":{"\udfff":1}}`,
	} {
		f.Add([]byte(text))
	}
	now := time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if unmarshal(data, &value) == nil {
			inBounds(t, data)
		}
		item := ingest.Parse(data, now)
		if item.Err != nil {
			if item.Err.Reason == "" || item.Err.Message == "" {
				t.Errorf("%q is refused without a reason", data)
			}
			return
		}
		inBounds(t, data)
		ev := item.Event
		names := []string{ev.Kind, ev.ExtID}
		if p := ev.Recipient; p != nil {
			names = append(names, p.Address, p.Locale, p.CustomerRef)
		}
		for _, name := range names {
			if len(name) > 256 {
				t.Errorf("%q holds a name of %d bytes", data, len(name))
			}
		}
		if len(data) > ingest.MaxEvent || ev.Kind == "" {
			t.Errorf("an event of %d bytes and the kind %q was taken", len(data), ev.Kind)
		}
	})
}

// halfless reports whether U+FFFD is itself in a text, so that it stands for nothing that was broken.
func halfless(data []byte) bool {
	return bytes.ContainsRune(data, utf8.RuneError) || bytes.Contains(bytes.ToLower(data), []byte(`\ufffd`))
}

// inBounds walks over the tokens of one JSON value.
func inBounds(t *testing.T, data []byte) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		object bool
		key    bool // a key comes next
		seen   map[string]bool
	}
	var open []level
	for {
		token, err := d.Token()
		if err != nil {
			return
		}
		top := len(open) - 1
		switch token := token.(type) {
		case json.Delim:
			if token == '}' || token == ']' {
				open = open[:top]
				continue
			}
			if top >= 0 && open[top].object {
				open[top].key = true
			}
			open = append(open, level{object: token == '{', key: token == '{', seen: map[string]bool{}})
			if len(open) > ingest.MaxDepth {
				t.Fatalf("%q was taken, %d levels deep", data, len(open))
			}
			continue
		case string:
			if strings.ContainsRune(token, 0) {
				t.Fatalf("%q was taken with U+0000", data)
			}
			if strings.ContainsRune(token, utf8.RuneError) && !halfless(data) {
				t.Fatalf("%q was taken with half of a character", data)
			}
			if top >= 0 && open[top].object && open[top].key {
				if open[top].seen[token] {
					t.Fatalf("%q was taken with a key twice", data)
				}
				open[top].seen[token], open[top].key = true, false
				continue
			}
		}
		if top >= 0 && open[top].object {
			open[top].key = true
		}
	}
}
