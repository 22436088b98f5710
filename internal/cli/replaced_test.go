package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/store"
)

// process is a server in a process of its own, on a file.
type process struct {
	*testing.T
	cmd  *exec.Cmd
	url  string
	key  string
	said *output
}

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var listening = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// patient is how long a process may take for what takes a moment on an idle machine.
const patient = 3 * time.Minute

func serveFile(t *testing.T, db string) *process {
	t.Helper()
	p := &process{T: t, said: &output{}}
	p.cmd = exec.CommandContext(t.Context(), "carillon", "serve", "--db", db, "--listen", "127.0.0.1:0")
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); p.url == ""; time.Sleep(10 * time.Millisecond) {
		if p.url = listening.FindString(p.said.String()); time.Since(begun) > patient {
			t.Fatalf("it did not begin: %s", p.said)
		}
	}
	p.key = strings.TrimSpace(p.carillon("keys", "create", "--db", db, "--name", filepath.Base(p.url), "--scopes", "admin"))
	return p
}

func (p *process) carillon(args ...string) string {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), "carillon", args...)
	var refused bytes.Buffer
	cmd.Stderr = &refused
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("%v: %v: %s", args, err, refused.String())
	}
	return string(out)
}

// post sends an event and returns the status; 0: nobody answers any more.
func (p *process) post(id string) int {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+"/v1/events", strings.NewReader(fmt.Sprintf(`{"id":%q,"kind":"k"}`, id)))
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	if err := res.Body.Close(); err != nil {
		p.Error(err)
	}
	return res.StatusCode
}

// ended waits for the end and returns what it was.
func (p *process) ended() error {
	p.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patient):
		p.Fatalf("it goes on: %s", p.said)
	}
	return nil
}

func (p *process) stop(s os.Signal) error {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
	return p.ended()
}

func replaceFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func writeOver(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A running server under which the file is replaced, written over, moved or removed answers no request with 2xx after that,
// ends, and leaves the new file as it is: the next start opens it, or is refused when there is none.
// Shows: reliability 26.
func TestServerWhoseFileIsReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, db, backup string)
		there  bool // the backup lies under the name
	}{
		"mv over it":    {func(t *testing.T, db, backup string) { t.Helper(); replaceFile(t, backup, db) }, true},
		"cp over it":    {func(t *testing.T, db, backup string) { t.Helper(); writeOver(t, backup, db) }, true},
		"mv away":       {func(t *testing.T, db, _ string) { t.Helper(); replaceFile(t, db, db+".moved") }, false},
		"rm":            {func(t *testing.T, db, _ string) { t.Helper(); removeFile(t, db) }, false},
		"rm of its log": {func(t *testing.T, db, _ string) { t.Helper(); removeFile(t, db+"-wal") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, backup := filepath.Join(t.TempDir(), "c.db"), filepath.Join(t.TempDir(), "backup.db")
			p := serveFile(t, db)
			p.carillon("backup", "--db", db, backup)
			if got := p.post("1"); got != http.StatusOK {
				t.Fatalf("before: %d", got)
			}
			want, err := os.ReadFile(backup)
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, db, backup)
			if got := p.post("2"); got/100 == 2 {
				t.Errorf("answered %d", got)
			}
			if err := p.ended(); err == nil || !strings.Contains(p.said.String(), "while it was open") {
				t.Errorf("it ended with %v: %s", err, p.said)
			}
			if name == "rm of its log" { // what stood in it is in the file now
				if events(t, db) != 1 {
					t.Errorf("%d events are left", events(t, db))
				}
				return
			}
			if c.there {
				have, err := os.ReadFile(db)
				if err != nil || !bytes.Equal(have, want) {
					t.Errorf("the new file was changed: %v", err)
				}
				next := serveFile(t, db)
				if got := next.post("3"); got != http.StatusOK {
					t.Errorf("afterwards: %d", got)
				}
				if err := next.stop(syscall.SIGTERM); err != nil {
					t.Errorf("%v: %s", err, next.said)
				}
				if events(t, db) != 1 {
					t.Errorf("%d events in the new file", events(t, db))
				}
				return
			}
			refused(t, db, store.ErrMissing)
			if name == "mv away" && events(t, db+".moved") != 1 {
				t.Errorf("%d events in the moved file", events(t, db+".moved"))
			}
		})
	}
}

// After kill -9 the log stays. A start beside a file that does not belong to it is refused, and changes nothing.
func TestStartAfterAKill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, db, backup string)
		want   error
	}{
		"nothing": {func(*testing.T, string, string) {}, nil},
		"cp":      {func(t *testing.T, db, backup string) { t.Helper(); writeOver(t, backup, db) }, store.ErrForeignLog},
		"mv":      {func(t *testing.T, db, backup string) { t.Helper(); replaceFile(t, backup, db) }, store.ErrForeignLog},
		"rm":      {func(t *testing.T, db, _ string) { t.Helper(); removeFile(t, db) }, store.ErrMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, backup := filepath.Join(t.TempDir(), "c.db"), filepath.Join(t.TempDir(), "backup.db")
			p := serveFile(t, db)
			p.carillon("backup", "--db", db, backup)
			if got := p.post("1"); got != http.StatusOK {
				t.Fatalf("before: %d", got)
			}
			_ = p.stop(os.Kill)
			c.change(t, db, backup)
			if c.want != nil {
				refused(t, db, c.want)
				return
			}
			if events(t, db) != 1 {
				t.Errorf("%d events", events(t, db))
			}
		})
	}
}

// refused demands that no server starts on a database.
func refused(t *testing.T, db string, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	cmd := exec.CommandContext(ctx, "carillon", "serve", "--db", db, "--listen", "127.0.0.1:0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || ctx.Err() != nil || !strings.Contains(string(out), want.Error()) {
		t.Errorf("got %v: %s; want it refused: %v", err, out, want)
	}
}

// events counts what was taken in.
func events(t *testing.T, db string) int64 {
	t.Helper()
	s, err := store.Open(t.Context(), db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	workspaces, err := s.Workspaces(t.Context())
	if err != nil || len(workspaces) != 1 {
		t.Fatal(len(workspaces), err)
	}
	counts, err := s.Counts(t.Context(), workspaces[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return int64(counts.Events)
}
