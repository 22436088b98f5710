package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/client"
)

const (
	posters   = 4
	perBatch  = 50
	people    = 500
	postWait  = 3 * time.Second // above a freeze of the database's locks, below one of the worker
	reminders = 2               // of an invitation
	// postAgain is how many batches go between two that are posted once more although they were acknowledged.
	postAgain = 8
)

// poster is the outside system that has events to report: it posts batches until they are acknowledged, as often as it
// takes, and keeps the answers.
type poster struct {
	run     *run
	clients []*client.Client
	batches [][]client.Event
	tickets chan int // numbers of batches that may be posted
	posting chan int // capacity 1: the worker to which a batch of the latest release is on its way

	releasing sync.Mutex
	released  int

	mu   sync.Mutex
	acks map[string]*ack // by event id

	broken  atomic.Int64 // requests without an answer
	skipped atomic.Int64 // events acknowledged as known
}

// ack is what the poster knows of an event.
type ack struct {
	created, skipped int
	invitation       bool
}

func newPoster(r *run) (*poster, error) {
	p := &poster{run: r, acks: map[string]*ack{}, posting: make(chan int, 1)}
	for _, s := range r.slots {
		c, err := client.New(s.url, r.db.key, client.WithHTTPClient(&http.Client{Timeout: postWait}))
		if err != nil {
			return nil, err
		}
		p.clients = append(p.clients, c)
	}
	for i := range r.Events {
		if i%perBatch == 0 {
			p.batches = append(p.batches, nil)
		}
		last := &p.batches[len(p.batches)-1]
		*last = append(*last, event(i))
	}
	p.tickets = make(chan int, len(p.batches))
	return p, nil
}

// event is the i-th one: every fourth is an invitation, which has reminders.
func event(i int) client.Event {
	id := fmt.Sprintf("e%06d", i)
	kind := "order"
	if i%4 == 0 {
		kind = "visit"
	}
	return client.Event{
		ID: id, Kind: kind, Payload: map[string]any{"id": id},
		Recipient: &client.Recipient{Address: fmt.Sprintf("p%d@example.org", i*7%people), Locale: "en"},
	}
}

// text is what the provider receives for one step of an event, see definitions.
func text(id string, step int) string { return fmt.Sprintf("%s %d", id, step) }

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

// caught returns a worker to which a batch is just being posted; ok is false when there is none for this long.
func (p *poster) caught(most time.Duration) (slot int, ok bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case slot = <-p.posting:
		return slot, true
	case <-timer.C:
		return 0, false
	}
}

// start posts what is released; the returned function waits until everything is acknowledged.
func (p *poster) start(ctx context.Context) (wait func() error) {
	errs := make(chan error, posters)
	for range posters {
		go func() {
			for i := range p.tickets {
				if err := p.post(ctx, i); err != nil {
					errs <- fmt.Errorf("post batch %d: %w", i, err)
					return
				}
			}
			errs <- nil
		}()
	}
	return func() error {
		var all []error
		for range posters {
			all = append(all, <-errs)
		}
		return errors.Join(all...)
	}
}

// post has one batch acknowledged.
func (p *poster) post(ctx context.Context, i int) error {
	for try, left := i, 1+b2i(i%postAgain == 0); left > 0; try++ {
		slot := try % len(p.clients)
		select {
		case p.posting <- slot:
		default:
		}
		answer, err := p.clients[slot].PostEvents(ctx, p.batches[i]...)
		if problem := (*client.Problem)(nil); errors.As(err, &problem) && problem.Status < http.StatusInternalServerError {
			return err
		}
		if err != nil {
			p.broken.Add(1)
			if err := p.run.pause(ctx, beat); err != nil {
				return err
			}
			continue
		}
		left--
		if err := p.note(p.batches[i], answer); err != nil {
			return err
		}
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *poster) note(batch []client.Event, answer client.EventsAnswer) error {
	if len(answer.Items) != len(batch) {
		return fmt.Errorf("%d answers to %d events", len(answer.Items), len(batch))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, item := range answer.Items {
		a := p.acks[batch[i].ID]
		if a == nil {
			a = &ack{invitation: batch[i].Kind == "visit"}
			p.acks[batch[i].ID] = a
		}
		switch item.Outcome {
		case "created":
			a.created++
		case "skipped":
			a.skipped++
			p.skipped.Add(1)
		default:
			return fmt.Errorf("event %s: %s %s %s", batch[i].ID, item.Outcome, item.Reason, item.Message)
		}
	}
	return nil
}

// expected lists the texts that the provider must have, one for each step of every acknowledged event.
func (p *poster) expected() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var texts []string
	for id, a := range p.acks {
		texts = append(texts, text(id, 1))
		for i := range reminders * b2i(a.invitation) {
			texts = append(texts, text(id, 2+i))
		}
	}
	return texts
}
