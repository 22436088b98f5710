// Package sinkpool opens the sinks of definitions. It keeps each sink open while its definition and its secrets stay the same (see package
// pool).
package sinkpool

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/pool"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/subject"
)

// Pool opens sinks on first use. It is safe for concurrent use.
type Pool struct {
	providers map[string]sink.Provider
	open      *pool.Pool[sink.Sink]
}

// Providers describes the providers for validating definitions.
func Providers(list []sink.Provider) []definition.ProviderInfo {
	all := make([]definition.ProviderInfo, len(list))
	for i, p := range list {
		all[i] = definition.ProviderInfo{Name: p.Name, Check: pool.Check[*sink.SettingError](p.Check)}
		for _, s := range p.Settings {
			all[i].Settings = append(all[i].Settings, definition.SettingInfo{Name: s.Name, Required: s.Required, Secret: s.Secret})
		}
	}
	return all
}

// New makes a pool of sinks of these providers. secret returns the values of settings.
func New(providers []sink.Provider, secret pool.Secret, log *slog.Logger) *Pool {
	byName := make(map[string]sink.Provider, len(providers))
	for _, p := range providers {
		byName[p.Name] = p
	}
	return &Pool{providers: byName, open: pool.New[sink.Sink](secret, log)}
}

// Get returns the open sink of a definition; release must follow. If the definition or one of its secrets has changed, Get opens the sink
// again, and the old one is closed when its last user has released it. The error is a *sink.Error.
func (p *Pool) Get(ws subject.WorkspaceID, def *definition.Sink) (s sink.Sink, release func(), err error) {
	wanted := pool.Definition{Key: pool.Key{Workspace: ws, Name: def.Name}, Version: string(def.Raw), Settings: def.Settings}
	for {
		s, use, err := p.open.Get(wanted, func(_ *pool.Use, settings map[string]string) (sink.Sink, func() error, error) {
			provider, ok := p.providers[def.Provider]
			if !ok {
				return nil, nil, fmt.Errorf("this process has no provider %q", def.Provider)
			}
			s, err := provider.Open(settings)
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		})
		if err != nil {
			return nil, nil, refused(def.Name, err)
		}
		if use.Begin() { // else it was replaced meanwhile
			return s, use.End, nil
		}
	}
}

func refused(name string, err error) *sink.Error {
	var missing *pool.SecretError
	err = fmt.Errorf("sink %s: %w", name, err)
	if errors.As(err, &missing) {
		return &sink.Error{Reason: reason.SecretMissing, Retry: sink.Temporary, Err: err}
	}
	return sink.Failed(err)
}

// Keep closes the open sinks of a workspace that a set does not have any more, each when its last user has released it.
func (p *Pool) Keep(ws subject.WorkspaceID, set *definition.Set) {
	p.open.Keep(ws, func(name string) bool { return set.Sink(name) != nil })
}

// Close closes every sink, each when its last user has released it. None is opened after it.
func (p *Pool) Close() { p.open.Close() }
