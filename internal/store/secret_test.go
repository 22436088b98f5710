package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		ctx, at := t.Context(), time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
		one, err := s.EnsureWorkspace(ctx, "one", []byte("1"), at)
		if err != nil {
			t.Fatal(err)
		}
		two, err := s.EnsureWorkspace(ctx, "two", []byte("2"), at)
		if err != nil {
			t.Fatal(err)
		}
		put := func(ws store.Workspace, now time.Time, name, sealed string) {
			t.Helper()
			if err := s.PutSecret(ctx, ws.ID, now, name, sealed, store.Audit{Actor: "me", Action: "set secret", Target: name}); err != nil {
				t.Fatal(err)
			}
		}
		put(one, at, "B", "first")
		put(one, at, "A", "sealed")
		put(one, at.Add(time.Hour), "B", "second")
		put(two, at, "A", "theirs")
		list, err := s.Secrets(ctx, one.ID)
		want := []store.Secret{{Name: "A", Sealed: "sealed", UpdatedAt: at}, {Name: "B", Sealed: "second", UpdatedAt: at.Add(time.Hour)}}
		if diff := cmp.Diff(want, list); err != nil || diff != "" {
			t.Errorf("(-want +got):\n%s%v", diff, err)
		}
		if err := s.DeleteSecret(ctx, one.ID, at, "A", store.Audit{Actor: "me", Action: "remove secret", Target: "A"}); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteSecret(ctx, one.ID, at, "A", store.Audit{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("removed twice: %v", err)
		}
		if _, ok, err := s.SecretByName(ctx, one.ID, "A"); ok || err != nil {
			t.Errorf("it is still there: %v", err)
		}
		if x, ok, err := s.SecretByName(ctx, two.ID, "A"); !ok || err != nil || x.Sealed != "theirs" {
			t.Errorf("the other workspace's: %+v, %v", x, err)
		}
		audit, err := s.AuditLog(ctx, one.ID, store.Page{Limit: 10})
		if err != nil || len(audit) != 4 || audit[0].Action != "remove secret" || audit[0].Target != "A" {
			t.Errorf("the audit log holds %+v, %v", audit, err)
		}
	})
}
