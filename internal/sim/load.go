package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/rowreader"
)

const (
	// atColumn is the column of records and contacts that says when a row is written. Events have occurred_at.
	atColumn = "at"
	// maxWritten is how many records or contacts are written by one call, as by the API.
	maxWritten = 1000
)

// What a file holds.
const (
	loadEvents   = "events"
	loadRecords  = "records"
	loadContacts = "contacts"
)

type loadAction struct {
	file string   // relative to the scenario's folder
	as   string   // events, records or contacts
	typ  string   // of records: the type of all of them; empty: each row has its own
	maps []string // which column goes into which field, FIELD=COLUMN or FIELD:TYPE=COLUMN
	pos  portable.Pos
}

// loaded is one row of a file.
type loaded struct {
	line   int
	at     time.Time // none: it says none
	object []byte    // as the API takes it
}

// load puts the rows of a file on the agenda: each at its instant. Those without one, and those of the past, are done at once.
func (w *world) load(a *Action) error {
	path := w.scenario.path(a.Load.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	rows, err := a.Load.read(path, text, w.scenario.Zone)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	now := w.clock.Now()
	for i, r := range rows {
		if r.at.Before(now) {
			rows[i].at = now
		}
	}
	for len(rows) > 0 {
		n := 1
		for a.Load.as != loadEvents && n < min(len(rows), maxWritten) && rows[n].at.Equal(rows[0].at) {
			n++
		}
		together := rows[:n]
		rows = rows[n:]
		w.later(together[0].at, func(ctx context.Context) error { return w.write(ctx, a, together) })
	}
	return nil
}

// write does what rows of one instant say. A row that is refused is a difference.
func (w *world) write(ctx context.Context, a *Action, rows []loaded) error {
	of := func(r loaded) string { return fmt.Sprintf("line %d of %s", r.line, a.Load.file) }
	if a.Load.as == loadEvents {
		return w.ingest(ctx, &Action{Event: &eventAction{}, pos: a.pos, node: a.node}, of(rows[0]), rows[0].object)
	}
	action := &Action{Contact: &contactAction{}, pos: a.pos, node: a.node}
	if a.Load.as == loadRecords {
		action.Contact, action.Record = nil, &recordAction{}
	}
	if w.engine == nil {
		w.answered(action, of(rows[0]), map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	refused := func(i int, e *upsert.Error) {
		if e != nil {
			w.answered(action, of(rows[i]), map[string]cell{"outcome": textCell(string(upsert.Failed)), "field": textCell(e.Field), "error": textCell(e.Error())})
		}
	}
	if a.Load.as == loadContacts {
		items := make([]contact.Item, len(rows))
		for i, r := range rows {
			items[i] = contact.Parse(r.object, "")
		}
		results, err := w.engine.Contacts().Write(ctx, w.workspace, upsert.Merge, items, w.clock.Now(), nil)
		for i, r := range results {
			refused(i, r.Error)
		}
		return err
	}
	items := make([]record.Item, len(rows))
	for i, r := range rows {
		items[i] = record.Parse(r.object, "", "")
	}
	results, err := w.engine.Records().Write(ctx, w.workspace, upsert.Merge, items, actor, w.clock.Now(), nil)
	for i, r := range results {
		refused(i, r.Error)
	}
	return err
}

// mapping says into which fields the columns go, as in an import.
func (l *loadAction) mapping(zone *time.Location) (*rowreader.Mapping, rowreader.Shape, error) {
	shape, constants := rowreader.Events(), map[string]string{}
	switch l.as {
	case loadRecords:
		shape = rowreader.Records()
	case loadContacts:
		shape = rowreader.Contacts()
	}
	if l.typ != "" {
		constants["type"] = l.typ
	}
	m, err := rowreader.NewMapping(shape, l.maps, nil, constants, zone)
	return m, shape, err
}

// read reads the rows of a file as the commands that import files do. Local times are read in zone.
func (l *loadAction) read(name string, text []byte, zone *time.Location) ([]loaded, error) {
	mapping, shape, err := l.mapping(zone)
	if err != nil {
		return nil, err
	}
	format, _ := rowreader.FormatOf(name)
	reader, err := rowreader.New(bytes.NewReader(text), rowreader.Options{Format: format, Objects: shape.Objects()})
	if err != nil {
		return nil, hinted(err)
	}
	if head := slices.Clone(reader.Head()); head != nil {
		if l.as != loadEvents {
			head = slices.DeleteFunc(head, func(column string) bool { return column == atColumn })
		}
		if err := mapping.Check(head); err != nil {
			return nil, err
		}
	}
	var rows []loaded
	for {
		row, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, hinted(err)
		case row.Fault != nil:
			return nil, hinted(row.Fault)
		}
		one, err := l.row(row, mapping, zone)
		if err != nil {
			return nil, hinted(err)
		}
		rows = append(rows, one)
	}
}

// row reads one row, and its instant.
func (l *loadAction) row(row rowreader.Row, mapping *rowreader.Mapping, zone *time.Location) (loaded, error) {
	one := loaded{line: row.Line}
	said := ""
	if i := slices.IndexFunc(row.Cells, func(c rowreader.Cell) bool { return c.Column == atColumn }); i >= 0 && l.as != loadEvents {
		said = row.Cells[i].Text
		if row.Cells[i].JSON && json.Unmarshal([]byte(said), &said) != nil {
			said = row.Cells[i].Text // no text, and refused below
		}
		row.Cells = slices.Delete(slices.Clone(row.Cells), i, i+1)
	}
	object, fault := mapping.Object(row)
	if fault != nil {
		return one, fault
	}
	if l.as == loadEvents {
		said, _ = object["occurred_at"].(string)
	}
	if said != "" {
		value, err := rowreader.Value(said, rowreader.Instant, zone)
		if err != nil {
			return one, fmt.Errorf("line %d: %s %w", row.Line, atColumn, err)
		}
		text, _ := value.(string)
		if one.at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return one, fmt.Errorf("line %d: %w", row.Line, err)
		}
	}
	raw, err := json.Marshal(object)
	one.object = raw
	return one, err
}

// hinted is the error of a row with what to do.
func hinted(err error) error {
	if fault := (*rowreader.Fault)(nil); errors.As(err, &fault) && fault.Hint != "" {
		return fmt.Errorf("%w: %s", err, fault.Hint)
	}
	return err
}
