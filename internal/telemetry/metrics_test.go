package telemetry_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/telemetry"
)

//nolint:gochecknoglobals // the flag of go test
var update = flag.Bool("update", false, "write the reference page")

var at = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC) //nolint:gochecknoglobals // immutable

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, m *telemetry.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value finds the one series with these labels, written name, value, name, value …
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) *dto.Metric {
	t.Helper()
	var found *dto.Metric
	for _, m := range families[name].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		all := true
		for i := 0; i < len(labels); i += 2 {
			all = all && have[labels[i]] == labels[i+1]
		}
		if all {
			if found != nil {
				t.Fatalf("%s %v is listed twice", name, labels)
			}
			found = m
		}
	}
	if found == nil {
		t.Fatalf("there is no %s %v", name, labels)
	}
	return found
}

func TestMetricsCount(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(telemetry.MetricsOptions{Version: "1.2.3"})
	m.Event("created", "")
	m.Event("failed", reason.InvalidEvent)
	m.Write(journal.Entry{At: at, What: journal.Created, Workflow: "welcome", Instance: 1})
	m.Write(journal.Entry{At: at, What: journal.Skipped, Workflow: "tips", Instance: 2, Reason: reason.Collapsed, Count: 32})
	m.Write(journal.Entry{
		At: at.Add(3 * time.Second), Eligible: at, HandedAt: at.Add(2 * time.Second), Due: at, What: journal.Sent, Reason: reason.Delivered,
		Workflow: "welcome", Channel: "sms:a", Instance: 1, Delivery: 2,
	})
	m.Write(journal.Entry{At: at, What: journal.Reclaimed, Channel: "sms:a", Instance: 1, Delivery: 2, Reason: "a word of its own"})
	m.Write(journal.Entry{At: at, What: journal.Dead, Sink: "bi", Instance: 1, Delivery: 2, Reason: reason.PermanentError})
	m.Write(journal.Entry{At: at, What: journal.Replied, Channel: "sms:a", Reason: reason.UnknownSender})
	m.Request("GET /v1/instances/{id}", 404, time.Millisecond)
	f := scrape(t, m)
	for _, tt := range []struct {
		name   string
		labels []string
	}{
		{"carillon_events_total", []string{"outcome", "failed", "reason", "invalid_event"}},
		{"carillon_instances_total", []string{"workflow", "welcome", "what", "created", "reason", ""}},
		{"carillon_deliveries_total", []string{"channel", "sms:a", "what", "sent", "reason", "delivered"}},
		{"carillon_deliveries_total", []string{"channel", "sms:a", "what", "reclaimed", "reason", telemetry.OtherName}},
		{"carillon_dispatches_total", []string{"sink", "bi", "what", "dead", "reason", "permanent_error"}},
		{"carillon_replies_total", []string{"channel", "sms:a", "reason", "unknown_sender"}},
		{"carillon_http_requests_total", []string{"route", "GET /v1/instances/{id}", "status", "404"}},
	} {
		if got := value(t, f, tt.name, tt.labels...).GetCounter().GetValue(); got != 1 {
			t.Errorf("%s %v is %v, want 1", tt.name, tt.labels, got)
		}
	}
	if got := len(f["carillon_deliveries_total"].GetMetric()); got != 2 {
		t.Errorf("%d series of deliveries: what a sink does is none of theirs", got)
	}
	if got := value(t, f, "carillon_instances_total", "workflow", "tips", "what", "skipped", "reason", "collapsed").GetCounter().GetValue(); got != 32 {
		t.Errorf("occasions that one stands for: %v, want 32", got)
	}
	if h := value(t, f, "carillon_send_seconds", "channel", "sms:a").GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 1 {
		t.Errorf("send: %v", h)
	}
	if h := value(t, f, "carillon_lateness_seconds", "channel", "sms:a").GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 2 {
		t.Errorf("lateness: %v", h)
	}
	value(t, f, "carillon_build_info", "version", "1.2.3")
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if f[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

// However many channels there are, the series stay few.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(telemetry.MetricsOptions{})
	for i := range 3 * telemetry.MaxNames {
		m.Write(journal.Entry{What: journal.Planned, Channel: fmt.Sprintf("sms:%d", i), Delivery: 1})
	}
	f := scrape(t, m)
	if got := len(f["carillon_deliveries_total"].GetMetric()); got != telemetry.MaxNames+1 {
		t.Errorf("%d series", got)
	}
	if got := value(t, f, "carillon_deliveries_total", "channel", telemetry.OtherName).GetCounter().GetValue(); got != 2*telemetry.MaxNames {
		t.Errorf("others: %v", got)
	}
}

// The database is asked at most every few seconds; when it is away no old number is shown.
func TestGauges(t *testing.T) {
	t.Parallel()
	now, asked := at, 0
	var away error
	m := telemetry.NewMetrics(telemetry.MetricsOptions{Now: func() time.Time { return now }, Database: func(context.Context) (telemetry.Database, error) {
		asked++
		return telemetry.Database{
			Pool: telemetry.Pool{Max: 8, Waited: time.Second}, DueInstances: 1, DueDeliveries: 2, DueItems: 11, OverdueRuns: 12, RunsStand: 13 * time.Second, OldestDue: 90 * time.Second, Held: 3, Unknown: 4, Paused: 5, Braked: 2, Parked: 6,
			Waiting: []telemetry.Waiting{
				{Channel: "sms:a", Reason: reason.TemporaryError, N: 14, Oldest: 15 * time.Minute},
				{Channel: "sms:a", Reason: reason.RateLimited, N: 16, Oldest: time.Second},
				{Channel: "sms:a", Reason: reason.TemporaryError, N: 17, Oldest: 18 * time.Minute},
				{Channel: "sms:a", Reason: reason.TemporaryError, N: 1, Oldest: time.Minute},
			},
			Definitions: map[string]int64{"default": 7}, Sinks: []telemetry.Sink{{Workspace: "default", Name: "bi", Pending: 8, Dead: 9}, {Workspace: "other", Name: "bi", Active: true}},
		}, away
	}})
	f := scrape(t, m)
	for _, tt := range []struct {
		name   string
		want   float64
		labels []string
	}{
		{"carillon_database_up", 1, nil},
		{"carillon_due", 1, []string{"kind", "instances"}},
		{"carillon_due", 2, []string{"kind", "deliveries"}},
		{"carillon_due", 11, []string{"kind", "items"}},
		{"carillon_digest_runs_overdue", 12, nil},
		{"carillon_runs_standing_seconds", 13, nil},
		{"carillon_oldest_due_seconds", 90, nil},
		{"carillon_waiting", 14 + 17 + 1, []string{"channel", "sms:a", "reason", "temporary_error"}},
		{"carillon_waiting_oldest_seconds", 18 * 60, []string{"channel", "sms:a", "reason", "temporary_error"}},
		{"carillon_waiting", 16, []string{"channel", "sms:a", "reason", "rate_limited"}},
		{"carillon_waiting_oldest_seconds", 1, []string{"channel", "sms:a", "reason", "rate_limited"}},
		{"carillon_held", 3, nil},
		{"carillon_unknown", 4, nil},
		{"carillon_paused_workflows", 5, nil},
		{"carillon_braked_workflows", 2, nil},
		{"carillon_parked", 6, nil},
		{"carillon_definitions_number", 7, []string{"workspace", "default"}},
		{"carillon_outbox_events", 8, []string{"workspace", "default", "sink", "bi", "status", "pending"}},
		{"carillon_outbox_events", 9, []string{"workspace", "default", "sink", "bi", "status", "dead"}},
		{"carillon_outbox_events", 0, []string{"workspace", "other", "sink", "bi", "status", "dead"}},
		{"carillon_sink_active", 0, []string{"workspace", "default", "sink", "bi"}},
		{"carillon_sink_active", 1, []string{"workspace", "other", "sink", "bi"}},
		{"carillon_database_connections", 8, []string{"state", "max"}},
	} {
		if got := value(t, f, tt.name, tt.labels...).GetGauge().GetValue(); got != tt.want {
			t.Errorf("%s %v is %v, want %v", tt.name, tt.labels, got, tt.want)
		}
	}
	if got := value(t, f, "carillon_database_wait_seconds_total").GetCounter().GetValue(); got != 1 {
		t.Errorf("waited %v", got)
	}
	scrape(t, m)
	if asked != 1 {
		t.Errorf("asked %d times at once", asked)
	}
	now, away = now.Add(5*time.Second), errors.New("away")
	f = scrape(t, m)
	if got := value(t, f, "carillon_database_up").GetGauge().GetValue(); got != 0 || f["carillon_due"] != nil || f["carillon_database_connections"] == nil {
		t.Errorf("while the database is away: up %v, %v", got, f["carillon_due"])
	}
}

// Sinks beyond the bound count together, and are active while all of them are.
func TestGaugesOfSinksAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(telemetry.MetricsOptions{Now: func() time.Time { return at }, Database: func(context.Context) (telemetry.Database, error) {
		list := make([]telemetry.Sink, 3*telemetry.MaxNames)
		for i := range list {
			list[i] = telemetry.Sink{Workspace: "default", Name: fmt.Sprint(i), Dead: 1, Active: i != 2*telemetry.MaxNames, Failing: time.Duration(i) * time.Second}
		}
		return telemetry.Database{Sinks: list}, nil
	}})
	f := scrape(t, m)
	if got := len(f["carillon_sink_active"].GetMetric()); got != telemetry.MaxNames+1 {
		t.Errorf("%d series", got)
	}
	if got := value(t, f, "carillon_outbox_events", "sink", telemetry.OtherName, "status", "dead").GetGauge().GetValue(); got != 2*telemetry.MaxNames {
		t.Errorf("others: %v", got)
	}
	if got := value(t, f, "carillon_sink_active", "sink", telemetry.OtherName).GetGauge().GetValue(); got != 0 {
		t.Errorf("others are active: %v", got)
	}
	if got := value(t, f, "carillon_sink_failing_seconds", "sink", telemetry.OtherName).GetGauge().GetValue(); got != 3*telemetry.MaxNames-1 {
		t.Errorf("others fail for: %v", got)
	}
}

