package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/cli"
)

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A command whose result cannot be written has failed, and says so.
func TestResultThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "good.yaml")
	if err := os.WriteFile(good, []byte("channel: memory:a\nprovider: memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"version"},
		{"reasons", "--help"},
		{"--help"},
		{"check", "--json", good},
		{"keys", "create", "--db", filepath.Join(t.TempDir(), "x.db"), "--name", "a", "--scopes", "read"},
	} {
		var stderr bytes.Buffer
		status := cli.Run(t.Context(), args, cli.Stdio{In: strings.NewReader(""), Out: full{}, Err: &stderr})
		if status != cli.ExitFailed || stderr.String() != "carillon: the result could not be written: no space left on device\n" {
			t.Errorf("%v: status %d, %s", args, status, stderr.String())
		}
		stderr.Reset()
		if status := cli.Run(t.Context(), args, cli.Stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &stderr}); status != cli.ExitOK && args[0] != "keys" {
			t.Errorf("%v: status %d with room, %s", args, status, stderr.String())
		}
	}
}
