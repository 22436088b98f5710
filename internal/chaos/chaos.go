// Package chaos kills, freezes and deceives the engine, and judges it from outside. It is for tests only.
//
//	poster ──HTTP API──▶ workers (processes) ──channels──▶ provider
//	   │                   ▲  kill -9, SIGSTOP               │
//	   ▼                   │                                 ▼
//	its acknowledgements  nemesis                     its log of requests
//	   └──────────────────────▶ judge ◀──────────────────────┘
//
// Run makes one storm. It starts the workers, posts events while the nemesis makes trouble, lets everything come to
// rest, stops the workers, judges and reports. A worker is a process of its own: the engine over a real database, which
// takes events in by the real API and sends by real channels.
//
// A profile is what one kind of storm has of its own: definitions, a provider, events, trouble, a judge.
//
//   - Failures: workers are killed and frozen, and the provider fails. Every message of every acknowledged event is in
//     the provider's log, under one key. With Options.Crash workers end at a failpoint instead.
//   - Mails: a real mail server refuses, drops and delays. Every attempt is what the server's log says of it.
//   - Answers: people answer surveys by the API, and a webhook gets their answers, while workers are killed. Every answer
//     that was taken is stored once, and its outbox event reached the webhook; answers, reminders and ends agree.
//   - Limits: few people are given more than their limits allow, through many processes at once. The provider's log
//     breaks no limit.
//   - Courses: records whose courses send a message a second are written, changed, closed and deleted by the API, while workers are
//     killed, also in the middle of a fan-out. Each message that was due arrived once, each that nothing asked for did not, and each
//     course that goes on has one message that waits.
//   - Broadcast: one message to many people is expanded while all workers are killed at once, again and again. Each person of the
//     audience has one delivery and got one message, and nobody else has any.
//
// What was lost, doubled or sent too much is judged by the logs of the poster and the provider. The engine's own rows
// are held against them.
//
// A nemesis that never hits anything passes every engine. So a report counts what a storm brought about, and
// Report.Unproven names what stayed at zero. And a store that is broken on purpose (build tag sabotage) must be found
// out: without the fence of results by Failures, without the lock of a person or its slots by Limits, and by Courses where the next message of a
// course is made in a transaction of its own.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// lease is short, so that a run sees many of them end; it is still ten times a slow answer of the provider.
	lease = 2 * time.Second
	// beat is how often conditions are checked.
	beat = 20 * time.Millisecond
)

// Profile names a kind of storm.
type Profile string

// The profiles.
const (
	Failures Profile = "failures"
	Answers  Profile = "answers"
	Mails    Profile = "mails"
	Limits   Profile = "limits"
	Courses  Profile = "courses"

	Broadcast Profile = "broadcast"
)

// Options are the size of a run.
type Options struct {
	Profile Profile
	Name    string // for the report
	DB      string // migrated and empty
	Dialect string // sqlite, postgres
	Dir     string // for journals and logs; empty at first
	Binary  string // runs as a worker when EnvWorker is set
	Workers int    // processes
	Events  int    // Broadcast: people
	Kills   int
	Freezes int
	Seed    uint64
	Limit   time.Duration // of the whole run
	Env     []string      // of the workers, beside our own
	// Crash is a failpoint of the engine. The one worker of such a run of Failures, Answers or Courses ends there twice before
	// it may live; of Broadcast more often.
	Crash string
	// Single is an option of Limits: every moment at which a person is reached has room for one message, so that two
	// that do not know of each other show at once.
	Single bool
	// Leased is an option of Broadcast: a worker takes the occasion under a lease before each page.
	Leased bool
}

// profile is what one kind of storm has of its own.
type profile interface {
	// prepare makes the provider and returns the definitions.
	prepare() (definitions string, err error)
	// storm starts posting and makes trouble meanwhile. At its end all events may be posted.
	storm(ctx context.Context, group *errgroup.Group) error
	// rests reports whether the workers have done everything that they can be waited for.
	rests(ctx context.Context) (bool, error)
	// judge looks at the logs and at the database after all workers have stopped.
	judge(ctx context.Context, report *Report) error
	// counters names the verdicts of the judge, and what a storm must have brought about for them to prove something.
	counters() (verdicts, proofs []string)
}

