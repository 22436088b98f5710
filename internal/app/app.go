// Package app puts the process together and runs it: store, engine, HTTP API and console, from the settings to
// graceful shutdown.
//
// It is the only place where the parts meet, it decides nothing about messages, and it can be embedded: tests and
// the demo start the same thing that "carillon serve" does.
//
// A stop runs in this order: no new connections; requests under way are answered; the engine finishes the
// requests in flight and releases its other claims; the database is closed.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/telemetry"
)

const (
	// DefaultWorkspace is the workspace that every database begins with.
	DefaultWorkspace = "default"

	// readHeaderTimeout and the others bound what a slow or idle caller can hold.
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 90 * time.Second // a full batch on a busy database
	answerTimeout     = 80 * time.Second // of an API request: it ends early enough for the caller to hear of it
	idleTimeout       = 2 * time.Minute
	maxHeader         = 2 * api.MaxHeaders // beyond what the API answers itself, the connection ends
)

// Config is what a process is made of.
type Config struct {
	config.Server

	Log *slog.Logger // nil: nothing is logged
	// Version of the program, for the API's description.
	Version string
	// SecretKey are keys for secrets beside those of the settings' file (secret.ParseKeyring).
	SecretKey secret.Value
	// LinkKey are keys for links with authority beside those of the settings' file (key.ParseLinkKeys).
	LinkKey secret.Value
	// Clock to run by; nil is the machine's, kept in step with PostgreSQL's.
	Clock clock.Clock
	// Providers of channels beside the built-in ones.
	Providers []channel.Provider
	// Sinks are providers of sinks beside the built-in ones.
	Sinks []sink.Provider
	// Functions and Audiences are functions of a binary of one's own, which expressions call and audiences name.
	Functions, Audiences []*expr.Function
	// Journal gets every decision and outcome, in addition to the log; nil: only the log does.
	Journal journal.Writer
	// Guest names a workspace that everybody who reaches the console may read without a key; empty = none.
	Guest string
	// Notice is shown above every page of the console; empty = none.
	Notice string
}

// App is a running process.
type App struct {
	config    Config
	log       *slog.Logger
	clock     clock.Clock
	store     *store.Store
	workspace store.Workspace
	began     time.Time // when this process began
	engine    *engine.Engine
	feed      console.Feed
	metrics   *telemetry.Metrics
	tracing   telemetry.Tracing
	outbound  *outbound.Client
	documents *outbound.Documents
	vault     *vault
	links     key.LinkKeys
	server    *http.Server
	beside    []*http.Server // for operators alone
	listener  net.Listener

	halt    context.CancelFunc // ends the engine and what keeps the clock
	running sync.WaitGroup
	failed  chan error // capacity 1: why the process cannot go on
	stopped sync.Once
	stopErr error
}

// Start brings a process up. When it returns without an error, requests are answered and due work is done; ctx
// bounds only the start. Stop ends it.
func Start(ctx context.Context, c Config) (*App, error) {
	a := &App{config: c, log: c.Log, clock: c.Clock, failed: make(chan error, 1)}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = telemetry.Calm(a.log, store.Unavailable)
	if err := a.start(ctx); err != nil {
		return nil, errors.Join(err, a.Stop(ctx))
	}
	return a, nil
}

