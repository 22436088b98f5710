package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/store"
)

func newProblem(status int, code, detail string) *client.Problem {
	return client.NewProblem(status, http.StatusText(status), code, detail)
}

func writeProblem(w http.ResponseWriter, p *client.Problem) {
	p = helpful(p)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	// A problem is plain texts and always encodes.
	_ = writeJSON(w, p.Status, client.ProblemType, p)
}

// helpful is a problem with a hint: its own, or what the list of codes says to do.
func helpful(p *client.Problem) *client.Problem {
	if p.Hint != "" {
		return p
	}
	for _, c := range client.Codes() {
		if c.Code == p.Code {
			more := *p
			more.Hint = c.Remedy
			return &more
		}
	}
	return p
}

func notFound(what string) *client.Problem {
	return newProblem(http.StatusNotFound, client.CodeNotFound, "there is no such "+what)
}

func invalid(field, detail, hint string) *client.Problem {
	p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, detail)
	p.Field, p.Hint = field, hint
	return p
}

// problem turns any error into an answer to the caller. Details that are not meant for callers go to the log.
func (a *API) problem(ctx context.Context, err error) *client.Problem {
	var known *client.Problem
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, store.ErrKeyReused):
		p := newProblem(http.StatusUnprocessableEntity, client.CodeKeyReused, "the Idempotency-Key was sent with another request before")
		p.Field, p.Hint = "header."+client.IdempotencyKey, "send a new key with a new request, and an old one with exactly the old request"
		return p
	case errors.Is(err, store.ErrBusy):
		p := newProblem(http.StatusConflict, client.CodeInProgress, "a request with this Idempotency-Key is still under way")
		p.Hint = "send it again later, under the same key"
		return p
	case errors.Is(err, store.ErrNotFound):
		return newProblem(http.StatusNotFound, client.CodeNotFound, "there is no such thing in this workspace")
	case errors.Is(err, store.ErrConflict):
		return newProblem(http.StatusConflict, client.CodeConflict, "it was changed by somebody else meanwhile")
	case errors.Is(err, store.ErrStaleDefinitions):
		p := newProblem(http.StatusServiceUnavailable, client.CodeUnavailable, "the definitions were changed again and again meanwhile; nothing was done")
		p.Hint = "send it again"
		return p
	case ctx.Err() != nil:
		// The caller has gone, or the server is being stopped; nobody or the next server answers.
		return newProblem(http.StatusServiceUnavailable, client.CodeUnavailable, "the request was interrupted")
	}
	a.Log.ErrorContext(ctx, "request failed", "error", err)
	if store.Unavailable(err) {
		detail := "the database does not answer"
		if errors.Is(err, store.ErrReadOnly) {
			detail = store.ErrReadOnly.Error()
		}
		p := newProblem(http.StatusServiceUnavailable, client.CodeUnavailable, detail)
		p.Hint = "send it again later"
		return p
	}
	return newProblem(http.StatusInternalServerError, client.CodeInternal, "something went wrong here; the server's log says what")
}

// translate turns the router's own errors into problems. It drops the values that they carry.
func translate(_ huma.Context, _ string, v any) (any, error) {
	if p, ok := v.(*client.Problem); ok {
		return helpful(p), nil
	}
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	code := map[int]string{
		http.StatusBadRequest: client.CodeInvalidJSON, http.StatusUnprocessableEntity: client.CodeInvalidRequest,
		http.StatusRequestEntityTooLarge: client.CodeTooLarge, http.StatusUnsupportedMediaType: client.CodeMediaType,
		http.StatusRequestTimeout: client.CodeRequestTimeout,
	}[e.Status]
	if code == "" {
		code = client.CodeInternal
	}
	p := newProblem(e.Status, code, e.Detail)
	if len(e.Errors) > 0 {
		p.Detail, p.Field = e.Errors[0].Message, e.Errors[0].Location
	}
	if len(e.Errors) == 0 {
		p.Field = "body"
	}
	if e.Status == http.StatusInternalServerError {
		p.Detail, p.Field = "something went wrong here", ""
	}
	return helpful(p), nil
}

// MaxURL and MaxHeaders bound what comes before a body, in bytes.
const (
	MaxURL     = 8 << 10
	MaxHeaders = 32 << 10
)

// checkRequest refuses what no route can use.
func checkRequest(r *http.Request) *client.Problem {
	if len(r.RequestURI) > MaxURL {
		p := newProblem(http.StatusRequestURITooLong, client.CodeURITooLong, fmt.Sprintf("path and query are longer than %d KiB", MaxURL>>10))
		p.Field, p.Hint = "query", "send fewer or shorter parameters"
		return p
	}
	if headerSize(r.Header) > MaxHeaders {
		p := newProblem(http.StatusRequestHeaderFieldsTooLarge, client.CodeHeadersTooLarge, fmt.Sprintf("the headers hold more than %d KiB", MaxHeaders>>10))
		p.Field, p.Hint = "header", "no route needs more than Authorization"
		return p
	}
	if p := checkEncoding(r); p != nil {
		return p
	}
	if !storable(r.URL.Path) {
		return invalid("path", "holds a character that no value has", "")
	}
	for name, values := range r.URL.Query() {
		for _, value := range values {
			if !storable(value) {
				return invalid("query."+strings.ToValidUTF8(name, "?"), "holds a character that no value has", "")
			}
		}
	}
	// Bodies are JSON whatever their declared type: curl -d declares a form.
	r.Header.Set("Content-Type", "application/json")
	return nil
}

// storable reports whether the databases can hold a text, and so find it.
func storable(text string) bool { return !strings.ContainsRune(text, 0) && utf8.ValidString(text) }

func headerSize(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}

// notFound answers for paths and methods that are not there.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeProblem(w, notFound("route"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, newProblem(http.StatusMethodNotAllowed, client.CodeNotAllowed,
		fmt.Sprintf("this route takes %s", strings.Join(allowed, " and "))))
}
