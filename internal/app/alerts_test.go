package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/function"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const rules = "../../packaging/prometheus/carillon.yml"

// promtool is Prometheus' own tool that checks rules. "make test" fetches it.
func promtool(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	path, err := filepath.Abs("../../.tools/bin/promtool")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skip("promtool is missing: \"make packages\" takes it from Debian's package prometheus; elsewhere put it into PATH")
	}
	return path
}

// series are what Prometheus would hold: a value for every minute, _ where a scrape had none.
type series struct {
	minutes int
	values  map[string][]string
}

// scrape adds one minute; an empty text is a target that did not answer.
func (s *series) scrape(t *testing.T, text string) {
	t.Helper()
	seen := map[string]string{}
	for name, family := range families(t, text) {
		for _, m := range family.GetMetric() {
			if !strings.HasPrefix(name, "carillon_") || m.GetHistogram() != nil {
				continue
			}
			labels := []string{`instance="carillon:8080"`, `job="carillon"`}
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := m.GetGauge().GetValue()
			if m.GetCounter() != nil {
				value = m.GetCounter().GetValue()
			}
			seen[name+"{"+strings.Join(labels, ",")+"}"] = strconv.FormatFloat(value, 'f', -1, 64)
		}
	}
	for name, value := range seen {
		for len(s.values[name]) < s.minutes {
			s.values[name] = append(s.values[name], "_")
		}
		s.values[name] = append(s.values[name], value)
	}
	for name, values := range s.values {
		if _, ok := seen[name]; !ok { // Prometheus marks the end of a series that a scrape no longer has
			s.values[name] = append(values, "stale")
		}
	}
	s.minutes++
}

