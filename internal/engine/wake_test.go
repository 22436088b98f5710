package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// patience is how long a test waits for something that takes milliseconds.
const patience = 2 * time.Minute

// replica is a running engine that is a separate process as far as the database knows.
type replica struct {
	*enginetest.Bundle
	sent chan string
	log  *lines
}

// newReplica runs an engine on a database until the test ends.
func newReplica(t *testing.T, url string, o store.Options, change func(*engine.Config)) *replica {
	t.Helper()
	s, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{sent: make(chan string, 1000), log: &lines{}}
	r.Bundle = enginetest.Setup(t, s, "", func(c *engine.Config) {
		c.Log = slog.New(slog.NewTextHandler(r.log, nil))
		c.Providers[0].Open = func(map[string]string) (channel.Channel, error) {
			return sendFunc(func() error { r.sent <- "one"; return nil }), nil
		}
		change(c)
	})
	ctx, halt := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		halt()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *replica) mustSend() {
	r.Helper()
	select {
	case <-r.sent:
	case <-time.After(patience):
		r.Fatal("nothing was sent")
	}
}

// listeners waits until n connections listen, and returns their numbers.
func listeners(t *testing.T, db *pgx.Conn, n int) []int32 {
	t.Helper()
	for end := clock.Monotonic(); end() < patience; {
		rows, err := db.Query(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN %' AND pid <> pg_backend_pid()`)
		if err != nil {
			t.Fatal(err)
		}
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == n {
			return pids
		}
	}
	t.Fatalf("not %d connections listen", n)
	return nil
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}

// newWriter is an engine that ingests events and notifies others, and does no work itself.
func newWriter(t *testing.T, url string) *enginetest.Bundle {
	t.Helper()
	b := enginetest.Setup(t, storetest.Open(t, url), csi, func(c *engine.Config) { c.Clock = &clock.System{} })
	b.Clock.Set((&clock.System{}).Now()) // when events are received
	ctx, halt := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { b.Announce(ctx); close(ended) }()
	t.Cleanup(func() { halt(); <-ended })
	return b
}

func nthVisit(n int) string { return strings.Replace(visit, "40956", fmt.Sprint(n), 1) }

func postgresOnly(t *testing.T) string {
	t.Helper()
	for _, database := range storetest.Databases(t) {
		if database == "postgres" {
			return storetest.URL(t, database)
		}
	}
	t.Skip("PostgreSQL is not selected")
	return ""
}

// Events that one process ingests are sent by another one long before its poll; and again after the connection on which that one listens was cut.
func TestAnotherProcessIsWoken(t *testing.T) {
	t.Parallel()
	url := postgresOnly(t)
	in := newWriter(t, url)
	out := newReplica(t, url, store.Options{}, func(c *engine.Config) {
		c.Clock, c.Poll, c.SlowPoll = &clock.System{}, time.Hour, time.Hour
	})
	db := connect(t, url)
	first := listeners(t, db, 1)
	in.Post(nthVisit(1))
	out.mustSend()

	if _, err := db.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, first[0]); err != nil {
		t.Fatal(err)
	}
	for listeners(t, db, 1)[0] == first[0] { // it comes back
	}
	in.Post(nthVisit(2))
	out.mustSend()
	if n := strings.Count(out.log.String(), "no notifications"); n != 1 {
		t.Errorf("the cut was logged %d times:\n%s", n, out.log)
	}
}

// Without notifications, the poll finds the work.
func TestWithoutNotificationsThePollFindsIt(t *testing.T) {
	t.Parallel()
	url := postgresOnly(t)
	in := newWriter(t, url)
	hands := clock.NewManual((&clock.System{}).Now())
	out := newReplica(t, url, store.Options{Direct: "postgres://nobody@127.0.0.1:1/x?connect_timeout=1"}, func(c *engine.Config) {
		c.Clock, c.Poll, c.SlowPoll = hands, 10*time.Second, time.Hour
	})
	in.Post(nthVisit(1))
	for sent := false; !sent; {
		hands.Set(hands.Now().Add(10 * time.Second))
		select {
		case <-out.sent:
			sent = true
		case <-time.After(10 * time.Millisecond): // the loop begins to sleep in its own time
		}
		if t.Context().Err() != nil {
			t.Fatal("never sent")
		}
	}
}

