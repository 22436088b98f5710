// Package catalog caches the compiled definition sets of workspaces, by the number of the set.
//
// A set never changes, so it is compiled once and cached. Code inside a transaction uses only cached sets (Loaded). If a set is not cached, Loaded
// returns Missing, the transaction rolls back, and the caller loads the set and repeats the transaction. So no transaction reads definitions, and no
// replica follows an old rule by mistake.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// keep is how many compiled sets are cached: the latest one and the pinned ones of the last hundred edits.
	keep = 100
	// keepText bounds the text of the cached sets in bytes: compiled, it takes about twenty times as much memory.
	keepText = 4 << 20
)

// Store reads the documents.
type Store interface {
	Workspaces(ctx context.Context) ([]store.Workspace, error)
	DefinitionsNumber(ctx context.Context, ws subject.WorkspaceID) (int64, error)
	DefinitionSet(ctx context.Context, ws subject.WorkspaceID, number int64) ([]store.Definition, error)
}

// Catalog holds compiled sets. It is safe for concurrent use.
type Catalog struct {
	// Zones are the time zones of contacts and workspaces that were loaded.
	Zones civil.Zones

	store   Store
	options loader.Options

	mu         sync.Mutex
	sets       map[id]kept
	order      []id // the least recently used one first
	text       int  // bytes
	workspaces map[subject.WorkspaceID]Workspace
	latest     map[subject.WorkspaceID]int64 // the set that was in force at the last read
}

type id struct {
	workspace subject.WorkspaceID
	number    int64
}

// kept is a compiled set with the size of its documents.
type kept struct {
	set  *definition.Set
	text int
}

// Workspace is a workspace with the keys derived from its secret, which never changes.
type Workspace struct {
	store.Workspace
	IDs       key.PublicIDs
	Addresses key.Keyed
	Jitter    key.Keyed
}

// New makes an empty catalog.
func New(s Store, options loader.Options) *Catalog {
	return &Catalog{
		store: s, options: options, sets: map[id]kept{},
		workspaces: map[subject.WorkspaceID]Workspace{}, latest: map[subject.WorkspaceID]int64{},
	}
}

// Missing means that a set is not loaded yet.
type Missing struct {
	Workspace subject.WorkspaceID
	Number    int64 // 0 = the workspace itself
}

func (m *Missing) Error() string { return fmt.Sprintf("definition set %d is not loaded", m.Number) }

