package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition/portable"
)

// Update returns the text of the scenario's file with the expectations replaced by the observations. Comments stay, and rows keep the
// fields that they name. The error names the line that cannot be changed in place.
func Update(r Result) ([]byte, error) {
	u := updater{source: newSource(r.Scenario.text), zone: r.Scenario.Zone}
	for _, s := range r.steps {
		for _, o := range s.outcomes {
			if o.held {
				continue
			}
			if err := u.outcome(s.Step, o); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", r.Scenario.File, max(o.pos.Line, s.pos.Line), err)
			}
		}
	}
	return u.apply(), nil
}

// edit replaces the bytes [from, to) of the text.
type edit struct {
	from, to int
	text     string
}

type updater struct {
	source
	zone  *time.Location
	edits []edit
	// opened says that the expect block of a step has been written, so that further lists can be added to it.
	opened map[*Step]bool
}

func (u *updater) replace(from, to int, text string) {
	u.edits = append(u.edits, edit{from, to, text})
}

// apply carries the edits out.
func (u *updater) apply() []byte {
	slices.SortStableFunc(u.edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var b bytes.Buffer
	done := 0
	for _, e := range u.edits {
		if e.from < done {
			continue // inside of what has been replaced whole
		}
		b.Write(u.text[done:e.from])
		b.WriteString(e.text)
		done = e.to
	}
	b.Write(u.text[done:])
	return b.Bytes()
}

func (u *updater) outcome(s *Step, o outcome) error {
	switch {
	case o.spec.answer:
		return u.answer(s, o)
	case o.key == nil:
		return u.add(s, o)
	case o.count >= 0:
		return u.value(o.value, strconv.Itoa(len(o.actual)))
	case len(o.rows) == 0 && inFlow(s, o):
		return u.flowList(s, o)
	case len(o.rows) == 0:
		return u.value(o.value, "\n"+strings.TrimSuffix(u.rows(s, o, o.actual, u.indent(o.key)+2, nil), "\n"))
	case o.value.Flow:
		return u.flowList(s, o)
	}
	return u.list(s, o)
}

// inFlow reports whether a list stands in a map in braces, where no list of lines can be.
func inFlow(s *Step, o outcome) bool {
	if s.node.Flow {
		return true
	}
	for _, name := range []string{"expect", "state"} {
		if in := s.node.Get(name); in != nil && in.Flow && in.Get(o.spec.name) == o.value {
			return true
		}
	}
	return false
}

// list edits rows that are written in a block.
func (u *updater) list(s *Step, o outcome) error {
	added := u.unpaired(o)
	left := len(added)
	end := 0
	for i, r := range o.rows {
		kept, changed := pairsOf(o, i)
		from, to, err := u.item(r)
		if err != nil {
			return err
		}
		end = max(end, to)
		left += min(1, len(kept)+len(changed))
		switch {
		case len(kept) == r.times:
		case len(kept)+len(changed) == 0:
			u.replace(from, to, "")
		default:
			if err := u.row(s, o, r, kept, changed); err != nil {
				return err
			}
		}
	}
	if left == 0 {
		at := u.offset(o.key.Pos) + len(o.key.Text) + 1
		u.replace(at, at, " none")
		return nil
	}
	if len(added) > 0 {
		dash := u.dash(o.rows[0].pos)
		u.replace(end, end, u.rows(s, o, added, dash, &o.rows[0]))
	}
	return nil
}

// row edits one row some of whose occurrences are as expected (kept) or nearly (changed).
func (u *updater) row(s *Step, o outcome, r expectedRow, kept, changed []pair) error {
	if err := u.times(r, max(1, len(kept))); err != nil {
		return err
	}
	if len(kept) > 0 {
		return nil
	}
	for _, i := range changed[0].wrong {
		f := r.fields[i]
		if err := u.value(f.value, u.written(f.fieldSpec, o.actual[changed[0].actual], s.At, r.value.Flow, u.indent(f.value))); err != nil {
			return err
		}
	}
	return nil
}

// times changes how many rows a row stands for, and takes the word away where that is one.
func (u *updater) times(r expectedRow, n int) error {
	if r.timesN == nil || r.times == n {
		return nil
	}
	i := slices.IndexFunc(r.value.Fields, func(f portable.Field) bool { return f.Value == r.timesN })
	if n > 1 || i == 0 {
		return u.value(r.timesN, strconv.Itoa(n))
	}
	_, from, err := u.span(r.value.Fields[i-1].Value)
	if err != nil {
		return err
	}
	_, to, err := u.span(r.timesN)
	if err != nil {
		return err
	}
	if !r.value.Flow {
		from = u.lines[r.timesN.Pos.Line-1]
		to = u.lines[r.timesN.Pos.Line]
	}
	u.replace(from, to, "")
	return nil
}

// unpaired returns the rows that happened and that no written row can take up.
func (u *updater) unpaired(o outcome) []row {
	var rows []row
	for i := range o.rows {
		kept, changed := pairsOf(o, i)
		if len(kept) == 0 && len(changed) > 0 {
			changed = changed[1:]
		}
		for _, p := range changed {
			rows = append(rows, o.actual[p.actual])
		}
	}
	for _, p := range o.pairs {
		if p.sign == signExtra {
			rows = append(rows, o.actual[p.actual])
		}
	}
	return rows
}

func pairsOf(o outcome, expected int) (kept, changed []pair) {
	for _, p := range o.pairs {
		if p.expected != expected {
			continue
		}
		switch p.sign {
		case signKept:
			kept = append(kept, p)
		case signChanged:
			changed = append(changed, p)
		case signMissing, signExtra:
		}
	}
	return kept, changed
}

// flowList rewrites a list in brackets as a whole: there are no comments inside to keep.
func (u *updater) flowList(s *Step, o outcome) error {
	var items []string
	for i, r := range o.rows {
		kept, changed := pairsOf(o, i)
		var cells []string
		if len(kept) == 0 {
			if len(changed) == 0 {
				continue
			}
			for _, f := range r.fields { // what is empty now, too: it is what has changed
				cells = append(cells, f.name+": "+u.written(f.fieldSpec, o.actual[changed[0].actual], s.At, true, 0))
			}
		} else {
			for _, f := range r.fields {
				from, to, err := u.span(f.value)
				if err != nil {
					return err
				}
				cells = append(cells, f.name+": "+string(u.text[from:to]))
			}
		}
		if len(kept) > 1 {
			cells = append(cells, "times: "+strconv.Itoa(len(kept)))
		}
		items = append(items, "{"+strings.Join(cells, ", ")+"}")
	}
	added, like := o.actual, (*expectedRow)(nil) // none is written yet
	if len(o.rows) > 0 {
		added, like = u.unpaired(o), &o.rows[0]
	}
	for _, a := range added {
		items = append(items, "{"+strings.Join(u.cells(s, o.spec, a, like, true, 0), ", ")+"}")
	}
	text := "[" + strings.Join(items, ", ") + "]"
	if len(items) == 0 {
		text = "none"
	}
	return u.value(o.value, text)
}

// add writes a list that the step did not mention.
func (u *updater) add(s *Step, o outcome) error {
	if s.node.Flow {
		return errFlow
	}
	key := s.pos.Column - 1
	expect := s.node.Get("expect")
	after := s.node
	if before := s.node.Get("state"); before != nil && expect == nil {
		// expect stands before state: behind whatever is written above it.
		for i, f := range s.node.Fields {
			if f.Value == before && i > 0 {
				after = s.node.Fields[i-1].Value
			}
		}
	}
	head := ""
	switch {
	case expect == nil:
		if !u.opened[s] {
			head = strings.Repeat(" ", key) + "expect:\n"
		}
	case expect.Flow && len(expect.Fields) > 0:
		_, end, err := u.span(expect)
		if err != nil {
			return err
		}
		var items []string
		for _, a := range o.actual {
			items = append(items, "{"+strings.Join(u.cells(s, o.spec, a, nil, true, 0), ", ")+"}")
		}
		u.replace(end-1, end-1, ", "+o.spec.name+": ["+strings.Join(items, ", ")+"]")
		return nil
	case expect.Flow:
		return errFlow
	default:
		after = expect
	}
	if u.opened == nil {
		u.opened = map[*Step]bool{}
	}
	u.opened[s] = true
	column := key + 2
	if expect != nil {
		column = expect.Pos.Column - 1
	}
	at, err := u.endOfLines(after)
	if err != nil {
		return err
	}
	u.replace(at, at, head+strings.Repeat(" ", column)+o.spec.name+":\n"+u.rows(s, o, o.actual, column+2, nil))
	return nil
}

// answer edits the expected answer to an action, or adds it.
func (u *updater) answer(s *Step, o outcome) error {
	got := o.actual[0]
	if len(o.rows) > 0 {
		for _, i := range o.pairs[0].wrong {
			f := o.rows[0].fields[i]
			if err := u.value(f.value, u.written(f.fieldSpec, got, s.At, true, 0)); err != nil {
				return err
			}
		}
		return nil
	}
	if o.value.Flow {
		return errFlow
	}
	at, err := u.endOfLines(o.value)
	if err != nil {
		return err
	}
	u.replace(at, at, fmt.Sprintf("%sanswer: {%s}\n", strings.Repeat(" ", o.value.Pos.Column-1),
		strings.Join(u.cells(s, o.spec, got, nil, true, 0), ", ")))
	return nil
}

// value replaces the text of a node.
func (u *updater) value(n *portable.Node, text string) error {
	from, to, err := u.span(n)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "\n") {
		for from > 0 && u.text[from-1] == ' ' {
			from--
		}
	}
	u.replace(from, to, text)
	return nil
}

