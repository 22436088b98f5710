package telemetry

// Metric describes one metric; the page docs/operate/metrics.md is made from these.
type Metric struct {
	Name   string
	Kind   string // counter, histogram or gauge
	Labels []string
	Help   string
}

// Table lists every metric of ours. Those of the Go runtime (go_*) and of the process (process_*) stand beside them.
func Table() []Metric {
	return append([]Metric{
		eventsTotal(), instancesTotal(), deliveriesTotal(), dispatchesTotal(), sendSeconds(), latenessSeconds(), subscriptionsStarted(), subscriptionsEnded(), repliesTotal(), requestsTotal(), requestSeconds(),
		channelOpen(), channelInFlight(),
	}, append(gaugeTable(), buildInfo())...)
}

func eventsTotal() Metric {
	return Metric{"carillon_events_total", "counter", []string{"outcome", "reason"}, "Events that were taken in or refused."}
}

func instancesTotal() Metric {
	return Metric{
		"carillon_instances_total", "counter",
		[]string{"workflow", "what", "reason"},
		"What happened to instances: created, skipped, expanded, held, cancelled and so on.",
	}
}

func deliveriesTotal() Metric {
	return Metric{
		"carillon_deliveries_total", "counter",
		[]string{"channel", "what", "reason"},
		"What happened to deliveries: planned, skipped, deferred, sent, retried, failed, unknown, reclaimed, stale_refused and so on.",
	}
}

func dispatchesTotal() Metric {
	return Metric{
		"carillon_dispatches_total", "counter",
		[]string{"sink", "what", "reason"},
		"What became of tries to hand outcomes to sinks: dispatched, dispatch_failed, dead and stale_refused.",
	}
}

func outboxEvents() Metric {
	return Metric{
		"carillon_outbox_events", "gauge",
		[]string{"workspace", "sink", "status"},
		"Outbox events of a sink that it has not got yet (pending), and those that no try follows for (dead); each counted up to 100,000.",
	}
}

func sinkActive() Metric {
	return Metric{"carillon_sink_active", "gauge", []string{"workspace", "sink"}, "1 while events of a sink leave, 0 while it is paused or disabled."}
}

func sinkFailing() Metric {
	return Metric{
		"carillon_sink_failing_seconds", "gauge",
		[]string{"workspace", "sink"},
		"How long the sink has been failing: since the first failure after its last success, also while it is paused or disabled; 0 when its last try succeeded.",
	}
}

func sendSeconds() Metric {
	return Metric{"carillon_send_seconds", "histogram", []string{"channel"}, "How long providers took to answer, refusals and silence included."}
}

func latenessSeconds() Metric {
	return Metric{
		"carillon_lateness_seconds", "histogram",
		[]string{"channel"},
		"From the instant from which a message could have left until it was handed to the provider, in each try.",
	}
}

func subscriptionsStarted() Metric {
	return Metric{"carillon_subscriptions_started_total", "counter", []string{"source"}, "Subscriptions that began, by how."}
}

func subscriptionsEnded() Metric {
	return Metric{"carillon_subscriptions_ended_total", "counter", []string{"reason"}, "Subscriptions that ended, by their end_reason."}
}

func repliesTotal() Metric {
	return Metric{"carillon_replies_total", "counter", []string{"channel", "reason"}, "Replies of people that were handed in, by the reason for which one changes nothing."}
}

func requestsTotal() Metric {
	return Metric{"carillon_http_requests_total", "counter", []string{"route", "status"}, "Requests that were answered."}
}

func requestSeconds() Metric {
	return Metric{"carillon_http_request_seconds", "histogram", []string{"route"}, "How long requests took."}
}

func buildInfo() Metric {
	return Metric{"carillon_build_info", "gauge", []string{"version", "go"}, "1, with the version of the program."}
}

func databaseUp() Metric {
	return Metric{"carillon_database_up", "gauge", nil, "Whether the database answered the scrape; without it the gauges below are absent."}
}

