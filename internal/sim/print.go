package sim

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
)

const (
	lineColumn = 64 // where "line 57" begins, when the row leaves room
	maxColumn  = 80
	shownRows  = 20 // of a list that is only counted
	longText   = 32 // characters from which a text is shown line by line
)

// printer writes results as people read them. Colour only repeats what a sign says.
type printer struct {
	w      io.Writer
	colour bool
	all    bool // every step that differs, not only the first
}

// summary writes the line of one scenario.
func (p printer) summary(name string, r Result) {
	status, paint := "ok", ""
	if !r.Held() {
		status, paint = "FAIL", red
	}
	fmt.Fprintf(p.w, "%s%-32s %8s %11s in %3d ms\n",
		p.paint(fmt.Sprintf("%-6s", status), paint), name, steps(len(r.steps)), formatSpan(r.Span()), r.Took.Milliseconds())
}

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// failure writes where a scenario differs.
func (p printer) failure(name string, r Result) {
	var wrong []stepResult
	for _, s := range r.steps {
		if !s.held() {
			wrong = append(wrong, s)
		}
	}
	shown := wrong[:1]
	if p.all {
		shown = wrong
	}
	for _, s := range shown {
		fmt.Fprintln(p.w)
		p.step(name, r, s)
	}
	if rest := wrong[len(shown):]; len(rest) > 0 {
		rows, where := 0, make([]string, len(rest))
		for i, s := range rest {
			rows += s.differences()
			where[i] = strconv.Itoa(s.number)
		}
		plural, noun := "rows differ", "steps"
		if rows == 1 {
			plural = "row differs"
		}
		if len(rest) == 1 {
			noun = "step"
		}
		fmt.Fprintf(p.w, "    Later steps were run: %d more %s in %s %s (--all shows them).\n", rows, plural, noun, strings.Join(where, ", "))
	}
	fmt.Fprintln(p.w)
}

func (p printer) step(name string, r Result, s stepResult) {
	zone := r.Scenario.Zone
	at := s.At.In(zone).Format("2006-01-02 15:04")
	if s.At.Second() != 0 {
		at = s.At.In(zone).Format(time.DateTime)
	}
	fmt.Fprintf(p.w, "  %s:%d  step %d, %s %s\n", name, s.pos.Line, s.number, at, zone)
	if s.Note != "" {
		for _, line := range wrapped("  "+strings.Join(strings.Fields(s.Note), " "), 2) {
			fmt.Fprintln(p.w, line)
		}
	}
	fmt.Fprintln(p.w)
	for _, o := range s.outcomes {
		if !o.held {
			p.outcome(o, s.Step, zone)
		}
	}
	for _, line := range idle(r, s) {
		fmt.Fprintln(p.w, line)
	}
	if why := because(r, s); len(why) > 0 {
		fmt.Fprintln(p.w)
		for _, line := range why {
			fmt.Fprintln(p.w, line)
		}
	}
}

