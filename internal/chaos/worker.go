package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// EnvWorker names the environment variable that makes a binary a worker; it holds a task as JSON.
const EnvWorker = "CARILLON_CHAOS_WORKER"

const (
	// claims is small, so that a kill leaves many claims of several batches behind and not one of all.
	claims = 100
	// listenerFD is the first descriptor that a process inherits beside the standard ones.
	listenerFD = 3
	// exitCrash is the status of a worker that ended at its failpoint.
	exitCrash = 9
	// orphaned is the status of a worker whose starter has gone.
	orphaned = 10
	// stopTimeout ends a stop that hangs.
	stopTimeout = time.Minute
)

// task is what a worker is to do.
type task struct {
	Life    string        `json:"life"` // slot and life, such as 2.5
	DB      string        `json:"db"`
	Journal string        `json:"journal"` // appended to
	Crash   string        `json:"crash,omitempty"`
	Lease   time.Duration `json:"lease"`
	Timeout time.Duration `json:"timeout"` // of one request; 0: the engine's own
}

// line is one entry of a worker's journal.
type line struct {
	What     journal.What  `json:"what"`
	Reason   reason.Reason `json:"reason,omitempty"`
	Answered bool          `json:"answered"` // a request was made, and something came of it
}

// Work is the worker: it serves the API and runs the engine until it is asked to stop, is killed, or the process that
// started it has gone (end of file on stdin). It returns the process's exit status.
func Work(taskJSON string, stdin io.Reader, stderr io.Writer) int {
	var t task
	if err := json.Unmarshal([]byte(taskJSON), &t); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(orphaned)
	}()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := work(ctx, t, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", t.Life, err)
		return 1
	}
	return 0
}

func work(ctx context.Context, t task, stderr io.Writer) (err error) {
	book, err := os.OpenFile(t.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("life", t.Life)
	s, err := store.Open(ctx, t.DB, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}, UserAgent: t.Life})
	defer client.Close()
	providers := app.Providers(client, &clock.System{})
	var armed atomic.Bool // once something was asked of this worker
	workers := engine.DefaultWorkers
	if t.Crash != "" {
		workers = 1 // so that no other request is in flight when it ends
	}
	e, err := engine.New(engine.Config{
		Store: s, Clock: &clock.System{}, Log: log, Providers: providers, Definitions: app.DefinitionOptions(providers),
		Sinks: app.Sinks(client, &clock.System{}, ""), Workers: workers, Batch: claims, Lease: t.Lease, Timeout: t.Timeout, Secret: secret,
		Failpoint: func(point string) error {
			if point == t.Crash && armed.Load() {
				os.Exit(exitCrash)
			}
			return nil
		},
		Journal: func(e journal.Entry) {
			raw := must(json.Marshal(line{What: e.What, Reason: e.Reason, Answered: e.ProviderID != "" || e.Error != ""}))
			if _, err := book.Write(append(raw, '\n')); err != nil { // one write: it is there whatever happens next
				log.Error("journal", "error", err)
			}
		},
	})
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return err
	}
	routes := api.New(api.Deps{Store: s, Engine: app.Operations(e), Clock: &clock.System{}, Log: log, Version: "chaos"})
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			armed.Store(true)
			routes.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: stopTimeout,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = e.Run(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = errors.Join(err, server.Shutdown(end))
	if serving := <-served; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

// secret finds a setting where definitions say; workers share our environment and files.
func secret(_ subject.WorkspaceID, s definition.Setting) (string, error) {
	switch {
	case s.Env != "":
		return os.Getenv(s.Env), nil
	case s.File != "":
		raw, err := os.ReadFile(s.File)
		return string(raw), err
	}
	return s.Value, nil
}
