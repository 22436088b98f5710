package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/client"
)

// answerDefinitions ask about a visit: a message and a reminder, and then the survey ends. Answers and ends go to the sink.
const answerDefinitions = `
workspace: default
retry: {backoff: [1s, 2s], jitter: none, then: forever}
cadence: {max_per_day: 0} # no limits
---
channel: sms:provider
provider: http
settings: {url: "%s/main"}
---
sink: receiver
provider: webhook
settings: {url: "%s", secret: {env: CHAOS_SINK_SECRET}}
retry: {backoff: [1s], jitter: none, attempts: 1000}
---
workflow: visit
type: survey
triggers: [{id: closed, event: visit}]
timing: {reminders: [3s], expire_after: 3s}
audience: [{to: event.recipient}]
channel: sms:provider
message: {survey: visit}
sinks: [{sink: receiver, events: [response.completed, delivery.expired]}]
---
survey: visit
title: Your visit
invitation: {text: "{{ candidate.id }} {{ step }}"}
questions:
  - {id: who, type: text, required: true, text: Who are you?}
`

const (
	// sinkSecret signs what goes to the sink.
	sinkSecret = "whsec_Y2hhb3MgY2hhb3MgY2hhb3MgY2hhb3MgY2hhb3M=" //nolint:gosec // of a test
	// answerTimeout bounds a try at the sink; a claim of a worker that was killed holds ten seconds longer.
	answerTimeout = 2 * time.Second
	// thinking bounds how long people take to answer: some answers meet the reminder, and some the end.
	thinking = 4 * time.Second
	// answerLost is the share of answers of the API that are lost on their way back, in percent.
	answerLost = 10
)

// answers is the profile Answers.
type answers struct {
	*run
	receiver *receiver
	clients  []*client.Client // one for each worker, of people
	batches  []batch

	asking     chan int       // capacity 1: the worker to which an answer is on its way
	thinking   atomic.Int64   // people who will still submit something
	people     errgroup.Group // a goroutine each
	lost       atomic.Int64   // answers of the API that were lost on purpose
	mu         sync.Mutex
	submission []submission
}

// submission is what somebody submits, and what came of it.
type submission struct {
	delivery string
	who      string // the answer, another one in each submission
	id       string // of the response; empty: it was not taken
	code     string // of the refusal
	forgets  bool   // another key in each try
}

func (a *answers) prepare() (string, error) {
	a.addProvider(moods{{takenLost, 3}, {slowly, 5}})
	receiver, err := a.addReceiver()
	if err != nil {
		return "", err
	}
	a.receiver, a.asking, a.timeout = receiver, make(chan int, 1), answerTimeout
	a.Env = append(a.Env, "CHAOS_SINK_SECRET="+sinkSecret)
	if a.Crash != "" {
		a.Workers, a.Kills = 1, 0
		a.lease = crashLease
	}
	const perBatch = 10
	a.batches = inBatches(a.Events, perBatch, func(i int) client.Event {
		id := fmt.Sprintf("v%06d", i)
		return client.Event{ID: id, Kind: "visit", Payload: map[string]any{"id": id}, Recipient: &client.Recipient{Address: id + "@example.org", Locale: "en"}}
	})
	return fmt.Sprintf(answerDefinitions, a.provider.server.URL, receiver.server.URL), nil
}

// storm posts visits, has people answer the messages that reach them, and kills workers meanwhile. It ends when everybody has answered
// who will.
func (a *answers) storm(ctx context.Context, group *errgroup.Group) error {
	for _, s := range a.slots {
		c, err := client.New(s.url, a.db.key, client.WithHTTPClient(&http.Client{Timeout: postLongest, Transport: lossy{}}))
		if err != nil {
			return err
		}
		a.clients = append(a.clients, c)
	}
	a.provider.reach(func(q request) { a.reached(ctx, q) })
	const callers = 4
	a.poster.start(ctx, group, callers, a.batches)
	var err error
	if a.Crash != "" {
		err = a.crashes(ctx, a.batches)
	} else {
		err = a.kills(ctx)
	}
	if err != nil {
		return err
	}
	a.poster.posted.Wait()
	if err := a.wait(ctx, func() (bool, error) {
		if a.thinking.Load() > 0 {
			return false, nil
		}
		return a.rests(ctx)
	}); err != nil {
		return err
	}
	return a.people.Wait()
}

