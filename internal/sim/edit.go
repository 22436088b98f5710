package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/job"
)

// document is one definition in force, as last written.
type document struct {
	kind, name string
	root       *portable.Node
}

// documentsOf splits files into their documents. Unreadable ones are kept, so that the engine refuses them.
func documentsOf(files []definition.File) []document {
	var docs []document
	for _, f := range files {
		parsed, _ := portable.Parse(string(f.Text))
		for _, d := range parsed {
			if d.Root.Kind == portable.Map && len(d.Root.Fields) > 0 {
				first := d.Root.Fields[0]
				docs = append(docs, document{first.Key.Text, nameOf(first.Key.Text, first.Value.Text), d.Root})
			}
		}
	}
	return docs
}

// nameOf returns the full name of a definition.
func nameOf(kind, name string) string {
	if kind == string(definition.KindChannel) {
		return channelKey(name)
	}
	return name
}

// remember replaces the documents of the same kind and name.
func (w *world) remember(files []definition.File) {
	for _, fresh := range documentsOf(files) {
		found := false
		for i, d := range w.docs {
			if d.kind == fresh.kind && d.name == fresh.name {
				w.docs[i], found = fresh, true
			}
		}
		if !found {
			w.docs = append(w.docs, fresh)
		}
	}
}

// apply puts files in force; a problem in them is an error.
func (w *world) apply(ctx context.Context, files []definition.File) error {
	applied, err := w.engine.Apply(ctx, w.workspace, files, actor)
	if err != nil {
		return err
	}
	if problems := errorsOf(applied.Problems); len(problems) > 0 {
		return ProblemsError(problems)
	}
	w.remember(files)
	return nil
}

// change puts files in force as an action of the scenario; a problem in them is the answer.
func (w *world) change(ctx context.Context, a *Action, files []definition.File) error {
	if w.engine == nil {
		w.answered(a, "apply", map[string]cell{"error": textCell("the engine is stopped")})
		return nil
	}
	applied, err := w.engine.Apply(ctx, w.workspace, files, actor)
	cells := map[string]cell{}
	if locked := (*job.LockedError)(nil); errors.As(err, &locked) {
		cells["error"] = textCell("workflow_locked")
		w.answered(a, "apply", cells)
		return nil
	}
	if err != nil {
		return err
	}
	if problems := errorsOf(applied.Problems); len(problems) > 0 {
		cells["error"] = textCell(problems[0].Message)
	} else {
		w.remember(files)
	}
	w.answered(a, "apply", cells)
	return nil
}

func errorsOf(problems []definition.Problem) []definition.Problem {
	var list []definition.Problem
	for _, p := range problems {
		if !p.Warning {
			list = append(list, p)
		}
	}
	return list
}

// edit sets values of one definition and puts it in force.
func (w *world) edit(ctx context.Context, a *Action) error {
	for _, d := range w.docs {
		if d.kind != a.Edit.kind || d.name != nameOf(a.Edit.kind, a.Edit.name) {
			continue
		}
		root := clone(d.root)
		for _, f := range a.Edit.set {
			if err := setPath(root, f.Key.Text, f.Value); err != nil {
				return fmt.Errorf("edit %s/%s: %w", d.kind, d.name, err)
			}
		}
		var b bytes.Buffer
		writeBlock(&b, root, 0)
		return w.change(ctx, a, []definition.File{{Name: "edit of " + d.kind + "/" + d.name, Text: b.Bytes()}})
	}
	return fmt.Errorf("edit: no %s named %q is in force", a.Edit.kind, a.Edit.name)
}

// setPath sets the value at a path of keys. An entry of a list is reached by its id; a single entry needs none. Missing maps on the path
// are created.
func setPath(n *portable.Node, path string, value *portable.Node) error {
	head, rest, more := strings.Cut(path, ".")
	if n.Kind == portable.List {
		for i, item := range n.Items {
			if id := item.Get("id"); id != nil && id.Text == head {
				if !more {
					n.Items[i] = value
					return nil
				}
				return setPath(item, rest, value)
			}
		}
		if len(n.Items) == 1 && n.Items[0].Kind == portable.Map { // the only one needs no name
			return setPath(n.Items[0], path, value)
		}
		return fmt.Errorf("nothing in the list has the id %q", head)
	}
	if n.Kind != portable.Map {
		return fmt.Errorf("%q lies below a value", path)
	}
	for i, f := range n.Fields {
		if f.Key.Text == head {
			if !more {
				n.Fields[i].Value = value
				return nil
			}
			return setPath(f.Value, rest, value)
		}
	}
	key := &portable.Node{Kind: portable.Scalar, Style: portable.Plain, Text: head}
	child := value
	if more {
		child = &portable.Node{Kind: portable.Map}
		if err := setPath(child, rest, value); err != nil {
			return err
		}
	}
	n.Fields = append(n.Fields, portable.Field{Key: key, Value: child})
	return nil
}

// clone copies the part of a tree that an edit may change.
func clone(n *portable.Node) *portable.Node {
	c := *n
	c.Fields = make([]portable.Field, len(n.Fields))
	for i, f := range n.Fields {
		c.Fields[i] = portable.Field{Key: f.Key, Value: clone(f.Value)}
	}
	c.Items = make([]*portable.Node, len(n.Items))
	for i, item := range n.Items {
		c.Items[i] = clone(item)
	}
	return &c
}

// writeBlock writes a map or list in block style: bare values as written, everything else in quotes.
func writeBlock(b *bytes.Buffer, n *portable.Node, indent int) {
	pad := strings.Repeat(" ", indent)
	for _, f := range n.Fields {
		b.WriteString(pad)
		writeScalar(b, f.Key)
		b.WriteByte(':')
		writeValue(b, f.Value, indent+2)
	}
	for _, item := range n.Items {
		b.WriteString(pad + "-")
		if isLeaf(item) {
			writeValue(b, item, indent+2)
			continue
		}
		var inner bytes.Buffer
		writeBlock(&inner, item, indent+2)
		b.WriteByte(' ')
		b.Write(bytes.TrimLeft(inner.Bytes(), " "))
	}
}

func writeValue(b *bytes.Buffer, n *portable.Node, indent int) {
	switch {
	case n.Kind == portable.Map && len(n.Fields) == 0:
		b.WriteString(" {}\n")
	case n.Kind == portable.List && len(n.Items) == 0:
		b.WriteString(" []\n")
	case n.Kind == portable.Scalar:
		b.WriteByte(' ')
		writeScalar(b, n)
		b.WriteByte('\n')
	default:
		b.WriteByte('\n')
		writeBlock(b, n, indent)
	}
}

func isLeaf(n *portable.Node) bool { return len(n.Fields) == 0 && len(n.Items) == 0 }

func writeScalar(b *bytes.Buffer, n *portable.Node) {
	if n.Style == portable.Plain {
		b.WriteString(n.Text)
		return
	}
	writeString(b, n.Text)
}
