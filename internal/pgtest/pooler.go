package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// poolerStart is how long a pooler may take to accept connections; it needs some milliseconds.
const poolerStart = 20 * time.Second

var errNoPooler = errors.New("PgBouncer is needed and was not found: install it (Debian, Ubuntu: apt-get install pgbouncer)")

// poolerScript runs the pooler until the end of its standard input, as the warden of a server does.
const poolerScript = `
trap '' HUP INT QUIT TERM
"$1" "$0/pgbouncer.ini" >"$0/out" 2>&1 </dev/null &
read -r _
kill -TERM $!
wait
rm -rf "$0"
`

// poolerConfig gives every transaction whatever connection is free, of few, so that two transactions of a client
// rarely share one. Nothing that a session sets is reset: what leaks from one transaction into the next shows.
const poolerConfig = `
[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_reset_query_always = 0
ignore_startup_parameters = extra_float_digits
`

// Pooler is PgBouncer in transaction mode before a server.
type Pooler struct {
	server  *Server
	address string
	dir     string
	warden  *exec.Cmd
	hold    io.Closer
}

// StartPooler runs Debian's PgBouncer on a free port of 127.0.0.1, with size connections to each database. It ends
// with Close or with this process.
func (s *Server) StartPooler(ctx context.Context, size int) (*Pooler, error) {
	program, err := findPooler()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "carillon-pooler-")
	if err != nil {
		return nil, err
	}
	p := &Pooler{server: s, dir: dir, address: net.JoinHostPort("127.0.0.1", port)}
	if err := p.start(ctx, program, port, size); err != nil {
		out, _ := os.ReadFile(filepath.Join(dir, "out")) // it may not have written any
		return nil, errors.Join(fmt.Errorf("start PgBouncer: %w\n%s", err, out), p.Close())
	}
	return p, nil
}

func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} { // Debian's place is not in everybody's PATH
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoPooler
}

func (p *Pooler) start(ctx context.Context, program, port string, size int) error {
	admin := p.server.admin
	host, serverPort, user := admin.Query().Get("host"), admin.Query().Get("port"), p.server.owner
	if admin.Host != "" {
		host, serverPort = admin.Hostname(), admin.Port()
	}
	if user == "" {
		user = admin.User.Username()
	}
	config := fmt.Sprintf(poolerConfig, host, serverPort, user, port, size)
	if err := os.WriteFile(filepath.Join(p.dir, "pgbouncer.ini"), []byte(config), 0o644); err != nil { //nolint:gosec // another user reads it
		return err
	}
	if err := giveToServer(p.dir); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.warden = exec.Command("/bin/sh", "-c", poolerScript, p.dir, program)
	p.warden.Stdin, p.warden.Dir = r, p.dir
	p.warden.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if id, other, err := serverUser(); err != nil {
		return errors.Join(err, r.Close(), w.Close())
	} else if other {
		p.warden.SysProcAttr.Credential = &id // like PostgreSQL it refuses root
	}
	if err := p.warden.Start(); err != nil {
		p.warden = nil
		return errors.Join(err, r.Close(), w.Close())
	}
	p.hold = w
	if err := r.Close(); err != nil {
		return err
	}
	return p.await(ctx)
}

func (p *Pooler) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poolerStart)
	defer cancel()
	u := p.through(p.server.admin)
	for {
		conn, err := pgx.Connect(ctx, u)
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// Through is the URL of a database of the server, by the pooler.
func (p *Pooler) Through(dbURL string) (string, error) {
	u, err := url.Parse(dbURL)
	if err != nil {
		return "", err
	}
	return p.through(*u), nil
}

func (p *Pooler) through(u url.URL) string {
	u.Host = p.address
	u.RawQuery = url.Values{"sslmode": {"disable"}}.Encode()
	return u.String()
}

// Close ends the pooler and removes what it wrote.
func (p *Pooler) Close() error {
	if p.hold == nil {
		return os.RemoveAll(p.dir)
	}
	err := p.hold.Close()
	p.hold = nil
	return errors.Join(err, p.warden.Wait(), os.RemoveAll(p.dir))
}

// Pool starts a pooler before the server of the tests, until the end of the test.
func Pool(t TB, size int) *Pooler {
	t.Helper()
	p, err := Shared(t).StartPooler(t.Context(), size)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("end the pooler: %v", err)
		}
	})
	return p
}
