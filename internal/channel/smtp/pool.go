package smtp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/carillonhq/carillon/internal/clock"
)

var (
	errClosed = errors.New("the channel is closed")
	errBusy   = fmt.Errorf("all %d connections to the server were busy", connections)
)

// pool keeps a bounded number of connections to one server. Each taken place has at most one connection.
type pool struct {
	open  func(context.Context) (*session, error)
	clock clock.Clock
	place chan struct{}

	mu       sync.Mutex
	idle     []*session // the one used last is taken first, so that a surplus ages
	closed   bool
	sweeping bool
	ctx      context.Context // of the sweep
	stop     context.CancelFunc
	sweeps   sync.WaitGroup
}

func newPool(open func(context.Context) (*session, error), c clock.Clock) *pool {
	ctx, stop := context.WithCancel(context.Background())
	return &pool{open: open, clock: c, place: make(chan struct{}, connections), ctx: ctx, stop: stop}
}

// enter waits for a place.
func (p *pool) enter(ctx context.Context) error {
	select {
	case p.place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errBusy
	}
}

// leave gives a place back.
func (p *pool) leave() { <-p.place }

// take returns a connection that was kept, or a new one.
func (p *pool) take(ctx context.Context) (*session, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	return p.open(ctx)
}

// put keeps a connection, or ends it when it is of no use any more, and gives its place back.
func (p *pool) put(s *session) {
	defer p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.dead || p.closed {
		s.close(p.closed)
		return
	}
	s.kept, s.idleSince = true, p.clock.Now()
	p.idle = append(p.idle, s)
	if !p.sweeping {
		p.sweeping = true
		p.sweeps.Go(p.sweep)
	}
}

// sweep ends connections that nobody has needed for a while, until none is left.
func (p *pool) sweep() {
	for {
		p.mu.Lock()
		now := p.clock.Now()
		for len(p.idle) > 0 && !now.Before(p.idle[0].idleSince.Add(idleFor)) {
			p.idle[0].close(true)
			p.idle = p.idle[1:]
		}
		if len(p.idle) == 0 {
			p.sweeping = false
			p.mu.Unlock()
			return
		}
		next := p.idle[0].idleSince.Add(idleFor)
		p.mu.Unlock()
		if p.clock.Sleep(p.ctx, next) != nil {
			return
		}
	}
}

// close ends what is kept; what is in use ends with its mail.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.idle {
		s.close(true)
	}
	p.idle = nil
	p.mu.Unlock()
	p.stop()
	p.sweeps.Wait()
	return nil
}
