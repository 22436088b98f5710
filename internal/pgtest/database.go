package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// EnvURL names the environment variable with the URL of a running server for the tests. Its role must be allowed
// to create databases. Without it every test process starts a server of its own.
const EnvURL = "CARILLON_TEST_POSTGRES"

// sharedStartTimeout is far above the second a start takes, for machines busy with compiling.
const sharedStartTimeout = 2 * time.Minute

// dropTimeout bounds the clean-up of one test.
const dropTimeout = 30 * time.Second

// Template is what a new database contains: the result of Prepare, which runs once and is copied afterwards.
// The zero value is an empty database.
type Template struct {
	// Version names what Prepare does: other contents need another version, such as a hash of all migrations.
	// On an attached server the template outlives the process.
	Version string
	// Prepare fills the database behind url, and closes its connections.
	Prepare func(ctx context.Context, url string) error
}

// TB is what New uses of testing.TB.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// shared is the one server of a test process. A package variable, because the tests of a process have nothing else
// in common; it needs no end, see the package's comment.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// New makes an empty database for one test, returns its URL, and drops it at the test's end. It fails the test
// when there is no server and none can be started.
func New(t TB) string {
	t.Helper()
	return NewFrom(t, Template{})
}

// NewFrom is New with the contents of a template.
func NewFrom(t TB, tmpl Template) string {
	t.Helper()
	s := Shared(t)
	dbURL, err := s.Create(t.Context(), tmpl)
	if err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), dropTimeout)
		defer cancel()
		if err := s.Drop(ctx, dbURL); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	return dbURL
}

// Shared is the server on which New makes its databases.
func Shared(t TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = open() })
	if shared.err != nil {
		t.Fatalf("%v", shared.err)
	}
	return shared.server
}

func open() (*Server, error) {
	if adminURL := os.Getenv(EnvURL); adminURL != "" {
		s, err := Attach(adminURL)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", EnvURL, err)
		}
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), sharedStartTimeout)
	defer cancel()
	return Start(ctx, Options{})
}

// Create makes a database with a name of its own and returns its URL.
func (s *Server) Create(ctx context.Context, tmpl Template) (string, error) {
	source := "template1"
	if tmpl.Prepare != nil {
		var err error
		if source, err = s.template(ctx, tmpl); err != nil {
			return "", fmt.Errorf("prepare template %q: %w", tmpl.Version, err)
		}
	}
	name := "carillon_test_" + strings.ToLower(rand.Text())
	return s.urlOf(name), s.making.exec(ctx, s.admin.String(), s.createSQL(name, source))
}

// Drop removes a database made by Create and breaks its connections.
func (s *Server) Drop(ctx context.Context, dbURL string) error {
	u, err := url.Parse(dbURL)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(u.Path, "/")
	if err := s.dropping.exec(ctx, s.admin.String(), awaitSQL(name)); err != nil {
		return err
	}
	return s.dropping.exec(ctx, s.admin.String(), dropSQL(name))
}

// awaitSQL waits a few milliseconds until the processes behind the connections to a database have ended, whose clients have closed them: to drop a
// database that has one takes a tenth of a second.
func awaitSQL(name string) string {
	return `
DO $await$
BEGIN
  FOR i IN 1..20 LOOP
    PERFORM pg_stat_clear_snapshot();
    EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '` + strings.ReplaceAll(name, "'", "''") + `');
    PERFORM pg_sleep(0.001);
  END LOOP;
END $await$`
}

// template returns the name of the prepared database, and prepares it if nobody has. It gets its name only when it
// is complete, under a lock of the server, so that processes sharing the server agree. Who owns its tables is part of the
// name: a process that was given the server's address works as another role than the one that started it.
func (s *Server) template(ctx context.Context, tmpl Template) (name string, err error) {
	name = fmt.Sprintf("carillon_template_%.16x", sha256.Sum256([]byte(s.owner+"\x00"+tmpl.Version)))
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.prepared[name] {
		return name, nil
	}
	defer func() {
		if err == nil {
			if s.prepared == nil {
				s.prepared = map[string]bool{}
			}
			s.prepared[name] = true
		}
	}()
	conn, err := pgx.Connect(ctx, s.admin.String())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }() // releases the lock
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtext($1))`, name); err != nil {
		return "", err
	}
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
	if err != nil || exists {
		return name, err
	}
	unfinished := name + "_new"
	for _, q := range []string{dropSQL(unfinished), s.createSQL(unfinished, "template1")} {
		if _, err := conn.Exec(ctx, q); err != nil {
			return "", err
		}
	}
	if err := tmpl.Prepare(ctx, s.urlOf(unfinished)); err != nil {
		return "", err
	}
	// A first connection writes down what all others have to know of the catalogue; the copies have that file, too.
	first, err := pgx.Connect(ctx, s.urlOf(unfinished))
	if err != nil {
		return "", err
	}
	if err := first.Close(ctx); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, `ALTER DATABASE `+quote(unfinished)+` RENAME TO `+quote(name))
	return name, err
}

func (s *Server) createSQL(name, source string) string {
	q := "CREATE DATABASE " + quote(name) + " TEMPLATE " + quote(source) + s.copy
	if s.owner != "" {
		q += " OWNER " + quote(s.owner)
	}
	return q
}

func dropSQL(name string) string { return "DROP DATABASE IF EXISTS " + quote(name) + " WITH (FORCE)" }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// urlOf is a database as the role that owns it.
func (s *Server) urlOf(database string) string {
	u := s.admin
	u.Path = "/" + database
	if s.owner != "" {
		u.User = url.User(s.owner)
	}
	return u.String()
}
