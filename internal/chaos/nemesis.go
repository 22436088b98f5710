package chaos

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/internal/flow"
)

const (
	// settled is the time a worker has, after its request was answered, to write the result down.
	settled = 300 * time.Millisecond
	// ambushFor is how long a worker has to walk into an ambush, on a busy machine too.
	ambushFor = time.Minute
	// freezeFor bounds a freeze: the lease ends, somebody looks, sends again and settles.
	freezeFor = 3 * lease
	// maxTries bounds how often a freeze is tried until somebody else overtakes the frozen worker.
	maxTries = 3
	// outageShare of the events are posted in an outage.
	outageShare = 10
	// troubleFor bounds how long a trouble waits for requests that find it: a breaker rests for ten seconds, and a busy machine takes its time.
	troubleFor = time.Minute
	// lifetime is how long a worker lives at most, on average over all of them.
	lifetime = 1200 * time.Millisecond
)

// nemesis kills and freezes workers until it has done both as often as it should. Events are posted in step with it,
// so that its last blow falls on as much work as its first.
func (r *run) nemesis(ctx context.Context, group *errgroup.Group) error {
	var kills, freezes atomic.Int64
	var frozen atomic.Bool // often enough
	before := len(r.poster.batches) * (outageShare - 1) / outageShare
	advance := func() {
		share := func(n *atomic.Int64, of int) float64 { return float64(n.Load()+1) / float64(of+1) }
		progress := min(share(&kills, r.Kills), share(&freezes, r.Freezes))
		r.poster.release(int(progress * float64(before)))
	}
	group.Go(func() error {
		for i := 0; r.overtaken < r.Freezes && i < maxTries*r.Freezes; i++ {
			advance()
			if err := r.freeze(ctx, r.slots[i%len(r.slots)]); err != nil {
				return err
			}
			freezes.Add(1)
		}
		frozen.Store(true)
		return nil
	})
	gap := lifetime / time.Duration(len(r.slots))
	for i := 0; i < r.Kills || r.Kills > 0 && !frozen.Load(); i++ {
		victim, inFlight := r.chance.IntN(len(r.slots)), false
		wait := time.Duration(r.chance.Int64N(int64(gap)))
		switch i % 3 {
		case 0: // at any moment
			advance()
			r.pause(ctx, wait)
		case 1: // while it takes events in
			r.pause(ctx, wait)
			advance()
			r.poster.another(before) // there may have been none to release, while a freeze takes its time
			if n, ok := r.poster.caught(gap); ok {
				victim = n
			}
		case 2: // while the provider has its requests
			advance()
			inFlight = true
		}
		if err := r.kill(ctx, victim, inFlight); err != nil {
			return err
		}
		kills.Add(1)
	}
	if err := r.wait(ctx, func() (bool, error) { return frozen.Load(), nil }); err != nil || r.Kills == 0 {
		return err
	}
	return r.outage(ctx)
}

// outage has the provider refuse everything, and then answer nothing, while the last events are posted and a worker is
// killed. It comes last: as long as a breaker is open there is nothing to kill or freeze. When nothing meets a trouble,
// the report says so.
func (r *run) outage(ctx context.Context) error {
	defer r.provider.suffer("")
	meet := func(m mood, met func() bool) {
		r.provider.suffer(m)
		bounded, cancel := context.WithTimeout(ctx, troubleFor)
		defer cancel()
		_ = r.wait(bounded, func() (bool, error) { return met(), nil })
	}
	r.poster.release(len(r.poster.batches))
	meet(outOfOrder, func() bool { return r.provider.met(outOfOrder) >= flow.Threshold*len(r.slots) })
	// The journal is what is judged. The rows say channel_down earlier: those of the tries that opened the breaker, too.
	meet(outOfOrder, func() bool {
		lines, err := r.journals()
		return err != nil || slices.ContainsFunc(lines, putOff)
	})
	// The next life knows nothing of the outage.
	if err := r.kill(ctx, r.chance.IntN(len(r.slots)), false); err != nil {
		return err
	}
	meet(silent, func() bool { return r.provider.met(silent) > 0 })
	return context.Cause(ctx)
}

// kill kills a worker that is not frozen, this one if it can be, and starts the next life in its place. When all are
// frozen it waits for one. With inFlight it lies in wait for the worker's next request, for longer than a worker lives: on a busy machine
// it has hardly begun by then.
func (r *run) kill(ctx context.Context, victim int, inFlight bool) error {
	s := r.slots[victim]
	for i := 0; !s.mu.TryLock(); i++ {
		if i == len(r.slots) {
			s.mu.Lock()
			break
		}
		s = r.slots[s.number%len(r.slots)] // the next one
	}
	defer s.mu.Unlock()
	if inFlight {
		life := s.now.life
		r.provider.ambush(life).catches(ctx, 4*lifetime)
		defer r.provider.release(life)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.replace()
}

// freeze stops a worker while the provider has its requests, for longer than its lease, and lets it go on when
// another one has done its work: what it then believes is out of date. Where it is the only worker, a second one
// takes its place, as a supervisor would have it.
func (r *run) freeze(ctx context.Context, s *slot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	zombie := s.now
	if err := zombie.alive(); err != nil {
		return err
	}
	trap := r.provider.ambush(zombie.life)
	release := sync.OnceFunc(func() { r.provider.release(zombie.life) })
	defer release()
	if !trap.catches(ctx, ambushFor) {
		return context.Cause(ctx)
	}
	s.frozen[zombie.life] = true
	if err := r.stopOutsideTransaction(ctx, zombie); err != nil {
		return err
	}
	defer func() { _ = zombie.signal(syscall.SIGCONT) }() // also when something goes wrong in between
	if len(r.slots) == 1 {
		if err := s.start(); err != nil {
			return errors.Join(err, zombie.kill())
		}
		defer func() { _ = zombie.kill() }()
	}
	release() // the answers wait in its sockets
	r.frozen++
	bounded, cancel := context.WithTimeout(ctx, freezeFor)
	defer cancel()
	if r.wait(bounded, func() (bool, error) { return r.provider.takenOver(trap, zombie.life), nil }) == nil {
		r.overtaken++
	}
	r.pause(ctx, settled)
	if err := zombie.signal(syscall.SIGCONT); err != nil {
		return err
	}
	r.pause(ctx, settled)
	if s.now == zombie || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return zombie.stop()
}

// stopOutsideTransaction freezes a worker. SQLite: not while it holds the only write lock, which would freeze
// everybody and show nothing.
func (r *run) stopOutsideTransaction(ctx context.Context, p *process) error {
	return r.wait(ctx, func() (bool, error) {
		err := p.signal(syscall.SIGSTOP)
		r.pause(ctx, beat)
		if err != nil {
			return false, err
		}
		free, err := r.db.writable(ctx)
		if free || err != nil {
			return free, err
		}
		return false, p.signal(syscall.SIGCONT)
	})
}
