package main

import (
	"bytes"
	"context"
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

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// surveys are answered by callers at once; each answer is one request.
	surveys = 4000
	// handedOver is how many outcomes the sink has in flight at once, and so the probe.
	handedOver = 32
	// answersWithin bounds each part.
	answersWithin = time.Minute
)

const answersDefinitions = `
workflow: visit
type: survey
triggers: [{id: closed, event: closed}]
timing: {expire_after: 30d}
audience: {to: event.recipient}
channel: memory
message: {survey: visit}
sinks: [{sink: hook}]
---
survey: visit
title: Visit
invitation: {text: "{{ survey.link }}"}
questions:
  - {id: rate, type: rating, min: 1, max: 10, text: Rate}
  - {id: why, type: text, text: Why?}
---
channel: memory:default
provider: memory
---
sink: hook
provider: webhook
settings:
  url: %s
  secret: {file: hook}
`

func answersContenders(s settings, b *binary) []contender {
	rows := []string{"T18"}
	list := []contender{onDatabase("Carillon, answers", rows, func(ctx context.Context, r *round, url string) error { return answersServer(ctx, r, b, url) })}
	if s.wants("T18") && !s.wants("T2") {
		list = append(list, onDatabase("insert", rows, func(ctx context.Context, r *round, url string) error { return insertServer(ctx, r, url, []int{1}) }))
	}
	return list
}

// hook is a webhook receiver that counts messages by their ids.
type hook struct {
	server *http.Server
	url    string
	mu     sync.Mutex
	ids    map[string]bool
	full   chan struct{} // closed when every survey's answer was received
}

func newHook(ctx context.Context) (*hook, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hook{url: "http://" + listener.Addr().String() + "/", ids: map[string]bool{}, full: make(chan struct{})}
	h.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if id := r.Header.Get("webhook-id"); id != "" && !h.ids[id] {
			if h.ids[id] = true; len(h.ids) == surveys {
				close(h.full)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = h.server.Serve(listener) }() // it ends by Close, and nothing else can be done about its error
	return h, nil
}

// answersServer measures answers to surveys, while their sink is paused, and then how fast their outcomes reach the sink; and beside it the same
// requests to the same receiver by a plain client.
func answersServer(ctx context.Context, r *round, b *binary, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*answersWithin)
	defer cancel()
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h, err := newHook(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.server.Close()) }()
	for name, text := range map[string]string{"bench.yaml": fmt.Sprintf(answersDefinitions, h.url), "hook": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	p, err := b.serve(ctx, url, "--secret-dir", dir, "--outbound-allow", "127.0.0.1/32")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	key, err := b.call(ctx, "keys", "create", "--db", url, "--name", "bench", "--scopes", "admin")
	if err != nil {
		return err
	}
	if _, err := b.call(ctx, "apply", "--server", p.address, "--key", key, filepath.Join(dir, "bench.yaml")); err != nil {
		return err
	}
	api, err := client.New(p.address, key)
	if err != nil {
		return err
	}
	ids, err := askAll(ctx, api)
	if err != nil {
		return err
	}
	if _, err := api.PauseSink(ctx, "hook"); err != nil {
		return err
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	m, err := r.meter(p.pid)
	if err != nil {
		return err
	}
	elapsed := clock.Monotonic()
	err = atOnce(callers, len(ids), func(i int) error {
		_, err := api.Respond(ctx, ids[i], client.ResponseInput{Answers: map[string]any{"rate": i%10 + 1, "why": "It was quick."}})
		return err
	})
	if err != nil {
		return err
	}
	if err := m.rate(answersOurs, len(ids), elapsed()); err != nil {
		return err
	}
	if m, err = r.meter(p.pid); err != nil {
		return err
	}
	elapsed = clock.Monotonic()
	if _, err := api.EnableSink(ctx, "hook"); err != nil {
		return err
	}
	select {
	case <-h.full:
	case <-ctx.Done():
		return fmt.Errorf("%d of %d outcomes reached the sink: %w", len(h.ids), surveys, context.Cause(ctx))
	}
	if err := m.rate(dispatchOurs, surveys, elapsed()); err != nil {
		return err
	}
	return plainHook(r, h.url)
}

// askAll makes the surveys, and waits until each was sent.
func askAll(ctx context.Context, api *client.Client) (ids []string, err error) {
	for from := 0; from < surveys; from += client.MaxEvents {
		events := make([]client.Event, min(client.MaxEvents, surveys-from))
		for i := range events {
			n := fmt.Sprint(from + i)
			events[i] = client.Event{ID: n, Kind: "closed", Recipient: &client.Recipient{Address: "+96477" + n, CustomerRef: n}}
		}
		answer, err := api.PostEvents(ctx, events...)
		if err != nil {
			return nil, err
		}
		for _, item := range answer.Items {
			ids = append(ids, item.Instances[0].Deliveries[0].ID)
		}
	}
	for {
		page, err := api.Deliveries(ctx, client.DeliveryQuery{Status: "scheduled"})
		if err != nil || len(page.Items) == 0 {
			return ids, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// plainHook posts as many bodies of the same size to the receiver, without a database.
func plainHook(r *round, url string) error {
	body := bytes.Repeat([]byte("x"), 700)
	plain := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: handedOver}, Timeout: answersWithin}
	m, err := r.meter()
	if err != nil {
		return err
	}
	elapsed := clock.Monotonic()
	err = atOnce(handedOver, surveys, func(int) error {
		answer, err := plain.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
	if err != nil {
		return err
	}
	return m.rate(dispatchProbe, surveys, elapsed())
}

// atOnce does n things, some at once, and returns the first error.
func atOnce(workers, n int, do func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, workers)
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}
