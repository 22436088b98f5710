package app_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/telemetry"
)

// ask makes a GET and returns the status and the body.
func ask(t *testing.T, url, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	f, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sum adds up the series of a counter by one label.
func sum(f *dto.MetricFamily, by string) map[string]int {
	out := map[string]int{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == by {
				out[l.GetValue()] += int(m.GetCounter().GetValue())
			}
		}
	}
	return out
}

// The metrics of a process agree with its journal, and every reason that appears is in the list.
func TestMetricsAgreeWithTheJournal(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			requests := 0
			gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				requests++
				n := requests
				mu.Unlock()
				switch n % 4 {
				case 1:
					w.WriteHeader(http.StatusServiceUnavailable)
				case 2:
					w.WriteHeader(http.StatusBadRequest)
				default:
					_, _ = io.WriteString(w, `{"id":"gw-1"}`)
				}
			}))
			t.Cleanup(gateway.Close)
			var reported []journal.Entry
			config := server(storetest.URL(t, database))
			config.Work, config.MetricsListen = false, "127.0.0.1:0"
			manual := clock.NewManual(enginetest.Start)
			var log bytes.Buffer
			a := start(t, app.Config{Server: config, Clock: manual, Version: "1.2.3", Log: slog.New(slog.NewTextHandler(&log, nil)), Journal: func(e journal.Entry) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, e)
			}})
			c := admin(t, a)
			if _, err := c.Apply(t.Context(), definitions(gateway.URL)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time every event is a duplicate
				answer, err := c.PostEvents(t.Context(), append(events(7), client.Event{Kind: "nothing"}, client.Event{Kind: " "})...)
				if err != nil || answer.Failed != 1 || answer.NoMatch != 1 {
					t.Fatalf("%+v, %v", answer, err)
				}
			}
			for tick := (client.Tick{Processed: 1}); tick.Processed > 0; {
				var err error
				if tick, err = c.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			key, err := app.CreateKey(t.Context(), a.Store(), a.Workspace(), "prometheus", []string{"metrics"}, manual.Now())
			if err != nil {
				t.Fatal(err)
			}
			status, text := ask(t, a.URL()+"/metrics", key)
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			f := families(t, text)

			what, why, instances := map[string]int{}, map[string]int{}, map[string]int{}
			sends := 0
			for _, e := range reported {
				switch {
				case e.Delivery != 0:
					what[string(e.What)]++
					why[string(e.Reason)]++
					if !e.HandedAt.IsZero() {
						sends++
					}
				case e.Instance != 0:
					instances[string(e.What)]++
				}
			}
			same(t, "deliveries by what", what, sum(f["carillon_deliveries_total"], "what"))
			same(t, "deliveries by reason", why, sum(f["carillon_deliveries_total"], "reason"))
			same(t, "instances by what", instances, sum(f["carillon_instances_total"], "what"))
			same(t, "events", map[string]int{"created": 7, "skipped": 7, "no_match": 2, "failed": 2}, sum(f["carillon_events_total"], "outcome"))
			same(t, "channels", map[string]int{"sms:gateway": len(reported) - total(instances) - 4}, sum(f["carillon_deliveries_total"], "channel"))
			if sends != requests || sends == 0 || f["carillon_send_seconds"].GetMetric()[0].GetHistogram().GetSampleCount() != uint64(sends) {
				t.Errorf("%d requests, %d of them reported, %v measured", requests, sends, f["carillon_send_seconds"])
			}
			if what["retried"] == 0 || what["failed"] == 0 || what["sent"] == 0 {
				t.Errorf("the run shows too little: %v", what)
			}
			if got := f["carillon_definitions_number"].GetMetric()[0].GetGauge().GetValue(); got != 1 {
				t.Errorf("definitions number %v", got)
			}
			if got := sum(f["carillon_http_requests_total"], "route")["POST /v1/events"]; got != 2 {
				t.Errorf("POST /v1/events was counted %d times", got)
			}
			for name, family := range f {
				for r := range sum(family, "reason") {
					if _, ok := reason.Lookup(reason.Reason(r)); !ok && r != "" {
						t.Errorf("%s has the reason %q, which is not in the list", name, r)
					}
				}
			}
			if strings.Contains(text, "+4930") || strings.Contains(text, `"`+telemetry.OtherName+`"`) {
				t.Errorf("the metrics hold an address or an unnamed thing")
			}

			beside := addressOf(t, log.String(), "--metrics-listen")
			if status, text := ask(t, "http://"+beside+"/metrics", ""); status != http.StatusOK || len(families(t, text)) < 20 {
				t.Errorf("at its own address: %d", status)
			}
			if status, _ := ask(t, "http://"+beside+"/v1/reasons", key); status != http.StatusNotFound {
				t.Errorf("the metrics' address answers the API: %d", status)
			}
		})
	}
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func same(t *testing.T, name string, want, got map[string]int) {
	t.Helper()
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%s: %q is %d, the journal says %d", name, k, got[k], n)
		}
	}
	if total(got) != total(want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// addressOf finds in the log where the process listens for a setting.
func addressOf(t *testing.T, log, setting string) string {
	t.Helper()
	_, after, ok := strings.Cut(log, "setting="+setting+" address=")
	if !ok {
		t.Fatalf("the log does not say where: %s", log)
	}
	return strings.Fields(after)[0]
}

// Profiles are answered at their own address alone, and not after the stop.
func TestProfiles(t *testing.T) {
	t.Parallel()
	config := server(":memory:")
	config.DebugListen = "127.0.0.1:0"
	var log bytes.Buffer
	a := start(t, app.Config{Server: config, Log: slog.New(slog.NewTextHandler(&log, nil))})
	beside := addressOf(t, log.String(), "--debug-listen")
	if status, text := ask(t, "http://"+beside+"/debug/pprof/goroutine?debug=1", ""); status != http.StatusOK || !strings.Contains(text, "goroutine profile") {
		t.Errorf("%d %.100s", status, text)
	}
	if status, text := ask(t, a.URL()+"/debug/pprof/goroutine?debug=1", ""); status == http.StatusOK && strings.Contains(text, "goroutine profile") {
		t.Error("the console's address answers profiles")
	}
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", beside); err == nil {
		conn.Close()
		t.Error("it is answered after the stop")
	}
}