func (a *App) start(ctx context.Context) (err error) {
	system := &clock.System{}
	if a.clock == nil {
		a.clock = system
	}
	if a.store, a.workspace, err = OpenStore(ctx, a.config.DB, store.Options{Direct: a.config.DBDirect}, a.config.Migrate, a.clock.Now); err != nil {
		return err
	}
	if err := a.setClock(ctx, system); err != nil {
		return err
	}
	a.store.OnReplaced(a.fail)
	if err := a.recognise(ctx); err != nil {
		return err
	}
	if a.listener, err = listen(ctx, "--listen", a.config.Listen); err != nil {
		return err
	}
	if a.config.PublicURL == "" {
		a.config.PublicURL = a.URL()
	}
	if a.tracing, err = telemetry.NewTracing(ctx, a.config.Version, a.log); err != nil {
		return err
	}
	if a.vault, err = newVault(a.config, a.store, a.clock.Now); err != nil {
		return err
	}
	if a.links, err = a.linkKeys(); err != nil {
		return err
	}
	calls := outbound.Options{
		Policy: outbound.Policy{Allow: a.config.OutboundAllow}, UserAgent: "carillon/" + a.config.Version, Wrap: a.tracing.Transport,
	}
	a.outbound, a.documents = outbound.New(calls), outbound.NewDocuments(calls)
	a.began = a.clock.Now()
	a.metrics = a.newMetrics()
	a.store.OnFollowed(func(n map[store.Followed]int) {
		for of, count := range n {
			a.metrics.Subscriptions(string(of.Source), string(of.Reason), count)
		}
	})
	providers := append(Providers(a.outbound, a.clock), a.config.Providers...)
	definitions := DefinitionOptions(providers, a.config.Sinks...)
	definitions.Functions, definitions.Audiences = a.config.Functions, append(definitions.Audiences, a.config.Audiences...)
	a.engine, err = engine.New(engine.Config{
		Store: a.store, Clock: a.clock, Log: a.log, Providers: providers, Sinks: append(Sinks(a.outbound, a.clock, a.config.SinkDir), a.config.Sinks...), Secret: a.vault.resolve, SecretCheck: a.vault.check, Journal: a.journal(), Documents: a.documents,
		Definitions: definitions, Workers: a.config.Workers, Batch: a.config.Batch, PublicURL: a.config.PublicURL, Links: a.links,
		Retention: keepOf(&a.config.Server),
		Spans:     a.tracing.Spans,
		OnlyTo:    a.config.OnlyTo,
	})
	if err != nil {
		return fmt.Errorf("make the engine: %w", err)
	}
	if a.server, err = a.newServer(); err != nil {
		return err
	}
	if err := a.watchers(ctx); err != nil {
		return err
	}
	a.run(system)
	a.log.Info("started", "database", a.store.Dialect(), "url", a.URL())
	return nil
}

// OpenStore opens a database, brings its schema up to date when migrate is set, and makes the default workspace
// where there is none.
func OpenStore(ctx context.Context, db string, o store.Options, migrate bool, now func() time.Time) (*store.Store, store.Workspace, error) {
	s, err := store.Open(ctx, db, o)
	if err != nil {
		return nil, store.Workspace{}, err
	}
	ws, err := prepare(ctx, s, migrate, now)
	if err != nil {
		return nil, store.Workspace{}, errors.Join(err, s.Close())
	}
	return s, ws, nil
}

func prepare(ctx context.Context, s *store.Store, migrate bool, now func() time.Time) (store.Workspace, error) {
	if migrate {
		if err := s.Migrate(ctx); err != nil {
			return store.Workspace{}, err
		}
	}
	have, want, err := s.SchemaVersion(ctx)
	if err != nil {
		return store.Workspace{}, err
	}
	if err := store.Upgradable(have, want); err != nil {
		return store.Workspace{}, err
	}
	if have != want {
		return store.Workspace{}, fmt.Errorf("the database's schema has version %d and this program needs %d: run carillon migrate, or start without --no-migrate", have, want)
	}
	return s.EnsureWorkspace(ctx, DefaultWorkspace, newSecret(), now())
}

// journal passes the entries of the journal to the log, the console and the other readers.
func (a *App) journal() journal.Writer {
	log := telemetry.LogJournal(a.log)
	return func(e journal.Entry) {
		log.Write(e)
		a.metrics.Write(e)
		a.feed.Write(e)
		a.config.Journal.Write(e)
	}
}

func (a *App) newServer() (*http.Server, error) {
	routes := api.New(api.Deps{
		Store: a.store, Engine: operations{a.engine, a.metrics.Event, a.store.Restored}, Secrets: a.vault, Clock: a.clock, Log: a.log, Version: a.config.Version,
		Metrics: a.metrics, Bodies: int64(a.config.MaxBodies) << 20,
	})
	pages, err := console.New(console.Deps{
		Store: a.store, Definitions: a.engine, Feed: &a.feed, Clock: a.clock, Log: a.log, Guest: a.config.Guest,
		Secure: strings.HasPrefix(a.config.PublicURL, "https://"), Notice: a.notice,
	})
	if err != nil {
		return nil, fmt.Errorf("make the console: %w", err)
	}
	return &http.Server{
		Handler: a.handler(routes, pages, public.Handler(surveys{a.engine}, public.Options{Clock: a.clock, Log: a.log, Subscriptions: Subscriptions(a.engine, a.links, a.clock), Followers: Followers(a.engine, a.links, a.clock)})), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}, nil
}

