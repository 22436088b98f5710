package telemetry

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
)

const (
	// MaxNames bounds the values of a label that people choose, channels and workflows: the first so many have series of their own
	// apart, all further ones together are OtherName. Each value costs every series that carries the label.
	MaxNames = 100
	// OtherName stands for the names beyond MaxNames.
	OtherName = "other"
	// gaugesFor is how long what was read from the database is shown again: several scrapers cost no more than one.
	gaugesFor = 5 * time.Second
	// gaugesWithin bounds the reading, well inside the 10 s after which Prometheus gives a scrape up.
	gaugesWithin = 3 * time.Second
)

// MetricsOptions are what metrics are made of.
type MetricsOptions struct {
	Version string
	// Now is the process's time, by which gauges grow old.
	Now func() time.Time
	// Database reads the gauges; nil: there are none.
	Database func(context.Context) (Database, error)
	// Channels returns the channels in use; nil: they have no metrics. Several of one name count together.
	Channels func() []Channel
}

// Metrics counts journal entries, API requests, and rows of the database. It is safe for
// concurrent use. Reasons are labels only as they stand in package reason.
type Metrics struct {
	registry  *prometheus.Registry
	handler   http.Handler
	reasons   map[reason.Reason]bool
	channels  names
	workflows names
	sinks     names

	events, instances, deliveries, dispatches, requests, began, ended, replies *prometheus.CounterVec
	sendTook, lateness, requestTook                                            *prometheus.HistogramVec
}

// NewMetrics makes metrics with a registry of their own.
func NewMetrics(o MetricsOptions) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), reasons: map[reason.Reason]bool{"": true}}
	for _, info := range reason.All() {
		m.reasons[info.Reason] = true
	}
	counter := func(info Metric) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: info.Name, Help: info.Help}, info.Labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(info Metric, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: info.Name, Help: info.Help, Buckets: buckets}, info.Labels)
		m.registry.MustRegister(h)
		return h
	}
	m.events, m.instances, m.deliveries = counter(eventsTotal()), counter(instancesTotal()), counter(deliveriesTotal())
	m.sendTook = histogram(sendSeconds(), []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30})
	m.lateness = histogram(latenessSeconds(), []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400})
	m.dispatches = counter(dispatchesTotal())
	m.began, m.ended = counter(subscriptionsStarted()), counter(subscriptionsEnded())
	m.replies, m.requests = counter(repliesTotal()), counter(requestsTotal())
	m.requestTook = histogram(requestSeconds(), []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInfo().Name, Help: buildInfo().Help}, buildInfo().Labels)
	build.WithLabelValues(o.Version, runtime.Version()).Set(1)
	m.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.Database != nil {
		m.registry.MustRegister(newGauges(o.Database, o.Now, &m.channels, &m.sinks, m.reason))
	}
	if o.Channels != nil {
		m.registry.MustRegister(newChannelGauges(o.Channels, &m.channels))
	}
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 2 * gaugesWithin})
	return m
}

// ServeHTTP answers a scrape in Prometheus' text format.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Event counts what became of one event.
func (m *Metrics) Event(outcome string, why reason.Reason) {
	m.events.WithLabelValues(outcome, m.reason(why)).Inc()
}

// Write counts an entry of the journal; it is a journal.Writer.
func (m *Metrics) Write(e journal.Entry) {
	switch {
	case e.What == journal.Replied:
		m.replies.WithLabelValues(m.channels.bound(e.Channel), m.reason(e.Reason)).Inc()
	case e.Sink != "": // also of a delivery
		m.dispatches.WithLabelValues(m.sinks.bound(e.Sink), string(e.What), m.reason(e.Reason)).Inc()
	case e.Delivery != 0:
		channel := m.channels.bound(e.Channel)
		m.deliveries.WithLabelValues(channel, string(e.What), m.reason(e.Reason)).Inc()
		if !e.HandedAt.IsZero() {
			m.sendTook.WithLabelValues(channel).Observe(seconds(e.At.Sub(e.HandedAt)))
			m.lateness.WithLabelValues(channel).Observe(seconds(e.HandedAt.Sub(e.Eligible)))
		}
	case e.Instance != 0 || e.Record != "":
		m.instances.WithLabelValues(m.workflows.bound(e.Workflow), string(e.What), m.reason(e.Reason)).Add(float64(max(e.Count, 1)))
	}
	// What is left is about events, which Event counts with every outcome.
}

// Subscriptions counts subscriptions that began in some way, or ended for some reason; the other one of both is empty.
func (m *Metrics) Subscriptions(source, endReason string, n int) {
	if endReason != "" {
		m.ended.WithLabelValues(endReason).Add(float64(n))
	} else {
		m.began.WithLabelValues(source).Add(float64(n))
	}
}

// Request counts an answered request; route is the pattern that it matched, never its path.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	if route == "" {
		route = OtherName
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.requestTook.WithLabelValues(route).Observe(seconds(took))
}

// reason is a reason as a label.
func (m *Metrics) reason(r reason.Reason) string {
	if !m.reasons[r] {
		return OtherName
	}
	return string(r)
}

// seconds is a duration for a histogram; a clock that was set back makes none negative.
func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// names are the values of a label that people choose, the first MaxNames of them.
type names struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (n *names) bound(name string) string {
	n.mu.RLock()
	known, full := n.known[name], len(n.known) >= MaxNames
	n.mu.RUnlock()
	if known {
		return name
	}
	if full {
		return OtherName
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[string]bool{}
	}
	if len(n.known) >= MaxNames && !n.known[name] {
		return OtherName
	}
	n.known[name] = true
	return name
}
