package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/internal/reason"
)

// Database is what a scrape reads of the database.
type Database struct {
	Pool Pool
	// The rest is read by queries, and missing when these fail.
	DueRecords, DueInstances, DueDeliveries int64
	DueItems, OverdueRuns                   int64
	RunsStand                               time.Duration  // since a run that is under way advanced; 0: none is
	Canary                                  *time.Duration // since a provider accepted a message to the canary; nil: there is none
	OldestDue                               time.Duration
	Waiting                                 []Waiting // of the due deliveries
	Held, Unknown                           int64
	Copied                                  bool // nothing is sent: the database is a copy that nobody has accepted
	Paused, Braked, Parked                  int64
	Definitions                             map[string]int64 // number of the set in force by workspace
	Sinks                                   []Sink           // those that ever had events
}

// Sink is what is known of a sink.
type Sink struct {
	Workspace, Name string
	Pending, Dead   int64
	Active          bool
	Failing         time.Duration // since the first failure after the last success; 0: its last try succeeded
}

// Waiting is how many deliveries of a channel could have left and have not, for one reason.
type Waiting struct {
	Channel string
	Reason  reason.Reason // "": nothing but its turn
	N       int64
	Oldest  time.Duration
}

// Pool is the state of the connections, which is known without asking.
type Pool struct {
	Open, InUse, Max int
	Waits            int64
	Waited           time.Duration
}

// gauges are read at the scrape, at most once in gaugesFor. A database that does not answer makes carillon_database_up
// 0 and leaves the other gauges out: an old number would be taken for a fresh one.
type gauges struct {
	read  func(context.Context) (Database, error)
	now   func() time.Time
	descs map[string]*prometheus.Desc
	names *names
	// sinkNames bounds the names of sinks, those of all workspaces together.
	sinkNames *names
	label     func(reason.Reason) string

	mu   sync.Mutex
	at   time.Time
	last Database
	err  error
}

func newGauges(read func(context.Context) (Database, error), now func() time.Time, names, sinks *names, label func(reason.Reason) string) *gauges {
	g := &gauges{read: read, now: now, names: names, sinkNames: sinks, label: label, descs: map[string]*prometheus.Desc{}}
	for _, info := range gaugeTable() {
		g.descs[info.Name] = prometheus.NewDesc(info.Name, info.Help, info.Labels, nil)
	}
	return g
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	emit := func(info Metric, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if info.Kind == "counter" {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(g.descs[info.Name], kind, value, labels...)
	}
	d, err := g.current()
	emit(connections(), float64(d.Pool.Open), "open")
	emit(connections(), float64(d.Pool.InUse), "in_use")
	emit(connections(), float64(d.Pool.Max), "max")
	emit(connectionWaits(), float64(d.Pool.Waits))
	emit(connectionWaitSeconds(), d.Pool.Waited.Seconds())
	if err != nil {
		emit(databaseUp(), 0)
		return
	}
	emit(databaseUp(), 1)
	emit(due(), float64(d.DueRecords), "records")
	emit(due(), float64(d.DueInstances), "instances")
	emit(due(), float64(d.DueDeliveries), "deliveries")
	emit(due(), float64(d.DueItems), "items")
	emit(overdueRuns(), float64(d.OverdueRuns))
	emit(runsStand(), seconds(d.RunsStand))
	if d.Canary != nil {
		emit(canarySeconds(), seconds(*d.Canary))
	}
	emit(oldestDue(), seconds(d.OldestDue))
	g.waiting(d.Waiting, emit)
	emit(held(), float64(d.Held))
	emit(unknown(), float64(d.Unknown))
	copied := 0.0
	if d.Copied {
		copied = 1
	}
	emit(databaseCopied(), copied)
	emit(paused(), float64(d.Paused))
	emit(braked(), float64(d.Braked))
	emit(parkedRows(), float64(d.Parked))
	for workspace, number := range d.Definitions {
		emit(definitionsNumber(), float64(number), workspace)
	}
	g.sinks(d.Sinks, emit)
}

// waiting emits each pair of labels once: the channels beyond the bound share one name.
func (g *gauges) waiting(list []Waiting, emit func(Metric, float64, ...string)) {
	type labels struct{ channel, reason string }
	sum := map[labels]Waiting{}
	for _, w := range list {
		at := labels{g.names.bound(w.Channel), g.label(w.Reason)}
		w.N, w.Oldest = w.N+sum[at].N, max(w.Oldest, sum[at].Oldest)
		sum[at] = w
	}
	for at, w := range sum {
		emit(waitingDeliveries(), float64(w.N), at.channel, at.reason)
		emit(waitingOldest(), seconds(w.Oldest), at.channel, at.reason)
	}
}

// sinks emits each pair of labels once: the sinks beyond the bound share one name, are active while all of them are, and fail while one does.
func (g *gauges) sinks(list []Sink, emit func(Metric, float64, ...string)) {
	type labels struct{ workspace, sink string }
	sum := map[labels]Sink{}
	for _, k := range list {
		at := labels{k.Workspace, g.sinkNames.bound(k.Name)}
		if have, ok := sum[at]; ok {
			k.Pending, k.Dead, k.Active, k.Failing = k.Pending+have.Pending, k.Dead+have.Dead, k.Active && have.Active, max(k.Failing, have.Failing)
		}
		sum[at] = k
	}
	for at, k := range sum {
		emit(outboxEvents(), float64(k.Pending), at.workspace, at.sink, "pending")
		emit(outboxEvents(), float64(k.Dead), at.workspace, at.sink, "dead")
		active := 0.0
		if k.Active {
			active = 1
		}
		emit(sinkActive(), active, at.workspace, at.sink)
		emit(sinkFailing(), seconds(k.Failing), at.workspace, at.sink)
	}
}

func (g *gauges) current() (Database, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if age := now.Sub(g.at); g.at.IsZero() || age >= gaugesFor || age < 0 {
		ctx, cancel := context.WithTimeout(context.Background(), gaugesWithin)
		defer cancel()
		g.last, g.err = g.read(ctx)
		g.at = now
	}
	return g.last, g.err
}
