package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// figures are measured values by name; the n-th of every name were measured in the same round.
type figures map[string][]float64

// The names of what is measured.
const (
	expandPostgres  = "expand postgres"
	sendPostgres    = "send postgres"
	cyclePostgres   = "cycle postgres"
	drainPostgres   = "drain postgres"
	drainRiver      = "river"
	drainGraphile   = "graphile"
	expandSQLite    = "expand sqlite"
	sendSQLite      = "send sqlite"
	cycleSQLite     = "cycle sqlite"
	ingestOurs      = "ingest"
	ingestProbe     = "ingest probe"
	lateOurs        = "late"
	lateGraphile    = "late graphile"
	lateProbe       = "late probe"
	lateInRuns      = "late in runs"
	expandLimits    = "expand limits"
	oneLimited      = "one person"
	oneFree         = "one person, free"
	scanPostgres    = "scan postgres"
	readPostgres    = "read postgres"
	scanSQLite      = "scan sqlite"
	readSQLite      = "read sqlite"
	planPostgres    = "plan"
	movePostgres    = "move"
	changePostgres  = "change"
	copyPostgres    = "copy"
	editMany        = "many records"
	editFew         = "few records"
	claimFew        = "due among few"
	claimMany       = "due among many"
	churnDone       = "churned"
	churnSnapshot   = "churned, snapshot"
	claimTen        = "10"
	claimFull       = "500"
	leftAlone       = ", left alone"
	idleOurs        = "idle"
	idleRiver       = "idle river"
	idleServer      = "idle server"
	answersOurs     = "answers"
	dispatchOurs    = "dispatch"
	dispatchProbe   = "dispatch probe"
	courseMove      = "move course, "
	courseChange    = "change course, "
	inSecond        = "second round"
	inFifth         = "fifth round"
	courseWrites    = "record writes, "
	ofOneRule       = "1 rule"
	ofManyRules     = "50 rules"
	aCore           = " a core"
	courseEvaluated = "evaluated "
	courseClaimed   = "taken up "
	afterOne        = "after 1 round"
	afterMany       = "after 1000 rounds"
	castMany        = "many people"
	castFew         = "few people"
	castGroup       = ", a group"
	castAlone       = ", one cancelled"
	castCall        = ", cancelled"
	castLast        = ", last one after"
	digestRows      = "rows of a digest"
	digestMails     = "messages of a digest"
	digestProbe     = "rows of a digest, inserted"
	itemMany        = "an item to many people"
	itemFew         = "an item to few people"
	matchMany       = "70,000 topics"
	urgentFew       = "an urgent message among a thousand"
	urgentMany      = "an urgent message among many"
	matchFew        = "700 topics"
	clickOurs       = "clicks"
	bodiesOfText    = "bodies of text"
	bodiesEmpty     = "bodies of empty objects"
	bodiesNested    = "bodies of objects with one field"
	bodiesTaken     = ", taken"
	bodiesZipped    = ", compressed"
	bodiesInTurn    = ", one after the other"
	startReady      = "start"
	binarySize      = "binary"
	// cpuOf ends the name of the CPU time of a figure, in µs a row.
	cpuOf = " cpu"
)

// unit is how a kind of figure is written.
type unit struct {
	name   string
	size   float64
	format string
}

var (
	perSecond = unit{"k/s", 1000, "%.1f"}
	millis    = unit{"ms", 1, "%.1f"}
	ofACore   = unit{"% of a core", 1, "%.2f"}
	megabytes = unit{"MB", 1, "%.0f"}
	microsRow = unit{"µs", 1, "%.0f"}
	ratios    = unit{"", 1, "%.2f"}
	ofCPU     = unit{"/s of CPU", 1, "%.0f"}
)

// comparison is one row of the table: what is ours, a peer's and the limit's figure.
type comparison struct {
	id, what          string
	unit              unit
	ours, peer, limit string
	peerName          string
	target            string
}

