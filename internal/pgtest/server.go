// Package pgtest runs throw-away PostgreSQL servers and databases for tests, benchmarks and crash harnesses.
//
// A server is started from the installed binaries in a directory of its own, is reachable only through a socket in
// that directory (or on 127.0.0.1 when asked), and lives no longer than the process that started it:
//
//	this process ──holds──▶ pipe ──end of file──▶ warden (sh) ──▶ stops the server, removes the directory
//
// The pipe closes with Close, with the end of the process and with its sudden death alike, so there is one way to
// clean up and no test needs a TestMain.
//
// It is not part of the product: only tests and harnesses import it. It does not import testing, so a harness
// that starts a server stays an ordinary program.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// DefaultMaxConnections lets a few replicas with full pools and their observers connect at once.
const DefaultMaxConnections = 200

// minMemory is what must be free in /dev/shm: an empty server takes 40 MB and each database 8 MB; containers often
// have 64 MB in all.
const minMemory = 2 << 30

// The roles of a server started here. Databases belong to an ordinary role, as in production, so that a statement
// that needs a superuser fails in the tests.
const (
	adminRole = "postgres"
	ownerRole = "carillon"
)

// Options says how a server runs. The zero value is the quickest server for tests.
type Options struct {
	// BinDir holds initdb, pg_ctl and postgres; empty takes the newest installed version.
	BinDir string
	// Dir is where the server's directory is made. Empty takes memory (/dev/shm) for a server that is not durable,
	// where a database is made in 6 ms instead of the 250 ms of a slow disk, if there is enough; else the
	// directory for temporary files.
	Dir string
	// Durable keeps fsync and full page writes on, as in production. Without it a commit costs no disk write and
	// the data survive a killed server, but not a crash of the machine.
	Durable bool
	// TCP listens on a free port of 127.0.0.1 too, and URLs name that address instead of the socket: for a proxy
	// between client and server. Every local user may then connect.
	TCP bool
	// Bytewise sorts text by its bytes. Otherwise it is sorted as people of en-US would, like most databases in
	// production, so that a query which relies on the order of bytes without saying so shows in the tests.
	Bytewise bool
	// MaxConnections is DefaultMaxConnections when zero.
	MaxConnections int
	// Settings are further lines of postgresql.conf and win over everything above.
	Settings map[string]string
}

// Server makes databases. It is either a process of our own (Start) or somebody else's (Attach).
type Server struct {
	admin url.URL // of the database postgres, as a role that may create databases
	owner string  // role that owns new databases; empty is the role of admin
	copy  string  // STRATEGY clause of CREATE DATABASE; may be empty

	making, dropping session // of admin; two, so that no test waits until the database of another one is dropped

	preparing sync.Mutex
	prepared  map[string]bool // names of templates that are there

	// Of our own server only:
	dir    string
	binDir string
	warden *exec.Cmd
	hold   io.Closer
}

// Attach uses the server behind a URL whose role may create databases.
func Attach(adminURL string) (*Server, error) {
	u, err := url.Parse(adminURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the server must be given as postgres://user@host:port/database") // err may hold a password
	}
	return &Server{admin: *u}, nil
}

// Start runs a new server and returns when it accepts connections, which takes about a second. The context bounds
// the start only.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{binDir: o.BinDir, owner: ownerRole}
	if s.binDir == "" {
		dir, err := findBinaries(os.Getenv("PATH"), binaryDirs...)
		if err != nil {
			return nil, err
		}
		s.binDir = dir
	}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL of %s: %w", s.binDir, err), s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	var err error
	if s.dir, err = os.MkdirTemp(parentDir(o), "carillon-pg-"); err != nil {
		return err
	}
	if err := s.post(); err != nil {
		return err
	}
	if err := giveToServer(s.dir); err != nil {
		return err
	}
	initdb := []string{
		"--pgdata=" + s.data(), "--username=" + adminRole, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync",
		"--no-instructions",
	}
	if s.version(ctx) >= 15 { // the first whose databases sort by ICU, and which copies them through the log
		if !o.Bytewise {
			initdb = append(initdb, "--locale-provider=icu", "--icu-locale=en-US")
		}
		if !o.Durable {
			s.copy = " STRATEGY file_copy" // in memory 6 ms instead of 10 ms: its checkpoints cost nothing there
		}
	}
	if err := s.run(ctx, "initdb", initdb...); err != nil {
		return err
	}
	s.admin = url.URL{Scheme: "postgres", User: url.User(adminRole), Path: "/postgres"}
	settings, err := s.settings(o)
	if err != nil {
		return err
	}
	if err := appendSettings(filepath.Join(s.data(), "postgresql.conf"), settings); err != nil {
		return err
	}
	if err := s.Resume(ctx); err != nil {
		return err
	}
	return s.making.exec(ctx, s.admin.String(), "CREATE ROLE "+ownerRole+" LOGIN")
}

