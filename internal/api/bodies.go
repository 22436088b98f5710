package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/carillonhq/carillon/client"
)

const (
	// DefaultBodies bounds what the bodies of all requests in flight hold together, in bytes. Reading a batch takes some
	// five times its body, so that 64 MiB are a third of a GiB: room for three of the largest batches at once.
	DefaultBodies = 64 << 20
	// MinBodies leaves room for one of the largest batches.
	MinBodies = 32 << 20
	// smallShare of the room is kept for requests of at most MaxBody, so that batches leave room for single requests.
	smallShare = 8
	// unsignedShare of the room is what callbacks may hold before their signature is known to be right. A stranger can send them slowly, and
	// leaves the rest of the room to callers with a key. Half of the default holds some 500 small callbacks.
	unsignedShare = 2
	// bodyStep is how much more room is asked for at least when the length of a body is unknown; else it is a quarter, since
	// room that stays empty is missing elsewhere.
	bodyStep = 64 << 10
	// comeBack is when a caller who was refused may try again: the largest batch is answered within a second.
	comeBack = time.Second
)

// bodies is the room that the bodies of requests in flight share. Who finds none is refused at once: a caller who waits
// holds a connection, and those who wait would be as many as callers.
type bodies struct {
	limit int64

	mu       sync.Mutex
	taken    int64
	unsigned int64 // of what is taken
}

// room is what one request has taken. It is used by the goroutine of its request only.
type room struct {
	of       *bodies
	taken    int64
	unsigned bool // whether it is unknown who sends the request
}

// take asks for n more bytes.
func (r *room) take(n int64) bool {
	limit := r.of.limit
	if r.taken+n > MaxBody {
		limit -= limit / smallShare
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.of.taken+n > limit || r.unsigned && r.of.unsigned+n > r.of.limit/unsignedShare {
		return false
	}
	r.add(n)
	return true
}

// give gives n bytes back.
func (r *room) give(n int64) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.add(-n)
}

func (r *room) add(n int64) {
	r.of.taken, r.taken = r.of.taken+n, r.taken+n
	if r.unsigned {
		r.of.unsigned += n
	}
}

// signed says that the signature of a callback was found right. What its body holds is not counted as unsigned any more.
func (r *room) signed() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.unsigned, r.unsigned = r.of.unsigned-r.taken, false
}

type roomKey struct{}

// counted gives every request room for its body, and takes it back when the request has been answered.
func (a *API) counted(w http.ResponseWriter, r *http.Request, next http.Handler) {
	mine := &room{of: a.bodies}
	defer func() { mine.give(mine.taken) }()
	inside := r.WithContext(context.WithValue(r.Context(), roomKey{}, mine))
	defer func() { r.Pattern = inside.Pattern }() // for the metrics of requests
	next.ServeHTTP(w, inside)
}

// errNoRoom means that the bodies in flight leave no room for another one.
func (r *room) errNoRoom() *client.Problem {
	detail := fmt.Sprintf("the requests that are being answered hold the %d MiB that there are for their bodies", r.of.limit>>20)
	if r.unsigned {
		detail = fmt.Sprintf("the callbacks that are being read hold the %d MiB that there are for what is not signed yet", r.of.limit/unsignedShare>>20)
	}
	p := newProblem(http.StatusTooManyRequests, client.CodeBusy, detail)
	p.RetryAfter = comeBack
	return p
}

// refused throws the rest of a body away, which travels on anyway, so that its caller hears the answer: on a connection
// that is closed under what they send they may not.
func (r *room) refused(req *http.Request, limit int64) error {
	discard(req, limit)
	return r.errNoRoom()
}

func discard(r *http.Request, limit int64) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, limit+1))
}

// reserve reads a body of at most limit bytes that the router would read by itself, so that it is counted and weighed as every
// other one.
func reserve(w http.ResponseWriter, r *http.Request, limit int64) error {
	if _, read := r.Body.(*readBefore); read || r.ContentLength == 0 {
		return nil
	}
	text, err := readAll(w, r, limit)
	if err != nil {
		return err
	}
	r.Body = &readBefore{bytes.NewReader(text), text}
	return nil
}

// What JSON of many small values takes once it is read, in bytes (measured): a value, a list, a member, and an object that
// is not empty.
const (
	valueSize  = 32
	listSize   = 48
	memberSize = 48
	objectSize = 350
)

// usually is how many times its body the JSON of a request takes; see DefaultBodies.
const usually = 5

// weight is how many bytes of room a body is worth, so that what is read of it takes at most five times as much: its
// length, or more where it holds many small values. `{"":0}` is read into fifty times its length.
func weight(text []byte) int64 {
	var read int64
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"': // what a string holds weighs nothing
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case ',':
			read += valueSize
		case '[':
			read += listSize
		case ':':
			read += memberSize
		case '{':
			if read += listSize; i+1 < len(text) && text[i+1] != '}' {
				read += objectSize - listSize
			}
		}
	}
	return max(int64(len(text)), read/usually)
}

// weigh takes the room that a body is worth beyond its length. One that is worth more than there is for all is refused for
// good.
func (r *room) weigh(text []byte) error {
	w := weight(text)
	if most := r.of.limit - r.of.limit/smallShare; w > most {
		p := newProblem(http.StatusRequestEntityTooLarge, client.CodeTooLarge,
			fmt.Sprintf("the request holds so many small values that reading it takes %d MiB, and there are %d", w*usually>>20, most*usually>>20))
		p.Field, p.Hint = "body", "send it in parts"
		return p
	}
	if w > r.taken && !r.take(w-r.taken) {
		return r.errNoRoom()
	}
	return nil
}

func roomOf(r *http.Request) *room {
	mine, _ := r.Context().Value(roomKey{}).(*room)
	return mine
}

// readBefore is a body that was read as a whole, for its next reader.
type readBefore struct {
	io.Reader
	text []byte
}

// Close implements io.Closer.
func (*readBefore) Close() error { return nil }

// growing reads a body into memory as far as there is room.
type growing struct {
	room *room
	text []byte
}

// readFrom reads to the end or until there are more than limit bytes; it reports false when there is no room.
func (g *growing) readFrom(in io.Reader, limit int64) (bool, error) {
	for {
		if len(g.text) == cap(g.text) && !g.hold(min(int64(cap(g.text))+max(int64(cap(g.text))/4, bodyStep), limit+1)) {
			return false, nil
		}
		n, err := in.Read(g.text[len(g.text):cap(g.text)])
		g.text = g.text[:len(g.text)+n]
		switch {
		case errors.Is(err, io.EOF), err == nil && int64(len(g.text)) > limit:
			return true, nil
		case err != nil:
			return true, err
		}
	}
}

// hold makes the text hold n bytes. While it is moved it is there twice, and counts so.
func (g *growing) hold(n int64) bool {
	if !g.room.take(n) {
		return false
	}
	former := g.text
	g.text = append(make([]byte, 0, n), former...)
	g.room.give(int64(cap(former)))
	return true
}
