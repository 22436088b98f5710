package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/clock"
)

// slowest bounds how long a late answer is late.
const slowest = 200 * time.Millisecond

// mood is what a provider does with one request.
type mood string

const (
	taken      mood = "taken"
	takenLost  mood = "taken lost" // accepted, but the connection is closed instead of answered
	slowly     mood = "slowly"     // accepted, and answered late
	later      mood = "later"      // refused for now
	never      mood = "never"      // refused for good
	dropped    mood = "dropped"    // not accepted, and the connection is closed
	outOfOrder mood = "out_of_order"
	silent     mood = "silent" // not accepted, and not answered before the trouble is over
)

// moods are how often a provider does what, in percent; the rest it takes.
type moods []struct {
	mood    mood
	percent int
}

func (m moods) draw(chance *rand.Rand) mood {
	n := chance.IntN(100)
	for _, share := range m {
		if n -= share.percent; n < 0 {
			return share.mood
		}
	}
	return taken
}

// provider is what messages go to by HTTP. It writes down every request. Under /main it honours idempotency keys, and
// refuses nothing that it has accepted before; under /spare it does neither.
type provider struct {
	moods  moods
	server *httptest.Server
	clock  clock.System

	mu       sync.Mutex
	chance   *rand.Rand
	trouble  mood          // outOfOrder or silent for all requests; "" = none
	over     chan struct{} // closed when the trouble is
	log      []request
	known    map[string]bool // keys of what was accepted
	ambushes map[string]*ambush
	reached  func(request) // is called with what was accepted; nil: nothing is called
}

// request is one line of the provider's log.
type request struct {
	httpchan.Body
	at       time.Time
	life     string // of the worker, as its User-Agent says
	mood     mood
	accepted bool // now, for the first time
	repeat   bool // it had been accepted before
}

func (r *run) addProvider(m moods) {
	p := &provider{moods: m, chance: rand.New(rand.NewPCG(r.Seed, 2)), known: map[string]bool{}, ambushes: map[string]*ambush{}}
	p.server = httptest.NewServer(p)
	r.provider, r.closers = p, append(r.closers, p.server.Listener)
}

// ServeHTTP does with one request what the mood is.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := request{life: r.UserAgent()}
	if err := json.NewDecoder(r.Body).Decode(&q.Body); err != nil || q.IdempotencyKey == "" || r.Header.Get("Idempotency-Key") != q.IdempotencyKey {
		http.Error(w, "not a message", http.StatusBadRequest)
		return
	}
	wait := p.take(&q, strings.HasSuffix(r.URL.Path, "/main"))
	select {
	case <-wait:
	case <-r.Context().Done():
	}
	switch q.mood {
	case later:
		http.Error(w, "not now", http.StatusTooManyRequests)
	case never:
		http.Error(w, "never", http.StatusGone)
	case outOfOrder:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	case takenLost, dropped, silent:
		panic(http.ErrAbortHandler) // closes the connection without an answer
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id": "m-%.12s"}`, q.IdempotencyKey)
	}
}

// take draws the mood of a request and writes it down. The answer has to wait until the channel is closed.
func (p *provider) take(q *request, honoursKeys bool) (wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := make(chan struct{})
	defer close(now)
	trap := p.ambushes[q.life]
	q.at, q.repeat, q.mood, wait = p.clock.Now(), honoursKeys && p.known[q.IdempotencyKey], p.moods.draw(p.chance), now
	switch {
	case trap != nil:
		q.mood, wait = trap.hold(q.IdempotencyKey), trap.released
	case p.trouble == outOfOrder:
		q.mood = p.trouble
	case p.trouble == silent:
		q.mood, wait = p.trouble, p.over
	case q.repeat && (q.mood == later || q.mood == never):
		q.mood = taken
	}
	switch q.mood {
	case slowly:
		late := make(chan struct{})
		time.AfterFunc(time.Duration(p.chance.Int64N(int64(slowest))), func() { close(late) })
		wait = late
		fallthrough
	case taken, takenLost:
		q.accepted = !q.repeat
		p.known[q.IdempotencyKey] = true
	default: // nothing is accepted, nor recognised
		q.repeat = false
	}
	p.log = append(p.log, *q)
	if q.accepted && p.reached != nil {
		p.reached(*q)
	}
	return wait
}

// reach has what is accepted from now on reach people.
func (p *provider) reach(people func(request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = people
}

// requests returns the log, and counts what is in it.
func (p *provider) requests(report *Report) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.log {
		report.count(string(q.mood), 1)
		report.count("repeats", b2i(q.repeat))
		report.count("accepted", b2i(q.accepted))
	}
	return slices.Clone(p.log)
}

// suffer has a trouble begin, or end. Who waits for an answer of before gets none.
func (p *provider) suffer(trouble mood) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		close(p.over)
	}
	p.trouble, p.over = trouble, make(chan struct{})
}

// met is how many requests had a mood.
func (p *provider) met(m mood) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.log {
		n += b2i(q.mood == m)
	}
	return n
}

// ambush holds the answers to one worker's requests, so that it can be frozen or killed while it waits for them.
type ambush struct {
	held     chan struct{} // closed with the first request
	released chan struct{}
	keys     map[string]bool
}

// ambush lies in wait for a life's next requests.
func (p *provider) ambush(life string) *ambush {
	a := &ambush{held: make(chan struct{}), released: make(chan struct{}), keys: map[string]bool{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ambushes[life] = a
	return a
}

// hold accepts a message; the reply to every second one is lost.
func (a *ambush) hold(key string) mood {
	if len(a.keys) == 0 {
		close(a.held)
	}
	a.keys[key] = true
	if len(a.keys)%2 == 0 {
		return takenLost
	}
	return taken
}

// catches waits for a request, but not longer than this.
func (a *ambush) catches(ctx context.Context, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-a.held:
		return true
	case <-ctx.Done():
		return false
	}
}

// release answers what was held.
func (p *provider) release(life string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ambushes[life].released)
	delete(p.ambushes, life)
}

// takenOver reports whether another worker than life has sent something again that life was caught with.
func (p *provider) takenOver(a *ambush, life string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := map[string]string{}
	for _, q := range p.log {
		if a.keys[q.IdempotencyKey] {
			last[q.IdempotencyKey] = q.life
		}
	}
	for _, by := range last {
		if by != life {
			return true
		}
	}
	return false
}
