package catalog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// counting counts how often documents are read.
type counting struct {
	*store.Store
	reads int
}

func (c *counting) DefinitionSet(ctx context.Context, ws subject.WorkspaceID, number int64) ([]store.Definition, error) {
	c.reads++
	return c.Store.DefinitionSet(ctx, ws, number)
}

// Shows: C54.
func TestASetIsReadAndCompiledOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, now := t.Context(), time.Date(2026, 5, 14, 0, 0, 0, 0, time.UTC)
		ws, err := s.EnsureWorkspace(ctx, "default", make([]byte, 32), now)
		if err != nil {
			t.Fatal(err)
		}
		apply := func(text string) {
			t.Helper()
			if _, _, err := storetest.Apply(ctx, s, ws.ID, now, store.Definition{Kind: "channel", Name: "memory:default", Text: text, Hash: text}); err != nil {
				t.Fatal(err)
			}
		}
		apply("channel: memory:default\nprovider: memory\n")
		rows := &counting{Store: s}
		c := catalog.New(rows, loader.Options{})

		var missing *catalog.Missing
		if _, err := c.Loaded(ws.ID, 0); !errors.As(err, &missing) {
			t.Fatalf("before anything was loaded: %v", err)
		}
		for range 2 { // the workspace itself, then its set
			if loaded, err := c.Load(ctx, missing); !loaded || err != nil {
				t.Fatalf("load %+v: %t, %v", missing, loaded, err)
			}
			if _, err := c.Loaded(ws.ID, 0); err != nil && !errors.As(err, &missing) {
				t.Fatal(err)
			}
		}
		first, err := c.Loaded(ws.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			again, err := c.Current(ctx, ws.ID)
			if err != nil || again != first {
				t.Fatalf("another set, or %v", err)
			}
		}
		if rows.reads != 1 {
			t.Errorf("read %d times, want once", rows.reads)
		}
		apply("channel: memory:default\nprovider: inbox\n")
		second, err := c.Current(ctx, ws.ID)
		if err != nil || second == first || second.Number != 2 {
			t.Fatalf("after an edit: %+v, %v", second, err)
		}
		if old, err := c.At(ctx, ws.ID, 1); err != nil || old != first || rows.reads != 2 {
			t.Errorf("the old set is gone, or was read again: %d reads, %v", rows.reads, err)
		}
		if loaded, err := c.Load(ctx, errors.New("something else")); loaded || err != nil {
			t.Errorf("loaded for another error: %t, %v", loaded, err)
		}
	})
}
