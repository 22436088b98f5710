package console

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/subject"
)

// counter caches what is counted in a workspace, which reads many rows. It counts again when twenty times as long has passed as the last
// count took, so that all open pages of a workspace together cost the database at most a twentieth of one connection. The zero value is ready.
type counter[T any] struct {
	mu    sync.Mutex
	known map[subject.WorkspaceID]*counted[T]
}

// counted is what is known of one workspace. Visitors of it wait for one count; those of another workspace do not.
type counted[T any] struct {
	mu     sync.Mutex
	counts T
	until  time.Time
}

// freshFor is the least time for which counts are kept: less than the pause between two looks.
const freshFor = time.Second

// of returns what is known of the workspace of a visit, or counts.
func (c *counter[T]) of(v visit, count func() (T, error)) (T, error) {
	known := c.workspace(v.workspace.ID)
	known.mu.Lock()
	defer known.mu.Unlock()
	if v.now.Before(known.until) {
		return known.counts, nil
	}
	elapsed := clock.Monotonic()
	counts, err := count()
	if err != nil {
		return counts, err
	}
	known.counts, known.until = counts, v.now.Add(max(freshFor, 20*elapsed()))
	return counts, nil
}

func (c *counter[T]) workspace(id subject.WorkspaceID) *counted[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[subject.WorkspaceID]*counted[T]{}
	}
	if c.known[id] == nil {
		c.known[id] = &counted[T]{}
	}
	return c.known[id]
}