func comparisons() []comparison {
	return []comparison{
		{"T1", "events in, 1000 a request", perSecond, per(ingestOurs, 1000), "", per(ingestProbe, 1000), "", "≥ 0.6 × limit"},
		{"T1", "events in, 100 a request", perSecond, per(ingestOurs, 100), "", per(ingestProbe, 100), "", "≥ 0.6 × limit"},
		{"T2", "events in, 1 a request", perSecond, per(ingestOurs, 1), "", per(ingestProbe, 1), "", "≥ 1.0 × limit"},
		{"T3", "expand, PostgreSQL", perSecond, expandPostgres, "", cyclePostgres, "", "≥ 0.8 × limit"},
		{"T3", "expand with limits, PostgreSQL", perSecond, expandLimits, "", cyclePostgres, "", "≥ 0.8 × limit"},
		{"T3", "events for one person with limits; limit: without", perSecond, oneLimited, "", oneFree, "", ""},
		{"T3", "a post of ten of these, p99; limit: without", millis, oneLimited + " p99", "", oneFree + " p99", "", ""},
		{"T4", "send, PostgreSQL", perSecond, sendPostgres, drainRiver, drainPostgres, "River", "≥ 1.1 × peer"},
		{"T4", "send, PostgreSQL", perSecond, sendPostgres, drainGraphile, "", "graphile-worker", ""},
		{"T6", "lateness at 100 due/s, p50", millis, lateOurs + " p50", lateGraphile + " p50", lateProbe + " p50", "graphile-worker", ""},
		{"T6", "lateness at 100 due/s, p99", millis, lateOurs + " p99", lateGraphile + " p99", lateProbe + " p99", "graphile-worker", "≤ 0.1 × peer, ≤ 5 × limit"},
		{"T7", "idle CPU, rows wait", ofACore, idleOurs, idleRiver, idleServer, "River", "≤ 1.0 × peer"},
		{"T8", "ten that are due, among those that wait, p50; limit: among 10,000", millis, claimMany + " p50", "", claimFew + " p50", "", "≤ 1.5 × limit"},
		{"T8", "the claim of these instances alone, p50", millis, claimMany + " " + ofInstances + " p50", "", claimFew + " " + ofInstances + " p50", "", "≤ 1.5 × limit"},
		claimAfter(churnDone, claimTen, ofInstances, "claim of ten instances after churn, p50; limit: in a database left alone", 1.5),
		claimAfter(churnDone, claimTen, ofDeliveries, "claim of ten deliveries after churn, p50", 1.5),
		claimAfter(churnDone, claimFull, ofInstances, "claim of 500 instances of a backlog after churn, p50", 1.5),
		claimAfter(churnSnapshot, claimTen, ofInstances, "claim of ten instances after churn under an open snapshot, p50", 6),
		claimAfter(churnSnapshot, claimTen, ofDeliveries, "claim of ten deliveries after churn under an open snapshot, p50", 6),
		claimAfter(churnSnapshot, claimFull, ofInstances, "claim of 500 instances of a backlog after churn under an open snapshot, p50", 6),
		{"T10", "ten conditions on each record, PostgreSQL", perSecond, scanPostgres, "", readPostgres, "", "≥ 0.5 × limit"},
		{"T10", "ten conditions on each record, SQLite", perSecond, scanSQLite, "", readSQLite, "", "≥ 0.5 × limit"},
		{"T10", "lateness during such runs, p99; limit: without", millis, lateInRuns + " p99", "", lateOurs + " p99", "", ""},
		{"T11", "the rows of a daily digest of 300 items in 300 topics; limit: INSERT of the same rows, a page after the other", perSecond, digestRows, "", digestProbe, "", "≥ 0.5 × limit"},
		{"T11", "its messages, read, written and sent", perSecond, digestMails, "", "", "", "≥ 0.72 k/s"},
		{"T12", "a broadcast by the program itself, from the request to the last message; limit: to a tenth of the people", perSecond, castMany, "", castFew, "", ""},
		{"T12", "its memory meanwhile at most; limit: to a tenth of the people", megabytes, castMany + " memory", "", castFew + " memory", "", "≤ 1.5 × limit, ≤ 150 MB"},
		{"T12", "the call that cancels it in the middle; limit: a tenth of the people", millis, castMany + castCall, "", castFew + castCall, "", ""},
		{"T12", "from that call to the last message that leaves", millis, castMany + castLast, "", castFew + castLast, "", ""},
		{"T12", "the call that cancels one delivery of it, p50", millis, castMany + castAlone + " p50", "", castFew + castAlone + " p50", "", "≤ 1.5 × limit"},
		{"T12", "an occasion for a group of 100 among so many people, from the request to the last message, p50", millis, castMany + castGroup + " p50", "", castFew + castGroup + " p50", "", "≤ 1.5 × limit"},
		{"T13", "expand, SQLite", perSecond, expandSQLite, "", cycleSQLite, "", "≥ 0.5 × limit"},
		{"T13", "send, SQLite", perSecond, sendSQLite, "", cycleSQLite, "", "≥ 0.65 × limit"},
		{"T15", "start to ready, empty SQLite", millis, startReady, "", "", "", "< 300 ms"},
		{"T15", "binary, stripped", megabytes, binarySize, "", "", "", "< 60 MB"},
		{"T16", "an edit plans one occasion a record, PostgreSQL; limit: one INSERT of the same rows", perSecond, planPostgres, "", copyPostgres, "", ""},
		{"T16", "an edit of the time of day moves them", perSecond, movePostgres, "", copyPostgres, "", ""},
		{"T16", "an edit of the offset withdraws them and plans them again", perSecond, changePostgres, "", copyPostgres, "", ""},
		{"T17", "an edit plans, by the program itself with its interface; limit: for a tenth of the records", perSecond, editMany, "", editFew, "", ""},
		{"T17", "its memory meanwhile at most; limit: for a tenth of the records", megabytes, editMany + " memory", "", editFew + " memory", "", "≤ 1.5 × limit"},
		{"T18", "answers to surveys with their outbox events, 1 a request; limit: one row inserted a request", perSecond, answersOurs, "", per(ingestProbe, 1), "", ""},
		{"T18", "outcomes to a webhook sink; limit: the same requests by a plain client", perSecond, dispatchOurs, "", dispatchProbe, "", ""},
		{"T19", "an edit of the time of day moves the message that waits of courses in their fifth round; limit: in their second", perSecond, courseMove + inFifth, "", courseMove + inSecond, "", "≥ 0.8 × limit"},
		{"T19", "an edit of the length of a round withdraws it and plans another one; limit: in their second", perSecond, courseChange + inFifth, "", courseChange + inSecond, "", "≥ 0.8 × limit"},
		{"T20", "record writes, 100 a call, each evaluated by 50 workflows with a course, by CPU time of both processes; limit: by one workflow", ofCPU, courseWrites + ofManyRules + aCore, "", courseWrites + ofOneRule + aCore, "", "≥ 450/s of CPU"},
		{"T21", "ten records evaluated, 1,000 rounds of their courses being over, p50; limit: one round", millis, courseEvaluated + afterMany + " p50", "", courseEvaluated + afterOne + " p50", "", "≤ 1.5 × limit"},
		{"T21", "ten messages of these courses taken up, p50; limit: one round", millis, courseClaimed + afterMany + " p50", "", courseClaimed + afterOne + " p50", "", "≤ 1.5 × limit"},
		{"T22", "an item to all subscribers of a topic, from its publication to the last message; limit: to a tenth of the people", perSecond, itemMany, "", itemFew, "", "≥ 0.8 × limit"},
		{"T23", "one-click unsubscribes, 1 a request; limit: one row inserted a request", perSecond, clickOurs, "", per(ingestProbe, 1), "", ""},
		{"T24", "an item is held against 70,000 topics, p50; limit: against 700", millis, matchMany + " p50", "", matchFew + " p50", "", "≤ 1.5 × limit"},
		{"T25", "an urgent message among many in line at 50/s, from its event to the provider's answer, p99; limit: among 1,000", millis, urgentMany + " p99", "", urgentFew + " p99", "", "≤ 4.0 × limit"},
		{"T26", "the people of a topic are moved to another one by a run; limit: UPDATE and INSERT of the same rows, a page after the other", perSecond, migrateOurs, "", migrateProbe, "", "≥ 0.3 × limit"},
		{"T26", "the run that takes it back", perSecond, migrateUndo, "", migrateProbe, "", "≥ 0.3 × limit"},
		{"T27", "messages of old runs of digests, thirty for each person, are deleted while events come", perSecond, purgeOurs, "", "", "", ""},
		{"T27", "events taken in and sent meanwhile; limit: alone", perSecond, purgeBeside, "", purgeAlone, "", "≥ 0.6 × limit"},
		bodiesAt("80 requests of 16.7 MB at once, of texts, memory at most; limit: one after the other", bodiesOfText, false),
		bodiesAt("of texts, compressed", bodiesOfText, true),
		bodiesAt("of nothing but {}", bodiesEmpty, false),
		bodiesAt("of nothing but {}, compressed", bodiesEmpty, true),
		bodiesAt("of nothing but {\"\":0}", bodiesNested, false),
		bodiesAt("of nothing but {\"\":0}, compressed", bodiesNested, true),
	}
}

