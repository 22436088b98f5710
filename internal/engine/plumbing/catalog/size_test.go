package catalog_test

import (
	"context"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// large has sets of a megabyte each.
type large struct{ catalog.Store }

func (large) DefinitionSet(context.Context, subject.WorkspaceID, int64) ([]store.Definition, error) {
	text := "channel: memory:default\nprovider: memory\n" + strings.Repeat("# so that it is large\n", 1_000_000/22)
	return []store.Definition{{Kind: "channel", Name: "memory:default", Text: text, Hash: "h"}}, nil
}

// Sets are cached by their size, and the least recently used ones are evicted first.
func TestLargeSetsAreForgotten(t *testing.T) {
	t.Parallel()
	c := catalog.New(large{}, loader.Options{})
	for number := range int64(20) {
		if _, err := c.At(t.Context(), 1, number+1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Loaded(1, 1); err != nil {
			t.Fatalf("the set in use was forgotten after %d others: %v", number, err)
		}
	}
	known := 0
	for number := range int64(20) {
		if _, err := c.Loaded(1, number+1); err == nil {
			known++
		}
	}
	if known < 2 || known > 5 {
		t.Errorf("%d sets of a megabyte are kept", known)
	}
}