// A rehearsed outage: a sink and the provider go away, a reply is lost, a channel is missing, a run stands, the database and then the process are gone. Each
// alert of the rule file fires while it should, and no other does.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	const away, lost = 1, 2
	var mood atomic.Int64
	var sinkAway atomic.Bool
	own := function.Provider("own", func(context.Context, sink.Message) error {
		if sinkAway.Load() {
			return sink.Failed(errors.New("503 Service Unavailable"))
		}
		return nil
	})
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch mood.Load() {
		case away:
			w.WriteHeader(http.StatusServiceUnavailable)
		case lost:
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(gateway.Close)
	workflow := func(name, channel string) string {
		return "---\nworkflow: " + name + "\ntype: alert\ntriggers:\n  - id: t\n    event: " + name + "\naudience:\n  - to: event.recipient\nchannel: " + channel + "\nmessage:\n  sms:\n    text: x\n"
	}
	channel := func(name string) string {
		return "---\nchannel: " + name + "\nprovider: http\nsettings:\n  url: " + gateway.URL + "\n"
	}
	definitions := func(more string) []client.File {
		return []client.File{{Name: "a.yaml", Text: "workspace: default\ncadence: {max_per_day: 0}\nretry: {backoff: [5m, 5m, 5m, 5m, 5m, 5m]}\n" + workflow("news", "sms:main") + workflow("bill", "sms:careful") + workflow("lost", "sms:ghost") +
			strings.Replace(workflow("later", "sms:main"), "audience:", "timing: {offset: 1d}\naudience:", 1) +
			workflow("done", "sms:main") + "sinks: [{sink: bi, events: delivery.sent}]\n---\nsink: bi\nprovider: own\nretry: {backoff: [5m], attempts: 6, jitter: none}\n" +
			channel("sms:main") + channel("sms:careful") + "on_unknown: hold\n" + more}}
	}
	config := server(storetest.URL(t, "sqlite"))
	config.Work, config.MetricsListen, config.Canary = false, "127.0.0.1:0", "canary"
	var log bytes.Buffer
	manual := clock.NewManual(enginetest.Start)
	a := start(t, app.Config{Server: config, Sinks: []sink.Provider{own}, Clock: manual, Version: "1.2.3", Log: slog.New(slog.NewTextHandler(&log, nil))})
	scraped := "http://" + addressOf(t, log.String(), "--metrics-listen") + "/metrics"
	c := admin(t, a)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Apply(t.Context(), definitions(""))
	must(err)
	post := func(minute int, kind string) {
		t.Helper()
		answer, err := c.PostEvents(t.Context(), client.Event{ID: fmt.Sprint(kind, minute), Kind: kind, Recipient: &client.Recipient{Address: fmt.Sprintf("+49301%06d", minute)}})
		if err != nil || answer.Created != 1 {
			t.Fatalf("%+v, %v", answer, err)
		}
	}

	// By the minute.
	const sinkFails, outboxDead, redriven, providerAway, providerBack = 2, 27, 40, 50, 110
	const replyLost, decided, channelMissing, channelDefined, runBegins, runGoesOn, databaseAway, processAway, end = 120, 135, 140, 150, 156, 178, 180, 184, 190
	const canaryFirst, canaryLast, canaryAgain = 5, 20, 155
	seen := series{values: map[string][]string{}}
	for minute := range end {
		manual.Set(enginetest.Start.Add(time.Duration(minute) * time.Minute))
		if slices.Contains([]int{canaryFirst, canaryLast, canaryAgain}, minute) {
			_, err := c.PostEvents(t.Context(), client.Event{ID: fmt.Sprint("canary", minute), Kind: "news", Recipient: &client.Recipient{CustomerRef: "canary", Address: "+4930999"}})
			must(err)
		}
		switch minute {
		case sinkFails:
			sinkAway.Store(true)
			post(minute, "done")
		case redriven:
			sinkAway.Store(false)
			_, err := c.RedriveSink(t.Context(), "bi")
			must(err)
		case providerAway:
			mood.Store(away)
		case providerBack:
			mood.Store(0)
		case replyLost:
			mood.Store(lost)
			post(minute, "bill")
		case replyLost + 1:
			mood.Store(0)
		case decided:
			list, err := c.Deliveries(t.Context(), client.DeliveryQuery{Status: "unknown"})
			must(err)
			if len(list.Items) != 1 {
				t.Fatalf("unknown are %+v", list)
			}
			_, err = c.RetryDelivery(t.Context(), list.Items[0].ID)
			must(err)
		case channelMissing:
			post(minute, "lost")
		case channelDefined:
			_, err := c.Apply(t.Context(), definitions(channel("sms:ghost")))
			must(err)
			list, err := c.Deliveries(t.Context(), client.DeliveryQuery{Reason: "no_channel"})
			must(err)
			for _, d := range list.Items {
				_, err = c.RetryDelivery(t.Context(), d.ID)
				must(err)
			}
		case runBegins:
			post(minute, "later")
			answer, err := c.CancelDeliveries(t.Context(), client.Selection{Workflow: "later"})
			must(err)
			if answer.Run == nil {
				t.Fatalf("%+v", answer)
			}
		case databaseAway:
			must(a.Store().Close())
		}
		if minute < runBegins || minute >= runGoesOn && minute < databaseAway {
			if minute != replyLost {
				post(minute, "news")
			}
			for tick := (client.Tick{Processed: 1}); tick.Processed > 0; {
				tick, err = c.Tick(t.Context())
				must(err)
			}
		}
		text := ""
		if minute < processAway {
			var status int
			if status, text = ask(t, scraped, ""); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
		}
		seen.scrape(t, text)
	}

	const sinkGone, dead = "CarillonSinkFails", "CarillonOutboxEventsAreDead"
	const late, provider, channelGone, person, gone = "CarillonIsLate", "CarillonProviderIsAway", "CarillonChannelIsMissing", "CarillonNeedsAPerson", "CarillonIsAway"
	const canary, stands = "CarillonCanaryGetsNothing", "CarillonRunsStand"
	fires := map[int][]string{
		sinkFails + 15: nil, sinkFails + 18: {sinkGone}, outboxDead - 1: {sinkGone}, outboxDead + 1: nil, outboxDead + 6: {dead}, redriven - 1: {dead}, redriven + 1: nil,
		providerAway - 1: nil, providerAway + 4: nil, providerAway + 10: {provider}, providerAway + 14: {provider}, providerAway + 20: {late, provider}, providerBack - 1: {late, provider},
		providerBack + 9: nil, replyLost + 9: nil, replyLost + 11: {person}, decided + 1: nil,
		channelMissing: nil, channelMissing + 2: {channelGone}, canaryLast + 124: {channelGone}, channelDefined - 1: {canary, channelGone}, channelDefined + 1: {canary}, canaryAgain + 1: nil,
		runBegins + 15: nil, runBegins + 19: {stands}, runGoesOn - 1: {stands}, runGoesOn + 1: nil,
		databaseAway: nil, databaseAway + 2: {gone}, processAway + 3: {gone},
	}
	// How long the first message of an outage has waited, and how many wait with it.
	for _, w := range []struct {
		minute          int
		channel, reason string
		oldest, n       int
	}{
		{providerAway + 3, "sms:main", "temporary_error", 3 * 60, 4},
		{providerAway + 20, "sms:main", "channel_down", 20 * 60, 21},
		{channelDefined - 1, "sms:ghost", "no_channel", (channelDefined - 1 - channelMissing) * 60, 1},
	} {
		for name, want := range map[string]int{"carillon_waiting_oldest_seconds": w.oldest, "carillon_waiting": w.n} {
			values := seen.values[fmt.Sprintf(`%s{instance="carillon:8080",job="carillon",channel=%q,reason=%q}`, name, w.channel, w.reason)]
			if len(values) != end || values[w.minute] != strconv.Itoa(want) {
				t.Errorf("%s of %s and %s is %v, want %d in minute %d", name, w.channel, w.reason, values, want, w.minute)
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "outage.yml")
	path, err := filepath.Abs(rules)
	must(err)
	must(os.WriteFile(file, []byte(seen.test(path, fires)), 0o600))
	if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), tool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}

	// Every alert of the file has fired, and the page explains each.
	text, err := os.ReadFile(rules)
	must(err)
	page, err := os.ReadFile("../../docs/operate/metrics.md")
	must(err)
	fired := map[string]bool{}
	for _, names := range fires {
		for _, name := range names {
			fired[name] = true
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !fired[m[1]] {
			t.Errorf("%s did not fire", m[1])
		}
		if !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("docs/operate/metrics.md does not explain %s", m[1])
		}
	}
}

// test is a test file for promtool: the series as they were scraped, and which alerts fire at which minutes.
func (s *series) test(rules string, fires map[int][]string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n", rules)
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		fmt.Fprintf(&out, "      - series: '%s'\n        values: '%s'\n", name, strings.Join(s.values[name], " "))
	}
	out.WriteString("    promql_expr_test:\n")
	for _, minute := range slices.Sorted(maps.Keys(fires)) {
		fmt.Fprintf(&out, "      - expr: sum by (alertname) (ALERTS{alertstate=\"firing\"}) > bool 0\n        eval_time: %dm\n        exp_samples:\n", minute)
		for _, name := range fires[minute] {
			fmt.Fprintf(&out, "          - {labels: '{alertname=%q}', value: 1}\n", name)
		}
	}
	return out.String()
}