// Many commits make at most one notification a second, and a process's own notification does not wake it.
func TestNotificationsAreBounded(t *testing.T) {
	t.Parallel()
	url := postgresOnly(t)
	ear := connect(t, url)
	if _, err := ear.Exec(t.Context(), "LISTEN carillon_work"); err != nil {
		t.Fatal(err)
	}
	hands := sleepClock{clock.NewManual(enginetest.Start), make(chan time.Time)}
	b := enginetest.Setup(t, storetest.Open(t, url), csi, func(c *engine.Config) { c.Clock = hands })
	ctx, halt := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.Announce(ctx); close(ended) }()
	defer func() { halt(); <-ended }()

	heard := func() string {
		wait, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n, err := ear.WaitForNotification(wait)
		if err != nil {
			t.Fatalf("nothing heard: %v", err)
		}
		return n.Payload
	}
	if err := b.Store.Notify(t.Context()); err != nil {
		t.Fatal(err)
	}
	own := heard()
	for second := range 2 {
		var wg sync.WaitGroup
		for caller := range 4 {
			wg.Go(func() {
				for n := range 5 {
					items := []ingest.Item{ingest.Parse([]byte(nthVisit(1000*second+100*caller+n)), enginetest.Start)}
					if _, err := b.Ingest(ctx, b.Workspace, items); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := heard(); got != own {
			t.Errorf("heard %q, want %q", got, own)
		}
		// All earlier notifications have arrived when a later one has.
		if _, err := connect(t, url).Exec(t.Context(), `SELECT pg_notify('carillon_work', 'end of second')`); err != nil {
			t.Fatal(err)
		}
		for got := heard(); got != "end of second"; got = heard() {
			t.Errorf("second %d: another notification %q", second, got)
		}
		if until := <-hands.asleep; until.Sub(hands.Now()) < time.Second { // before, it would sleep from the later instant on
			t.Errorf("second %d: it rests until %s", second, until)
		}
		hands.Set(hands.Now().Add(time.Second))
	}
}

func TestSQLiteNotifiesNobody(t *testing.T) {
	t.Parallel()
	s := storetest.Memory(t)
	if err := s.Notify(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Listen(t.Context(), nil, nil); !errors.Is(err, store.ErrSilent) {
		t.Errorf("error %v, want %v", err, store.ErrSilent)
	}
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Four processes share their work through a pooler that gives every transaction another connection: every message leaves once.
func TestFourProcessesThroughAPooler(t *testing.T) {
	t.Parallel()
	direct := postgresOnly(t)
	url, err := pgtest.Pool(t, 6).Through(direct)
	if err != nil {
		t.Fatal(err)
	}
	in := newWriter(t, url)
	replicas := make([]*replica, 4)
	for i := range replicas {
		replicas[i] = newReplica(t, url, store.Options{}, func(c *engine.Config) { c.Clock, c.Batch, c.Poll = &clock.System{}, 20, 50*time.Millisecond })
	}
	const events = 400
	for n := range events / 100 {
		batch := make([]string, 100)
		for i := range batch {
			batch[i] = strings.Replace(nthVisit(100*n+i), "0001", fmt.Sprintf("%04d", 100*n+i), 1)
		}
		in.PostAll(batch...)
	}
	sent := make(chan struct{}, events)
	ended := make(chan struct{})
	defer close(ended)
	for _, r := range replicas {
		go func() {
			for {
				select {
				case <-r.sent:
					sent <- struct{}{}
				case <-ended:
					return
				}
			}
		}()
	}
	for n := range events {
		select {
		case <-sent:
		case <-time.After(patience):
			t.Fatalf("%d of %d sent", n, events)
		}
	}
	counts, err := in.Store.Counts(t.Context(), in.Workspace.ID)
	if err != nil || counts.Events != events {
		t.Errorf("%+v %v", counts, err)
	}
	for end := clock.Monotonic(); counts.DeliveriesByStatus["sent"] < events && end() < patience; { // their results are written together
		if counts, err = in.Store.Counts(t.Context(), in.Workspace.ID); err != nil {
			t.Fatal(err)
		}
	}
	if counts.DeliveriesByStatus["sent"] != events || len(sent) > 0 {
		t.Errorf("in the end %v, %d sent again", counts.DeliveriesByStatus, len(sent))
	}
	if log := replicas[0].log.String(); strings.Count(log, "a pooler stands before the database") != 1 {
		t.Errorf("the pooler is not named once:\n%s", log)
	}
}
