package cli_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/cli"
)

// A text stays in its cell: it breaks no line, steers no terminal, and does not turn the order of what follows.
func TestCell(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "-",
		"Ann\tB\nC":                  "Ann B C",
		"\x1b[31mred\u009b0m":        " [31mred 0m",
		"a\u202efdp.exe\u202c":       "a fdp.exe ",
		"\u2066x\u2069 \u200f\u061c": " x    ",
		"نعم 👩\u200d🚒":               "نعم 👩\u200d🚒",
	} {
		if got := cli.Cell(text); got != want {
			t.Errorf("%q: %q instead of %q", text, got, want)
		}
	}
}