// outcome writes one list that differs.
func (p printer) outcome(o outcome, s *Step, zone *time.Location) {
	name := o.spec.name
	if o.spec.state {
		name = "state " + name
	}
	line := o.pos.Line
	switch {
	case o.count >= 0:
		least := ""
		if o.partial {
			least = "at least "
		}
		p.lined(fmt.Sprintf("    %s, expected %s%d, got %d", name, least, o.count, len(o.actual)), line)
		shown := o.actual
		if !p.all && len(shown) > shownRows {
			shown = shown[:shownRows]
		}
		for _, a := range shown {
			fmt.Fprintf(p.w, "        %s\n", strings.Join(extra(o, a, s, zone), "   "))
		}
		if rest := len(o.actual) - len(shown); rest > 0 {
			fmt.Fprintf(p.w, "        %d more (--all shows them)\n", rest)
		}
		return
	case len(o.rows) == 0:
		p.lined(fmt.Sprintf("    %s, expected none", name), line)
	default:
		fmt.Fprintf(p.w, "    %s\n", name)
	}
	wanted, seen := make([][]string, len(o.pairs)), make([][]string, len(o.pairs))
	for i, pr := range o.pairs {
		if pr.expected < 0 {
			wanted[i] = extra(o, o.actual[pr.actual], s, zone)
			continue
		}
		for k, f := range o.rows[pr.expected].fields {
			wanted[i] = append(wanted[i], f.name+": "+shortened(f.text, f.kind))
			if pr.sign == signChanged && k >= pr.wrong[0] {
				got := o.actual[pr.actual].shown(f.fieldSpec, s.At, zone)
				seen[i] = append(seen[i], f.name+": "+shortened(got, f.kind))
			}
		}
	}
	widths := columnWidths(slices.Concat(wanted, seen))
	for i, pr := range o.pairs {
		text := p.painted("      "+string(pr.sign)+" "+padded(wanted[i], widths), pr.sign)
		switch pr.sign {
		case signKept:
			fmt.Fprintln(p.w, text)
		case signMissing:
			p.lined(text, o.rows[pr.expected].pos.Line)
		case signExtra:
			fmt.Fprintln(p.w, text)
			fmt.Fprintln(p.w, "        not expected")
		case signChanged:
			fmt.Fprintln(p.w, text)
			same := len(wanted[i]) - len(seen[i])
			gap := utf8.RuneCountInString(padded(append(wanted[i][:same:same], ""), widths))
			p.seen(o.rows[pr.expected], o.actual[pr.actual], pr.wrong, strings.Repeat(" ", 8+gap)+padded(seen[i], widths))
		}
	}
}

// seen writes, below an expected row, what was seen in its place: the line of the values, unless only texts differ,
// and these line by line.
func (p printer) seen(want expectedRow, got row, wrong []int, values string) {
	line := want.pos.Line
	if slices.ContainsFunc(wrong, func(i int) bool { return !want.fields[i].isBody(got) }) {
		p.lined(values, line)
		line = 0
	}
	for _, i := range wrong {
		if f := want.fields[i]; f.isBody(got) {
			p.body(f, got.cells[f.of].text, line)
			line = 0
		}
	}
}

