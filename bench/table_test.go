package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRatiosAreThoseOfTheRounds(t *testing.T) {
	t.Parallel()
	f := found{figures: figures{
		sendPostgres:  {10000, 30000, 20000}, // the machine was three times as fast in the second round
		drainRiver:    {10000, 20000, 40000},
		drainPostgres: {40000, 40000, 40000},
	}, why: map[string]string{"graphile-worker": "no npm"}}
	got := newTable(f).String()
	want := strings.Join([]string{
		"|    |                  | unit | ours             | peer                    | limit | ours ÷ peer      | ours ÷ limit     | target       |",
		"|----|------------------|------|------------------|-------------------------|-------|------------------|------------------|--------------|",
		"| T4 | send, PostgreSQL | k/s  | 20.0 (10.0–30.0) | River: 20.0 (10.0–40.0) | 40.0  | 1.00 (0.50–1.50) | 0.50 (0.25–0.75) | ≥ 1.1 × peer |",
		"| T4 | send, PostgreSQL | k/s  | 20.0 (10.0–30.0) | graphile-worker: no npm | –     | –                | –                |              |",
		"",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCPUTimeHasATableOfItsOwn(t *testing.T) {
	t.Parallel()
	report := newReport(found{figures: figures{
		expandSQLite: {1000}, expandSQLite + cpuOf: {60}, cycleSQLite: {2000}, cycleSQLite + cpuOf: {40}, startReady: {100},
	}}, "")
	if !strings.Contains(report, "| T13 | expand, SQLite | 60   | –    | 40    | –           | 1.50         |") || strings.Count(report, "start to ready") != 1 {
		t.Errorf("report\n%s", report)
	}
}

func TestTheTablesAreWrittenBetweenTheirLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(f figures) string {
		if err := writeInto(path, found{figures: f}); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	all := figures{startReady: {100}, expandSQLite: {1000}, expandSQLite + cpuOf: {60}, sendPostgres: {10000}, drainRiver: {5000}, drainGraphile: {4000}}
	for _, page := range []string{"head\n" + begin + "old\n" + end + "tail\n", "head\n" + begin + end + "tail\n"} {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, want := write(all), "head\n"+begin+newReport(found{figures: all}, "")+end+"tail\n"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	// Some rows alone: the others stay, in their order.
	some := figures{expandSQLite: {2000}, expandSQLite + cpuOf: {30}, sendPostgres: {20000}, drainGraphile: {2000}, idleOurs: {1}}
	both := figures{
		startReady: {100}, expandSQLite: {2000}, expandSQLite + cpuOf: {30}, sendPostgres: {20000}, drainGraphile: {2000}, idleOurs: {1},
	}
	want := newReport(found{figures: both}, "")
	if got := write(some); got != "head\n"+begin+want+end+"tail\n" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(path, []byte("no lines"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeInto(path, found{}); err == nil {
		t.Error("a page without the lines was accepted")
	}
}

func TestProcessStatusIsReadPastTheName(t *testing.T) {
	t.Parallel()
	s, err := parseStat("4242 (a) b (c) S 17 1 1 0 -1 4194304 100 0 0 0 250 50 30 20 20 0 1 0 100 1 1\n")
	if err != nil || s.parent != 17 || s.own != 3*time.Second || s.children != 500*time.Millisecond {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := parseStat("4242 (a) S 17"); err == nil {
		t.Error("a short line was accepted")
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-rounds", "0"}, {"-only", "T99"}, {"-churn", "1ms"}, {"more"}, {"-idle", "1ms"}} {
		var out strings.Builder
		if err := run(t.Context(), args, &out, &out); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

// A row that is not measured again is found on the page by its name.
func TestEachRowHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[[3]string]bool{}
	for _, c := range comparisons() {
		name := [3]string{c.id, c.what, c.peerName}
		if seen[name] {
			t.Errorf("two rows are %q", name)
		}
		seen[name] = true
	}
}
