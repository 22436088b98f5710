package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/clock"
)

// moodyProvider keeps the log by which limits are judged. Under /main it honours idempotency keys, elsewhere not. Some
// messages it refuses for now, some for good; of some it drops the reply, before or after it has accepted them.
type moodyProvider struct {
	url    string
	server *http.Server
	clock  clock.System

	mu      sync.Mutex
	chance  *rand.Rand
	log     []letter
	known   map[string]bool // keys under /main
	repeats int             // requests under such a key
	moods   map[string]int
}

// letter is a message that was accepted, at the provider's own time.
type letter struct {
	at            time.Time
	key, to, text string
	spare         bool
}

func newMoodyProvider(seed uint64) (*moodyProvider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &moodyProvider{url: "http://" + l.Addr().String(), chance: rand.New(rand.NewPCG(seed, 3)), known: map[string]bool{}, moods: map[string]int{}}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }() // ends with close
	return p, nil
}

func (p *moodyProvider) close() error { return p.server.Close() }

// ServeHTTP does with one request what the mood is.
func (p *moodyProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body httpchan.Body
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.IdempotencyKey == "" {
		http.Error(w, "not a message", http.StatusBadRequest)
		return
	}
	mood := p.take(body, strings.HasSuffix(r.URL.Path, "/spare"))
	switch mood {
	case "not now":
		http.Error(w, "not now", http.StatusTooManyRequests)
		return
	case "never":
		http.Error(w, "never", http.StatusGone)
		return
	case "dropped", "reply lost":
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id": "m-%.12s"}`, body.IdempotencyKey)
}

// take writes a message down if it is accepted, and says what is answered.
func (p *moodyProvider) take(body httpchan.Body, spare bool) (mood string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !spare && p.known[body.IdempotencyKey] {
		p.repeats++
		return "known"
	}
	mood = "taken"
	switch n := p.chance.IntN(100); {
	case n < 6:
		mood = "not now"
	case n < 10:
		mood = "never"
	case n < 12:
		mood = "dropped"
	case n < 16:
		mood = "reply lost"
	}
	p.moods[mood]++
	if mood == "taken" || mood == "reply lost" {
		p.known[body.IdempotencyKey] = true
		p.log = append(p.log, letter{at: p.clock.Now(), key: body.IdempotencyKey, to: body.To, text: body.Text, spare: spare})
	}
	return mood
}