func (r *run) profile() profile {
	switch r.Profile {
	case Answers:
		return &answers{run: r}
	case Mails:
		return &mails{run: r}
	case Limits:
		return &limits{run: r}
	case Courses:
		return &courses{run: r}
	case Broadcast:
		return &broadcast{run: r}
	case Failures:
	}
	return &failures{run: r}
}

// run is one database with everything around it.
type run struct {
	Options
	clock   clock.System
	chance  *rand.Rand
	db      *database
	poster  *poster
	slots   []*slot
	closers []io.Closer // in the order in which they were opened
	stalls  stalls

	// What a profile sets.
	provider *provider     // of messages by HTTP; nil: it has another one
	lease    time.Duration // of the workers
	timeout  time.Duration // of one request of theirs; 0: the engine's own

	frozen, overtaken int // freezes, and those during which another worker sent again what the frozen one had sent
}

// Run makes one storm. The error is about the run itself; what the engine did wrong is in the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	elapsed := clock.Monotonic()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the run took longer than %s", o.Limit))
	defer cancel()
	r := &run{Options: o, chance: rand.New(rand.NewPCG(o.Seed, 1)), lease: lease}
	defer func() { err = errors.Join(err, r.close()) }()
	go r.stalls.watch(ctx, &r.clock)
	p := r.profile()
	definitions, err := p.prepare()
	if err != nil {
		return nil, err
	}
	if err := r.openDatabase(ctx, definitions); err != nil {
		return nil, fmt.Errorf("prepare the database: %w", err)
	}
	for range r.Workers {
		if err := r.addSlot(); err != nil {
			return nil, err
		}
	}
	if r.poster, err = newPoster(r); err != nil {
		return nil, err
	}
	group, storming := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer func() { r.poster.release(len(r.poster.batches)) }()
		return p.storm(storming, group)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	report = newReport(r, p)
	// What the provider does not have when the workers rest, it will never get.
	if err := r.wait(ctx, func() (bool, error) { return p.rests(ctx) }); err != nil {
		report.violate("unfinished", "work was left when the time was over: %v", err)
	}
	for _, s := range r.slots {
		if err := s.stop(); err != nil {
			return report, err
		}
		report.count("kills", len(s.killed))
	}
	r.poster.judge(report)
	err = p.judge(context.WithoutCancel(ctx), report)
	report.Seconds = elapsed().Seconds()
	return report, err
}

// idle reports whether nothing is due by an instant.
func (r *run) idle(ctx context.Context, by time.Time) (bool, error) {
	const due = `SELECT (SELECT count(*) FROM delivery WHERE send_at > 0 AND send_at <= %[1]d) +
  (SELECT count(*) FROM instance WHERE ready_at > 0 AND ready_at <= %[1]d) + (SELECT count(*) FROM record WHERE evaluate_at > 0 AND evaluate_at <= %[1]d)`
	left := 0
	err := r.db.raw.QueryRowContext(ctx, fmt.Sprintf(due, by.UnixMicro())).Scan(&left)
	return err == nil && left == 0, err
}

// wait waits for a condition; the error says that ctx ended first.
func (r *run) wait(ctx context.Context, is func() (bool, error)) error {
	for ctx.Err() == nil {
		if ok, err := is(); ok || err != nil {
			return err
		}
		r.pause(ctx, beat)
	}
	return context.Cause(ctx)
}

// pause waits for a time, or until ctx ends.
func (r *run) pause(ctx context.Context, d time.Duration) {
	_ = r.clock.Sleep(ctx, r.clock.Now().Add(d))
}

// close ends every process that was started, and then everything else.
func (r *run) close() error {
	var errs []error
	for _, c := range slices.Backward(r.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// must returns v. It is for what cannot fail, such as writing a map as JSON.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