func (a *App) run(system *clock.System) {
	ctx, halt := context.WithCancel(context.Background())
	a.halt = halt
	if a.config.Work {
		a.running.Go(func() {
			if !a.accepted(ctx, system) {
				return
			}
			if err := a.engine.Run(ctx); err != nil {
				a.fail(fmt.Errorf("engine: %w", err))
			}
		})
	} else {
		a.running.Go(func() { a.engine.Announce(ctx) })
	}
	a.running.Go(func() { a.keepClock(ctx, system) })
	go func() {
		if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			a.fail(fmt.Errorf("serve: %w", err))
		}
	}()
}

func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

// URL is where the process can be reached from this machine, such as http://127.0.0.1:8080.
func (a *App) URL() string {
	host, port, err := net.SplitHostPort(a.listener.Addr().String())
	if err != nil {
		return "http://" + a.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Store is the open database.
func (a *App) Store() *store.Store { return a.store }

// Engine is the running engine.
func (a *App) Engine() *engine.Engine { return a.engine }

// Workspace is the default workspace.
func (a *App) Workspace() store.Workspace { return a.workspace }

// Failed receives an error when the process cannot go on by itself.
func (a *App) Failed() <-chan error { return a.failed }

// Stop ends the process; ctx bounds how long it may take. What is not finished then has a lease that runs out, and
// the process that runs next takes it over. It may be called several times.
func (a *App) Stop(ctx context.Context) error {
	a.stopped.Do(func() { a.stopErr = a.stop(ctx) })
	return a.stopErr
}

func (a *App) stop(ctx context.Context) error {
	var errs []error
	switch {
	case a.halt != nil: // it serves
		if err := a.server.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("answer the last requests: %w", errors.Join(err, a.server.Close())))
		}
	case a.listener != nil:
		errs = append(errs, a.listener.Close())
	}
	errs = append(errs, a.closeWatchers())
	if a.halt != nil {
		a.halt()
		finished := make(chan struct{})
		go func() {
			a.running.Wait()
			close(finished)
		}()
		select {
		case <-finished:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("finish what is on its way: %w", context.Cause(ctx)))
		}
	}
	if a.engine != nil {
		a.engine.Close()
	}
	if a.outbound != nil {
		a.outbound.Close()
		a.documents.Close()
	}
	a.stopTracing(ctx)
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(errs...)
}

// Run starts a process, calls ready with the addresses it listens on, and stops it when ctx ends or it cannot go on.
func Run(ctx context.Context, c Config, ready func(*App)) error {
	a, err := Start(ctx, c)
	if err != nil {
		return err
	}
	ready(a)
	select {
	case <-ctx.Done():
		a.log.Info("stopping")
	case err = <-a.Failed():
		a.log.Error("stopping", "error", err)
	}
	end, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.StopTimeout, fmt.Errorf("stop took longer than %s", c.StopTimeout))
	defer cancel()
	err = errors.Join(err, a.Stop(end))
	a.log.Info("stopped")
	return err
}

// keepOf returns how long what is over stays, by the settings.
func keepOf(c *config.Server) retention.Keep {
	days := func(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }
	digests := c.RetentionDays
	if c.RetentionDigestDays != nil {
		digests = *c.RetentionDigestDays
	}
	messages := digests
	if c.RetentionMessageDays != nil {
		messages = *c.RetentionMessageDays
	}
	return retention.Keep{
		Occasions: days(c.RetentionDays), Digests: days(digests), Messages: days(messages), Subscriptions: days(c.RetentionSubscriptionDays),
		Addresses: days(c.RetentionAddressDays), Topics: days(c.RetentionTopicDays),
	}
}
