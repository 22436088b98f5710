package reason_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/reason"
)

var update = flag.Bool("update", false, "write the reference page again")

// classes says what each class means for the message, in the order of the page.
func classes() []struct {
	class   reason.Class
	heading string
} {
	return []struct {
		class   reason.Class
		heading string
	}{
		{reason.Progress, "It went on as planned"},
		{reason.NoMatch, "Nothing was to be done"},
		{reason.Skip, "Rightly not done"},
		{reason.Wait, "Done later"},
		{reason.Stop, "Ended on purpose"},
		{reason.Held, "Waits for a person"},
		{reason.Failure, "Went wrong"},
		{reason.Unknown, "Not known yet"},
		{reason.Rejected, "The input was refused"},
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(`# Reasons

<!-- Made from internal/reason: go test ./internal/reason -update -->

Every outcome has one word for why. It is the same in the database, the API, the console, the command line and the log;
` + "`carillon reasons`" + ` prints this list, ` + "`GET /v1/reasons`" + ` answers it.
`)
	for _, c := range classes() {
		fmt.Fprintf(&b, "\n## %s\n\nClass `%s`.\n\n| reason | |\n|---|---|\n", c.heading, c.class)
		for _, info := range reason.All() {
			if info.Class == c.class {
				fmt.Fprintf(&b, "| `%s` | %s |\n", info.Reason, info.Sentence)
			}
		}
	}
	return b.String()
}

// TestReference holds docs/concepts/reasons.md against the list.
func TestReference(t *testing.T) {
	t.Parallel()
	const path = "../../docs/concepts/reasons.md"
	got := page()
	for _, info := range reason.All() {
		if strings.Count(got, "| `"+string(info.Reason)+"` |") != 1 {
			t.Errorf("%s stands %d times on the page: is its class among classes?", info.Reason, strings.Count(got, "| `"+string(info.Reason)+"` |"))
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-is +should be); -update writes it:\n%s", path, diff)
	}
}