// bodiesAt is the memory that many large requests take at once, beside that of the same requests one after the other.
func bodiesAt(what, name string, zipped bool) comparison {
	return comparison{"T28", what, megabytes, bodiesFigure(name, zipped, false), "", bodiesFigure(name, zipped, true), "", "≤ 1000 MB"}
}

// claimAfter is a claim after churn, beside the same in a database that was left alone.
func claimAfter(when, size, of, what string, target float64) comparison {
	name := when + " " + size + " " + of
	return comparison{"T9", what, millis, name + " p50", "", name + leftAlone + " p50", "", fmt.Sprintf("≤ %.1f × limit", target)}
}

// per is the name of a figure for n events a request.
func per(name string, n int) string { return fmt.Sprintf("%s %d", name, n) }

// ids are the rows that can be measured alone.
func ids() []string {
	var all []string
	for _, c := range comparisons() {
		all = append(all, c.id)
	}
	return slices.Compact(all)
}

// table is what is printed and written.
type table [][]string

const cpuTitle = "CPU time a row, in µs, of both processes together:"

// newReport is both tables: figures, and CPU time. Rows that were not measured are those of the page that it is written into.
func newReport(f found, page string) string {
	before, beforeCPU, _ := strings.Cut(page, cpuTitle)
	report := newTable(f).with(parseTable(before)).String()
	if t := cpuTable(f.figures).with(parseTable(beforeCPU)); len(t) > 1 {
		report += "\n" + cpuTitle + "\n\n" + t.String()
	}
	return report
}