// Refresh reads which sets are in force, at the beginning of a step.
func (c *Catalog) Refresh(ctx context.Context) error {
	all, err := c.store.Workspaces(ctx)
	if err != nil {
		return fmt.Errorf("read the workspaces: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ws := range all {
		known, ok := c.workspaces[ws.ID]
		if !ok {
			known.IDs = key.NewPublicIDs(ws.Secret)
			known.Addresses = key.NewKeyed(ws.Secret, key.PurposeAddress)
			known.Jitter = key.NewKeyed(ws.Secret, key.PurposeJitter)
		}
		known.Workspace = ws
		c.workspaces[ws.ID] = known
	}
	return nil
}

// Workspace returns a workspace as it was last read; the error is a *Missing.
func (c *Catalog) Workspace(ws subject.WorkspaceID) (Workspace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.workspaces[ws]; ok {
		return known, nil
	}
	return Workspace{}, &Missing{Workspace: ws}
}

// Known returns a workspace that exists, also in a process that has read none yet.
func (c *Catalog) Known(ctx context.Context, ws subject.WorkspaceID) (Workspace, error) {
	known, err := c.Workspace(ws)
	if err == nil {
		return known, nil
	}
	if err := c.Refresh(ctx); err != nil {
		return Workspace{}, err
	}
	return c.Workspace(ws)
}

// Named returns the workspace of that name as it was last read.
func (c *Catalog) Named(name string) (store.Workspace, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.workspaces {
		if known.Name == name {
			return known.Workspace, true
		}
	}
	return store.Workspace{}, false
}

// Decode returns what a public id stands for, in whichever workspace it is; ok is false if it is an id of none that was read.
func (c *Catalog) Decode(text string) (kind key.Kind, ws subject.WorkspaceID, row int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.workspaces {
		if kind, in, row, ok := known.IDs.Decode(text); ok && subject.WorkspaceID(in) == known.ID {
			return kind, known.ID, row, true
		}
	}
	return 0, 0, 0, false
}

// Current returns the set in force. It reads its number from the store every time.
func (c *Catalog) Current(ctx context.Context, ws subject.WorkspaceID) (*definition.Set, error) {
	number, err := c.store.DefinitionsNumber(ctx, ws)
	if err != nil {
		return nil, err
	}
	set, err := c.At(ctx, ws, number)
	if err == nil {
		c.mu.Lock()
		c.latest[ws] = max(c.latest[ws], number)
		c.mu.Unlock()
	}
	return set, err
}

// Latest returns the set that was in force at the last read, and reads only if there was none. It saves a round trip if the transaction that uses the
// set checks its number anyway.
func (c *Catalog) Latest(ctx context.Context, ws subject.WorkspaceID) (*definition.Set, error) {
	c.mu.Lock()
	number := c.latest[ws]
	c.mu.Unlock()
	if set := c.lookup(id{ws, number}); set != nil {
		return set, nil
	}
	return c.Current(ctx, ws)
}

// Documents returns the documents in force, as written, and the number of their set.
func (c *Catalog) Documents(ctx context.Context, ws subject.WorkspaceID) (number int64, docs []definition.Stored, err error) {
	if number, err = c.store.DefinitionsNumber(ctx, ws); err != nil {
		return 0, nil, err
	}
	docs, err = c.documents(ctx, ws, number)
	return number, docs, err
}

func (c *Catalog) documents(ctx context.Context, ws subject.WorkspaceID, number int64) ([]definition.Stored, error) {
	rows, err := c.store.DefinitionSet(ctx, ws, number)
	if err != nil {
		return nil, fmt.Errorf("read definition set %d: %w", number, err)
	}
	docs := make([]definition.Stored, len(rows))
	for i, row := range rows {
		docs[i] = definition.Stored{
			Document: definition.Document{Kind: definition.Kind(row.Kind), Name: row.Name, Text: row.Text, Hash: row.Hash},
			Version:  row.Version,
		}
	}
	return docs, nil
}

// At returns the set of that number.
func (c *Catalog) At(ctx context.Context, ws subject.WorkspaceID, number int64) (*definition.Set, error) {
	if set := c.lookup(id{ws, number}); set != nil {
		return set, nil
	}
	docs, err := c.documents(ctx, ws, number)
	if err != nil {
		return nil, err
	}
	set, err := loader.Compile(number, docs, c.options)
	if err != nil {
		return nil, fmt.Errorf("compile definition set %d: %w", number, err)
	}
	size := 0
	for _, d := range docs {
		size += len(d.Text)
	}
	c.keep(id{ws, number}, kept{set, size})
	return set, nil
}

// keep caches a set and evicts the least recently used ones until the rest fits. The newest set stays whatever its size.
func (c *Catalog) keep(at id, k kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.sets[at]; known {
		return
	}
	c.sets[at] = k
	c.order = append(c.order, at)
	c.text += k.text
	for len(c.order) > 1 && (len(c.order) > keep || c.text > keepText) {
		c.text -= c.sets[c.order[0]].text
		delete(c.sets, c.order[0])
		c.order = c.order[1:]
	}
}

// Loaded returns the set of that number without touching the store; number 0 is the one in force at the last
// Refresh. The error is a *Missing.
func (c *Catalog) Loaded(ws subject.WorkspaceID, number int64) (*definition.Set, error) {
	if number == 0 {
		known, err := c.Workspace(ws)
		if err != nil {
			return nil, err
		}
		number = known.Definitions
	}
	if set := c.lookup(id{ws, number}); set != nil {
		return set, nil
	}
	return nil, &Missing{Workspace: ws, Number: number}
}

// loads is how many definition sets Supply loads before it has a smaller batch tried.
const loads = 20

// Supply runs try, which takes a batch of at most limit, until it has the definition sets and the results of functions that it needs: a try that lacks
// one ends with the error of Loaded or of expr.Calls. The rows of a batch may need more sets than the catalog keeps, so the batch becomes smaller after a while.
func (c *Catalog) Supply(ctx context.Context, limit int, try func(limit int) error) error {
	for tries := 1; ; tries++ {
		err := try(limit)
		if err == nil {
			return nil
		}
		if loaded, loadErr := c.Load(ctx, err); loadErr != nil {
			return loadErr
		} else if !loaded {
			return err
		}
		if tries%loads == 0 {
			limit = max(limit/4, 1)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}

// Load loads the set that a *Missing names, or makes the calls of functions that a transaction lacks; it returns false for every other error.
func (c *Catalog) Load(ctx context.Context, err error) (bool, error) {
	var wanted *expr.WantedError
	if errors.As(err, &wanted) {
		err := callAll(ctx, wanted.Calls)
		return err == nil, err
	}
	var missing *Missing
	if !errors.As(err, &missing) {
		return false, nil
	}
	if missing.Number == 0 {
		err = c.Refresh(ctx)
	} else {
		_, err = c.At(ctx, missing.Workspace, missing.Number)
	}
	return err == nil, err
}

// atOnce is how many calls of functions are made at the same time.
const atOnce = 8

// callAll makes calls of functions. An error means that ctx is done, and that their results have no meaning.
func callAll(ctx context.Context, calls []*expr.Call) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, call := range calls {
		g.Go(func() error {
			call.Make(ctx.Done())
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (c *Catalog) lookup(at id) *definition.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, known := c.sets[at]
	if known && c.order[len(c.order)-1] != at {
		n := slices.Index(c.order, at)
		c.order = append(slices.Delete(c.order, n, n+1), at)
	}
	return k.set
}