// rows writes rows as a block, each with the fields of like, or with its most informative fields.
func (u *updater) rows(s *Step, o outcome, rows []row, dash int, like *expectedRow) string {
	var b strings.Builder
	flow := like != nil && like.value.Flow
	for _, a := range rows {
		cells := u.cells(s, o.spec, a, like, flow, dash+2)
		b.WriteString(strings.Repeat(" ", dash) + "- ")
		if flow {
			b.WriteString("{" + strings.Join(cells, ", ") + "}\n")
			continue
		}
		b.WriteString(strings.Join(cells, "\n"+strings.Repeat(" ", dash+2)) + "\n")
	}
	return b.String()
}

// cells writes the fields of a new row that have values: those that like names, else the most informative ones.
func (u *updater) cells(s *Step, spec listSpec, a row, like *expectedRow, flow bool, indent int) []string {
	var fields []fieldSpec
	if like != nil {
		for _, f := range like.fields {
			fields = append(fields, f.fieldSpec)
		}
	} else {
		for _, name := range spec.show {
			fields = append(fields, spec.field(name))
		}
	}
	var cells []string
	for _, f := range fields {
		if c := a.cells[f.of]; c.text == "" && !c.timed {
			continue
		}
		cells = append(cells, f.name+": "+u.written(f, a, s.At, flow, indent))
	}
	if len(cells) == 0 { // a row without any of them still has to be written
		cells = append(cells, fields[0].name+": "+u.written(fields[0], a, s.At, flow, indent))
	}
	return cells
}

