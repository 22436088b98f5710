package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// figures are rows per second by name; the n-th of every name were measured in the same round.
type figures map[string][]float64

// The names of what is measured.
const (
	expandPostgres = "expand postgres"
	sendPostgres   = "send postgres"
	cyclePostgres  = "cycle postgres"
	drainPostgres  = "drain postgres"
	drainRiver     = "river"
	expandSQLite   = "expand sqlite"
	sendSQLite     = "send sqlite"
	cycleSQLite    = "cycle sqlite"
)

// comparison is one row of the table: what is ours, a peer's and the limit's figure.
type comparison struct {
	id, what          string
	ours, peer, limit string
	target            string
}

func comparisons() []comparison {
	return []comparison{
		{"T3", "expand, PostgreSQL", expandPostgres, "", cyclePostgres, "≥ 0.8 × limit"},
		{"T4", "send, PostgreSQL", sendPostgres, drainRiver, drainPostgres, "≥ 1.1 × peer"},
		{"T13", "expand, SQLite", expandSQLite, "", cycleSQLite, "≥ 0.5 × limit"},
		{"T13", "send, SQLite", sendSQLite, "", cycleSQLite, "≥ 0.65 × limit"},
	}
}

// table is what is printed and written.
type table [][]string

func newTable(f figures) table {
	t := table{{"", "", "ours, rows/s", "peer, rows/s", "limit, rows/s", "ours ÷ peer", "ours ÷ limit", "target"}}
	for _, c := range comparisons() {
		if len(f[c.ours]) > 0 {
			t = append(t, []string{c.id, c.what, rate(f[c.ours]), rate(f[c.peer]), rate(f[c.limit]), ratio(f[c.ours], f[c.peer]), ratio(f[c.ours], f[c.limit]), c.target})
		}
	}
	return t
}

// rate is the median and the spread, in thousands.
func rate(all []float64) string { return spread(all, 1000, "%.1fk") }

// ratio compares round by round, so that load which met a whole round weighs on neither side.
func ratio(ours, theirs []float64) string {
	if len(theirs) == 0 {
		return "–"
	}
	all := make([]float64, len(ours))
	for i := range ours {
		all[i] = ours[i] / theirs[i]
	}
	return spread(all, 1, "%.2f")
}

func spread(all []float64, unit float64, format string) string {
	if len(all) == 0 {
		return "–"
	}
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	median := (all[(n-1)/2] + all[n/2]) / 2
	return fmt.Sprintf(format+" ("+format+"–"+format+")", median/unit, all[0]/unit, all[n-1]/unit)
}

// String is the table as Markdown, its columns aligned.
func (t table) String() string {
	width := make([]int, len(t[0]))
	for _, row := range t {
		for k, cell := range row {
			width[k] = max(width[k], len([]rune(cell)))
		}
	}
	var out strings.Builder
	for i, row := range t {
		for k, cell := range row {
			fmt.Fprintf(&out, "| %s%s ", cell, strings.Repeat(" ", width[k]-len([]rune(cell))))
		}
		out.WriteString("|\n")
		if i == 0 {
			for _, w := range width {
				out.WriteString("|" + strings.Repeat("-", w+2))
			}
			out.WriteString("|\n")
		}
	}
	return out.String()
}

// The page's table stands between these lines.
const (
	begin = "<!-- make bench writes from here -->\n"
	end   = "<!-- to here -->\n"
)

func (t table) writeInto(path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, found := bytes.Cut(page, []byte(begin))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(path, []byte(string(head)+begin+t.String()+end+string(tail)), 0o644)
}