// parentDir is "" for the directory of temporary files.
func parentDir(o Options) string {
	if o.Dir != "" || o.Durable {
		return o.Dir
	}
	return MemoryDir()
}

// MemoryDir returns a directory in memory, where nothing waits for a disk, or "" if there is none with enough room.
func MemoryDir() string {
	const memory = "/dev/shm"
	var fs syscall.Statfs_t
	if syscall.Statfs(memory, &fs) == nil && uint64(fs.Bavail)*uint64(fs.Bsize) >= minMemory {
		return memory
	}
	return ""
}

// URL is the server's own database, as a role that may do everything there (only what the given role may do on an
// attached server).
func (s *Server) URL() string { return s.admin.String() }

// Log is the path of our own server's log.
func (s *Server) Log() string { return filepath.Join(s.dir, "log") }

// Close stops our own server, with all its connections, and removes everything it wrote.
func (s *Server) Close() error {
	s.making.close()
	s.dropping.close()
	if s.hold == nil {
		return nil
	}
	err := s.hold.Close()
	s.hold = nil
	if err = errors.Join(err, s.warden.Wait()); err != nil {
		return fmt.Errorf("remove PostgreSQL in %s: %w", s.dir, err)
	}
	return nil
}

// Crash stops our own server as kill -9 would: nothing is flushed, connections break in the middle of statements.
func (s *Server) Crash(ctx context.Context) error {
	return s.run(ctx, "pg_ctl", "stop", "--pgdata="+s.data(), "--mode=immediate", "--wait")
}

// Resume starts our own server again after Crash, under the same URLs; it recovers first.
func (s *Server) Resume(ctx context.Context) error {
	err := s.run(ctx, "pg_ctl", "start", "--pgdata="+s.data(), "--log="+s.Log(), "--silent", "--wait", "--timeout=60")
	if err == nil {
		return nil
	}
	log, readErr := os.ReadFile(s.Log())
	if readErr != nil {
		return err
	}
	return fmt.Errorf("%w\n%s", err, log[max(0, len(log)-4096):])
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) version(ctx context.Context) int {
	out, err := exec.CommandContext(ctx, filepath.Join(s.binDir, "postgres"), "--version").Output()
	if err != nil {
		return 0 // initdb, which comes next, says why
	}
	fields := strings.Fields(string(out)) // postgres (PostgreSQL) 15.18 (Debian …)
	if len(fields) < 3 {
		return 0
	}
	major, _, _ := strings.Cut(fields[2], ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0 // a development version such as 19devel: the oldest options work there too
	}
	return n
}

// settings also makes admin point to where the server will listen.
func (s *Server) settings(o Options) (map[string]string, error) {
	all := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": s.dir,
		"max_connections":         strconv.Itoa(DefaultMaxConnections),
		"timezone":                "UTC",
		"log_line_prefix":         "%m [%p] %q%u@%d ",
	}
	if o.MaxConnections > 0 {
		all["max_connections"] = strconv.Itoa(o.MaxConnections)
	}
	if !o.Durable { // nobody copies its log, and its databases are gone before they need to be cleaned up
		all["fsync"], all["full_page_writes"], all["wal_level"], all["max_wal_senders"] = "off", "off", "minimal", "0"
		all["autovacuum"], all["jit"] = "off", "off"
	}
	query := url.Values{"sslmode": {"disable"}}
	if o.TCP {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		all["listen_addresses"], all["port"] = "127.0.0.1", port
		s.admin.Host = net.JoinHostPort("127.0.0.1", port)
	} else {
		query.Set("host", s.dir)
		query.Set("port", "5432") // names the socket in our own directory, no port of the machine
	}
	s.admin.RawQuery = query.Encode()
	maps.Copy(all, o.Settings)
	return all, nil
}

func appendSettings(path string, settings map[string]string) error {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&lines, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines.String())
	return errors.Join(err, f.Close())
}

// freePort may lose its port to another process before the server takes it; the start then fails and says so.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// session is a connection that is kept: a server works longer for a connection than for a database.
type session struct {
	mu   sync.Mutex // held while conn is used
	conn *pgx.Conn  // nil: none yet
}

// exec runs a statement on the connection, or on a new one if that is lost.
func (c *session) exec(ctx context.Context, server, q string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		if _, err := c.conn.Exec(ctx, q); err == nil || !c.conn.IsClosed() {
			return within(q, err)
		}
	}
	var err error
	if c.conn, err = pgx.Connect(ctx, server); err != nil {
		c.conn = nil
		return err
	}
	_, err = c.conn.Exec(ctx, q)
	return within(q, err)
}

// close closes the connection.
func (c *session) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close(context.Background()) // the server ends next
		c.conn = nil
	}
}

// within names the statement that failed.
func within(q string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", q, err)
	}
	return nil
}
