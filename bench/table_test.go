package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRatiosAreThoseOfTheRounds(t *testing.T) {
	t.Parallel()
	f := figures{
		sendPostgres:  {10000, 30000, 20000}, // the machine was three times as fast in the second round
		drainRiver:    {10000, 20000, 40000},
		drainPostgres: {40000, 40000, 40000},
	}
	got := newTable(f).String()
	want := strings.Join([]string{
		"|    |                  | ours, rows/s        | peer, rows/s        | limit, rows/s       | ours ÷ peer      | ours ÷ limit     | target       |",
		"|----|------------------|---------------------|---------------------|---------------------|------------------|------------------|--------------|",
		"| T4 | send, PostgreSQL | 20.0k (10.0k–30.0k) | 20.0k (10.0k–40.0k) | 40.0k (40.0k–40.0k) | 1.00 (0.50–1.50) | 0.50 (0.25–0.75) | ≥ 1.1 × peer |",
		"",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheTableIsWrittenBetweenItsLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	for _, page := range []string{"head\n" + begin + "old\n" + end + "tail\n", "head\n" + begin + end + "tail\n"} {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (table{{"a"}, {"b"}}).writeInto(path); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := "head\n" + begin + "| a |\n|---|\n| b |\n" + end + "tail\n"; string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if err := os.WriteFile(path, []byte("no lines"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (table{{"a"}}).writeInto(path); err == nil {
		t.Error("a page without the lines was accepted")
	}
}
