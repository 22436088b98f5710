// Package topics has the compiled form of topics, and writes the rows of defined ones.
//
// There are more topics than a set of definitions could hold, since programs make them as people sign up. A topic is compiled when an item may belong to
// it, and kept by its version.
package topics

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// keep is how many compiled topics are kept: a hundred thousand take some hundred megabytes.
const keep = 20_000

// Ref names a version of a topic.
type Ref struct {
	Workspace subject.WorkspaceID
	store.TopicRef
}

// Topics keeps compiled topics. It is safe for concurrent use.
type Topics struct {
	compiler *expr.Compiler

	mu    sync.Mutex
	known map[Ref]*definition.Topic
}

// New makes an empty Topics. compiler nil: topics have the functions of the product alone.
func New(compiler *expr.Compiler) (*Topics, error) {
	if compiler == nil {
		var err error
		if compiler, err = expr.NewCompiler(); err != nil {
			return nil, fmt.Errorf("compile topics: %w", err)
		}
	}
	return &Topics{compiler: compiler, known: map[Ref]*definition.Topic{}}, nil
}

// Known returns a topic that was compiled before; nil: it was not.
func (t *Topics) Known(ref Ref) *definition.Topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[ref]
}

// Compiled returns the compiled form of a stored topic.
func (t *Topics) Compiled(row store.TopicRow) (*definition.Topic, error) {
	ref := Ref{row.Workspace, store.TopicRef{ID: row.ID, Version: row.Version}}
	if known := t.Known(ref); known != nil {
		return known, nil
	}
	compiled, problems := loader.Topic(row.Document, t.compiler, true)
	var errs []error
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, errors.New(p.String()))
		}
	}
	if len(errs) > 0 || compiled == nil {
		return nil, fmt.Errorf("compile topic %s: %w", row.Name, errors.Join(errs...))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= keep { // any of them: which one hardly matters, since the next item needs others
		for old := range t.known {
			delete(t.known, old)
			break
		}
	}
	t.known[ref] = compiled
	return compiled, nil
}

// Title returns the title of a topic in the first of some languages that it has; its name if it has no title, or one that cannot be read.
func (t *Topics) Title(row store.TopicRow, locales ...string) string {
	of, err := t.Compiled(row)
	if err != nil {
		return row.Name
	}
	picked, _, ok := of.Title.Pick(locales...)
	if !ok {
		return row.Name
	}
	title, err := picked.Render(nil, message.Limits{})
	if err != nil {
		return row.Name
	}
	return cmp.Or(title, row.Name)
}

// Read compiles the document of a topic that a program makes. path returns the path of the value that is the cause of a problem.
func (t *Topics) Read(document string) (of *definition.Topic, problems []definition.Problem, path func(definition.Problem) string) {
	of, problems = loader.Topic(document, t.compiler, false)
	return of, problems, func(p definition.Problem) string {
		docs, _ := portable.Parse(document)
		if len(docs) == 0 {
			return ""
		}
		return docs[0].Root.PathTo(portable.Pos{Line: p.Line, Column: p.Column})
	}
}

// Row returns the row of a topic as it is written now. old is the stored one; zero: there is none, and the row has this id.
func Row(of *definition.Topic, document string, source store.TopicSource, old store.TopicRow, ws subject.WorkspaceID, id subject.TopicID, now time.Time) store.TopicRow {
	row := store.TopicRow{
		Workspace: ws, ID: id, Name: of.Name, Source: source, Hash: of.Hash(), Document: document, Version: 1, CreatedAt: now, UpdatedAt: now, Terms: slices.Concat(topic.Filed(of.Rules()), topic.Named(of.Rules())),
	}
	if old.ID != 0 {
		row.ID, row.Version, row.CreatedAt = old.ID, old.Version+1, old.CreatedAt
	}
	return row
}

// TakenError means that a definition and a topic that a program has made have one name.
type TakenError struct{ Name string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("a program has made a topic named %s, and a definition cannot take its place", e.Name)
}

// Edit is what a new set of definitions makes of the topics of a workspace.
type Edit struct {
	Workspace subject.WorkspaceID
	Set       *definition.Set
	Documents map[string]string // of the topics that are new or changed, by name
	Removed   []string          // topics that are defined no longer
	Now       time.Time
	NewID     func(time.Time) int64
}

// Write writes the rows of the topics that an edit concerns. Subscriptions to a topic that is removed stay, and get nothing from it.
func (e Edit) Write(tx *store.Tx) error {
	names := make([]string, 0, len(e.Documents)+len(e.Removed))
	for name := range e.Documents {
		names = append(names, name)
	}
	slices.Sort(names) // the ids of new topics are in their order
	stored, err := tx.TopicsByName(e.Workspace, append(names, e.Removed...))
	if err != nil {
		return err
	}
	var rows []store.TopicRow
	for _, name := range names {
		old := stored[name]
		if old.ID != 0 && old.Source != store.TopicDefined && old.RemovedAt.IsZero() {
			return &TakenError{name}
		}
		rows = append(rows, Row(e.Set.Topic(name), e.Documents[name], store.TopicDefined, old, e.Workspace, subject.TopicID(e.NewID(e.Now)), e.Now))
	}
	for _, name := range e.Removed {
		old, ok := stored[name]
		if !ok || old.Source != store.TopicDefined || !old.RemovedAt.IsZero() {
			continue
		}
		old.Version, old.UpdatedAt, old.RemovedAt = old.Version+1, e.Now, e.Now
		rows = append(rows, old)
	}
	return tx.WriteTopics(rows)
}
