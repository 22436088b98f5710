package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// letterPosters is how many callers post to the workers at once.
	letterPosters = 8
	// letterBatch is how many events one request holds: few, so that many requests meet at one person.
	letterBatch = 2
	// letterGap is the time between two rounds, in which each caller makes a request.
	letterGap = 80 * time.Millisecond
	// afterwards is how long what was put off by seconds may still leave.
	afterwards = 1500 * time.Millisecond
)

// limitRun is a storm of limits under way.
type limitRun struct {
	*run
	world    limitWorld
	provider *moodyProvider
	clients  []*client.Client

	mu    sync.Mutex
	acked map[string]bool // ids of events that were created
	fates struct{ broken, known, writes atomic.Int64 }
	until time.Time // what is due by then has left
}

// LimitStorm has several processes take in more for a few people than their limits allow, while the provider refuses,
// drops and forgets and processes are killed; then it holds the provider's log against the limits.
func LimitStorm(ctx context.Context, o Options) (report LimitReport, err error) {
	elapsed := clock.Monotonic()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the run took longer than %s", o.Limit))
	defer cancel()
	l := &limitRun{run: &run{Options: o, chance: rand.New(rand.NewPCG(o.Seed, 4))}, acked: map[string]bool{}}
	defer func() { err = errors.Join(err, l.close()) }()
	if l.provider, err = newMoodyProvider(o.Seed); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, l.provider.close()) }()
	if l.world, err = newLimitWorld(l.chance, l.provider.url, l.clock.Now(), o.Single); err != nil {
		return report, err
	}
	if l.db, err = prepare(ctx, o, l.world.definitions); err != nil {
		return report, err
	}
	for i := range o.Workers {
		s, err := newSlot(l.run, i+1)
		if err != nil {
			return report, err
		}
		l.slots = append(l.slots, s)
		if err := s.start(); err != nil {
			return report, err
		}
		c, err := client.New(s.url, l.db.key, client.WithHTTPClient(&http.Client{Timeout: postWait}))
		if err != nil {
			return report, err
		}
		l.clients = append(l.clients, c)
	}
	if err := l.again(ctx, 0, func(c *client.Client) error { return l.world.postPeople(ctx, c) }); err != nil {
		return report, err
	}
	if err := l.storm(ctx); err != nil {
		return report, err
	}
	for _, s := range l.slots {
		if err := s.stop(); err != nil {
			return report, err
		}
	}
	report, err = l.judge(context.WithoutCancel(ctx))
	report.Seconds = elapsed().Seconds()
	return report, err
}

// storm posts and kills, and waits until what is due has left.
func (l *limitRun) storm(ctx context.Context) error {
	over := make(chan struct{})
	var posting, killing sync.WaitGroup
	errs := make([]error, letterPosters+1)
	for n := range letterPosters {
		posting.Go(func() { errs[n] = l.post(ctx, n) })
	}
	killing.Go(func() { errs[letterPosters] = l.killer(ctx, over) })
	posting.Wait()
	close(over)
	killing.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := l.again(ctx, 0, func(c *client.Client) error {
		_, err := c.PostRecords(ctx, l.world.closing()...)
		return err
	}); err != nil {
		return err
	}
	l.until = l.clock.Now().Add(afterwards)
	return l.run.until(ctx, func() (bool, error) {
		left := 0
		const due = `SELECT (SELECT count(*) FROM delivery WHERE send_at > 0 AND send_at <= %[1]d) +
  (SELECT count(*) FROM instance WHERE ready_at > 0 AND ready_at <= %[1]d) + (SELECT count(*) FROM record WHERE evaluate_at > 0 AND evaluate_at <= %[1]d)`
		err := l.db.raw.QueryRowContext(ctx, fmt.Sprintf(due, l.until.UnixMicro())).Scan(&left)
		return left == 0 && l.clock.Now().After(l.until), err
	})
}

// post is the n-th caller: every request goes to one process, and again to others until it is answered.
func (l *limitRun) post(ctx context.Context, n int) error {
	chance := rand.New(rand.NewPCG(l.Seed, uint64(10+n)))
	next := l.clock.Now().Truncate(letterGap)
	for i := n * letterBatch; i < l.Events; i += letterPosters * letterBatch {
		var batch []client.Event
		for e := i; e < min(i+letterBatch, l.Events); e++ {
			batch = append(batch, l.world.event(e, chance))
		}
		at, record := chance.IntN(len(l.clients)), l.world.tank(chance)
		if err := l.again(ctx, at, func(c *client.Client) error {
			answer, err := c.PostEvents(ctx, batch...)
			if err != nil {
				return err
			}
			return l.note(batch, answer)
		}); err != nil {
			return fmt.Errorf("post events: %w", err)
		}
		if err := l.again(ctx, at+1, func(c *client.Client) error {
			_, err := c.PostRecords(ctx, record)
			return err
		}); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
		l.fates.writes.Add(1)
		if next = next.Add(letterGap); next.Before(l.clock.Now()) { // it is behind, and keeps step with the others
			next = l.clock.Now().Truncate(letterGap).Add(letterGap)
		}
		if err := l.clock.Sleep(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// again makes a request until it is answered, each try at another process.
func (l *limitRun) again(ctx context.Context, at int, do func(*client.Client) error) error {
	for ; ; at++ {
		err := do(l.clients[at%len(l.clients)])
		if err == nil {
			return nil
		}
		if problem := (*client.Problem)(nil); errors.As(err, &problem) && problem.Status < http.StatusInternalServerError || errors.Is(err, errAnswer) {
			return err
		}
		l.fates.broken.Add(1)
		if err := l.pause(ctx, beat); err != nil {
			return err
		}
	}
}

var errAnswer = errors.New("this is no answer to the request")

// note keeps what was acknowledged.
func (l *limitRun) note(batch []client.Event, answer client.EventsAnswer) error {
	if len(answer.Items) != len(batch) {
		return fmt.Errorf("%w: %d items for %d events", errAnswer, len(answer.Items), len(batch))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, item := range answer.Items {
		switch item.Outcome {
		case "created":
		case "skipped":
			l.fates.known.Add(1)
		default:
			return fmt.Errorf("%w: event %s: %s %s %s", errAnswer, batch[i].ID, item.Outcome, item.Reason, item.Message)
		}
		l.acked[batch[i].ID] = true
	}
	return nil
}

// killer kills processes in their turn while events are posted, as often as it should, and starts the next life.
func (l *limitRun) killer(ctx context.Context, over <-chan struct{}) error {
	batches := l.Events/(letterBatch*letterPosters) + 1
	gap := time.Duration(batches) * letterGap / time.Duration(l.Kills+1)
	for i := range l.Kills {
		timer := time.NewTimer(gap)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over: // the rest falls on what still waits
			timer.Stop()
		}
		s := l.slots[i%len(l.slots)]
		if err := l.replace(s); err != nil {
			return err
		}
	}
	return nil
}

func (l *limitRun) replace(s *slot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	return s.start()
}
