package cli_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/cli"
)

// The hint of the first start can be pasted into a shell, and shows no password.
func TestDatabaseInTheHint(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"carillon.db":                               "carillon.db",
		"/var/lib/my data/c.db":                     "'/var/lib/my data/c.db'",
		"me@home.db":                                "me@home.db",
		"postgres://carillon@db/carillon":           "postgres://carillon@db/carillon",
		"postgres://c@db/c?a=1&b=2":                 "'postgres://c@db/c?a=1&b=2'",
		"postgres://carillon:pw@db/carillon":        `"$CARILLON_DB"`,
		"postgres://carillon@db/carillon?password=": `"$CARILLON_DB"`,
		"postgres://c:p%w@db/carillon":              `"$CARILLON_DB"`,
	} {
		if have := cli.ShellQuoted(name); have != want {
			t.Errorf("%s: %s, want %s", name, have, want)
		}
	}
}