// Channels are read at every scrape; those of one name count together, and one that is open shows.
func TestGaugesOfChannels(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(telemetry.MetricsOptions{Channels: func() []telemetry.Channel {
		return []telemetry.Channel{{Name: "sms:a", InFlight: 2}, {Name: "sms:b"}, {Name: "sms:a", Open: true, InFlight: 3}}
	}})
	f := scrape(t, m)
	for name, want := range map[string][2]float64{"sms:a": {1, 5}, "sms:b": {0, 0}} {
		got := [2]float64{
			value(t, f, "carillon_channel_breaker_open", "channel", name).GetGauge().GetValue(),
			value(t, f, "carillon_channel_in_flight", "channel", name).GetGauge().GetValue(),
		}
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

const marker = "<!-- What follows is made from the table of metrics: go test ./internal/telemetry -update -->\n"

// The page lists every metric, and its alerts use no others.
func TestReferenceOfMetrics(t *testing.T) {
	t.Parallel()
	const path = "../../docs/operate/metrics.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prose, generated, ok := strings.Cut(string(raw), marker)
	if !ok {
		t.Fatalf("%s has no marker", path)
	}
	var b strings.Builder
	b.WriteString("\n## Every metric\n\n| name | kind | labels | |\n|---|---|---|---|\n")
	known := []string{}
	for _, m := range telemetry.Table() {
		labels := make([]string, len(m.Labels))
		for i, l := range m.Labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(labels, " "), m.Help)
		known = append(known, m.Name)
	}
	for _, name := range regexp.MustCompile(`carillon_[a-z_]+`).FindAllString(prose, -1) {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if !slices.Contains(known, name) {
			t.Errorf("the page speaks of %s, which does not exist", name)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(prose+marker+b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if generated != b.String() {
		t.Error("docs/operate/metrics.md is not current: go test ./internal/telemetry -update")
	}
}
