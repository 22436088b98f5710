package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/telemetry"
)

// newMetrics makes the numbers of this process; what they say of the database is read when they are asked for.
func (a *App) newMetrics() *telemetry.Metrics {
	return telemetry.NewMetrics(telemetry.MetricsOptions{Version: a.config.Version, Now: a.clock.Now, Database: a.readDatabase, Channels: a.channelGauges})
}

func (a *App) readDatabase(ctx context.Context) (telemetry.Database, error) {
	stats := a.store.Connections()
	d := telemetry.Database{Pool: telemetry.Pool{
		Open: stats.OpenConnections, InUse: stats.InUse, Max: stats.MaxOpenConnections, Waits: stats.WaitCount, Waited: stats.WaitDuration,
	}}
	now := a.clock.Now()
	b, err := a.store.Backlog(ctx, now)
	if err != nil {
		return d, err
	}
	d.DueRecords, d.DueInstances, d.DueDeliveries, d.Held, d.Unknown, d.Definitions = b.DueRecords, b.DueInstances, b.DueDeliveries, b.Held, b.Unknown, b.Definitions
	d.DueItems, d.OverdueRuns = b.DueItems, b.OverdueRuns
	if !b.RunAdvanced.IsZero() {
		d.RunsStand = now.Sub(b.RunAdvanced)
	}
	if d.Canary, err = a.canary(ctx, now); err != nil {
		return d, err
	}
	d.Copied = a.store.Restored()
	d.Paused, d.Braked, d.Parked = b.Paused, b.Braked, b.Parked
	for _, q := range b.Queues {
		d.Waiting = append(d.Waiting, telemetry.Waiting{Channel: q.Channel, Reason: q.Reason, N: q.N, Oldest: now.Sub(q.Oldest)})
	}
	if !b.OldestDue.IsZero() {
		d.OldestDue = now.Sub(b.OldestDue)
	}
	d.Sinks, err = a.readSinks(ctx, now)
	return d, err
}

// canary returns how long the canary has had no message; nil: there is no canary.
func (a *App) canary(ctx context.Context, now time.Time) (*time.Duration, error) {
	if a.config.Canary == "" {
		return nil, nil
	}
	last, err := a.store.LastSentTo(ctx, a.workspace.ID, a.config.Canary)
	if err != nil {
		return nil, err
	}
	if last.IsZero() { // nor is it a contact, perhaps
		last = a.began
	}
	since := now.Sub(last)
	return &since, nil
}

func (a *App) readSinks(ctx context.Context, now time.Time) ([]telemetry.Sink, error) {
	states, err := a.store.Sinks(ctx)
	if err != nil || len(states) == 0 {
		return nil, err
	}
	workspaces, err := a.store.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	names := make(map[subject.WorkspaceID]string, len(workspaces))
	for _, w := range workspaces {
		names[w.ID] = w.Name
	}
	list := make([]telemetry.Sink, len(states))
	for i, k := range states {
		list[i] = telemetry.Sink{Workspace: names[k.Workspace], Name: k.Name, Pending: k.Pending, Dead: k.Dead, Active: k.Sends()}
		if !k.FailingSince.IsZero() {
			list[i].Failing = now.Sub(k.FailingSince)
		}
	}
	return list, nil
}

// stopTracing sends the last spans. A collector that is away fails no stop: nothing but a picture is lost.
func (a *App) stopTracing(ctx context.Context) {
	if a.tracing.Stop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tracesTimeout)
	defer cancel()
	if err := a.tracing.Stop(ctx); err != nil {
		a.log.WarnContext(ctx, "the last traces were not sent", "error", err)
	}
}

// tracesTimeout bounds how long a stop waits for the collector.
const tracesTimeout = 3 * time.Second

// listen opens an address for connections; setting names the flag that an error is about.
func listen(ctx context.Context, setting, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %s is taken: another program, perhaps another carillon, listens there; stop it, or give another port: %w",
			setting, address, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s: this user may not listen on %s; ports below 1024 need a privilege: %w", setting, address, syscall.EACCES)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s: %s is no address of this machine: %w", setting, address, syscall.EADDRNOTAVAIL)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return listener, nil
}

// watchers opens the addresses that only operators use.
func (a *App) watchers(ctx context.Context) error {
	for _, w := range []struct {
		setting, address string
		handler          http.Handler
	}{
		{"--metrics-listen", a.config.MetricsListen, metricsOnly(a.metrics)},
		{"--debug-listen", a.config.DebugListen, profiles()},
	} {
		if w.address == "" {
			continue
		}
		listener, err := listen(ctx, w.setting, w.address)
		if err != nil {
			return err
		}
		server := &http.Server{
			Handler: w.handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: profileTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		}
		a.beside = append(a.beside, server)
		a.log.Info("listening", "setting", w.setting, "address", listener.Addr().String())
		a.running.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				a.fail(fmt.Errorf("%s: %w", w.setting, err))
			}
		})
	}
	return nil
}

// profileTimeout leaves time for a profile of 30 s, which is what go tool pprof asks for, and for long traces.
const profileTimeout = 3 * time.Minute

func metricsOnly(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	return mux
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// closeWatchers ends what only operators use; a profile under way is cut off.
func (a *App) closeWatchers() error {
	var errs []error
	for _, server := range a.beside {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
