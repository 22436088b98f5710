package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// patience is how long a command may take that takes milliseconds.
const patience = time.Minute

// shell runs the commands of one page in one folder.
type shell struct {
	t      *testing.T
	dir    string
	env    []string
	known  map[string]string // ids of the page → ids of this run
	wrong  []correction
	served string // the file of what carillon serve prints
}

// correction is what came out in place of lines of a page.
type correction struct {
	from, to int
	lines    []string
}

// newShell makes a shell and, where a page has one, a server: for the commands it is where it would be by default.
func newShell(t *testing.T, serves bool) *shell {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, dir: t.TempDir(), known: map[string]string{}}
	s.env = append(os.Environ(), "HOME="+s.dir, "CARILLON_LISTEN="+address, "CARILLON_SERVER=http://"+address, "CARILLON_KEY=", "TZ=UTC",
		"CARILLON_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	if serves {
		s.serve(address)
	}
	return s
}

func (s *shell) serve(address string) {
	cmd := exec.CommandContext(s.t.Context(), "carillon", "serve")
	out, err := os.Create(filepath.Join(s.t.TempDir(), "serve"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.served = out.Name()
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Wait() // the context of the test has ended it
		_ = out.Close()
	})
	until(s.t, "the server does not answer", func() bool {
		res, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

func until(t *testing.T, otherwise string, holds func() bool) {
	t.Helper()
	limit := time.After(patience)
	for !holds() {
		select {
		case <-limit:
			t.Fatal(otherwise)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *shell) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// build builds a program of a page, as part of this module.
func (s *shell) build(file, page string) {
	s.t.Helper()
	named := regexp.MustCompile(`(?m)^go build -o (\w+) \.$`).FindStringSubmatch(page)
	if named == nil {
		s.t.Fatalf("the page does not say how %s is built: go build -o NAME .", file)
	}
	cmd := exec.CommandContext(s.t.Context(), "go", "build", "-o", filepath.Join(s.dir, named[1]), filepath.Join(s.dir, file))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("build %s: %v\n%s", file, err, out)
	}
}

// exec runs a line; what it exports is there for the next one.
func (s *shell) exec(line string) string {
	s.t.Helper()
	const script = "[ -f .env ] && . ./.env\n%s\nexport -p >.env\n"
	cmd := exec.CommandContext(s.t.Context(), "sh", "-c", fmt.Sprintf(script, line))
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}

// run runs a command of a page and compares. Deliveries are asked for again until they are as expected: a server needs
// a moment to send them.
func (s *shell) run(c command) {
	s.t.Helper()
	if c.line == "carillon serve" { // it runs already
		s.prints(c)
		return
	}
	line := id().ReplaceAllStringFunc(c.line, func(of string) string {
		if known := s.known[of]; known != "" {
			return known
		}
		return of
	})
	want := pattern(c.line, strings.Join(c.want, "\n"))
	out := s.exec(line)
	for limit := time.After(patience); strings.HasPrefix(line, "carillon deliveries ") && !want.MatchString(plain(line, out)); out = s.exec(line) {
		select {
		case <-limit:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		break
	}
	if !want.MatchString(plain(line, out)) {
		s.wrong = append(s.wrong, correction{c.at + 1, c.end, columns(out)})
		if !*update {
			s.t.Errorf("line %d: %s\ngives\n%s", c.at, c.line, out)
		}
	}
	shown, seen := id().FindAllString(strings.Join(c.want, "\n"), -1), id().FindAllString(out, -1)
	for i := range min(len(shown), len(seen)) {
		s.known[shown[i]] = seen[i]
	}
}

// prints holds what the server has printed against the page. It answers a moment before it says so.
func (s *shell) prints(c command) {
	s.t.Helper()
	want := pattern(c.line, strings.Join(c.want, "\n"))
	var out []byte
	for limit := time.After(patience); !want.MatchString(plain(c.line, string(out))); {
		select {
		case <-limit:
			s.t.Errorf("line %d: %s prints\n%s", c.at, c.line, out)
			return
		case <-time.After(20 * time.Millisecond):
		}
		var err error
		if out, err = os.ReadFile(s.served); err != nil {
			s.t.Fatal(err)
		}
	}
}

// update writes what came out into the page.
func (s *shell) update(path, text string) {
	s.t.Helper()
	lines := strings.Split(text, "\n")
	for i := len(s.wrong) - 1; i >= 0; i-- {
		w := s.wrong[i]
		lines = append(lines[:w.from-1:w.from-1], append(w.lines, lines[w.to-1:]...)...)
	}
	if len(s.wrong) > 0 {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

// columns writes rows as a terminal shows them.
func columns(out string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, out)
	w.Flush()
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return lines
}

func id() *regexp.Regexp { return regexp.MustCompile(`\b[eidosu]_[0-9a-z]{26}\b`) }

// plain takes out of an output what differs from run to run.
func plain(line, out string) string {
	var compact bytes.Buffer
	if strings.HasPrefix(line, "curl ") && json.Compact(&compact, []byte(out)) == nil {
		out = compact.String()
	}
	out = id().ReplaceAllString(out, "ID")
	for _, r := range []struct{ from, to string }{
		{`\d{4}-\d\d-\d\dT[0-9:.]+Z`, "INSTANT"},
		{`\d+ ms`, "SOON"},
		{`\d+\.\d s\b`, "SOON"},
		{`127\.0\.0\.1:\d+`, "HOST"},
		{`addr%3A[0-9a-f]+`, "ADDRESS"},
		{`inbox-[0-9a-f]+`, "RECEIPT"},
		{`[ \t]+`, " "},
		{` *\n`, "\n"},
	} {
		out = regexp.MustCompile(r.from).ReplaceAllString(out, r.to)
	}
	return strings.TrimSpace(out)
}

// pattern accepts what the page shows.
func pattern(line, want string) *regexp.Regexp {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(plain(line, want)), "…", `[^\n]*`) + `$`)
}

// curl does what the pages need of curl: a request with headers and a body, to the server of this run.
func curl() {
	var address, body string
	header := http.Header{}
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		switch {
		case args[0] == "-H" && len(args) > 1:
			name, value, _ := strings.Cut(args[1], ": ")
			header.Set(name, value)
			args = args[1:]
		case args[0] == "-d" && len(args) > 1:
			body, args = args[1], args[1:]
		case strings.HasPrefix(args[0], "http://127.0.0.1:8080/"):
			address = os.Getenv("CARILLON_SERVER") + strings.TrimPrefix(args[0], "http://127.0.0.1:8080")
		default:
			fmt.Fprintf(os.Stderr, "this curl does not know %s\n", args[0])
			os.Exit(2)
		}
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err == nil {
		req.Header = header
		var res *http.Response
		if res, err = http.DefaultClient.Do(req); err == nil {
			_, err = io.Copy(os.Stdout, res.Body)
			res.Body.Close()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
