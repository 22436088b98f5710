package cli_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// importServer is a server on a database, with a way for requests on which a test can do harm.
type importServer struct {
	*client.Client
	url, key string
	// harm is called for every request before it reaches the server, and for its answer before it reaches the caller.
	harm atomic.Pointer[func(n int64, answered bool)]
	n    atomic.Int64
}

func newImportServer(t *testing.T, database, definitions string) *importServer {
	t.Helper()
	a, err := app.Start(t.Context(), app.Config{Server: config.Server{
		Database: config.Database{DB: storetest.URL(t, database)}, Listen: "127.0.0.1:0", Migrate: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(t.Context()) }) // the test is over; what is under way may be cut off
	s := &importServer{}
	if s.key, err = app.CreateKey(t.Context(), a.Store(), a.Workspace(), "test", []string{"admin"}, a.Engine().Now()); err != nil {
		t.Fatal(err)
	}
	if s.Client, err = client.New(a.URL(), s.key); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), []client.File{{Name: "test.yaml", Text: definitions}}); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(a.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	call := func(n int64, answered bool) {
		if harm := s.harm.Load(); harm != nil {
			(*harm)(n, answered)
		}
	}
	proxy.ModifyResponse = func(r *http.Response) error {
		call(s.n.Load(), true)
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // the caller was killed
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	way := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call(s.n.Add(1), false)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = way.Serve(l) }()
	t.Cleanup(func() { _ = way.Close() })
	s.url = "http://" + l.Addr().String()
	return s
}

// command is a process of its own.
func (s *importServer) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "carillon", args...)
	cmd.Env = append(os.Environ(), "CARILLON_SERVER="+s.url, "CARILLON_KEY="+s.key)
	return cmd
}

const visits = `
workflow: visit
type: custom
triggers:
  - id: closed
    event: visit-closed
audience:
  - to: event.recipient
channel: memory
message:
  sms:
    text: Hello
---
channel: memory:default
provider: memory
`

// An import that is killed again and again, before and after its requests take effect, leaves the rows of the file on
// the server, each once.
// Shows: C53.
func TestKilledImport(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.EveryDatabase(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			const rows, batch, kills = 1500, 50, 4
			s := newImportServer(t, database, visits)
			var text strings.Builder
			text.WriteString("recipient.customer_ref,recipient.address\n")
			for i := range rows {
				fmt.Fprintf(&text, "c-%d,+49 30 %06d\n", i, i)
			}
			path := filepath.Join(t.TempDir(), "rows.csv")
			if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			for kill := range kills {
				cmd := s.command(t, "ingest", path, "--kind", "visit-closed", "--batch", fmt.Sprint(batch))
				begun := make(chan struct{})
				harm := func(n int64, answered bool) {
					if n >= 5 && answered == (kill%2 == 0) {
						<-begun
						_ = cmd.Process.Kill()
					}
				}
				s.n.Store(0)
				s.harm.Store(&harm)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				close(begun)
				if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
					t.Fatalf("it was not killed: %v", err)
				}
				if _, err := os.Stat(path + ".progress"); err != nil {
					t.Fatal(err)
				}
			}
			s.harm.Store(nil)
			s.n.Store(0)
			out, err := s.command(t, "ingest", path, "--kind", "visit-closed", "--batch", fmt.Sprint(batch)).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "resumed where an earlier run had stopped\n1500 rows, ") {
				t.Fatalf("%v\n%s", err, out)
			}
			if n := s.n.Load(); n >= rows/batch {
				t.Errorf("the last run sent %d requests: it started from the beginning", n)
			}
			people := map[string]int{}
			for d, err := range s.AllDeliveries(t.Context(), client.DeliveryQuery{Limit: client.MaxLimit}) {
				if err != nil {
					t.Fatal(err)
				}
				people[d.CustomerRef]++
			}
			if len(people) != rows {
				t.Errorf("%d of %d rows are on the server", len(people), rows)
			}
			for who, n := range people {
				if n != 1 {
					t.Errorf("%s has %d deliveries", who, n)
				}
			}
			if _, err := os.Stat(path + ".progress"); !os.IsNotExist(err) {
				t.Errorf("the state is still there: %v", err)
			}
		})
	}
}

// On a terminal an import shows a bar, which is gone at its end.
func TestImportOnATerminal(t *testing.T) {
	t.Parallel()
	s := newImportServer(t, "sqlite", visits)
	path := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(path, []byte("a\n1\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, status := run(t, true, "", "ingest", path, "--kind", "other", "--server", s.url, "--key", s.key)
	if status != 0 || out != "" || !strings.Contains(errs, "rows.csv") || !strings.HasSuffix(errs, "\r2 rows, 0 created, 0 skipped, 2 no_match, 0 rejected\n") {
		t.Errorf("%d %q %q", status, out, errs)
	}
}
