package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/signature"
)

// receiver is what outcomes go to: a webhook in a bad mood, which writes down every request. It drops no repetition.
type receiver struct {
	moods   moods
	key     signature.Key
	server  *httptest.Server
	holding chan string // capacity 1: the life of a worker that waits for an answer

	mu     sync.Mutex
	chance *rand.Rand
	log    []arrival
}

// arrival is one line of the receiver's log.
type arrival struct {
	id, life string
	mood     mood
	accepted bool
	body     string
	problem  string // what is wrong with the request
}

// receiverMoods are how often the receiver does what, in percent. A sink that fails rests, so it is no more than a few.
func receiverMoods() moods { return moods{{takenLost, 3}, {later, 2}, {dropped, 1}, {slowly, 20}} }

func (r *run) addReceiver() (*receiver, error) {
	key, err := signature.Parse(sinkSecret)
	if err != nil {
		return nil, err
	}
	v := &receiver{moods: receiverMoods(), key: key, holding: make(chan string, 1), chance: rand.New(rand.NewPCG(r.Seed, 4))}
	if r.Crash != "" {
		v.moods = nil
	}
	v.server = httptest.NewServer(v)
	r.closers = append(r.closers, v.server.Listener)
	return v, nil
}

// ServeHTTP does with one request what the mood is.
func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the worker was killed while it sent
	}
	a := arrival{id: r.Header.Get("webhook-id"), life: r.UserAgent(), body: string(body)}
	if err := v.signed(r, a.id, body); err != nil {
		a.problem = err.Error()
	}
	wait := v.take(&a)
	if wait > 0 {
		select {
		case v.holding <- a.life:
		default:
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	switch a.mood {
	case later:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case takenLost, dropped:
		panic(http.ErrAbortHandler) // closes the connection without an answer
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// signed checks the signature of a request.
func (v *receiver) signed(r *http.Request, id string, body []byte) error {
	seconds, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
	if err != nil {
		return fmt.Errorf("its time: %w", err)
	}
	want, err := signature.Sign([]signature.Key{v.key}, id, time.Unix(seconds, 0), body)
	if err != nil {
		return err
	}
	if got := signature.Of(r.Header); !slices.Equal(got, signature.Of(want)) {
		return fmt.Errorf("it is signed with %q", got)
	}
	return nil
}

// take draws the mood of a request and writes it down. The answer waits for as long as this.
func (v *receiver) take(a *arrival) (wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a.mood = v.moods.draw(v.chance)
	switch a.mood {
	case slowly:
		wait = time.Duration(v.chance.Int64N(int64(slowest)))
		a.accepted = true
	case taken, takenLost:
		a.accepted = true
	default:
	}
	v.log = append(v.log, *a)
	return wait
}

// arrivals returns the log.
func (v *receiver) arrivals() []arrival {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.log)
}

// outcome is what the receiver reads in a body.
type outcome struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Subject string `json:"subject"`
	Data    struct {
		Delivery string            `json:"delivery"`
		Status   string            `json:"status"`
		Answers  map[string]string `json:"answers"`
	} `json:"data"`
}

// read reads the body of a request.
func (a arrival) read() (o outcome, err error) {
	if a.problem != "" {
		return o, fmt.Errorf("its signature: %s", a.problem)
	}
	if err := json.Unmarshal([]byte(a.body), &o); err != nil {
		return o, err
	}
	if o.ID != a.id || o.Subject != o.Data.Delivery {
		return o, fmt.Errorf("it is %q about %q, and its header says %q", o.ID, o.Subject, a.id)
	}
	return o, nil
}
