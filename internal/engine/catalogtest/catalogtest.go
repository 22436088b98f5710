// Package catalogtest makes a catalog of definitions without a store, for tests of decisions.
package catalogtest

import (
	"context"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Workspace is the one whose definitions the catalog holds.
const Workspace subject.WorkspaceID = 1

// sets are definition sets; the first one has the number 1, and the last one is in force.
type sets [][]store.Definition

func (s sets) Workspaces(context.Context) ([]store.Workspace, error) {
	return []store.Workspace{{ID: Workspace, Name: "default", Secret: []byte("0123456789abcdef0123456789abcdef"), Definitions: int64(len(s))}}, nil
}

func (s sets) DefinitionsNumber(context.Context, subject.WorkspaceID) (int64, error) {
	return int64(len(s)), nil
}

func (s sets) DefinitionSet(_ context.Context, _ subject.WorkspaceID, number int64) ([]store.Definition, error) {
	return s[number-1], nil
}

// Of makes a catalog in which each of the texts (YAML) is a loaded set. A definition has the number of its set as its version.
func Of(t testing.TB, texts ...string) *catalog.Catalog {
	t.Helper()
	options := loader.Options{Providers: channelpool.Providers([]channel.Provider{{Name: "memory"}, {Name: "inbox"}})}
	var all sets
	for i, text := range texts {
		bundle, problems := loader.Load([]definition.File{{Name: "test.yaml", Text: []byte(text)}}, options)
		if definition.HasErrors(problems) {
			t.Fatal(problems)
		}
		var set []store.Definition
		for _, d := range bundle.Documents {
			set = append(set, store.Definition{Kind: string(d.Kind), Name: d.Name, Text: d.Text, Hash: d.Hash, Version: int64(i + 1)})
		}
		all = append(all, set)
	}
	c := catalog.New(all, options)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if _, err := c.At(t.Context(), Workspace, int64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
