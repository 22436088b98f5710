package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Two processes ingest events while both apply definitions. In the order of commits, no event was planned by a set after the next one was in force.
func TestNothingIsPlannedByAnOldSet(t *testing.T) {
	t.Parallel()
	postgresOnly(t)
	server, err := pgtest.Start(t.Context(), pgtest.Options{Settings: map[string]string{"track_commit_timestamp": "on"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url, err := server.Create(t.Context(), pgtest.Template{Version: store.Fingerprint(), Prepare: migrated})
	if err != nil {
		t.Fatal(err)
	}
	version := func(text string) string {
		return strings.Replace(alert("a", "up", ""), "{{ event.kind }}", text, 1) + memory
	}
	processes := []*enginetest.Bundle{enginetest.Setup(t, storetest.Open(t, url), version("first"), nil), enginetest.Setup(t, storetest.Open(t, url), "", nil)}
	applying, stop := context.WithCancel(t.Context())
	posted := make(chan struct{})
	var posters, appliers sync.WaitGroup
	for n, b := range processes {
		appliers.Go(func() {
			for i := range 15 {
				for range 4 { // some applies are always running
					<-posted
				}
				files := []definition.File{{Name: "test.yaml", Text: []byte(version(fmt.Sprintf("%d by %d", i, n)))}}
				if _, err := b.Engine.Apply(t.Context(), b.Workspace, files, "test"); err != nil {
					t.Error(err)
				}
			}
		})
		for poster := range 3 {
			posters.Go(func() {
				for i := 0; applying.Err() == nil; i++ {
					item := ingest.Parse([]byte(event("up", fmt.Sprintf("%d-%d-%d", n, poster, i), fmt.Sprintf("p%d@x.org", i))), enginetest.Start)
					_, err := b.Ingest(t.Context(), b.Workspace, []ingest.Item{item})
					if err != nil && !strings.Contains(err.Error(), store.ErrStaleDefinitions.Error()) { // many applies in a row outrun a caller
						t.Error(err)
						return
					}
					select {
					case posted <- struct{}{}:
					case <-applying.Done():
					}
				}
			})
		}
	}
	appliers.Wait()
	stop()
	posters.Wait()

	db := connect(t, url)
	var instances, sets, late int
	// The last writer of a replaced version is the apply that replaced it.
	err = db.QueryRow(t.Context(), `SELECT (SELECT COUNT(*) FROM instance), (SELECT COUNT(DISTINCT definitions) FROM instance), (
		SELECT COUNT(*) FROM instance AS i JOIN definition AS d ON d.kind = 'workflow' AND d.removed_in > i.definitions
		WHERE pg_xact_commit_timestamp(i.xmin) > pg_xact_commit_timestamp(d.xmin))`).Scan(&instances, &sets, &late)
	if err != nil {
		t.Fatal(err)
	}
	if instances < 100 || sets < 10 {
		t.Errorf("%d instances of %d sets are no race", instances, sets)
	}
	if late > 0 {
		t.Errorf("%d of %d instances were committed after a later set", late, instances)
	}
	t.Logf("%d instances of %d sets", instances, sets)
}

func migrated(ctx context.Context, url string) error {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx)
}
