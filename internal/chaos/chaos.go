// Package chaos kills, freezes and deceives the engine, and judges it from outside.
//
//	poster ──HTTP API──▶ workers (processes) ──http channel──▶ provider
//	   │                   ▲  kill -9, SIGSTOP                    │
//	   ▼                   │                                      ▼
//	its log of acks     nemesis                             its log of requests
//	   └──────────────────────▶ judge ◀───────────────────────────┘
//
// A worker is a process of its own: the engine over a real database, taking events in by the real API and sending by
// the real http channel. Nothing is lost when every message of every acknowledged event is in the provider's log;
// nothing is doubled when it is there under one key. Neither verdict reads the engine's tables.
//
// Chaos without counters lies: a nemesis that never hits anything passes every engine. So a run counts what it
// brought about (intents left open by a kill, claims taken over, late results refused, lost replies tried again) and
// fails when one of these stayed at zero; and a binary without the fence (build tag sabotage) must be found out.
//
// MailStorm does the same to emails: its provider is a real mail server, and its verdict is attempt by attempt.
//
// LimitStorm gives few people more than their limits allow, through many processes at once. Whether limits hold is judged
// by the provider's log; a store without the lock of a person, or one that counts no slots, must be found out.
//
// It is for tests only.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// lease is short, so that a run sees many of them end; it is still ten times a slow answer of the provider.
	lease = 2 * time.Second
	// beat is how often conditions are checked.
	beat = 20 * time.Millisecond
	// settled is the time a worker has, after its request was answered, to write the result down.
	settled = 300 * time.Millisecond
)

// Options are the size of a run.
type Options struct {
	Name    string // for the report
	DB      string // migrated and empty
	Dialect string // sqlite, postgres
	Dir     string // for journals and logs; empty at first
	Binary  string // runs as a worker when EnvWorker is set
	Workers int    // processes
	Events  int
	Kills   int
	Freezes int
	Seed    uint64
	Limit   time.Duration // of the whole run
	Env     []string      // of the workers, beside our own
	Lease   time.Duration // 0 = lease
	// Crash is a failpoint of the engine at which workers end instead of being killed.
	Crash string
	// Single is of a storm of limits: every moment at which a person is reached has room for one message, so that two
	// that do not know of each other show at once.
	Single bool
}

// run is one database with everything around it.
type run struct {
	Options
	clock    clock.System
	db       *database
	provider *provider
	poster   *poster
	slots    []*slot
	chance   *rand.Rand // of the nemesis' killer alone

	frozen, effective int // freezes, and those during which somebody else took the work over
}

// Storm takes events in and sends them while workers are killed and frozen and the provider misbehaves; then it lets
// everything come to rest and judges. The error is about the run itself; what the engine did wrong is in the report.
func Storm(ctx context.Context, o Options) (Report, error) {
	return start(ctx, o, faults{lose: 0.03, slow: 0.05}, func(ctx context.Context, r *run) error {
		posting := r.poster.start(ctx)
		if err := r.nemesis(ctx); err != nil {
			return err
		}
		return posting()
	})
}

// CrashPoint takes events in and has the worker end at a failpoint, twice, before one may live.
func CrashPoint(ctx context.Context, o Options) (Report, error) {
	o.Workers, o.Kills, o.Freezes = 1, 0, 0
	return start(ctx, o, faults{}, func(ctx context.Context, r *run) error {
		const crashes = 2
		posting := r.poster.start(ctx)
		s := r.slots[0]
		for i := range crashes {
			r.poster.release((i + 1) * len(r.poster.batches) / crashes)
			if err := s.crashed(ctx); err != nil {
				return fmt.Errorf("failpoint %s: %w", o.Crash, err)
			}
			if i == crashes-1 {
				r.Crash = ""
			}
			if err := s.start(); err != nil {
				return err
			}
		}
		return posting()
	})
}

func start(ctx context.Context, o Options, f faults, storm func(context.Context, *run) error) (report Report, err error) {
	elapsed := clock.Monotonic()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the run took longer than %s", o.Limit))
	defer cancel()
	r := &run{Options: o, chance: rand.New(rand.NewPCG(o.Seed, 1))}
	defer func() { err = errors.Join(err, r.close()) }()
	if r.provider, err = newProvider(f, o.Seed); err != nil {
		return report, err
	}
	if r.db, err = prepare(ctx, o, fmt.Sprintf(definitions, r.provider.url)); err != nil {
		return report, err
	}
	for i := range o.Workers {
		s, err := newSlot(r, i+1)
		if err != nil {
			return report, err
		}
		r.slots = append(r.slots, s)
		if err := s.start(); err != nil {
			return report, err
		}
	}
	if r.poster, err = newPoster(r); err != nil {
		return report, err
	}
	if err := storm(ctx, r); err != nil {
		return report, err
	}
	drained := r.drain(ctx)
	for _, s := range r.slots {
		if err := s.stop(); err != nil {
			return report, err
		}
	}
	report, err = r.judge(context.WithoutCancel(ctx))
	report.Seconds = elapsed().Seconds()
	if drained != nil {
		report.violate("work was left when the time was over: %v", drained)
	}
	return report, err
}

// drain waits until the database has nothing more to do. What the provider does not have then, it will never get.
func (r *run) drain(ctx context.Context) error {
	return r.until(ctx, func() (bool, error) {
		due, err := r.db.store.NextDue(ctx, r.clock.Now())
		return err == nil && due.IsZero(), err
	})
}

// until waits for a condition; the error says that ctx ended first.
func (r *run) until(ctx context.Context, is func() (bool, error)) error {
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		if err := r.pause(ctx, beat); err != nil {
			return err
		}
	}
}

func (r *run) pause(ctx context.Context, d time.Duration) error {
	return r.clock.Sleep(ctx, r.clock.Now().Add(d))
}

// close ends every process that was started and everything that listens.
func (r *run) close() error {
	var errs []error
	for _, s := range r.slots {
		errs = append(errs, s.close())
	}
	if r.provider != nil {
		errs = append(errs, r.provider.close())
	}
	if r.db != nil {
		errs = append(errs, r.db.close())
	}
	return errors.Join(errs...)
}
