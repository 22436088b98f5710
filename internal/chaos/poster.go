package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/client"
)

const (
	// postWait bounds the first try of a request: above a freeze of the database's locks, below one of the worker.
	postWait = 3 * time.Second
	// postLongest bounds the later tries, each of which has twice the time of the one before it: a busy machine answers at last.
	postLongest = time.Minute
	// postAgain is how many batches go between two that are posted once more although they were acknowledged.
	postAgain = 8
)

// batch is what is posted at once: events, and then records.
type batch struct {
	events  []client.Event
	records []client.RecordInput
}

// inBatches makes n events, so many at once.
func inBatches(n, per int, event func(i int) client.Event) (all []batch) {
	for i := range n {
		if i%per == 0 {
			all = append(all, batch{})
		}
		last := &all[len(all)-1]
		last.events = append(last.events, event(i))
	}
	return all
}

// poster is the outside system that has events to report. It posts batches to the workers in turn until they are
// acknowledged, as often as it takes, and keeps the answers.
type poster struct {
	run     *run
	clients []*client.Client // one for each worker
	batches []batch
	tickets chan int       // numbers of batches that may be posted
	posting chan int       // capacity 1: the worker to which a batch of the latest release is on its way
	posted  sync.WaitGroup // callers

	releasing sync.Mutex
	released  int

	mu      sync.Mutex
	acked   map[string]int // how often as new, by event id
	skipped int            // events acknowledged as known

	broken atomic.Int64 // requests without an answer
}

func newPoster(r *run) (*poster, error) {
	p := &poster{run: r, acked: map[string]int{}, posting: make(chan int, 1)}
	for _, s := range r.slots {
		c, err := client.New(s.url, r.db.key, client.WithHTTPClient(&http.Client{Timeout: postLongest}))
		if err != nil {
			return nil, err
		}
		p.clients = append(p.clients, c)
	}
	return p, nil
}

// start posts what is released, by this many callers at once.
func (p *poster) start(ctx context.Context, group *errgroup.Group, callers int, batches []batch) {
	p.batches, p.tickets = batches, make(chan int, len(batches))
	p.posted.Add(callers)
	for range callers {
		group.Go(func() error {
			defer p.posted.Done()
			for i := range p.tickets {
				if err := p.post(ctx, i); err != nil {
					return fmt.Errorf("post batch %d: %w", i, err)
				}
			}
			return nil
		})
	}
}

// release lets the first n batches be posted.
func (p *poster) release(n int) {
	p.releasing.Lock()
	defer p.releasing.Unlock()
	if p.released < min(n, len(p.batches)) {
		select {
		case <-p.posting:
		default:
		}
	}
	for p.released < min(n, len(p.batches)) {
		p.tickets <- p.released
		if p.released++; p.released == len(p.batches) {
			close(p.tickets)
		}
	}
}

// another lets one more batch be posted, if no more than the first n were.
func (p *poster) another(n int) {
	p.releasing.Lock()
	next := p.released + 1
	p.releasing.Unlock()
	if next <= n {
		p.release(next)
	}
}

// caught returns a worker to which a batch is just being posted; ok is false when there is none for this long.
func (p *poster) caught(most time.Duration) (slot int, ok bool) {
	return caught(p.posting, most)
}

// post has one batch acknowledged.
func (p *poster) post(ctx context.Context, i int) error {
	b := p.batches[i]
	for n := range 1 + b2i(i%postAgain == 0) {
		if err := p.ask(ctx, i+n, func(ctx context.Context, c *client.Client) error {
			answer, err := c.PostEvents(ctx, b.events...)
			if err != nil {
				return err
			}
			return p.note(b.events, answer)
		}); err != nil {
			return err
		}
	}
	return p.write(ctx, i+1, b.records)
}

// write has records acknowledged.
func (p *poster) write(ctx context.Context, slot int, records []client.RecordInput) error {
	if len(records) == 0 {
		return nil
	}
	return p.ask(ctx, slot, func(ctx context.Context, c *client.Client) error {
		_, err := c.PostRecords(ctx, records...)
		return err
	})
}

var errAnswer = errors.New("this is no answer to the request")

// tryAfter returns how long the try after one of this length may take.
func tryAfter(d time.Duration) time.Duration { return min(2*d, postLongest) }

// ask makes a request until it is answered, each try at the next worker.
func (p *poster) ask(ctx context.Context, slot int, request func(context.Context, *client.Client) error) error {
	for wait := postWait; ; slot, wait = slot+1, tryAfter(wait) {
		n := slot % len(p.clients)
		select {
		case p.posting <- n:
		default:
		}
		err := within(ctx, wait, func(ctx context.Context) error { return request(ctx, p.clients[n]) })
		if err == nil || errors.Is(err, errAnswer) {
			return err
		}
		if problem := (*client.Problem)(nil); errors.As(err, &problem) && problem.Status < http.StatusInternalServerError {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.broken.Add(1)
		p.run.pause(ctx, beat)
	}
}

// within makes one try, which may take so long.
func within(ctx context.Context, most time.Duration, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return request(ctx)
}

func (p *poster) note(events []client.Event, answer client.EventsAnswer) error {
	if len(answer.Items) != len(events) {
		return fmt.Errorf("%w: %d items for %d events", errAnswer, len(answer.Items), len(events))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, item := range answer.Items {
		if item.Outcome != "created" && item.Outcome != "skipped" {
			return fmt.Errorf("%w: event %s: %s %s %s", errAnswer, events[i].ID, item.Outcome, item.Reason, item.Message)
		}
		p.acked[events[i].ID] += b2i(item.Outcome == "created")
		p.skipped += b2i(item.Outcome == "skipped")
	}
	return nil
}

// judge reports what the answers alone show.
func (p *poster) judge(report *Report) {
	report.count("acked", len(p.acked))
	report.count("broken_posts", int(p.broken.Load()))
	report.count("skipped", p.skipped)
	if left := report.Events - len(p.acked); left > 0 {
		report.violate("unacknowledged", "%d events were never acknowledged", left)
	}
	for id, n := range p.acked {
		if n > 1 {
			report.violate("created twice", "event %s was created %d times", id, n)
		}
	}
}
