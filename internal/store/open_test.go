package store_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		have, want, err := s.SchemaVersion(t.Context())
		if err != nil || have != want || want == 0 {
			t.Errorf("schema %d, want %d: %v", have, want, err)
		}
	})
}
