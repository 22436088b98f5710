package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// overtaken is a store in which other definitions come into force just before each of the next transactions.
type overtaken struct {
	*store.Store
	times int
}

func (o *overtaken) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	if o.times--; o.times >= 0 {
		return store.ErrStaleDefinitions
	}
	return o.Store.WriteHoldingDefinitions(ctx, work)
}

// An event that meets one edit of the definitions after another is ingested, or its caller gets an error.
//
// Shows: P1.
func TestAnEventThatEditsOvertake(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, nil)
		for times, taken := range map[int]bool{1: true, 19: true, 20: false, 1000: false} {
			in := ingest.New(&overtaken{s, times}, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {})
			items := []ingest.Item{ingest.Parse([]byte(event("up", "", "a@x.org")), b.Clock.Now())}
			results, err := in.Ingest(t.Context(), b.Workspace, items, b.Clock.Now(), nil)
			if taken && (err != nil || len(results) != 1) || !taken && !errors.Is(err, store.ErrStaleDefinitions) {
				t.Errorf("after %d edits: %d results, %v", times, len(results), err)
			}
		}
	})
}

// A workflow that another process applied can be run by hand through this one at once.
func TestARunByHandAfterAnApplyElsewhere(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		var config engine.Config
		b := enginetest.Setup(t, s, daily(nine, ""), func(c *engine.Config) { config = *c })
		other := engines(t, b, 2, config)[1]
		if _, err := other.RunManually(t.Context(), b.Workspace, "tips", "1", "test", nil); err != nil {
			t.Fatal(err)
		}
		b.Apply("persona: New\n")
		if _, err := other.RunManually(t.Context(), b.Workspace, "tips", "2", "test", nil); err != nil {
			t.Errorf("after an apply of something else: %v", err)
		}
	})
}
