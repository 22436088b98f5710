package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/store"
)

// maxIdempotencyKey bounds an Idempotency-Key, in bytes.
const maxIdempotencyKey = 255

// asked names the request for which an answer is to be kept, nil when its caller sent no Idempotency-Key. The body is
// read, and put back. A request that has taken effect before is the error: a *store.Replay, or a problem.
//
// A key counts for one workspace, one API key and one route. What belongs to a key is the path, the query and the body.
func (a *API) asked(w http.ResponseWriter, r *http.Request, c Caller, route Route, limit int64) (*store.AnswerKey, error) {
	values := r.Header.Values(client.IdempotencyKey)
	if len(values) == 0 || route.Method == http.MethodGet || route.Repeatable {
		return nil, nil
	}
	if len(values) > 1 || !visible(values[0]) {
		p := newProblem(http.StatusBadRequest, client.CodeIdempotencyKey, "the Idempotency-Key is not 1 to 255 visible ASCII characters")
		p.Field, p.Hint = "header."+client.IdempotencyKey, "send one key, such as a UUID made for this request"
		return nil, p
	}
	var body []byte
	if r.ContentLength != 0 {
		var err error
		if body, err = readAll(w, r, limit); err != nil {
			return nil, err
		}
		r.Body = &readBefore{bytes.NewReader(body), body}
	}
	who := fmt.Sprintf("%d\n%s %s\n%s", c.keyID, route.Method, route.Path, values[0])
	what := r.URL.EscapedPath()
	if query := r.URL.Query().Encode(); query != "" {
		what += "?" + query
	}
	k := &store.AnswerKey{Key: hash([]byte(who)), Request: hash(append([]byte(what+"\n"), body...))}
	return k, a.Store.Answered(r.Context(), c.Workspace.ID, a.Clock.Now(), *k)
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func visible(key string) bool {
	if key == "" || len(key) > maxIdempotencyKey {
		return false
	}
	return strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// once is how the answer to the caller's request is kept: what wire makes of the result, as it is answered. It is nil
// when they sent no Idempotency-Key.
func once[T, W any](a *API, c Caller, wire func(T) W) *store.Idempotent[T] {
	if c.asked == nil {
		return nil
	}
	return &store.Idempotent[T]{AnswerKey: *c.asked, At: a.Clock.Now(), Answer: func(result T) (store.Answer, error) {
		text, err := encode(wire(result))
		return store.Answer{Status: http.StatusOK, Body: string(text)}, err
	}}
}

// answeredWith has a request answered with a status when it is repeated, too.
func answeredWith[T any](status int, once *store.Idempotent[T]) *store.Idempotent[T] {
	if once == nil {
		return nil
	}
	answer := once.Answer
	once.Answer = func(result T) (store.Answer, error) {
		a, err := answer(result)
		a.Status = status
		return a, err
	}
	return once
}

// encode writes an answer as every route does.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return text.Bytes(), err
}

// replayed is an answer that was given before, in the shape of an error, because it is found below the handlers.
type replayed struct{ store.Answer }

func (r *replayed) Error() string { return "answered before" }

// GetStatus, GetHeaders, ContentType and MarshalJSON have the router write it.
func (r *replayed) GetStatus() int { return r.Status }

// GetHeaders says that the answer is an old one.
func (r *replayed) GetHeaders() http.Header { return http.Header{client.IdempotencyReplayed: {"true"}} }

// ContentType is that of every answer.
func (r *replayed) ContentType(string) string { return "application/json" }

// MarshalJSON gives the answer as it was.
func (r *replayed) MarshalJSON() ([]byte, error) { return []byte(r.Body), nil }

// refuse writes what a request is answered that failed with err, or that was answered before.
func (a *API) refuse(ctx context.Context, w http.ResponseWriter, path string, err error) {
	var again *store.Replay
	if !errors.As(err, &again) {
		writeProblem(w, missing(path, a.problem(ctx, err)))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(client.IdempotencyReplayed, "true")
	w.WriteHeader(again.Status)
	// A caller who has gone away is no concern of ours.
	_, _ = w.Write([]byte(again.Body))
}