func due() Metric {
	return Metric{"carillon_due", "gauge", []string{"kind"}, "Records to be evaluated, items whose topics are to be found, and instances and deliveries that could have been sent: those in flight are included, and those that a retry or their channel delays. Counted up to 100,000."}
}

func overdueRuns() Metric {
	return Metric{"carillon_digest_runs_overdue", "gauge", nil, "Runs of digests that began more than two hours ago and are not over: some of their messages do not exist yet, or wait. Counted up to 100,000."}
}

func runsStand() Metric {
	return Metric{"carillon_runs_standing_seconds", "gauge", nil, "While runs over many rows are under way: how long ago one of them advanced last; 0 when none is under way."}
}

func canarySeconds() Metric {
	return Metric{"carillon_canary_seconds", "gauge", nil, "How long ago a provider accepted a message to the contact of --canary; before the first one, since this process began. Absent without --canary."}
}

func oldestDue() Metric {
	return Metric{"carillon_oldest_due_seconds", "gauge", nil, "How long the oldest of these has been waiting; 0 when none is."}
}

func waitingDeliveries() Metric {
	return Metric{
		"carillon_waiting", "gauge",
		[]string{"channel", "reason"},
		"The due deliveries by channel and by what delayed them last; an empty reason: nothing but their turn. Absent where there are none. Of those that nothing delayed the oldest 10,000 are counted.",
	}
}

func waitingOldest() Metric {
	return Metric{"carillon_waiting_oldest_seconds", "gauge", []string{"channel", "reason"}, "How long the oldest of these has been waiting."}
}

func held() Metric {
	return Metric{"carillon_held", "gauge", nil, "Instances that wait for a person, without those of paused workflows, counted up to 100,000."}
}

func unknown() Metric {
	return Metric{"carillon_unknown", "gauge", nil, "Deliveries whose outcome is unknown, counted up to 100,000."}
}

func databaseCopied() Metric {
	return Metric{"carillon_database_copied", "gauge", nil, "1 when the database is a copy that nobody has accepted: nothing is sent."}
}

func paused() Metric {
	return Metric{"carillon_paused_workflows", "gauge", nil, "Workflows that are paused, by a person or by their own brake."}
}

func braked() Metric {
	return Metric{"carillon_braked_workflows", "gauge", nil, "Of these, workflows that their own brake has paused: they have sent as many messages in an hour as max_sends_per_hour allows."}
}

func parkedRows() Metric {
	return Metric{"carillon_parked", "gauge", nil, "Instances and deliveries that came due while their workflow was paused, each counted up to 100,000."}
}

func definitionsNumber() Metric {
	return Metric{"carillon_definitions_number", "gauge", []string{"workspace"}, "The number of the definition set in force."}
}

func connections() Metric {
	return Metric{"carillon_database_connections", "gauge", []string{"state"}, "Connections to the database: open, in_use, and the most there may be (max)."}
}

func connectionWaits() Metric {
	return Metric{"carillon_database_waits_total", "counter", nil, "How often work had to wait for a connection."}
}

func connectionWaitSeconds() Metric {
	return Metric{"carillon_database_wait_seconds_total", "counter", nil, "How long it waited in all."}
}

func channelOpen() Metric {
	return Metric{"carillon_channel_breaker_open", "gauge", []string{"channel"}, "1 while the process leaves the channel's provider alone because it is away, until it is known to be back; channels in use alone."}
}

func channelInFlight() Metric {
	return Metric{"carillon_channel_in_flight", "gauge", []string{"channel"}, "Requests of the process that are in flight."}
}

func gaugeTable() []Metric {
	return []Metric{
		connections(), connectionWaits(), connectionWaitSeconds(), databaseUp(), due(), oldestDue(), overdueRuns(), runsStand(), canarySeconds(), waitingDeliveries(), waitingOldest(), held(), unknown(), paused(), braked(), parkedRows(), databaseCopied(),
		definitionsNumber(), outboxEvents(), sinkActive(), sinkFailing(),
	}
}
