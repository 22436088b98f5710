package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// databaseAction changes stored pending instances behind the engine's back.
type databaseAction struct {
	verb     string // lose or alter
	workflow string
	record   string // TYPE/ID; empty: any
	inputs   []byte // for alter: the changed inputs, as JSON
}

func (p *parser) database(n *portable.Node) *databaseAction {
	d := &databaseAction{}
	verb := n.Fields[0].Value
	if verb.Text == "up" || verb.Text == "down" {
		p.notYet(verb, "database")
		return nil
	}
	d.verb, _ = p.oneOf(verb, "database", "lose", "alter")
	fields := p.actionFields(n, "workflow", "record", "inputs")
	d.workflow, _ = p.optional(fields["workflow"], "a workflow")
	d.record, _ = p.optional(fields["record"], "a record")
	if typ, id, ok := strings.Cut(d.record, "/"); d.record != "" && (!ok || typ == "" || id == "") {
		p.problem(fields["record"].Pos, fmt.Sprintf("%q names no record", d.record), "write TYPE/ID: kiosk/123")
	}
	if fields["workflow"] == nil {
		p.report(n.Pos, definition.CodeMissing, "nothing says whose instances are damaged", "add workflow: NAME")
	}
	inputs := fields["inputs"]
	switch {
	case d.verb == "alter" && inputs == nil:
		p.report(n.Pos, definition.CodeMissing, "nothing says by which inputs they were planned", "add inputs: {anchor: record.other_date}")
	case d.verb == "lose" && inputs != nil:
		p.problem(inputs.Pos, "what is lost has no inputs", "leave inputs out, or write database: alter")
	case inputs != nil:
		d.inputs = p.object(inputs, "inputs")
	}
	return d
}

// damage deletes or alters pending instances, as a person with a database client or another version of this program would.
func (w *world) damage(ctx context.Context, a *Action) error {
	d := a.Database
	rows, err := w.pending(ctx, d)
	if err != nil {
		return err
	}
	cells := map[string]cell{}
	switch {
	case len(rows) == 0:
		cells["error"] = textCell("there is nothing pending to " + d.verb)
	case d.verb == "lose":
		ids := make([]instance.ID, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
		}
		err = w.store.Lose(ctx, w.workspace.ID, ids)
	default:
		var unknown string
		if unknown, err = w.alter(ctx, rows, d.inputs); unknown != "" {
			cells["error"] = textCell(unknown)
		}
	}
	if err != nil {
		return err
	}
	w.answered(a, "database "+d.verb, cells)
	return nil
}

// pending returns the instances that an action selects.
func (w *world) pending(ctx context.Context, d *databaseAction) ([]instance.Row, error) {
	rows, err := w.instances(ctx, store.InstanceFilter{Workflow: d.workflow, Status: instance.Pending})
	if err != nil || d.record == "" {
		return rows, err
	}
	ids := make([]subject.RecordID, len(rows))
	for i, row := range rows {
		ids[i] = row.Record
	}
	named, err := w.store.RecordNames(ctx, w.workspace.ID, ids)
	return slices.DeleteFunc(rows, func(i instance.Row) bool {
		ref := named[i.Record]
		return ref.Type+"/"+ref.ExtID != d.record
	}), err
}

// alter changes some inputs of each row. It returns an error that names an input that a row does not have.
func (w *world) alter(ctx context.Context, rows []instance.Row, given []byte) (unknown string, err error) {
	var others map[string]any
	if err := json.Unmarshal(given, &others); err != nil {
		return "", fmt.Errorf("read the inputs: %w", err)
	}
	for _, row := range rows {
		text, _, err := w.store.Inputs(ctx, w.workspace.ID, row.InputHash)
		if err != nil {
			return "", err
		}
		var inputs map[string]any
		if err := json.Unmarshal([]byte(text), &inputs); err != nil {
			return "", fmt.Errorf("read what %s was planned by: %w", row.Key, err)
		}
		known := slices.Sorted(maps.Keys(inputs))
		for _, name := range slices.Sorted(maps.Keys(others)) {
			if !slices.Contains(known, name) {
				return fmt.Sprintf("%s has no input %q; it has: %s", row.Key, name, strings.Join(known, " ")), nil
			}
			inputs[name] = others[name]
		}
		hashed, err := key.CanonicalJSON(inputs)
		if err != nil {
			return "", err
		}
		if err := w.store.AlterInputs(ctx, w.workspace.ID, []instance.ID{row.ID}, string(hashed)); err != nil {
			return "", err
		}
	}
	return "", nil
}
