package cli_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/cli"
)

// The text of a message that has not left is empty; what somebody wrote is in quotes, whatever it is. A terminal shows its lines, a pipe has one row.
func TestSaid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		by, text string
		terminal bool
		want     []string
	}{
		{"carillon", "", false, []string{""}},
		{"person", "", false, []string{`""`}},
		{"person", "-", false, []string{`"-"`}},
		{"person", `a "b" \n`, false, []string{`"a \"b\" \\n"`}},
		{"carillon", "Since when?\n1. Today\r\n2. Earlier", false, []string{`"Since when?\n1. Today\n2. Earlier"`}},
		{"carillon", "Since when?\n1. Today\r\n2. Earlier", true, []string{`"Since when?`, "1. Today", `2. Earlier"`}},
		{"person", "نعم 🙏", true, []string{`"نعم 🙏"`}},
	} {
		if got := cli.Said(client.SessionLine{By: tt.by, Text: tt.text}, tt.terminal); !slices.Equal(got, tt.want) {
			t.Errorf("%q of %s: %q, want %q", tt.text, tt.by, got, tt.want)
		}
	}
}