// parseTable reads a table as it was written.
func parseTable(text string) (t table) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 3 || strings.HasPrefix(cells[1], "-") {
			continue
		}
		row := cells[1 : len(cells)-1]
		for k := range row {
			row[k] = strings.TrimSpace(row[k])
		}
		t = append(t, row)
	}
	return t
}

// with adds the rows of an older table of the same columns of which it has no newer ones, in the order of comparisons.
func (t table) with(older table) table {
	if len(older) == 0 || !slices.Equal(older[0], t[0]) {
		return t
	}
	name := func(id, what, peer string) string { return id + "|" + what + "|" + peer }
	rows := map[string][]string{}
	column := slices.Index(t[0], "peer")
	for _, row := range slices.Concat(older[1:], t[1:]) {
		peer, _, named := strings.Cut(row[column], ": ")
		if !named {
			peer = ""
		}
		rows[name(row[0], row[1], peer)] = row
	}
	merged := table{t[0]}
	for _, c := range comparisons() {
		if row, ok := rows[name(c.id, c.what, c.peerName)]; ok {
			merged = append(merged, row)
		}
	}
	return merged
}

func newTable(f found) table {
	t := table{{"", "", "unit", "ours", "peer", "limit", "ours ÷ peer", "ours ÷ limit", "target"}}
	for _, c := range comparisons() {
		ours := f.figures[c.ours]
		if len(ours) == 0 {
			continue
		}
		peer := spread(f.figures[c.peer], c.unit)
		if c.peerName != "" {
			if why := f.why[c.peerName]; why != "" {
				peer = why
			}
			peer = c.peerName + ": " + peer
		}
		t = append(t, []string{
			c.id, c.what, c.unit.name, spread(ours, c.unit), peer, spread(f.figures[c.limit], c.unit),
			ratio(ours, f.figures[c.peer]), ratio(ours, f.figures[c.limit]), c.target,
		})
	}
	return t
}

func cpuTable(f figures) table {
	t := table{{"", "", "ours", "peer", "limit", "ours ÷ peer", "ours ÷ limit"}}
	for _, c := range comparisons() {
		ours, peer, limit := f[c.ours+cpuOf], f[c.peer+cpuOf], f[c.limit+cpuOf]
		if len(ours) == 0 {
			continue
		}
		what, name := c.what, spread(peer, microsRow)
		if c.peerName != "" {
			name = c.peerName + ": " + name
		}
		t = append(t, []string{c.id, what, spread(ours, microsRow), name, spread(limit, microsRow), ratio(ours, peer), ratio(ours, limit)})
	}
	return t
}

// ratio compares round by round, so that load which met a whole round weighs on neither side.
func ratio(ours, theirs []float64) string {
	all := make([]float64, 0, len(ours))
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] > 0 {
			all = append(all, ours[i]/theirs[i])
		}
	}
	return spread(all, ratios)
}

// spread is the median, and the lowest and the highest.
func spread(all []float64, u unit) string {
	if len(all) == 0 {
		return "–"
	}
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	median := (all[(n-1)/2] + all[n/2]) / 2
	if all[0] == all[n-1] {
		return fmt.Sprintf(u.format, median/u.size)
	}
	return fmt.Sprintf(u.format+" ("+u.format+"–"+u.format+")", median/u.size, all[0]/u.size, all[n-1]/u.size)
}

// median is that of durations, in milliseconds.
func median(all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2].Seconds() * 1000
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

// The page's tables stand between these lines.
const (
	begin = "<!-- make bench writes from here -->\n"
	end   = "<!-- to here -->\n"
)

// writeInto writes the tables of a page again, but for the rows that were not measured.
func writeInto(path string, f found) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, opened := bytes.Cut(page, []byte(begin))
	old, tail, closed := bytes.Cut(rest, []byte(end))
	if !opened || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(path, []byte(string(head)+begin+newReport(f, string(old))+end+string(tail)), 0o644)
}