// kills kills workers: at any moment, while somebody submits an answer, while the sink has their requests, and while they take visits in.
func (a *answers) kills(ctx context.Context) error {
	gap := lifetime / time.Duration(len(a.slots))
	const last = 10 // one in so many visits comes at the end
	before := len(a.batches) * (last - 1) / last
	for i := range a.Kills {
		a.poster.release((i + 1) * before / a.Kills)
		victim := a.chance.IntN(len(a.slots))
		a.pause(ctx, time.Duration(a.chance.Int64N(int64(gap))))
		switch i % 3 {
		case 1:
			if n, ok := next(a.asking, lifetime); ok {
				victim = n
				if i%2 == 0 {
					a.pause(ctx, time.Duration(a.chance.Int64N(int64(commitTakes))))
				}
			}
		case 2:
			if life, ok := next(a.receiver.holding, lifetime); ok {
				victim = a.slotOf(life, victim)
			}
		}
		if err := a.kill(ctx, victim, false); err != nil {
			return err
		}
	}
	for n := before + 1; n <= len(a.batches) && a.poster.broken.Load() == 0 && ctx.Err() == nil; n++ {
		a.poster.release(n)
		if victim, ok := a.poster.caught(lifetime); ok {
			if err := a.kill(ctx, victim, false); err != nil {
				return err
			}
		}
	}
	a.poster.release(len(a.batches))
	return context.Cause(ctx)
}

// commitTakes bounds the time from every second submission until its kill: some are committed by then, and not yet answered.
const commitTakes = 3 * time.Millisecond

// slotOf returns the slot of a life, or another one when that life is over.
func (r *run) slotOf(life string, other int) int {
	for i, s := range r.slots {
		s.mu.Lock()
		same := s.now.life == life
		s.mu.Unlock()
		if same {
			return i
		}
	}
	return other
}

// next is caught of what comes from now on.
func next[T any](from <-chan T, most time.Duration) (v T, ok bool) {
	select {
	case <-from:
	default:
	}
	return caught(from, most)
}

// caught receives from a channel, but waits no longer than this.
func caught[T any](from <-chan T, most time.Duration) (v T, ok bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case v = <-from:
		return v, true
	case <-timer.C:
		return v, false
	}
}

// reached decides what a person does with a message: nothing, an answer, or two at once.
func (a *answers) reached(ctx context.Context, q request) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, q.Text)
	chance := rand.New(rand.NewPCG(a.Seed, h.Sum64()))
	times := 0
	switch n := chance.IntN(100); {
	case n < 10:
		times = 2
	case n < 55:
		times = 1
	}
	after := time.Duration(chance.Int64N(int64(thinking)))
	for i := range times {
		a.thinking.Add(1)
		s := submission{delivery: q.ID, who: fmt.Sprintf("%s %d", q.Text, i), forgets: chance.IntN(3) == 0}
		a.people.Go(func() error {
			defer a.thinking.Add(-1)
			a.pause(ctx, after)
			return a.submit(ctx, s)
		})
	}
}

// submit has an answer taken or refused, each try by the next worker. Who forgets the key of the first try may be refused because of
// their own answer.
func (a *answers) submit(ctx context.Context, s submission) error {
	wait := postWait
	for slot := int(a.thinking.Load()); ; slot, wait = slot+1, tryAfter(wait) {
		n := slot % len(a.clients)
		select {
		case a.asking <- n:
		default:
		}
		c := a.clients[n]
		if !s.forgets {
			c = c.WithIdempotencyKey(strings.ReplaceAll(s.who, " ", "-"))
		}
		var taken client.Response
		err := within(ctx, wait, func(ctx context.Context) (err error) {
			taken, err = c.Respond(ctx, s.delivery, client.ResponseInput{Answers: map[string]any{"who": s.who}})
			return err
		})
		problem := (*client.Problem)(nil)
		switch {
		case err == nil:
			s.id = taken.ID
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &problem) && (problem.Code == client.CodeAnswered || problem.Code == client.CodeClosed):
			s.code = problem.Code
		case errors.As(err, &problem) && problem.Status < http.StatusInternalServerError && problem.Code != client.CodeInProgress:
			return fmt.Errorf("answer %s: %w", s.delivery, err)
		default:
			if errors.Is(err, errLost) {
				a.lost.Add(1)
			} else {
				a.poster.broken.Add(1)
			}
			a.pause(ctx, beat)
			continue
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.submission = append(a.submission, s)
		return nil
	}
}

// lossy loses some answers on their way back.
type lossy struct{}

var errLost = errors.New("the answer was lost on its way")

// RoundTrip implements http.RoundTripper.
func (lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || rand.IntN(100) >= answerLost {
		return res, err
	}
	return nil, errors.Join(errLost, res.Body.Close())
}

// rests reports whether the database has nothing more to do, ever.
func (a *answers) rests(ctx context.Context) (bool, error) {
	due, err := a.db.store.NextDue(ctx, a.clock.Now())
	return err == nil && due.Earliest().IsZero(), err
}

func (a *answers) counters() (verdicts, proofs []string) {
	proofs = []string{"answered", "expired", "answers lost"}
	if a.Kills > 0 {
		proofs = append(
			proofs,
			"kills", "broken_posts",
			"answered after the reminder",
			"answered twice",      // refused, since another answer came before
			"came too late",       // refused, since the survey had ended
			"refused by itself",   // refused because of the same answer, whose first reply was lost
			"reply_lost", "later", // tries at the sink
			"came again", // outbox events that the sink had accepted before
		)
	}
	return []string{"lost", "doubled", "unfenced", "disagree"}, proofs
}
