package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Channel is how a channel is at a scrape.
type Channel struct {
	Name     string // kind:name
	Open     bool   // its breaker is not closed
	InFlight int    // requests in flight
}

// channelGauges are read from memory at every scrape.
type channelGauges struct {
	read           func() []Channel
	names          *names
	open, inFlight *prometheus.Desc
}

func newChannelGauges(read func() []Channel, names *names) *channelGauges {
	desc := func(m Metric) *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }
	return &channelGauges{read, names, desc(channelOpen()), desc(channelInFlight())}
}

// Describe implements prometheus.Collector.
func (g *channelGauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.open
	ch <- g.inFlight
}

// Collect implements prometheus.Collector. One open breaker among several of one name shows.
func (g *channelGauges) Collect(ch chan<- prometheus.Metric) {
	open, inFlight := map[string]float64{}, map[string]float64{}
	for _, c := range g.read() {
		name := g.names.bound(c.Name)
		inFlight[name] += float64(c.InFlight)
		if c.Open {
			open[name] = 1
		}
	}
	for name, n := range inFlight {
		ch <- prometheus.MustNewConstMetric(g.open, prometheus.GaugeValue, open[name], name)
		ch <- prometheus.MustNewConstMetric(g.inFlight, prometheus.GaugeValue, n, name)
	}
}
