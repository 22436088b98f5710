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
	// worthOwn is how many events must wait before a second transaction begins beside the running one. A transaction costs about as much as writing a
	// hundred events (measured), so fewer events are better combined with the next ones.
	worthOwn = 100
	// groupTimeout bounds a shared transaction, which no single caller may cancel. It is as long as the server waits before it answers that the
	// database is away.
	groupTimeout = 30 * time.Second
)

var errGroupTimeout = errors.New("the database took too long")

// gathering combines the requests of one workspace into transactions (group commit). No request waits for others: if no transaction is running, a
// request begins one at once and takes along those that arrive before it has begun. Otherwise it waits for the running one to end; then the first
// waiting request begins the next.
//
//	request ──▶ none running ──▶ begin ──▶ write all waiting requests ──▶ success: all have their answers
//	       └──▶ wait ──▶ first ────┘  └──▶ others: wait               └──▶ failure: each one is written alone
//
// A request that repeats another one does not fail the group: it gets the other one's answer, and the rest of the group is written together (see
// repeat).
//
// A group is written on the goroutine of its first caller. A caller who goes away while waiting withdraws the request. A request that is being
// written with others is written in any case, as it may be when a connection is lost during a commit.
type gathering struct {
	ingester *Ingester
	ws       subject.WorkspaceID
	lanes    int // concurrent transactions

	mu      sync.Mutex
	running int
	waiting []*batch
	items   int // waiting events
}

// commit has b written, in a transaction of its own or with others, and returns the result.
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

// line puts batches into the line. The caller holds mu.
func (g *gathering) line(at int, list ...*batch) {
	g.waiting = slices.Insert(g.waiting, at, list...)
	for _, b := range list {
		b.first = false
		g.items += len(b.items)
	}
}

// turned reports whether it is b's turn. If not, b leaves the line, or the group that was to write it.
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

// dispatch gives the turn to the first batch in line if a lane is free. The caller holds mu.
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

// company takes the batches from the line that fit into one transaction with b.
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

// write runs a transaction for b, whose caller this is, and for the batches that arrived meanwhile, and notifies their callers. It returns false if
// the group failed: then all its batches are back in line, in order, each for a transaction of its own. A request that the transaction left out (see
// repeat) is back in line by itself.
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
	// The caller may cancel as long as the transaction holds only their own request.
	mayCancel := func() func() bool { return context.AfterFunc(ctx, func() { cancelCause(context.Cause(ctx)) }) }
	stop := mayCancel()
	defer func() { stop() }()
	asked := false
	err = g.ingester.write(run, g.ws, func() []*batch {
		if !asked && stop() { // else the transaction runs again, or the caller has gone
			asked = true
			if group = append(group, g.company(b)...); len(group) == 1 {
				stop = mayCancel()
			}
		}
		return group
	})
	return false
}

// ended gives every batch of a group the result of its transaction. The first batch belongs to the calling goroutine. The caller holds mu.
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

// separable reports whether the batches of a failed group may succeed one by one. New definitions would make each of them plan again, and an absent
// database fails each of them.
func separable(err error) bool {
	return err != nil && !errors.Is(err, errPanicked) && !errors.Is(err, store.ErrStaleDefinitions) &&
		!errors.Is(err, errGroupTimeout) && !store.Unavailable(err)
}

// back puts batches before all others in line, except those whose callers have gone. The caller holds mu.
func (g *gathering) back(list []*batch) {
	g.line(0, slices.DeleteFunc(slices.Clone(list), func(b *batch) bool { return b.gone })...)
}

// errPanicked is the error that the other batches of a group get when writing panicked on the first one's goroutine.
var errPanicked = errors.New("the transaction was given up")
