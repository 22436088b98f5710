package ingest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
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
// no transaction under way begins one at once, and takes along who came until it had begun. Who finds one waits for its
// end; then the first of those who wait begins the next.
//
//	request ──▶ nothing under way ──▶ begin ──▶ write all who wait ──▶ ended well: everybody has their answer
//	       └──▶ wait ──▶ first ────────┘  └──▶ others: wait       └──▶ else: everybody writes their own, alone
//
// A request that repeats another one is no reason to fail: it is answered as that one was, and the rest of its group is
// written together (see repeat).
//
// Whoever writes does so on the goroutine of their own caller. A caller who goes away while waiting takes their
// request back; once it is being written with others it is written all the same, as it may be when a connection is
// lost during a commit.
type gathering struct {
	intake *Ingester
	ws     subject.WorkspaceID
	lanes  int // transactions at once

	mu      sync.Mutex
	running int
	waiting []*batch
	items   int // events that wait
}

// commit has b written, in a transaction of its own or with others, and returns what came of it.
func (g *gathering) commit(ctx context.Context, b *batch) error {
	g.mu.Lock()
	g.line(len(g.waiting), b)
	g.dispatch()
	g.mu.Unlock()
	for {
		select {
		case <-b.turn:
		case <-ctx.Done():
			if !g.turned(b) {
				return context.Cause(ctx)
			}
			<-b.turn
		}
		if !b.first || g.write(ctx, b) {
			return b.err
		}
	}
}

// line puts batches in line. The caller holds mu.
func (g *gathering) line(at int, list ...*batch) {
	g.waiting = slices.Insert(g.waiting, at, list...)
	for _, b := range list {
		b.first = false
		g.items += len(b.items)
	}
}

// turned reports whether it is b's turn. If not it leaves the line, or those who have taken it along.
func (g *gathering) turned(b *batch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, b); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.items -= len(b.items)
	}
	b.gone = !b.first
	return b.first
}

// dispatch gives the turn to the first in line, while there is a lane for it. The caller holds mu.
func (g *gathering) dispatch() {
	for len(g.waiting) > 0 && (g.running == 0 || g.running < g.lanes && g.items >= worthOwn) {
		b := g.waiting[0]
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.items -= len(b.items)
		g.running++
		b.first = true
		b.turn <- struct{}{}
	}
}

// company takes along those in line whom one transaction with b can hold.
func (g *gathering) company(b *batch) []*batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, items := 0, len(b.items)
	for _, other := range g.waiting {
		if b.alone || other.alone || other.set != b.set || items+len(other.items) > groupItems {
			break
		}
		n, items = n+1, items+len(other.items)
	}
	others := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.items -= items - len(b.items)
	return others
}

// write runs a transaction for b, whose caller this is, and for who came meanwhile, and tells these. It reports false
// when the group failed: then all of it are back in line, in their order, each for a transaction of their own. A request
// that the transaction left out (see repeat) is back in line by itself.
func (g *gathering) write(ctx context.Context, b *batch) (done bool) {
	group := []*batch{b}
	err := errPanicked
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if done = len(group) == 1 || !separable(err); done {
			g.ended(group, err)
		} else {
			for _, one := range group {
				one.alone = true
			}
			g.back(group)
		}
		g.running--
		g.dispatch()
	}()
	run, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), groupTimeout, errGroupTimeout)
	defer cancel()
	run, cancelCause := context.WithCancelCause(run)
	defer cancelCause(nil)
	// The caller may cancel as long as only their own request is concerned.
	mayCancel := func() func() bool { return context.AfterFunc(ctx, func() { cancelCause(context.Cause(ctx)) }) }
	stop := mayCancel()
	defer func() { stop() }()
	asked := false
	err = g.intake.write(run, g.ws, func() []*batch {
		if !asked && stop() { // else the transaction is done again, or the caller has gone
			asked = true
			if group = append(group, g.company(b)...); len(group) == 1 {
				stop = mayCancel()
			}
		}
		return group
	})
	return false
}

// ended gives every batch of a group what came of its transaction. The first one is its caller's. The caller holds mu.
func (g *gathering) ended(group []*batch, err error) {
	var again []*batch
	for i, one := range group {
		if err == nil && one.repeat.again {
			again = append(again, one)
			continue
		}
		if one.err = err; err == nil {
			one.err = one.repeat.answer
		}
		if i > 0 {
			one.turn <- struct{}{}
		}
	}
	g.back(again)
}

// separable reports whether a group that failed may succeed one by one. All plan again for new definitions, and a
// database that is away is so for each of them.
func separable(err error) bool {
	return err != nil && !errors.Is(err, errPanicked) && !errors.Is(err, store.ErrStaleDefinitions) &&
		!errors.Is(err, errGroupTimeout) && !store.Unavailable(err)
}

// back puts batches in line before all others, but for those whose callers have gone. The caller holds mu.
func (g *gathering) back(list []*batch) {
	g.line(0, slices.DeleteFunc(slices.Clone(list), func(b *batch) bool { return b.gone })...)
}

// errPanicked is what the others of a group are told when writing it panicked on the first one's goroutine.
var errPanicked = errors.New("the transaction was given up")
