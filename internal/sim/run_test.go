package sim

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/smtp"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/file"
	"github.com/carillonhq/carillon/internal/sink/nats"
	"github.com/carillonhq/carillon/internal/sink/webhook"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const examples = "../../examples/scenarios"

// providers are those that definitions of scenarios may name.
func providers() []channel.Provider {
	return []channel.Provider{
		{Name: "memory"},
		{Name: "inbox"},
		{Name: "http", Settings: []channel.Setting{{Name: "url", Required: true}, {Name: "token", Secret: true}, {Name: "inbound_secret", Secret: true}, {Name: "lookup"}}, Verifies: []string{"lookup"}},
		smtp.Provider(smtp.Options{}),
	}
}

// sinks are the providers of sinks that definitions of scenarios may name.
func sinks() []sink.Provider {
	return []sink.Provider{file.Provider(file.Options{}), nats.Provider(nats.Options{}), webhook.Provider(nil, nil)}
}

// run reads and runs a file that must be readable.
func run(t testing.TB, file, db string) Result {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, problems := Parse(file, text)
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	r, err := Run(t.Context(), s[0], Options{Providers: providers(), Sinks: sinks(), DB: db})
	if err != nil {
		t.Fatalf("run %s: %v", file, err)
	}
	return r
}

func mustHold(t *testing.T, file string, r Result) {
	t.Helper()
	if r.Held() {
		return
	}
	var b bytes.Buffer
	printer{w: &b, all: true}.failure(filepath.Base(file), r)
	t.Errorf("%s\n%s", file, b.String())
	for _, e := range r.Journal {
		t.Logf("%s %s %s step %d attempt %d %s %s", e.At.Format("01-02 15:04:05.999999"), e.What, e.Address, e.Step, e.Attempt, e.Reason, e.Error)
	}
}

func exampleFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	return files
}

// Every example holds on both databases. Two runs of one scenario agree to the byte, and so do both databases (P8). What
// holds is not changed by an update. Under the race detector each runs once.
func TestExamples(t *testing.T) {
	t.Parallel()
	databases := storetest.EveryDatabase(t)
	db := ""
	if slices.Contains(databases, "postgres") {
		db = pgtest.New(t)
	}
	for _, file := range exampleFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			first := run(t, file, db)
			mustHold(t, file, first)
			if len(databases) == 1 && db != "" {
				return
			}
			if text, err := Update(first); err != nil || !bytes.Equal(text, first.Scenario.text) {
				t.Errorf("it held, and an update changes it: %v", err)
			}
			for range len(databases) {
				again := run(t, file, "")
				mustHold(t, file, again)
				if diff := cmp.Diff(journalOf(t, first), journalOf(t, again)); diff != "" {
					t.Errorf("another run differs (-first +again):\n%s", diff)
				}
			}
		})
	}
}

func journalOf(t *testing.T, r Result) string {
	t.Helper()
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	for _, e := range r.Journal {
		if err := encoder.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestHoldingScenarios(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "testdata/holding/*.yaml") {
		if filepath.Base(file) == "later.yaml" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			mustHold(t, file, run(t, file, ""))
		})
	}
}

// The page about scenarios begins with one; it holds.
func TestDocumentedScenario(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no scenario")
	}
	file := examples + "/page.yaml" // its definitions lie beside the examples
	s, problems := Parse(file, []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r, err := Run(t.Context(), s[0], Options{Providers: providers(), Sinks: sinks()})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, file, r)
}
