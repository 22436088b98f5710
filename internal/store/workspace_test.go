package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		race(t, 16, func(n int) error {
			_, err := s.EnsureWorkspace(ctx, "default", fmt.Appendf(nil, "secret-%d", n), now)
			return err
		})
		first, ok, err := s.WorkspaceByName(ctx, "default")
		if err != nil || !ok || len(first.Secret) == 0 || first.ID == 0 || !first.CreatedAt.Equal(now) || first.Definitions != 0 {
			t.Fatalf("%+v %v %v", first, ok, err)
		}
		again, err := s.EnsureWorkspace(ctx, "default", []byte("other"), now.Add(time.Hour))
		if diff := cmp.Diff(first, again); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		second, err := s.EnsureWorkspace(ctx, "second", []byte{0, 0xff}, now)
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Workspaces(ctx)
		if diff := cmp.Diff([]store.Workspace{first, second}, all); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		if _, ok, err := s.WorkspaceByName(ctx, "none"); ok || err != nil {
			t.Errorf("%v %v", ok, err)
		}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ctx := t.Context()
		k := store.APIKey{ID: 7, Workspace: f.ws, Name: "ci", Hash: "h1", Scopes: []string{"ingest", "read"}, CreatedAt: now}
		f.must(s.CreateKey(ctx, k))
		got, ok, err := s.KeyByHash(ctx, "h1")
		if diff := cmp.Diff(k, got); diff != "" || !ok || err != nil {
			t.Errorf("%v %v (-want +got)\n%s", ok, err, diff)
		}
		if _, ok, err := s.KeyByHash(ctx, "h2"); ok || err != nil {
			t.Errorf("%v %v", ok, err)
		}
		other := store.APIKey{Workspace: f.ws, Name: "ci", Hash: "h2", Scopes: []string{}, CreatedAt: now}
		f.mustBe(s.CreateKey(ctx, other), store.ErrConflict)
		for _, want := range []bool{true, false} {
			if got, err := s.RevokeKey(ctx, f.ws, "ci", now.Add(time.Hour)); got != want || err != nil {
				t.Errorf("revoked %v %v, want %v", got, err, want)
			}
		}
		f.must(s.CreateKey(ctx, other)) // a revoked key frees its name
		keys, err := s.Keys(ctx, f.ws)
		f.must(err)
		k.RevokedAt = now.Add(time.Hour)
		if len(keys) == 2 {
			other.ID = keys[1].ID
		}
		if diff := cmp.Diff([]store.APIKey{k, other}, keys); diff != "" || other.ID == 0 {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if got, err := s.RevokeKey(ctx, f.ws+1, "ci", now); got || err != nil {
			t.Errorf("another workspace revoked it")
		}
	})
}

func TestDefinitionsAreNumberedSets(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ctx := t.Context()
		doc := func(kind, name, hash string) store.Definition {
			return store.Definition{Kind: kind, Name: name, Text: "text of " + hash, Hash: hash}
		}
		v := func(version int64, d store.Definition) store.Definition { d.Version = version; return d }
		a1, a2, b1, c1 := doc("workflow", "a", "a1"), doc("workflow", "a", "a2"), doc("workflow", "b", "b1"), doc("channel", "a", "c1")
		steps := []struct {
			docs    []store.Definition
			number  int64
			changes []store.DefinitionChange
			set     []store.Definition
		}{
			{nil, 0, nil, nil},
			{[]store.Definition{b1, a1}, 1, []store.DefinitionChange{{"workflow", "b", 1, "added"}, {"workflow", "a", 1, "added"}}, []store.Definition{v(1, a1), v(1, b1)}},
			{[]store.Definition{a1}, 1, []store.DefinitionChange{{"workflow", "a", 1, "unchanged"}}, []store.Definition{v(1, a1), v(1, b1)}},
			{[]store.Definition{a2, c1}, 2, []store.DefinitionChange{{"workflow", "a", 2, "changed"}, {"channel", "a", 1, "added"}}, []store.Definition{v(1, c1), v(2, a2), v(1, b1)}},
			{[]store.Definition{a1, c1}, 3, []store.DefinitionChange{{"workflow", "a", 3, "changed"}, {"channel", "a", 1, "unchanged"}}, []store.Definition{v(1, c1), v(3, a1), v(1, b1)}},
		}
		sets := map[int64][]store.Definition{}
		for i, step := range steps {
			number, changes, err := storetest.Apply(ctx, s, f.ws, now, step.docs...)
			f.must(err)
			if diff := cmp.Diff(step.changes, changes); diff != "" || number != step.number {
				t.Errorf("step %d: set %d, want %d (-want +got)\n%s", i, number, step.number, diff)
			}
			sets[number] = step.set
			if n, err := s.DefinitionsNumber(ctx, f.ws); n != step.number || err != nil {
				t.Errorf("step %d: in force %d %v", i, n, err)
			}
			for number, want := range sets { // every earlier set stays readable
				got, err := s.DefinitionSet(ctx, f.ws, number)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("step %d, set %d: %v (-want +got)\n%s", i, number, err, diff)
				}
			}
		}
		_, _, err := storetest.Apply(ctx, s, f.ws, now, a1, a2)
		f.mustBe(err, store.ErrInvalid)
		_, _, err = storetest.Apply(ctx, s, f.ws+1, now)
		f.mustBe(err, store.ErrNotFound)
		_, err = s.DefinitionsNumber(ctx, f.ws+1)
		f.mustBe(err, store.ErrNotFound)
		f.mustBe(ingest(ctx, s, f.ws, ingestRequest{Definitions: 2}, nil), store.ErrStaleDefinitions)
	})
}

func TestRacingAppliesMakeOneSetEach(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const writers = 16
		f := setup(t, s)
		race(t, writers, func(n int) error {
			_, _, err := storetest.Apply(t.Context(), s, f.ws, now, store.Definition{Kind: "workflow", Name: "a", Hash: fmt.Sprint(n)})
			return err
		})
		got, err := s.DefinitionSet(t.Context(), f.ws, writers)
		f.must(err)
		if len(got) != 1 || got[0].Version != writers {
			t.Errorf("%+v", got)
		}
	})
}
