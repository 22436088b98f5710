package store_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const preparedStatements = `SELECT 'x' || COUNT(*) FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO event%'`

// prepared reports whether a store keeps its statements prepared on the server.
func prepared(f fixture) bool {
	f.Helper()
	for i := range 8 {
		f.add(store.OccasionWrites{Events: []store.EventRow{f.event(fmt.Sprint("x", i))}})
	}
	found, err := f.s.Strings(f.Context(), preparedStatements)
	f.must(err)
	return found[0] != "x0"
}

// Statements stay prepared on direct connections to the server, unless the address names another query mode. They do not stay
// prepared through a pooler, which gives every transaction another connection.
func TestStatementsArePreparedPastPoolers(t *testing.T) {
	t.Parallel()
	if os.Getenv(storetest.EnvPooler) != "" || !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("all of it goes through a pooler, or PostgreSQL is not selected")
	}
	direct := storetest.URL(t, "postgres")
	through, err := pgtest.Pool(t, 3).Through(direct)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		url  string
		want bool
	}{
		"direct":  {direct, true},
		"pooler":  {through, false},
		"by name": {with(t, direct, "default_query_exec_mode=cache_describe"), false},
	} {
		if got := prepared(setup(t, storetest.Open(t, test.url))); got != test.want {
			t.Errorf("%s: prepared %v, want %v", name, got, test.want)
		}
	}
}

func with(t *testing.T, address, setting string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+setting, "&")
	return u.String()
}

// relay forwards connections to its present target.
type relay struct {
	net.Listener
	target atomic.Pointer[string]
	mu     sync.Mutex
	open   []net.Conn
}

func startRelay(t *testing.T) *relay {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			network, address, _ := strings.Cut(*r.target.Load(), " ")
			to, err := (&net.Dialer{}).Dial(network, address)
			if err != nil {
				from.Close()
				continue
			}
			r.mu.Lock()
			r.open = append(r.open, from, to)
			r.mu.Unlock()
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				running.Go(func() {
					_, _ = io.Copy(pair[1], pair[0])
					pair[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.drop()
		running.Wait()
	})
	return r
}

// lead makes the database of an address the target of new connections, and drops the old ones. It returns the relay's own
// address.
func (r *relay) lead(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	target := "tcp " + u.Host
	if host := q.Get("host"); host != "" {
		target = "unix " + host + "/.s.PGSQL." + q.Get("port")
		if !strings.HasPrefix(host, "/") {
			target = "tcp " + net.JoinHostPort(host, q.Get("port"))
		}
		q.Del("host")
		q.Del("port")
	}
	r.target.Store(&target)
	r.drop()
	u.Host, u.RawQuery = r.Addr().String(), q.Encode()
	return with(t, u.String(), "sslmode=disable")
}

func (r *relay) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		c.Close()
	}
	r.open = nil
}

// If a pooler is put before the database while a process runs, or removed again, the next connection notices it.
func TestPoolerComesAndGoes(t *testing.T) {
	t.Parallel()
	if os.Getenv(storetest.EnvPooler) != "" || !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("all of it goes through a pooler, or PostgreSQL is not selected")
	}
	direct := storetest.URL(t, "postgres")
	through, err := pgtest.Pool(t, 3).Through(direct)
	if err != nil {
		t.Fatal(err)
	}
	r := startRelay(t)
	f := setup(t, storetest.Open(t, r.lead(t, direct)))
	for i, step := range []struct {
		url  string
		want bool
	}{{direct, true}, {through, false}, {direct, true}} {
		r.lead(t, step.url)
		for { // the first statement on each connection that was dropped fails
			if err := f.s.Ping(t.Context()); err == nil {
				break
			} else if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		if got := prepared(f); got != step.want {
			t.Errorf("step %d: prepared %v, want %v", i, got, step.want)
		}
		race(t, 8, func(n int) error {
			for k := range 10 {
				f.add(store.OccasionWrites{Instances: []instance.Row{f.instance(fmt.Sprintf("k:%d:%d:%d", i, n, k), instance.Pending)}})
			}
			return nil
		})
	}
}

// A migration by another process may change the types of the columns that a prepared statement reads.
func TestChangedColumnsArePreparedAgain(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	row, event := f.instance("k", instance.Pending), f.event("x")
	f.add(store.OccasionWrites{Events: []store.EventRow{event}, Instances: []instance.Row{row}})
	look := func(step string) {
		t.Helper()
		if got, err := f.s.InstanceByKey(context.Background(), f.ws, "k"); err != nil || got.ID != row.ID {
			t.Errorf("%s: %v, %v", step, got, err)
		}
		ref := store.EventRef{Workspace: f.ws, ID: event.ID}
		if got, err := f.s.EventsByID(context.Background(), []store.EventRef{ref}); err != nil || got[ref].Kind != event.Kind {
			t.Errorf("%s: %v, %v", step, got, err)
		}
	}
	look("before")
	db := raw(t, url)
	for _, change := range []string{"ALTER TABLE instance ALTER COLUMN attempts TYPE integer", "ALTER TABLE event ALTER COLUMN occurred_given TYPE integer"} {
		if _, err := db.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	look("after")
}