// An address that is taken is said to be so, with what to do.
func TestAddressIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for setting, change := range map[string]func(*app.Config){
		"--listen":         func(c *app.Config) { c.Listen = address },
		"--metrics-listen": func(c *app.Config) { c.MetricsListen = address },
		"--debug-listen":   func(c *app.Config) { c.DebugListen = address },
	} {
		c := app.Config{Server: server(":memory:")}
		change(&c)
		a, err := app.Start(t.Context(), c)
		if err == nil {
			_ = a.Stop(t.Context())
			t.Errorf("%s: started", setting)
			continue
		}
		for _, want := range []string{setting + ": " + address + " is taken", "give another port"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", setting, err)
			}
		}
	}
}

// A start that fails closes the address that it had begun to listen on.
func TestAFailedStartHoldsNoAddress(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := app.Config{Server: server(":memory:")}
	c.MetricsListen = taken.Addr().String()
	for range 3 { // another test may take the address as soon as it is free
		free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.Listen = free.Addr().String()
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		if a, err := app.Start(t.Context(), c); err == nil {
			_ = a.Stop(t.Context())
			t.Fatal("it started")
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.Listen)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Error("its address is still listened on")
}

// proxy passes connections on to a database until it is cut.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

// through starts a proxy to the database of a URL and returns the URL by way of it.
func through(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query, network, target := u.Query(), "tcp", u.Host
	if dir := query.Get("host"); dir != "" {
		network, target = "unix", filepath.Join(dir, ".s.PGSQL."+cmp.Or(query.Get("port"), u.Port(), "5432"))
		query.Del("host")
		query.Del("port")
		u.RawQuery = query.Encode()
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	t.Cleanup(p.cut)
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{}).Dial(network, target)
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, from, to)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(to, from); to.Close() }()
			go func() { _, _ = io.Copy(from, to); from.Close() }()
		}
	}()
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) cut() {
	p.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

// While the database is away every request and every stage fails; the log says so once a second.
func TestLogWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("SQLite is never away")
	}
	p, db := through(t, storetest.URL(t, "postgres"))
	var log lines
	a := start(t, app.Config{Server: server(db), Log: slog.New(slog.NewTextHandler(&log, nil))})
	c := admin(t, a)
	if _, err := c.Deliveries(t.Context(), client.DeliveryQuery{}); err != nil {
		t.Fatal(err)
	}
	elapsed := clock.Monotonic()
	p.cut()
	for range 200 {
		_, err := c.Deliveries(t.Context(), client.DeliveryQuery{})
		var problem *client.Problem
		if !errors.As(err, &problem) || problem.Code != client.CodeUnavailable {
			t.Fatalf("got %v", err)
		}
	}
	took := elapsed()
	text := log.String()
	reported := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, "level=INFO") {
			continue
		}
		reported++
	}
	const stages = 4 // each may be in the midst of a statement when the connection is cut
	if most := 1 + stages + int(took/telemetry.CalmFor); reported == 0 || reported > most {
		t.Errorf("%d lines in %s:\n%s", reported, took, text)
	}
	t.Logf("%s:\n%s", took, text)
}

// lines is a log that is written and read at once.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
