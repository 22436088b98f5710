package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Of two rotations at once the later one ends the secret of the earlier one, which has its grace period; and a key that is revoked meanwhile is not
// rotated. So no caller is given a secret that was never in force.
func TestRotationsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, at := t.Context(), time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
		ws, err := s.EnsureWorkspace(ctx, "one", []byte("1"), at)
		if err != nil {
			t.Fatal(err)
		}
		rotate := func(name, hash string, meanwhile func()) error {
			return s.RotateKey(ctx, ws.ID, name, func(k *store.APIKey) error {
				meanwhile()
				k.OldHash, k.OldUntil, k.Hash = k.Hash, at.Add(time.Hour), hash
				return nil
			})
		}
		// beside runs f once: in the middle of a transaction, where transactions run side by side, else before it.
		beside := func(f func()) (meanwhile func()) {
			if s.Dialect() == "sqlite" {
				f()
				return func() {}
			}
			return sync.OnceFunc(func() { storetest.Beside(f) })
		}
		for _, name := range []string{"a", "b"} {
			if err := s.CreateKey(ctx, store.APIKey{Workspace: ws.ID, Name: name, Hash: name, Scopes: []string{"read"}, CreatedAt: at}); err != nil {
				t.Fatal(err)
			}
		}
		err = rotate("a", "later", beside(func() {
			if err := rotate("a", "earlier", func() {}); err != nil {
				t.Error(err)
			}
		}))
		if err != nil {
			t.Error(err)
		}
		for hash, inForce := range map[string]bool{"later": true, "earlier": true, "a": false} {
			k, known, err := s.KeyByHash(ctx, hash)
			if got := known && k.Ended(hash, at) == ""; err != nil || got != inForce {
				t.Errorf("the secret %s is in force: %t, want %t, %v", hash, got, inForce, err)
			}
		}
		err = rotate("b", "after", beside(func() {
			if _, err := s.RevokeKey(ctx, ws.ID, "b", at); err != nil {
				t.Error(err)
			}
		}))
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a revoked key is rotated: %v", err)
		}
	})
}
