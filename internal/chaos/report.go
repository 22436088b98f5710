package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// maxListed bounds the violations that a report lists.
const maxListed = 20

// Report is what came of a run.
type Report struct {
	Profile  Profile
	Name     string
	Database string
	Workers  int
	Seed     uint64
	Events   int // to be posted
	Seconds  float64

	ViolationCount int
	Violations     []string // the first of them

	names  []string // of the counts, in the order in which they were first counted
	counts map[string]float64
	proofs []string
}

func newReport(r *run, p profile) *Report {
	report := &Report{
		Profile: r.Profile, Name: r.Name, Database: r.Dialect, Workers: r.Workers, Seed: r.Seed, Events: r.Events,
		Violations: []string{}, counts: map[string]float64{},
	}
	verdicts, proofs := p.counters()
	report.proofs = proofs
	for _, name := range slices.Concat(verdicts, proofs) {
		report.count(name, 0)
	}
	return report
}

// count adds to what the run brought about.
func (r *Report) count(name string, n int) { r.measure(name, r.counts[name]+float64(n)) }

// measure sets a number.
func (r *Report) measure(name string, value float64) {
	if _, known := r.counts[name]; !known {
		r.names = append(r.names, name)
	}
	r.counts[name] = value
}

// violate counts what the engine did wrong under a verdict.
func (r *Report) violate(verdict, format string, args ...any) {
	r.count(verdict, 1)
	if r.ViolationCount++; len(r.Violations) < maxListed {
		r.Violations = append(r.Violations, verdict+": "+fmt.Sprintf(format, args...))
	}
}

// Count returns a number of the report.
func (r *Report) Count(name string) float64 { return r.counts[name] }

// Unproven names the counters of a storm that stayed at zero: what they count did not happen, so the run shows
// nothing about it.
func (r *Report) Unproven() []string {
	return slices.DeleteFunc(slices.Clone(r.proofs), func(name string) bool { return r.counts[name] > 0 })
}

// MarshalJSON writes all numbers side by side.
func (r *Report) MarshalJSON() ([]byte, error) {
	all := map[string]any{
		"profile": r.Profile, "name": r.Name, "database": r.Database, "workers": r.Workers, "seed": r.Seed, "events": r.Events,
		"seconds": r.Seconds, "violation_count": r.ViolationCount, "violations": r.Violations,
	}
	for name, n := range r.counts {
		all[name] = n
	}
	return json.Marshal(all)
}

// Table writes reports side by side.
func Table(w io.Writer, reports []*Report) error {
	if len(reports) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(*Report) any) {
		fmt.Fprintf(t, "%s\t", name)
		for _, r := range reports {
			fmt.Fprintf(t, "%v\t", value(r))
		}
		fmt.Fprintln(t)
	}
	row("", func(r *Report) any { return r.Name })
	row("database", func(r *Report) any { return r.Database })
	row("processes", func(r *Report) any { return r.Workers })
	row("events", func(r *Report) any { return r.Events })
	row("violations", func(r *Report) any { return r.ViolationCount })
	var names []string
	for _, r := range reports {
		for _, name := range r.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
				row(name, func(r *Report) any { return r.counts[name] })
			}
		}
	}
	row("duration", func(r *Report) any { return fmt.Sprintf("%.1fs", r.Seconds) })
	return t.Flush()
}
