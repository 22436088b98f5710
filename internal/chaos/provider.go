package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/clock"
)

// slowest bounds how long the provider lets a request wait of its own accord.
const slowest = 200 * time.Millisecond

// faults are the shares of requests that the provider treats badly.
type faults struct {
	lose float64 // accepted, but the connection is closed instead of answered
	slow float64 // answered late
}

// provider is what messages go to: it honours idempotency keys and writes down every request.
type provider struct {
	faults
	url    string
	server *http.Server
	clock  clock.System

	mu       sync.Mutex
	chance   *rand.Rand
	trouble  trouble
	over     chan struct{} // closed when the trouble is
	troubled [3]int        // requests by trouble
	log      []request
	byKey    map[string]*message
	ambushes map[string]*ambush
}

// trouble is what an outage is like.
type trouble int

const (
	none       trouble = iota
	outOfOrder         // 503, and nothing is accepted
	silent             // no answer; nothing is accepted
)

// suffer puts the provider out of order, or in order again. Who waits for an answer of before gets none.
func (p *provider) suffer(t trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		close(p.over)
	}
	p.trouble, p.over = t, make(chan struct{})
}

// found is how many requests found a trouble.
func (p *provider) found(t trouble) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.troubled[t]
}

// out answers a request as the trouble of the moment is; false: there is none.
func (p *provider) out(w http.ResponseWriter, r *http.Request) bool {
	p.mu.Lock()
	what, over := p.trouble, p.over
	if p.ambushes[r.UserAgent()] != nil {
		what = none
	}
	p.troubled[what]++
	p.mu.Unlock()
	switch what {
	case none:
		return false
	case outOfOrder:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	case silent:
		select {
		case <-over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	return true
}

// request is one line of the provider's log.
type request struct {
	Key     string
	Attempt int
	Life    string // of the worker, as its User-Agent says
	Repeat  bool   // the key had been accepted before
}

// message is what was accepted under a key.
type message struct {
	body      httpchan.Body
	ignored   bool   // the reply to an accepted request was lost
	again     bool   // and the key came again
	rewritten bool   // the key came with another message
	last      string // life that sent it last
}

func newProvider(f faults, seed uint64) (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{
		faults: f, url: "http://" + l.Addr().String() + "/messages", chance: rand.New(rand.NewPCG(seed, 2)),
		byKey: map[string]*message{}, ambushes: map[string]*ambush{},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }() // ends with close
	return p, nil
}

func (p *provider) close() error { return p.server.Close() }

// ServeHTTP accepts one message, or recognises it, and answers as its mood is.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body httpchan.Body
	key := r.Header.Get("Idempotency-Key")
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || key == "" || key != body.IdempotencyKey {
		http.Error(w, "not a message", http.StatusBadRequest)
		return
	}
	if p.out(w, r) {
		return
	}
	life := r.UserAgent()
	p.mu.Lock()
	id := p.accept(key, life, body)
	trap := p.ambushes[life]
	lose := p.chance.Float64() < p.lose
	wait := time.Duration(0)
	if p.chance.Float64() < p.slow {
		wait = time.Duration(p.chance.Int64N(int64(slowest)))
	}
	if trap != nil {
		lose = trap.hold(key)
	}
	if lose {
		p.byKey[key].ignored = true
	}
	p.mu.Unlock()

	if trap != nil {
		select {
		case <-trap.released:
		case <-r.Context().Done():
			return
		}
	} else if wait > 0 && p.clock.Sleep(r.Context(), p.clock.Now().Add(wait)) != nil {
		return
	}
	if lose {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id": %q}`, id)
}

// accept writes a request down and returns the id of its message.
func (p *provider) accept(key, life string, body httpchan.Body) string {
	m, repeat := p.byKey[key]
	p.log = append(p.log, request{Key: key, Attempt: body.Attempt, Life: life, Repeat: repeat})
	if !repeat {
		m = &message{body: body}
		p.byKey[key] = m
	}
	m.last = life
	m.again = m.again || m.ignored
	same := m.body
	same.Attempt = body.Attempt
	m.rewritten = m.rewritten || same != body
	return fmt.Sprintf("m-%.12s", key)
}

// accepted is how many messages there are.
func (p *provider) accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byKey)
}

// missing counts the messages that did not come, and those that came under more than one key, of what is expected.
func (p *provider) missing(expected []string) (lost, doubled int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := make(map[string]int, len(p.byKey))
	for _, m := range p.byKey {
		keys[m.body.Text]++
	}
	for _, text := range expected {
		switch n := keys[text]; {
		case n == 0:
			lost++
		case n > 1:
			doubled += n - 1
		}
	}
	return lost, doubled
}

// ambush holds the answers to one worker's requests, so that it can be frozen while it waits for them.
type ambush struct {
	held     chan struct{} // closed with the first request
	released chan struct{}
	keys     []string
}

// ambush lies in wait for a life's next requests.
func (p *provider) ambush(life string) *ambush {
	a := &ambush{held: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ambushes[life] = a
	return a
}

// hold says whether the reply is to be lost: every second one is.
func (a *ambush) hold(key string) (lose bool) {
	if len(a.keys) == 0 {
		close(a.held)
	}
	a.keys = append(a.keys, key)
	return len(a.keys)%2 == 0
}

// release answers what was held.
func (p *provider) release(life string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ambushes[life].released)
	delete(p.ambushes, life)
}

// takenOver reports whether somebody other than life has sent something again that it was caught with.
func (p *provider) takenOver(a *ambush, life string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range a.keys {
		if p.byKey[key].last != life {
			return true
		}
	}
	return false
}

var errNoTraffic = errors.New("the worker sent nothing")
