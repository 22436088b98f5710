package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// slowEngine takes events in when it is let.
type slowEngine struct {
	api.Engine
	inside chan struct{}
	open   chan struct{}
}

func (e slowEngine) Ingest(_ context.Context, _ store.Workspace, items []ingest.Item, _ *store.Idempotent[[]ingest.Result]) ([]ingest.Result, error) {
	e.inside <- struct{}{}
	<-e.open
	return make([]ingest.Result, len(items)), nil
}

// slowServer is a server whose requests end when the test lets them.
type slowServer struct {
	*testing.T
	slowEngine
	url, key string
}

func newSlowServer(t *testing.T, limit int64) *slowServer {
	t.Helper()
	s := storetest.Memory(t)
	bundle := enginetest.Setup(t, s, definitions, nil)
	c := &slowServer{T: t, slowEngine: slowEngine{app.Operations(bundle.Engine), make(chan struct{}), make(chan struct{})}}
	server := httptest.NewServer(api.New(api.Deps{Store: s, Engine: c.slowEngine, Clock: clock.NewManual(start), Version: "test", Bodies: limit, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(server.Close)
	var err error
	if c.key, err = app.CreateKey(t.Context(), s, bundle.Workspace, "slow", []string{"admin"}, start); err != nil {
		t.Fatal(err)
	}
	c.url = server.URL
	return c
}

// answered is one answer.
type answered struct {
	status     int
	retryAfter string
	code       string
}

func (c *slowServer) send(path, body string, header http.Header) answered {
	c.Helper()
	// A reader of no known length travels in chunks.
	var in io.Reader = strings.NewReader(body)
	if header.Get("Chunked") != "" {
		in = io.MultiReader(in)
	}
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url+path, in)
	if err != nil {
		c.Error(err)
		return answered{}
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	return c.answer(http.DefaultClient, r)
}

func (c *slowServer) answer(by *http.Client, r *http.Request) answered {
	c.Helper()
	res, err := by.Do(r)
	if err != nil {
		c.Error(err)
		return answered{}
	}
	text, err := io.ReadAll(res.Body)
	if err := res.Body.Close(); err != nil {
		c.Error(err)
	}
	if err != nil {
		c.Error(err)
	}
	a := answered{status: res.StatusCode, retryAfter: res.Header.Get("Retry-After")}
	if res.StatusCode >= 400 {
		a.code = problemOf(c.T, string(text)).Code
	}
	return a
}

func eventOf(size int) string {
	return `{"id":"1","kind":"signed-up","payload":{"a":"` + strings.Repeat("x", size) + `"}}`
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// What the bodies of all requests in flight hold together is bounded, whether they say how long they are, travel in chunks
// or compressed; what is beyond that is refused at once, and the memory in use stays a multiple of the bound.
// It is not parallel: what other tests hold in memory would count.
// Shows: reliability 46.
func TestBodiesInFlight(t *testing.T) {
	const (
		limit = 32 << 20
		size  = 6 << 20
		fit   = 4 // an eighth is kept for small ones
	)
	big := eventOf(size)
	for name, c := range map[string]struct {
		body   string
		header http.Header
	}{
		"of a known length":      {big, nil},
		"in chunks":              {big, http.Header{"Chunked": {"1"}}},
		"compressed":             {zipped(big), http.Header{"Content-Encoding": {"gzip"}}},
		"with a key":             {big, http.Header{client.IdempotencyKey: {"k"}}},
		"compressed, with a key": {zipped(big), http.Header{"Content-Encoding": {"gzip"}, client.IdempotencyKey: {"k"}}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newSlowServer(t, limit)
			runtime.GC()
			var before, during runtime.MemStats
			runtime.ReadMemStats(&before)
			results := make(chan answered, 40)
			var running sync.WaitGroup
			send := func(n int) {
				for range n {
					running.Go(func() { results <- server.send("/v1/events", c.body, c.header) })
				}
			}
			send(1)
			<-server.inside
			send(1)
			<-server.inside
			// With two inside there is room for at most one more.
			send(20)
			inside, refused := 2, 0
			for inside+refused < 22 {
				select {
				case <-server.inside:
					inside++
				case a := <-results:
					refused++
					if a != (answered{429, "1", client.CodeBusy}) {
						t.Errorf("got %+v", a)
					}
				}
			}
			if inside < 2 || inside > fit {
				t.Errorf("%d bodies of %d MiB are in flight, with room for %d MiB", inside, size>>20, limit>>20)
			}
			runtime.GC()
			runtime.ReadMemStats(&during)
			if used := int64(during.HeapAlloc) - int64(before.HeapAlloc); used > 3*limit {
				t.Errorf("%d MiB are in use, with room for %d", used>>20, limit>>20)
			}
			// A small request finds room, as long as batches are all that there is.
			running.Go(func() { results <- server.send("/v1/events", eventOf(1000), nil) })
			<-server.inside
			close(server.open)
			running.Wait()
			for range inside + 1 {
				if a := <-results; a.status != http.StatusOK {
					t.Errorf("got %+v", a)
				}
			}
			// All room was released.
			go func() { <-server.inside }()
			if a := server.send("/v1/events", eventOf(15<<20), nil); a.status == 429 {
				t.Errorf("afterwards: %+v", a)
			}
		})
	}
}

// Routes whose bodies the router reads count too.
func TestBodiesOfTheRouter(t *testing.T) {
	t.Parallel()
	server := newSlowServer(t, 4<<20)
	for _, chunked := range []bool{false, true} {
		header := http.Header{}
		if chunked {
			header.Set("Chunked", "1")
		}
		body := fmt.Sprintf(`{"files":[{"name":"a.yaml","text":%q}]}`, strings.Repeat("# x\n", 1<<20))
		if a := server.send("/v1/definitions", body, header); a != (answered{429, "1", client.CodeBusy}) {
			t.Errorf("chunked %v: got %+v", chunked, a)
		}
		if a := server.send("/v1/instances/forget", `{"key":"none"}`, header); a.status != http.StatusNotFound {
			t.Errorf("chunked %v: got %+v", chunked, a)
		}
	}
}

// slowly is a body that begins to be read, and goes on when the test lets it.
type slowly struct {
	io.Reader
	begun chan struct{}
	open  chan struct{}
	once  sync.Once
}

func (s *slowly) Read(p []byte) (int, error) {
	s.once.Do(func() {
		s.begun <- struct{}{}
		<-s.open
	})
	return s.Reader.Read(p)
}

// Callbacks that strangers send slowly hold no more than their share of the room for bodies: who has a key finds the rest.
func TestCallbacksHoldTheirShare(t *testing.T) {
	t.Parallel()
	const limit, fit, many = 16 << 20, 7, 20 // bodies of 1 MiB in 8, with a byte more each
	server := newSlowServer(t, limit)
	body := strings.Repeat(" ", 1<<20)
	begun, open, answers := make(chan struct{}), make(chan struct{}), make(chan answered)
	// The transport reads a body when the server asks for it, which it does when it has taken the room.
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	call := func() {
		text := slowly{Reader: strings.NewReader(body), begun: begun, open: open}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url+"/v1/inbound/email:none", &text)
		if err != nil {
			t.Error(err)
			return
		}
		r.ContentLength = int64(len(body)) // the room for it is taken before it is read
		r.Header.Set("Expect", "100-continue")
		answers <- server.answer(&http.Client{Transport: transport}, r)
	}
	for range many {
		go call()
		<-begun // its room is taken, or it was refused and what it sends is thrown away
	}
	ended := make(chan answered)
	go func() { ended <- server.send("/v1/events", eventOf(6<<20), nil) }()
	select {
	case <-server.inside:
		close(server.open)
		if a := <-ended; a.status != http.StatusOK {
			t.Errorf("a batch beside the callbacks: got %+v", a)
		}
	case a := <-ended:
		t.Errorf("a batch beside the callbacks: got %+v", a)
	}
	close(open)
	got := map[answered]int{}
	for range many {
		got[<-answers]++
	}
	if want := map[answered]int{{404, "", client.CodeNotFound}: fit, {429, "1", client.CodeBusy}: many - fit}; !maps.Equal(got, want) {
		t.Errorf("the callbacks got %v; want %v", got, want)
	}
}

// batchOf is a batch of events of some 100 KiB each, which hold a list of many small values.
func batchOf(size int, value string) string {
	const each = 100 << 10
	events := make([]string, size/each)
	for i := range events {
		events[i] = fmt.Sprintf(`{"id":"%d","kind":"signed-up","payload":{"a":[%s0]}}`, i, strings.Repeat(value+",", each/(len(value)+1)))
	}
	return `{"events":[` + strings.Join(events, ",") + `]}`
}

// Bodies count by what reading them takes: one of many small values holds fifty times its length in memory.
// It is not parallel: what other tests hold in memory would count.
func TestBodiesOfManyValues(t *testing.T) {
	const limit = 32 << 20
	for name, value := range map[string]string{"objects": `{"":0}`, "numbers": "1", "nested": "[[[[[[[[]]]]]]]]"} {
		t.Run(name, func(t *testing.T) {
			if name != "objects" {
				storetest.NotUnderRace(t, "objects are read there")
			}
			server := newSlowServer(t, limit)
			body := batchOf(1<<20, value)
			runtime.GC()
			var before, during runtime.MemStats
			runtime.ReadMemStats(&before)
			const n = 15
			results := make(chan answered, n)
			var running sync.WaitGroup
			for range n {
				running.Go(func() { results <- server.send("/v1/events", zipped(body), http.Header{"Content-Encoding": {"gzip"}}) })
			}
			inside := 0
			for refused := 0; inside+refused < n; {
				select {
				case <-server.inside:
					inside++
				case a := <-results:
					refused++
					if a != (answered{429, "1", client.CodeBusy}) {
						t.Errorf("got %+v", a)
					}
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&during)
			if used := int64(during.HeapAlloc) - int64(before.HeapAlloc); inside == 0 || used > 8*limit {
				t.Errorf("%d MiB are in use by %d bodies, with room for %d", used>>20, inside, limit>>20)
			}
			close(server.open)
			running.Wait()
		})
	}
	t.Run("too many for all the room", func(t *testing.T) {
		server := newSlowServer(t, limit)
		if a := server.send("/v1/events", batchOf(6<<20, `{"":0}`), nil); a != (answered{413, "", client.CodeTooLarge}) {
			t.Errorf("got %+v", a)
		}
		files := `{"files":[{"name":"a.yaml","text":"","x":[` + strings.Repeat(`{"":0},`, 1<<20) + `0]}]}`
		if a := server.send("/v1/definitions", files, nil); a != (answered{413, "", client.CodeTooLarge}) {
			t.Errorf("got %+v", a)
		}
	})
}
