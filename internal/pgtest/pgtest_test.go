package pgtest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// harnessEnv makes the test binary play a harness that starts a server and is killed before it can stop it.
const harnessEnv = "CARILLON_PGTEST_HARNESS"

func TestMain(m *testing.M) {
	if os.Getenv(harnessEnv) == "" {
		os.Exit(m.Run())
	}
	s, err := Start(context.Background(), Options{})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(s.URL() + "\n" + s.dir + "\n")
	forever := make(chan os.Signal, 1) // a bare select would be a deadlock, of which a program without cgo dies
	signal.Notify(forever, os.Interrupt)
	<-forever // until killed
}

func TestNewMakesSeparateEmptyDatabases(t *testing.T) {
	t.Parallel()
	a, b := connect(t, New(t)), connect(t, New(t))
	mustExec(t, a, `CREATE TABLE only_in_a (x int)`)
	if got := query[bool](t, b, `SELECT to_regclass('only_in_a') IS NULL`); !got {
		t.Error("a table made in one database is in the other")
	}
}

func TestNewDropsItsDatabase(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("test that leaves its connection open", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), New(t))
		if err != nil {
			t.Fatal(err)
		}
		name = conn.Config().Database
	})
	admin := connect(t, Shared(t).URL())
	if query[bool](t, admin, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name) {
		t.Errorf("database %s is still there", name)
	}
}

func TestTemplateIsPreparedOnce(t *testing.T) {
	t.Parallel()
	var prepared atomic.Int32
	tmpl := Template{Version: t.Name() + strings.ToLower(t.TempDir()), Prepare: func(ctx context.Context, url string) error {
		prepared.Add(1)
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `CREATE TABLE greeting AS SELECT 'hello' AS text`)
		return errors.Join(err, conn.Close(ctx))
	}}
	var wg sync.WaitGroup
	urls := make([]string, 4)
	for i := range urls {
		wg.Go(func() { urls[i] = NewFrom(t, tmpl) })
	}
	wg.Wait()
	for _, url := range urls {
		if got := query[string](t, connect(t, url), `SELECT text FROM greeting`); got != "hello" {
			t.Errorf("text: got %q, want hello", got)
		}
	}
	if got := prepared.Load(); got != 1 {
		t.Errorf("prepared %d times, want once", got)
	}
}

func TestFailedTemplateIsPreparedAgain(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	broken := errors.New("broken migration")
	tmpl := Template{Version: t.Name() + t.TempDir(), Prepare: func(context.Context, string) error { return broken }}
	if _, err := s.Create(t.Context(), tmpl); !errors.Is(err, broken) {
		t.Fatalf("got error %v, want %v", err, broken)
	}
	tmpl.Prepare = func(context.Context, string) error { return nil }
	NewFrom(t, tmpl)
}

func TestDatabaseOwnerIsAnOrdinaryRole(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{})
	url, err := s.Create(t.Context(), Template{})
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	if query[bool](t, conn, `SELECT usesuper FROM pg_user WHERE usename = current_user`) {
		t.Error("tests run as a superuser")
	}
	mustExec(t, conn, `CREATE TABLE in_public (x int)`)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	const byteOrder = `SELECT 'B' < 'a'`
	t.Run("quick", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, Options{})
		conn := connect(t, s.URL())
		for setting, want := range map[string]string{
			"fsync": "off", "listen_addresses": "", "max_connections": "200", "TimeZone": "UTC",
		} {
			if got := query[string](t, conn, `SELECT current_setting($1)`, setting); got != want {
				t.Errorf("%s: got %q, want %q", setting, got, want)
			}
		}
		if s.version(t.Context()) >= 15 && query[bool](t, conn, byteOrder) {
			t.Error("text is sorted by its bytes, want as in en-US")
		}
	})
	t.Run("like production, over TCP", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, Options{
			Durable: true, TCP: true, Bytewise: true, MaxConnections: 30, Settings: map[string]string{"application_name": "it's"},
		})
		conn := connect(t, s.URL())
		for setting, want := range map[string]string{
			"fsync": "on", "full_page_writes": "on", "max_connections": "30", "application_name": "it's",
		} {
			if got := query[string](t, conn, `SELECT current_setting($1)`, setting); got != want {
				t.Errorf("%s: got %q, want %q", setting, got, want)
			}
		}
		if got := query[string](t, conn, `SELECT host(inet_server_addr())`); got != "127.0.0.1" {
			t.Errorf("address: got %q, want 127.0.0.1", got)
		}
		if !query[bool](t, conn, byteOrder) {
			t.Error("text is sorted as in en-US, want by its bytes")
		}
	})
}

func TestCrashKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{})
	conn := connect(t, s.URL())
	mustExec(t, conn, `CREATE TABLE kept AS SELECT 1 AS x`)
	if err := s.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection outlived the crash")
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[int](t, connect(t, s.URL()), `SELECT x FROM kept`); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: got %v, want that it is gone", s.dir, err)
	}
}

func TestKilledHarnessLeavesNothing(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	harness := exec.CommandContext(t.Context(), self)
	harness.Env = append(os.Environ(), harnessEnv+"=1")
	harness.Stderr = os.Stderr
	harness.ExtraFiles = []*os.File{w} // the warden inherits it, so that its end of file is the warden's end
	out, err := harness.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(harness.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	url, dir := readLine(t, out), readLine(t, out)
	conn := connect(t, url)

	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := harness.Wait(); err == nil {
		t.Fatal("the harness ended by itself")
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the server outlived the process that started it")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: got %v, want that it is gone", dir, err)
	}
}

func TestStartFailsWithTheServersWords(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{Settings: map[string]string{"no_such_setting": "on"}})
	if err == nil {
		t.Fatal("started", s.Close())
	}
	if !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("the error does not name the setting: %v", err)
	}
}

func TestFindBinaries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	install := func(version string, programs ...string) string {
		dir := filepath.Join(root, version, "bin")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range programs {
			if err := os.WriteFile(filepath.Join(dir, p), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	install("9.6", "initdb", "pg_ctl", "postgres")
	ten := install("10", "initdb", "pg_ctl", "postgres")
	install("17", "initdb", "pg_ctl") // half removed
	elsewhere := install("elsewhere", "initdb", "pg_ctl", "postgres")
	tests := []struct {
		name    string
		path    string
		pattern string
		want    string
		err     error
	}{
		{"newest whole version", elsewhere, filepath.Join(root, "[0-9]*/bin"), ten, nil},
		{"path when nothing matches", "/nowhere:" + elsewhere, "/nowhere/*/bin", elsewhere, nil},
		{"nothing installed", "/nowhere", "/nowhere/*/bin", "", errNoBinaries},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := findBinaries(tt.path, tt.pattern)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v, want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
	if want := "apt-get install postgresql"; !strings.Contains(errNoBinaries.Error(), want) {
		t.Errorf("%q does not say %q", errNoBinaries, want)
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	ours := startServer(t, Options{})
	s, err := Attach(ours.URL())
	if err != nil {
		t.Fatal(err)
	}
	url, err := s.Create(t.Context(), Template{})
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	if got := query[string](t, conn, `SELECT current_user`); got != adminRole {
		t.Errorf("role: got %q, want the URL's own", got)
	}
	if err := errors.Join(s.Drop(t.Context(), url), s.Close()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, connect(t, ours.URL()), `SELECT 1`) // Close does not stop another's server
	if _, err := Attach("mysql://user:secret@host"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got error %v, want one without the password", err)
	}
}

func BenchmarkCreateAndDrop(b *testing.B) {
	s := Shared(b)
	for b.Loop() {
		url, err := s.Create(b.Context(), Template{})
		if err == nil {
			err = s.Drop(b.Context(), url)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func startServer(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // it may have lost its server
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, q string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), q); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

func query[T any](t *testing.T, conn *pgx.Conn, q string, args ...any) T {
	t.Helper()
	var got T
	if err := conn.QueryRow(t.Context(), q, args...).Scan(&got); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return got
}

// readLine reads byte by byte, so that nothing of the next line is lost.
func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}
