package intake

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/store"
)

const (
	// groupItems bounds the events of one shared transaction; a request may hold as many.
	groupItems = MaxBatch
	// worthOwn is how many events must wait before a second transaction begins beside the one under way. A transaction
	// costs about as much as writing a hundred events (measured), so that fewer are better off in one with what comes
	// meanwhile.
	worthOwn = 100
	// groupTimeout bounds a shared transaction, which no single caller may cancel. It is as long as the server waits
	// before it answers that the database is away.
	groupTimeout = 30 * time.Second
)

var errGroupTimeout = errors.New("the database took too long")

// gathering joins the requests of one workspace into transactions (group commit). Nobody waits for company: who finds
// no transaction under way begins one at once, and who finds one waits for its end among those who came meanwhile;
// then the first of them writes all.
//
//	request ──▶ nothing under way ──▶ write it
//	       └──▶ waiting ──▶ first: write the group ──▶ ended well: everybody has their answer
//	                   └──▶ others: wait            └──▶ else: everybody writes their own, alone
//
// Whoever writes does so on the goroutine of their own caller. A caller who goes away while waiting takes their
// request back; after that it is written with the rest, as it may be when a connection is lost during a commit.
type gathering struct {
	intake *Intake
	lanes  int // transactions at once

	mu      sync.Mutex
	running int
	waiting []*batch
	items   int // events that wait
}

// commit has b written, in a transaction of its own or with others, and returns what came of it.
func (g *gathering) commit(ctx context.Context, b *batch) error {
	for {
		g.join(b)
		select {
		case <-b.turn:
		case <-ctx.Done():
			if g.leave(b) {
				return context.Cause(ctx)
			}
			if len(b.group) == 0 {
				return context.Cause(ctx)
			}
		}
		if len(b.group) > 0 {
			g.write(ctx, b.group)
		}
		if !errors.Is(b.err, errAlone) {
			return b.err
		}
		b.alone = true
	}
}

// errAlone tells the callers of a group that failed to try it each for themselves.
var errAlone = errors.New("the group failed")

// join puts b in line.
func (g *gathering) join(b *batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b.group, b.err, b.turn = nil, nil, make(chan struct{})
	g.waiting = append(g.waiting, b)
	g.items += len(b.items)
	g.dispatch()
}

// leave takes b out of the line; false: it is being written, or is to write others.
func (g *gathering) leave(b *batch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, b)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	g.items -= len(b.items)
	return true
}

// dispatch gives the turn to the first in line, for as many as one transaction may hold. The caller holds mu.
func (g *gathering) dispatch() {
	for len(g.waiting) > 0 && (g.running == 0 || g.running < g.lanes && g.items >= worthOwn) {
		first := g.waiting[0]
		n, items := 1, len(first.items)
		if !first.alone {
			for _, b := range g.waiting[1:] {
				if b.alone || b.set != first.set || items+len(b.items) > groupItems {
					break
				}
				n, items = n+1, items+len(b.items)
			}
		}
		first.group = slices.Clone(g.waiting[:n])
		g.waiting = slices.Delete(g.waiting, 0, n)
		g.items -= items
		g.running++
		close(first.turn)
	}
}

// write runs the transaction of a group whose first is the caller's own, and tells the others.
func (g *gathering) write(ctx context.Context, group []*batch) {
	err := errPanicked
	defer func() {
		for _, b := range group[1:] {
			b.err = err
			close(b.turn)
		}
		group[0].err = err
		g.mu.Lock()
		g.running--
		g.dispatch()
		g.mu.Unlock()
	}()
	if len(group) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), groupTimeout, errGroupTimeout)
		defer cancel()
	}
	err = g.intake.write(ctx, group)
	if err != nil && len(group) > 1 && !errors.Is(err, store.ErrStaleDefinitions) && !errors.Is(err, errGroupTimeout) && !store.Unavailable(err) {
		err = errAlone
	}
}

// errPanicked is what the others of a group are told when writing it panicked on the first one's goroutine.
var errPanicked = errors.New("the transaction was given up")
