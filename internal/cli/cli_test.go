package cli_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/cli"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

//nolint:gochecknoglobals // the flag of go test
var update = flag.Bool("update", false, "write the reference page")

// patience is how long a script waits for something that takes milliseconds.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"carillon": func() {
		ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, release)
		os.Exit(cli.Run(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}})
}

func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
			env.Setenv("EXAMPLES", examples)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":   startServer,
			"freeport": freePort,
			"ready":    ready,
			"setenv":   setenv,
			"limits":   keepLimits,
			"planned":  keepInputs,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// startServer runs a server on SQLite that works only at a tick, and sets its address for the script's commands.
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: server")
	}
	ctx := context.Background()
	a, err := app.Start(ctx, app.Config{Server: config.Server{
		Database: config.Database{DB: ts.MkAbs("server.db")}, Listen: "127.0.0.1:0", Migrate: true,
	}, SecretKey: secret.New("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")})
	ts.Check(err)
	ts.Defer(func() { ts.Check(a.Stop(ctx)) })
	key, err := app.CreateKey(ctx, a.Store(), a.Workspace(), "script", []string{"admin"}, a.Engine().Now())
	ts.Check(err)
	ts.Setenv("CARILLON_SERVER", a.URL())
	ts.Setenv("CARILLON_KEY", key)
	ts.Setenv("CARILLON_DB", ts.MkAbs("server.db"))
}

// keepLimits gives a contact limits of its own as another version of the program may have kept them: limits c-1 JSON.
func keepLimits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: limits CONTACT JSON")
	}
	db, err := sql.Open("sqlite", "file:"+ts.Getenv("CARILLON_DB")+"?_pragma=busy_timeout(10000)")
	ts.Check(err)
	result, err := db.ExecContext(context.Background(), "UPDATE contact SET cadence = $1 WHERE ext_id = $2", args[1], args[0])
	ts.Check(errors.Join(err, db.Close()))
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		ts.Fatalf("%d contacts changed, %v", n, err)
	}
}

// keepInputs has an instance be planned by other inputs, as another version of the program may have done it: planned KEY JSON. What is
// no JSON is not written down beside it.
func keepInputs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: planned KEY INPUTS")
	}
	db, err := sql.Open("sqlite", "file:"+ts.Getenv("CARILLON_DB")+"?_pragma=busy_timeout(10000)")
	ts.Check(err)
	ctx := context.Background()
	result, err := db.ExecContext(ctx, "UPDATE instance SET input_hash = $1 WHERE instr(key, $2) > 0", key.Hash(args[1]), args[0])
	ts.Check(err)
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		ts.Fatalf("%d instances changed, %v", n, err)
	}
	if json.Valid([]byte(args[1])) {
		_, err = db.ExecContext(ctx, "INSERT INTO inputs SELECT id, $1, $2 FROM workspace", key.Hash(args[1]), args[1])
	}
	ts.Check(errors.Join(err, db.Close()))
}

// freePort sets a variable to an address on which nobody listens.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// ready waits until a server answers.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	limit := time.After(patience)
	for {
		res, err := http.Get("http://" + args[0] + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-limit:
			ts.Fatalf("%s does not answer: %v", args[0], err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// setenv sets a variable to the column of the last output's line that begins with, or holds, a text: setenv ID
// signed-up 1.
func setenv(ts *testscript.TestScript, _ bool, args []string) {
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if strings.Contains(line, args[1]) {
			fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
			var column int
			_, err := fmt.Sscan(args[2], &column)
			ts.Check(err)
			ts.Setenv(args[0], fields[column-1])
			return
		}
	}
	ts.Fatalf("no line holds %q", args[1])
}

// run runs one command in this process.
func run(t *testing.T, terminal bool, in string, args ...string) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = cli.Run(t.Context(), args, cli.Stdio{In: strings.NewReader(in), Out: &o, Err: &e, Terminal: terminal})
	return o.String(), e.String(), status
}

// A person sees columns, a program sees tabs.
func TestTables(t *testing.T) {
	t.Parallel()
	db := storetest.URL(t, "sqlite")
	for _, name := range []string{"a", "longer name"} {
		if _, errs, status := run(t, false, "", "keys", "create", "--db", db, "--name", name, "--scopes", "read,operate"); status != cli.ExitOK {
			t.Fatalf("got %d %s", status, errs)
		}
	}
	out, _, _ := run(t, true, "", "keys", "list", "--db", db)
	lines := strings.Split(out, "\n")
	if len(lines) != 4 || strings.Contains(out, "\t") || strings.Index(lines[1], "read") != strings.Index(lines[0], "scopes") {
		t.Errorf("on a terminal:\n%s", out)
	}
	piped, _, _ := run(t, false, "", "keys", "list", "--db", db)
	for _, line := range strings.Split(strings.TrimSuffix(piped, "\n"), "\n") {
		if strings.Count(line, "\t") != 6 || strings.Contains(line, "  ") {
			t.Errorf("in a pipe: %q", line)
		}
	}
	if !strings.Contains(piped, "longer name\tread,operate\t20") || !strings.Contains(piped, "Z\t-\t-\t-\t-\n") {
		t.Errorf("in a pipe:\n%s", piped)
	}
}

// The key goes to a person with a word of warning, and to a program alone.
func TestKeyIsPrintedAlone(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "new.db")
	out, errs, status := run(t, false, "", "keys", "create", "--db", db, "--name", "a", "--scopes", "ingest")
	if status != cli.ExitOK || errs != "" || !strings.HasPrefix(out, "car_") || len(out) != len("car_")+52+1 {
		t.Errorf("in a pipe: %d %q %q", status, out, errs)
	}
	out, errs, _ = run(t, true, "", "keys", "create", "--db", db, "--name", "b", "--scopes", "ingest")
	if !strings.HasPrefix(out, "car_") || !strings.Contains(errs, "not shown again") {
		t.Errorf("on a terminal: %q %q", out, errs)
	}
}

// Every command explains itself.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	for _, words := range cli.Commands() {
		out, errs, status := run(t, false, "", append(words, "--help")...)
		if status != cli.ExitOK || errs != "" || !strings.HasPrefix(out, "Usage: carillon "+strings.Join(words, " ")) {
			t.Errorf("%v: got %d %q %q", words, status, out, errs)
		}
	}
}

const marker = "<!-- What follows is made from the commands themselves: go test ./internal/cli -update -->\n"

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "docs", "reference", "cli.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	prose, generated, ok := strings.Cut(string(raw), marker)
	if !ok {
		t.Fatalf("%s has no marker", page)
	}
	var want strings.Builder
	for _, words := range cli.Commands() {
		out, errs, status := run(t, false, "", append(words, "--help")...)
		if status != cli.ExitOK {
			t.Fatalf("%v: %s", words, errs)
		}
		fmt.Fprintf(&want, "\n## carillon %s\n\n```\n%s```\n", strings.Join(words, " "), strings.TrimLeft(out, "\n"))
	}
	if *update {
		if err := os.WriteFile(page, []byte(prose+marker+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if generated != want.String() {
		t.Error("docs/reference/cli.md is not current: go test ./internal/cli -update")
	}
}
