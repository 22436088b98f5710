package store

import (
	"context"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/key"
)

// ids makes the row ids of a process. Ids of two processes differ in the process's number, which repeats after 1024 starts.
// Ids of one process differ in their time.
type ids struct {
	mu    sync.Mutex
	taken bool
	node  int64
	last  int64 // µs
}

// NewID makes an id that is unique in the database and greater than every earlier id of this process. Its high bits are µs
// since 1970, its low bits the process's number. Migrate, or Open on a migrated database, must have succeeded before.
func (s *Store) NewID(now time.Time) int64 {
	s.ids.mu.Lock()
	defer s.ids.mu.Unlock()
	s.ids.last = max(now.UnixMicro(), s.ids.last+1)
	return s.ids.last<<key.NodeBits | s.ids.node
}

const takeNode = `
UPDATE node SET taken = taken + 1
WHERE id = 1
RETURNING taken`

func (s *Store) takeNode(ctx context.Context) error {
	s.ids.mu.Lock()
	taken := s.ids.taken
	s.ids.mu.Unlock()
	if taken {
		return nil
	}
	return s.Write(ctx, func(t *Tx) error {
		taken, err := query(t, scanInt, takeNode)
		if err != nil {
			return err
		}
		s.ids.mu.Lock()
		defer s.ids.mu.Unlock()
		s.ids.node, s.ids.taken = taken[0]%(1<<key.NodeBits), true
		return nil
	})
}