// body writes how a text differs.
func (p printer) body(f field, got string, line int) {
	var lines []string
	switch f.kind {
	case fieldHas:
		p.lined("        "+f.name+", of", line)
		for _, part := range f.parts {
			if !strings.Contains(got, part) {
				lines = append(lines, signed("- ", strings.Split(part, "\n"))...)
			}
		}
		lines = append(lines, signed("  ", strings.Split(got, "\n"))...)
	case fieldMatches:
		p.lined("        "+f.name+", of", line)
		lines = append(signed("- ", strings.Split(f.text, "\n")), signed("  ", strings.Split(got, "\n"))...)
	case fieldText, fieldName, fieldPerson, fieldChannel, fieldNumber, fieldInstant, fieldLength, fieldSections, fieldHeaders, fieldAnswers:
		p.lined("        "+f.name, line)
		lines = diffLines(f.text, got)
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	for _, line := range lines {
		fmt.Fprintln(p.w, strings.TrimRight("          "+line, " "))
	}
}

// isBody reports whether a difference of the field is shown line by line.
func (f field) isBody(got row) bool {
	switch f.kind {
	case fieldHas, fieldMatches, fieldSections, fieldHeaders, fieldAnswers:
		return true
	case fieldText:
		text := got.cells[f.of].text
		return utf8.RuneCountInString(f.text) > longText || utf8.RuneCountInString(text) > longText ||
			strings.Contains(f.text+text, "\n") || visible(f.text) != f.text || visible(text) != text
	case fieldName, fieldPerson, fieldChannel, fieldNumber, fieldInstant, fieldLength:
	}
	return false
}

// extra returns an unexpected row: the fields that the list's first row names, else its most informative fields, and the beginning of a
// message's text.
func extra(o outcome, a row, s *Step, zone *time.Location) []string {
	names := o.spec.show
	if len(o.rows) > 0 {
		names = nil
		for _, f := range o.rows[0].fields {
			names = append(names, f.name)
		}
	}
	var cells []string
	hasText := false
	for _, name := range names {
		f := o.spec.field(name)
		if f.kind == fieldHas || f.kind == fieldMatches {
			continue
		}
		hasText = hasText || f.of == "text" || f.of == "subject"
		if value := a.shown(f, s.At, zone); value != "" && (value != "none" || len(o.rows) > 0) {
			cells = append(cells, name+": "+shortened(value, f.kind))
		}
	}
	begin := a.cells["subject"].text
	if begin == "" {
		begin = strings.TrimSpace(a.cells["text"].text)
	}
	if begin != "" && !hasText && o.spec.has("text") {
		cells = append(cells, strconv.Quote(shortened(begin, fieldText)))
	}
	return cells
}

func (l listSpec) has(name string) bool {
	return slices.ContainsFunc(l.fields, func(f fieldSpec) bool { return f.name == name })
}

func (l listSpec) field(name string) fieldSpec {
	i := slices.IndexFunc(l.fields, func(f fieldSpec) bool { return f.name == name })
	return l.fields[i]
}

// shown writes an observed value.
func (r row) shown(f fieldSpec, base time.Time, zone *time.Location) string {
	switch c := r.cells[f.of]; {
	case c.timed:
		return formatInstant(c.at, base, zone)
	case f.kind == fieldChannel:
		return shortChannel(c.text)
	case f.kind == fieldName:
		return c.name()
	default:
		return c.text
	}
}

// shortened keeps a row of texts on one line: the first line, or its beginning.
func shortened(s string, kind fieldKind) string {
	switch kind {
	case fieldText, fieldHas, fieldMatches, fieldSections, fieldHeaders, fieldAnswers:
	case fieldName, fieldPerson, fieldChannel, fieldNumber, fieldInstant, fieldLength:
		return s
	}
	first, _, more := strings.Cut(s, "\n")
	if r := []rune(first); len(r) > longText && strings.Contains(first, " ") {
		return string(r[:longText-1]) + "…"
	}
	if more {
		return first + "…"
	}
	return first
}

// columnWidths returns the widest cell of every field name.
func columnWidths(table [][]string) map[string]int {
	widths := map[string]int{}
	for _, cells := range table {
		for _, c := range cells {
			name, _, _ := strings.Cut(c, ":")
			widths[name] = max(widths[name], utf8.RuneCountInString(c))
		}
	}
	return widths
}

func padded(cells []string, widths map[string]int) string {
	var b strings.Builder
	for i, c := range cells {
		if i > 0 {
			b.WriteString("   ")
		}
		b.WriteString(c)
		name, _, _ := strings.Cut(c, ":")
		if n := widths[name] - utf8.RuneCountInString(c); n > 0 && i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", n))
		}
	}
	return b.String()
}

// lined writes a line with the number of the file's line at its right.
func (p printer) lined(text string, line int) {
	if line == 0 {
		fmt.Fprintln(p.w, strings.TrimRight(text, " "))
		return
	}
	gap := max(3, lineColumn-utf8.RuneCountInString(plain(text)))
	fmt.Fprintf(p.w, "%s%sline %d\n", text, strings.Repeat(" ", gap), line)
}

// because returns the journal's decisions about the first wrong row.
func because(r Result, s stepResult) []string {
	for _, o := range s.outcomes {
		for _, pr := range o.pairs {
			if pr.sign == signKept {
				continue
			}
			about, who := concerned(r, s, o, pr)
			if who == "" {
				return nil
			}
			if len(about) == 0 {
				return []string{fmt.Sprintf("    why %s   the journal has nothing about it up to here", who)}
			}
			return reasons(r, s, about, who)
		}
	}
	return nil
}

// idle returns lines about the events since the step above that had no effect: duplicates, or events that no workflow matched.
func idle(r Result, s stepResult) (lines []string) {
	for _, e := range r.Journal[s.from:s.to] {
		var text string
		switch {
		case e.What == journal.NoMatch && e.Kind != "":
			text = "event " + e.Kind
		case e.What == journal.Skipped && e.Reason == reason.Duplicate && e.Delivery == 0:
			text = "workflow " + e.Workflow
		default:
			continue
		}
		text = fmt.Sprintf("    made nothing   %s %s, %s: %s", formatInstant(e.At, s.At, r.Scenario.Zone), text, e.Reason, e.Reason.Sentence())
		if len(lines) == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, wrapped(text, len("    made nothing   "))...)
		if len(lines) > idleLines {
			return append(lines, "    …")
		}
	}
	return lines
}

