package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/carillonhq/carillon/internal/clock"
)

// handler puts what answers under its paths. The API and the pages of surveys have paths of their own; everything else belongs to the console.
func (a *App) handler(routes, pages, surveys http.Handler) http.Handler {
	mux := http.NewServeMux()
	routes = bounded(routes)
	for _, path := range []string{"/v1/", "/api/", "/openapi.json", "/healthz", "/readyz", "/metrics", "/docs", "/docs/"} {
		mux.Handle(path, routes)
	}
	mux.Handle("/s/", bounded(surveys))
	for _, path := range []string{"/u/", "/m/", "/c/"} {
		mux.Handle(path, bounded(surveys))
	}
	mux.Handle("/", pages)
	served := behind(a.config.TrustProxy, strings.HasPrefix(a.config.PublicURL, "https://"), a.observe(mux))
	if a.tracing.Handler != nil {
		return a.tracing.Handler(served)
	}
	return served
}

// bounded ends requests that the database keeps waiting, so that a stalled one does not gather them for ever.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		inside := r.WithContext(ctx)
		defer func() { r.Pattern = inside.Pattern }() // the request counter reads it
		next.ServeHTTP(w, inside)
	})
}

// observe logs requests and keeps one that panics from ending the process.
func (a *App) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w}
		elapsed := clock.Monotonic()
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				a.log.ErrorContext(r.Context(), "request panicked", "method", r.Method, "route", r.Pattern, "panic", p, "stack", string(debug.Stack()))
				if seen.status == 0 {
					seen.WriteHeader(http.StatusInternalServerError)
				}
			}
			took := elapsed()
			a.metrics.Request(r.Pattern, seen.status, took)
			// Neither the path nor the query is logged: they hold ids and addresses.
			a.log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("method", r.Method), slog.String("route", r.Pattern),
				slog.Int("status", seen.status), slog.Duration("took", took))
		}()
		next.ServeHTTP(seen, r)
	})
}

// statusWriter remembers the status that was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