// flowOf writes the lines of a cell, each a name and a value, as a block in one line.
func flowOf(text string, value func(string) string) string {
	if text == "" {
		return "{}"
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		name, rest, _ := strings.Cut(line, ":")
		lines[i] = name + ": " + value(strings.TrimSpace(rest))
	}
	return "{" + strings.Join(lines, ", ") + "}"
}

// written returns an observed value as it is written in a scenario.
func (u *updater) written(f fieldSpec, a row, base time.Time, flow bool, indent int) string {
	c := a.cells[f.of]
	switch f.kind {
	case fieldInstant:
		text := formatInstant(c.at, base, u.zone)
		if len(text) <= len("10:05:30") && text != "none" {
			return strconv.Quote(text)
		}
		return text
	case fieldNumber:
		return c.text
	case fieldLength:
		return c.name()
	case fieldName:
		if c.text == "" {
			return c.name()
		}
	case fieldSections:
		return flowOf(c.text, func(items string) string { return "[" + strings.Join(strings.Fields(items), ", ") + "]" })
	case fieldHeaders, fieldAnswers:
		return flowOf(c.text, strconv.Quote)
	case fieldMatches:
		return quoted(regexpOf(c.text))
	case fieldChannel:
		return scalarText(shortChannel(c.text), flow, indent)
	case fieldText, fieldPerson, fieldHas:
	}
	return scalarText(c.text, flow, indent)
}