// idleLines bounds the lines about events without effect.
const idleLines = 8

// concerned returns the entries about the row of a pair and the name by which it is called.
func concerned(r Result, s stepResult, o outcome, pr pair) (about []journal.Entry, who string) {
	known := r.Journal[:s.to]
	if pr.actual >= 0 && o.actual[pr.actual].known() {
		a := o.actual[pr.actual]
		for _, e := range known {
			if a.delivery != 0 && int64(e.Delivery) == a.delivery || a.instance != 0 && e.Delivery == 0 && int64(e.Instance) == a.instance {
				about = append(about, e)
			}
		}
		who = a.cells["to"].text
		if who == "" {
			who = a.cells["workflow"].text
		}
		return about, who
	}
	want := expectedRow{}
	if pr.expected >= 0 {
		want.fields = o.rows[pr.expected].fields
	} else {
		a := o.actual[pr.actual]
		for _, name := range []string{"to", "workflow"} {
			if text := a.cells[name].text; text != "" {
				want.fields = append(want.fields, field{fieldSpec: fieldSpec{name, fieldText, name}, text: text})
			}
		}
	}
	want.fields = slices.DeleteFunc(slices.Clone(want.fields), func(f field) bool {
		return f.of != "to" && f.of != "workflow" && f.of != "channel" && f.of != "key"
	})
	for _, f := range want.fields {
		if f.of == "to" || who == "" {
			who = f.text
		}
	}
	for _, e := range known {
		if len(want.differing(entryRow(e))) == 0 {
			about = append(about, e)
		}
	}
	return about, who
}

// reasonLines is how many decisions a failure shows.
const reasonLines = 4

func reasons(r Result, s stepResult, about []journal.Entry, who string) []string {
	if len(about) > reasonLines {
		about = about[len(about)-reasonLines:]
	}
	head := "    why " + who
	var lines []string
	for i, e := range about {
		text := fmt.Sprintf("%s   %s %s", head, formatInstant(e.At, s.At, r.Scenario.Zone), e.What)
		if e.Attempt > 0 {
			text += fmt.Sprintf(", attempt %d", e.Attempt)
		}
		if e.Until.After(e.At) {
			text += ", next " + formatInstant(e.Until, s.At, r.Scenario.Zone)
		}
		if e.Reason != "" {
			text += fmt.Sprintf(", %s: %s", e.Reason, e.Reason.Sentence())
		}
		if waits := s.waits[int64(e.Delivery)]; e.What == journal.Deferred && i == len(about)-1 && waits != "" {
			text += " (" + waits + ")"
		}
		if e.Error != "" {
			text += " (" + strings.TrimPrefix(e.Error, string(e.Reason)+": ") + ")"
		}
		lines = append(lines, wrapped(text, utf8.RuneCountInString(head)+3)...)
		head = strings.Repeat(" ", utf8.RuneCountInString(head))
	}
	return lines
}

// wrapped breaks a line at blanks, the rest under the given column.
func wrapped(text string, column int) []string {
	var lines []string
	for utf8.RuneCountInString(text) > maxColumn {
		r := []rune(text)
		at := maxColumn
		for at > column && r[at] != ' ' {
			at--
		}
		if at == column {
			break
		}
		lines = append(lines, string(r[:at]))
		text = strings.Repeat(" ", column) + strings.TrimLeft(string(r[at:]), " ")
	}
	return append(lines, text)
}

// The colours of a terminal.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

func (p printer) paint(text, colour string) string {
	if !p.colour || colour == "" {
		return text
	}
	return colour + text + reset
}

// painted gives a row the colour of its sign.
func (p printer) painted(text string, s sign) string {
	text = strings.TrimRight(text, " ")
	switch s {
	case signMissing:
		return p.paint(text, red)
	case signExtra:
		return p.paint(text, green)
	case signChanged:
		return p.paint(text, yellow)
	case signKept:
	}
	return text
}

// plain is the text without its colours.
func plain(text string) string {
	return strings.NewReplacer(red, "", green, "", yellow, "", reset, "").Replace(text)
}
