package chaos

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// maxListed bounds the violations that a report lists.
const maxListed = 20

// Report is what came of a run.
type Report struct {
	Name     string  `json:"name"`
	Database string  `json:"database"`
	Workers  int     `json:"workers"`
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"`

	// The verdict, from the poster's and the provider's logs.
	Events   int `json:"events"`
	Acked    int `json:"acked"`
	Messages int `json:"messages"` // that the acknowledged events stand for
	Accepted int `json:"accepted"` // keys
	Lost     int `json:"lost"`
	Doubled  int `json:"doubled"`

	// What the run brought about.
	Repeats      int `json:"repeats"`       // requests that the provider knew by their key
	Kills        int `json:"kills"`         // or ends at a failpoint
	Freezes      int `json:"freezes"`       // longer than the lease
	Overtaken    int `json:"overtaken"`     // freezes during which somebody else sent again what the frozen one had sent
	OpenIntents  int `json:"open_intents"`  // requests of a killed worker whose outcome became unknown
	WorkerLost   int `json:"worker_lost"`   // attempts that ended so, for whatever reason
	Reclaimed    int `json:"reclaimed"`     // according to the journals
	StaleRefused int `json:"stale_refused"` // results that came too late
	StaleUnsent  int `json:"stale_unsent"`  // claims that were noticed to be over before they were sent
	ReplyLost    int `json:"reply_lost"`    // keys whose accepting reply was lost and that came again
	BrokenPosts  int `json:"broken_posts"`  // requests of the poster without an answer
	Skipped      int `json:"skipped"`       // events that were posted again and recognised
	OutOfOrder   int `json:"out_of_order"`  // requests that were answered 503 in an outage
	Silent       int `json:"silent"`        // requests that were not answered in an outage
	Rested       int `json:"rested"`        // messages that were put off by a breaker, each time

	// From the intent of a lost worker to its claim by another one, in seconds; the lease is 2 s.
	RecoveryP50 float64 `json:"recovery_p50"`
	RecoveryP99 float64 `json:"recovery_p99"`

	ViolationCount int      `json:"violation_count"`
	Violations     []string `json:"violations"` // the first of them
	Unfenced       int      `json:"unfenced"`   // of those: a late result was written over a newer one
}

func (r *Report) violate(format string, args ...any) {
	if r.ViolationCount++; len(r.Violations) < maxListed {
		r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
	}
}

func (r *Report) unfence(format string, args ...any) {
	r.Unfenced++
	r.violate(format, args...)
}

// Unproven names the counters of a storm that stayed at zero: what they count did not happen, so the run shows
// nothing about it.
func (r *Report) Unproven() []string {
	var names []string
	for _, c := range []struct {
		name  string
		count int
	}{
		{"kills", r.Kills},
		{"freezes", r.Freezes},
		{"open_intents", r.OpenIntents},
		{"reclaimed", r.Reclaimed},
		{"stale_refused", r.StaleRefused},
		{"reply_lost", r.ReplyLost},
		{"repeats", r.Repeats},
		{"broken_posts", r.BrokenPosts},
		{"skipped", r.Skipped},
		{"out_of_order", r.OutOfOrder},
		{"silent", r.Silent},
		{"rested", r.Rested},
	} {
		if c.count == 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// Table writes reports side by side.
func Table(w io.Writer, reports []Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(Report) any) {
		fmt.Fprintf(t, "%s\t", name)
		for _, r := range reports {
			fmt.Fprintf(t, "%v\t", value(r))
		}
		fmt.Fprintln(t)
	}
	row("", func(r Report) any { return r.Name })
	row("database", func(r Report) any { return r.Database })
	row("processes", func(r Report) any { return r.Workers })
	row("events", func(r Report) any { return r.Events })
	row("acked", func(r Report) any { return r.Acked })
	row("messages", func(r Report) any { return r.Messages })
	row("accepted", func(r Report) any { return r.Accepted })
	row("lost", func(r Report) any { return r.Lost })
	row("doubled", func(r Report) any { return r.Doubled })
	row("violations", func(r Report) any { return r.ViolationCount })
	row("answered by key", func(r Report) any { return r.Repeats })
	row("kills", func(r Report) any { return r.Kills })
	row("freezes", func(r Report) any { return r.Freezes })
	row("overtaken", func(r Report) any { return r.Overtaken })
	row("open intents", func(r Report) any { return r.OpenIntents })
	row("reclaimed", func(r Report) any { return r.Reclaimed })
	row("stale refused", func(r Report) any { return r.StaleRefused })
	row("stale unsent", func(r Report) any { return r.StaleUnsent })
	row("reply lost", func(r Report) any { return r.ReplyLost })
	row("posts broken", func(r Report) any { return r.BrokenPosts })
	row("posts known", func(r Report) any { return r.Skipped })
	row("out of order", func(r Report) any { return r.OutOfOrder })
	row("silent", func(r Report) any { return r.Silent })
	row("rested", func(r Report) any { return r.Rested })
	row("recovery p50", func(r Report) any { return fmt.Sprintf("%.1fs", r.RecoveryP50) })
	row("recovery p99", func(r Report) any { return fmt.Sprintf("%.1fs", r.RecoveryP99) })
	row("duration", func(r Report) any { return fmt.Sprintf("%.1fs", r.Seconds) })
	return t.Flush()
}
