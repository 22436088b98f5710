package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/carillonhq/carillon/internal/flow"
)

const (
	// ambushFor is how long a worker has to walk into an ambush.
	ambushFor = 3 * time.Second
	// freezeFor bounds a freeze: the lease ends, somebody looks, sends again and settles.
	freezeFor = 3 * lease
	// maxTries bounds how often a freeze is tried until somebody else overtakes the frozen worker.
	maxTries = 3
	// outageShare of the events are posted in an outage.
	outageShare = 10
	// troubleFor bounds how long a trouble waits for requests that find it: a breaker rests for ten seconds.
	troubleFor = 12 * time.Second
	// lifetime is how long a worker lives at most, on average over all of them.
	lifetime = 1200 * time.Millisecond
)

// nemesis kills and freezes workers until it has done both as often as it should. Events are posted in step with it,
// so that its last blow falls on as much work as its first.
func (r *run) nemesis(ctx context.Context) error {
	var kills, freezes atomic.Int64
	advance := func() {
		share := func(n *atomic.Int64, of int) float64 { return float64(n.Load()+1) / float64(of+1) }
		progress := min(share(&kills, r.Kills), share(&freezes, r.Freezes))
		r.poster.release(int(progress * float64(len(r.poster.batches)*(outageShare-1)/outageShare)))
	}
	var freezing sync.WaitGroup
	var freezeErr error
	var frozen atomic.Bool
	freezing.Go(func() {
		defer frozen.Store(true)
		for i := 0; r.effective < r.Freezes && i < maxTries*r.Freezes && freezeErr == nil; i++ {
			advance()
			freezeErr = r.freeze(ctx, r.slots[i%len(r.slots)])
			freezes.Add(1)
		}
	})
	var err error
	gap := lifetime / time.Duration(len(r.slots))
	for i := 0; err == nil && (i < r.Kills || r.Kills > 0 && !frozen.Load()); i++ {
		victim := r.chance.IntN(len(r.slots))
		wait := time.Duration(r.chance.Int64N(int64(gap)))
		inFlight := false
		switch i % 3 {
		case 0: // at any moment
			advance()
			err = r.pause(ctx, wait)
		case 1: // while it takes events in
			err = r.pause(ctx, wait)
			advance()
			if n, ok := r.poster.caught(gap); ok {
				victim = n
			}
		case 2: // while the provider has its requests
			advance()
			inFlight = true
		}
		if err == nil {
			err = r.killOne(ctx, victim, inFlight)
			kills.Add(1)
		}
	}
	freezing.Wait()
	err = errors.Join(err, freezeErr)
	if err == nil && r.Kills > 0 {
		err = r.outage(ctx)
	}
	r.poster.release(len(r.poster.batches))
	return err
}

// outage has the provider refuse everything, and then answer nothing, while the last events are posted and a worker is
// killed. It comes last: as long as a breaker is open there is nothing to kill or freeze.
func (r *run) outage(ctx context.Context) error {
	defer r.provider.suffer(none)
	within := func(seen func() (bool, error)) error {
		bounded, cancel := context.WithTimeout(ctx, troubleFor)
		defer cancel()
		if err := r.until(bounded, seen); err != nil && (ctx.Err() != nil || bounded.Err() == nil) {
			return err
		}
		return nil // nobody found it: the report says so
	}
	found := func(t trouble, most int) error {
		r.provider.suffer(t)
		return within(func() (bool, error) { return r.provider.found(t) >= most, nil })
	}
	r.poster.release(len(r.poster.batches))
	if err := found(outOfOrder, flow.Threshold*len(r.slots)); err != nil {
		return err
	}
	// The journal is what is judged. The rows say channel_down earlier: those of the tries that opened the breaker, too.
	if err := within(func() (bool, error) {
		lines, err := r.journals()
		return slices.ContainsFunc(lines, putOff), err
	}); err != nil {
		return err
	}
	// The next life knows nothing of the outage.
	if err := r.killOne(ctx, r.chance.IntN(len(r.slots)), false); err != nil {
		return err
	}
	return found(silent, 1)
}

// killOne kills a worker that is not frozen, this one if it can be, and starts the next life in its place. When all
// are frozen it waits for one. OnWire lies in wait for its next request, for as long as it would be left alone
// otherwise.
func (r *run) killOne(ctx context.Context, victim int, inFlight bool) error {
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
		caught := r.provider.ambush(life)
		defer r.provider.release(life)
		if err := r.await(ctx, caught.held, lifetime); err != nil && !errors.Is(err, errNoTraffic) {
			return err
		}
	}
	if err := s.kill(); err != nil {
		return err
	}
	return s.start()
}

// freeze stops a worker while the provider has its requests, for longer than its lease, and lets it go on when
// somebody else has done its work: what it then believes is out of date. Where it is the only worker, a second one
// takes its place, as a supervisor would have it.
func (r *run) freeze(ctx context.Context, s *slot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	zombie := s.now
	if err := zombie.alive(); err != nil {
		return err
	}
	caught := r.provider.ambush(zombie.life)
	release := sync.OnceFunc(func() { r.provider.release(zombie.life) })
	defer release()
	if err := r.await(ctx, caught.held, ambushFor); err != nil {
		if errors.Is(err, errNoTraffic) {
			return nil
		}
		return err
	}
	f := s.fates[zombie.life]
	f.frozen = true
	s.fates[zombie.life] = f
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
	err := r.until(bounded, func() (bool, error) { return r.provider.takenOver(caught, zombie.life), nil })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		r.effective++
	}
	if err := r.pause(ctx, settled); err != nil {
		return err
	}
	if err := zombie.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := r.pause(ctx, settled); err != nil || s.now == zombie {
		return err
	}
	return zombie.stop()
}

// stopOutsideTransaction freezes a worker. SQLite: not while it holds the only write lock, which would freeze
// everybody and show nothing.
func (r *run) stopOutsideTransaction(ctx context.Context, p *process) error {
	for {
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		if err := r.pause(ctx, beat); err != nil {
			return errors.Join(err, p.signal(syscall.SIGCONT))
		}
		free, err := r.db.writable(ctx)
		if err != nil || free {
			return err
		}
		if err := p.signal(syscall.SIGCONT); err != nil {
			return err
		}
		if err := r.pause(ctx, beat); err != nil {
			return err
		}
	}
}

// await waits for a channel to be closed; errNoTraffic says that it took too long.
func (r *run) await(ctx context.Context, ch <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ch:
		return nil
	case <-timer.C:
		return errNoTraffic
	case <-ctx.Done():
		return fmt.Errorf("wait for a worker's requests: %w", context.Cause(ctx))
	}
}
