package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// callers post at once, each its next request when the last was answered.
	callers = 8
	// ingestFor is how long each size of request is measured.
	ingestFor = 2 * time.Second
)

// ingestDefinitions make one instance of every event; who it concerns is looked up when it is due, in a day.
const ingestDefinitions = `
workflow: invoice-due
type: reminder
triggers:
  - id: due
    event: invoice-due
    dedup: [id]
timing:
  offset: 1d
audience:
  - to: event.person
channel: memory
message:
  sms:
    text: "Invoice {{ event.invoice }} over {{ event.amount }} is due. Questions? {{ workspace.base_url }}"
---
channel: memory:default
provider: memory
---
workspace: default
base_url: https://example.org
timezone: Europe/Berlin
`

func ingestContenders(s settings, b *binary) []contender {
	rows := []string{"T1", "T2"}
	var sizes []int // events a request
	if s.wants("T2") {
		sizes = append(sizes, 1)
	}
	if s.wants("T1") {
		sizes = append(sizes, 100, 1000)
	}
	return []contender{
		onDatabase("Carillon, events in", rows, func(ctx context.Context, r *round, url string) error {
			return ingestServer(ctx, r, b, url, sizes, s.profile)
		}),
		onDatabase("insert", rows, func(ctx context.Context, r *round, url string) error { return insertServer(ctx, r, url, sizes) }),
	}
}

// ingestServer is the program itself, with its engine at work.
func ingestServer(ctx context.Context, r *round, b *binary, url string, sizes []int, profiles string) (err error) {
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(ingestDefinitions), 0o600); err != nil {
		return err
	}
	var flags []string
	var debug string
	if profiles != "" {
		if debug, err = freeAddress(ctx); err != nil {
			return err
		}
		flags = []string{"--debug-listen", debug}
	}
	p, err := b.serve(ctx, url, flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	key, err := b.call(ctx, "keys", "create", "--db", url, "--name", "bench", "--scopes", "admin")
	if err != nil {
		return err
	}
	if _, err := b.call(ctx, "apply", "--server", p.address, "--key", key, dir); err != nil {
		return err
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	header := http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	for _, n := range sizes {
		m, err := r.meter(p.pid)
		if err != nil {
			return err
		}
		var profile sync.WaitGroup
		var profileErr error
		if profiles != "" {
			profile.Go(func() {
				profileErr = keepProfile(ctx, debug, filepath.Join(profiles, fmt.Sprintf("events-in-%d.pprof", n)))
			})
		}
		rows, took, err := post(ctx, p.address+"/v1/events", header, `{"events": [`, `]}`, n)
		profile.Wait()
		if err = errors.Join(err, profileErr); err != nil {
			return err
		}
		if err := m.rate(per(ingestOurs, n), rows, took); err != nil {
			return err
		}
	}
	return nil
}

// keepProfile asks the program for a CPU profile of the time in which it takes events in.
func keepProfile(ctx context.Context, debug, file string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", debug, int(ingestFor.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	profile, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %s", response.Status, profile)
	}
	return os.WriteFile(file, profile, 0o600)
}

// freeAddress is an address of this machine at which nobody listens.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// event is what both sides are given.
type event struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

var eventNumber atomic.Int64

func appendEvent(b []byte, i int64) []byte {
	return fmt.Appendf(b, `{"id": "event-%d", "kind": "invoice-due", "payload": {"person": "%s", "invoice": "R-%06d", "amount": "120.50", `+
		`"status": "open", "owner": "u-1042", "site": "district-7", "note": "%s"}}`, i, person(int(i)), i, note)
}

// post lets the callers post requests of n events for a while, and returns how many the answers counted.
func post(
	ctx context.Context, url string, header http.Header, begin, end string, n int,
) (rows int, took time.Duration, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	one := func() (int, error) {
		body := []byte(begin)
		for k := range n {
			if k > 0 {
				body = append(body, ',')
			}
			body = appendEvent(body, eventNumber.Add(1))
		}
		body = append(body, end...)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		request.Header = header
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		answer, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return 0, err
		}
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s: %s", response.Status, answer)
		}
		var counts struct {
			Created int `json:"created"`
		}
		if err := json.Unmarshal(answer, &counts); err != nil {
			return 0, err
		}
		if counts.Created != n {
			return 0, fmt.Errorf("%d of %d events were taken in: %s", counts.Created, n, answer)
		}
		return n, nil
	}
	var running sync.WaitGroup
	var total atomic.Int64
	errs := make([]error, callers)
	elapsed := clock.Monotonic()
	for c := range callers {
		running.Go(func() {
			for elapsed() < ingestFor && errs[c] == nil {
				done, err := one()
				total.Add(int64(done))
				errs[c] = err
			}
		})
	}
	running.Wait()
	return int(total.Load()), elapsed(), errors.Join(errs...)
}

const insertSchema = `
CREATE TABLE due (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key bytea NOT NULL UNIQUE,
  status smallint NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL,
  kind text NOT NULL,
  payload jsonb NOT NULL);
CREATE INDEX due_active ON due (due_at) WHERE status = 0`

const insertEvents = `
INSERT INTO due (key, due_at, kind, payload)
SELECT r.key, now() + interval '1 day', r.kind, r.payload FROM unnest($1::bytea[], $2::text[], $3::jsonb[]) AS r(key, kind, payload)
ON CONFLICT (key) DO NOTHING`

// insertServer is the least that an HTTP server on a database can do: read the list, insert each event once, answer.
func insertServer(ctx context.Context, r *round, url string, sizes []int) (err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, insertSchema); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		n, err := insertAll(request, pool)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"created": %d}`, n)
	})}
	var serving sync.WaitGroup
	var serveErr error
	serving.Go(func() { serveErr = server.Serve(listener) })
	defer func() {
		err = errors.Join(err, server.Close())
		serving.Wait()
		if !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
	}()
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	for _, n := range sizes {
		m, err := r.meter()
		if err != nil {
			return err
		}
		rows, took, err := post(ctx, "http://"+listener.Addr().String(), nil, "[", "]", n)
		if err != nil {
			return err
		}
		if err := m.rate(per(ingestProbe, n), rows, took); err != nil {
			return err
		}
	}
	return nil
}

func insertAll(request *http.Request, pool *pgxpool.Pool) (int64, error) {
	var events []event
	if err := json.NewDecoder(request.Body).Decode(&events); err != nil {
		return 0, err
	}
	keys, kinds, payloads := make([][]byte, len(events)), make([]string, len(events)), make([]string, len(events))
	for i, e := range events {
		sum := sha256.Sum256([]byte(e.Kind + "\x00" + e.ID))
		keys[i], kinds[i], payloads[i] = sum[:], e.Kind, string(e.Payload)
	}
	tag, err := pool.Exec(request.Context(), insertEvents, keys, kinds, payloads)
	return tag.RowsAffected(), err
}
