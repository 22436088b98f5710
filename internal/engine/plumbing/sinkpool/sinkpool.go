// Package sinkpool opens the sinks of definitions. It keeps each sink open while its definition and its secrets stay the same.
package sinkpool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/subject"
)

// Pool opens sinks on first use. It is safe for concurrent use.
type Pool struct {
	providers map[string]sink.Provider
	secret    func(subject.WorkspaceID, definition.Setting) (string, error)
	log       *slog.Logger

	mu     sync.Mutex
	open   map[name]*opened
	closed bool
}

type name struct {
	workspace subject.WorkspaceID
	sink      string
}

// opened is an open sink with the definition that it was opened by.
type opened struct {
	sink.Sink
	raw      json.RawMessage
	settings map[string]string
	users    int  // sends that have begun and not ended
	retired  bool // no send begins any more
}

// Providers describes the providers for validating definitions.
func Providers(list []sink.Provider) []definition.ProviderInfo {
	all := make([]definition.ProviderInfo, len(list))
	for i, p := range list {
		all[i] = definition.ProviderInfo{Name: p.Name}
		for _, s := range p.Settings {
			all[i].Settings = append(all[i].Settings, definition.SettingInfo{Name: s.Name, Required: s.Required, Secret: s.Secret})
		}
		if p.Check == nil {
			continue
		}
		all[i].Check = func(settings map[string]string) (string, error) {
			err := p.Check(settings)
			var wrong *sink.SettingError
			if errors.As(err, &wrong) {
				return wrong.Setting, err
			}
			return "", err
		}
	}
	return all
}

// New makes a pool of sinks of these providers. secret returns the values of settings.
func New(providers []sink.Provider, secret func(subject.WorkspaceID, definition.Setting) (string, error), log *slog.Logger) *Pool {
	byName := make(map[string]sink.Provider, len(providers))
	for _, p := range providers {
		byName[p.Name] = p
	}
	return &Pool{providers: byName, secret: secret, log: log, open: map[name]*opened{}}
}

// Get returns the open sink of a definition; release must follow. If the definition or one of its secrets has changed, Get opens the sink
// again, and the old one is closed when its last user has released it. The error is a *sink.Error.
func (p *Pool) Get(ws subject.WorkspaceID, def *definition.Sink) (s sink.Sink, release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, sink.Failed(errors.New("the process is stopping"))
	}
	settings, err := p.settings(ws, def)
	if err != nil {
		return nil, nil, err
	}
	at := name{ws, def.Name}
	o := p.open[at]
	if o == nil || !bytes.Equal(o.raw, def.Raw) || !maps.Equal(o.settings, settings) {
		provider, ok := p.providers[def.Provider]
		if !ok {
			return nil, nil, sink.Failed(fmt.Errorf("sink %s: this process has no provider %q", def.Name, def.Provider))
		}
		made, err := provider.Open(settings)
		if err != nil {
			return nil, nil, sink.Failed(fmt.Errorf("sink %s: %w", def.Name, err))
		}
		if o != nil {
			p.retire(o)
		}
		o = &opened{Sink: made, raw: def.Raw, settings: settings}
		p.open[at] = o
	}
	o.users++
	return o, func() { p.release(o) }, nil
}

// settings returns the present values of a sink's settings.
func (p *Pool) settings(ws subject.WorkspaceID, def *definition.Sink) (map[string]string, error) {
	values := make(map[string]string, len(def.Settings))
	for key, setting := range def.Settings {
		value, err := p.secret(ws, setting)
		if err != nil {
			return nil, &sink.Error{
				Reason: reason.SecretMissing, Retry: sink.Temporary, Err: fmt.Errorf("sink %s: setting %s: %w", def.Name, key, err),
			}
		}
		values[key] = value
	}
	return values, nil
}

func (p *Pool) release(o *opened) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.users--
	p.shut(o)
}

func (p *Pool) retire(o *opened) {
	o.retired = true
	p.shut(o)
}

func (p *Pool) shut(o *opened) {
	if !o.retired || o.users > 0 {
		return
	}
	if err := o.Close(); err != nil {
		p.log.Warn("a sink was not closed", "error", err)
	}
}

// Close closes every sink, each when its last user has released it. None is opened after it.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, o := range p.open {
		p.retire(o)
	}
	clear(p.open)
}
