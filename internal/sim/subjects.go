package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// record changes a record, as the API does.
func (w *world) record(ctx context.Context, a *Action) error {
	r, what := a.Record, "record "+a.Record.typ+"/"+a.Record.id
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	item, mode := record.Item{Type: r.typ, ID: r.id}, upsert.Delete
	switch {
	case r.set != nil:
		item, mode = record.Parse(w.recordJSON(r, r.set), r.typ, r.id), upsert.Merge
	case r.replace != nil:
		item, mode = record.Parse(w.recordJSON(r, r.replace), r.typ, r.id), upsert.Replace
	}
	cells := map[string]cell{}
	results, err := w.engine.Records().Write(ctx, w.workspace, mode, []record.Item{item}, actor, w.clock.Now(), nil)
	switch {
	case errors.Is(err, store.ErrNotFound):
		cells["outcome"], cells["error"] = textCell("failed"), textCell("there is no such record")
	case err != nil:
		return err
	default:
		cells["outcome"] = textCell(string(results[0].Outcome))
		if e := results[0].Error; e != nil {
			cells["field"], cells["error"] = textCell(e.Field), textCell(e.Error())
		}
	}
	w.answered(a, what, cells)
	return nil
}

// recordJSON is a block of fields as the API takes it; closed is no field of the record's own.
func (w *world) recordJSON(r *recordAction, set *portable.Node) json.RawMessage {
	var b bytes.Buffer
	props := &portable.Node{Kind: portable.Map}
	b.WriteByte('{')
	for _, f := range set.Fields {
		if f.Key.Text != "closed" {
			props.Fields = append(props.Fields, f)
			continue
		}
		b.WriteString(`"closed":`)
		writeJSON(&b, f.Value, "")
		b.WriteByte(',')
	}
	for _, relation := range []struct {
		name string
		node *portable.Node
	}{{"owner", r.owner}, {"parents", r.parents}} {
		if relation.node != nil {
			b.WriteString(`"` + relation.name + `":`)
			writeJSON(&b, relation.node, "")
			b.WriteByte(',')
		}
	}
	b.WriteString(`"props":`)
	writeJSON(&b, props, w.now())
	b.WriteByte('}')
	return b.Bytes()
}

// contact changes a contact, as the API does.
func (w *world) contact(ctx context.Context, a *Action) error {
	c, what := a.Contact, "contact "+a.Contact.id
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	keeper, now := w.engine.Contacts(), w.clock.Now()
	cells := map[string]cell{}
	if c.set != nil {
		results, err := keeper.Write(ctx, w.workspace, upsert.Merge, []contact.Item{contact.Parse(w.contactJSON(c.set), c.id)}, now, nil)
		if err != nil {
			return err
		}
		cells["outcome"] = textCell(string(results[0].Outcome))
		if e := results[0].Error; e != nil {
			cells["field"], cells["error"] = textCell(e.Field), textCell(e.Error())
		}
	}
	if c.suppress != "" && cells["error"].text == "" {
		stopped, err := keeper.Stop(ctx, w.workspace, contact.Suppression{Contact: c.id, Suppress: true, Reason: c.suppress, Actor: actor}, now, nil)
		switch {
		case errors.Is(err, store.ErrNotFound):
			cells["outcome"], cells["error"] = textCell("failed"), textCell("there is no such contact")
		case err != nil:
			return err
		case stopped.Changed:
			cells["outcome"] = textCell(string(upsert.Changed))
		default:
			cells["outcome"] = textCell(string(upsert.Unchanged))
		}
	}
	w.answered(a, what, cells)
	return nil
}

// contactJSON is a block of `set` as the API takes it: a kind of address may be written like a field.
func (w *world) contactJSON(set *portable.Node) json.RawMessage {
	var b bytes.Buffer
	var addresses []portable.Field
	b.WriteByte('{')
	write := func(name string, value *portable.Node) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		writeString(&b, name)
		b.WriteByte(':')
		writeJSON(&b, value, w.now())
	}
	for _, f := range set.Fields {
		switch {
		case slices.Contains(subject.AddressKinds(), f.Key.Text):
			addresses = append(addresses, f)
		case f.Key.Text == "addresses" && f.Value.Kind == portable.Map:
			addresses = append(addresses, f.Value.Fields...)
		default:
			write(f.Key.Text, f.Value)
		}
	}
	if len(addresses) > 0 {
		write("addresses", &portable.Node{Kind: portable.Map, Fields: addresses})
	}
	b.WriteByte('}')
	return b.Bytes()
}

// now is the present instant as JSON holds it.
func (w *world) now() string { return w.clock.Now().UTC().Format(time.RFC3339Nano) }
