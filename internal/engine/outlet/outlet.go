// Package outlet opens the channels that definitions name and keeps them open while their definition stays.
package outlet

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Outlet is an open channel with what its definition and its provider say about it.
type Outlet struct {
	channel.Channel
	KeepContent bool
	HoldUnknown bool
}

// Registry opens channels on first use. It is safe for concurrent use.
type Registry struct {
	providers map[string]channel.Provider
	secret    func(subject.WorkspaceID, definition.Setting) (string, error)

	mu   sync.Mutex
	open map[name]opened
}

type name struct {
	workspace subject.WorkspaceID
	channel   string // kind:name
}

type opened struct {
	hash     string
	settings map[string]string
	outlet   Outlet
}

// Providers is what checking definitions needs to know of providers.
func Providers(list []channel.Provider) []definition.ProviderInfo {
	all := make([]definition.ProviderInfo, len(list))
	for i, p := range list {
		all[i] = definition.ProviderInfo{Name: p.Name, Verifies: p.Verifies}
		for _, s := range p.Settings {
			all[i].Settings = append(all[i].Settings, definition.SettingInfo{Name: s.Name, Required: s.Required, Secret: s.Secret})
		}
		if p.Check != nil {
			all[i].Check = func(settings map[string]string) (string, error) {
				err := p.Check(settings)
				var wrong *channel.SettingError
				if errors.As(err, &wrong) {
					return wrong.Setting, err
				}
				return "", err
			}
		}
	}
	return all
}

// New makes a registry of these providers. Secret gives the values of settings.
func New(providers []channel.Provider, secret func(subject.WorkspaceID, definition.Setting) (string, error)) *Registry {
	byName := make(map[string]channel.Provider, len(providers))
	for _, p := range providers {
		byName[p.Name] = p
	}
	return &Registry{providers: byName, secret: secret, open: map[name]opened{}}
}

// Get returns the open channel of a definition; it is opened anew when the definition or one of its secrets has changed.
func (r *Registry) Get(ws subject.WorkspaceID, def *definition.Channel) (Outlet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := name{ws, def.Key}
	settings, err := r.settings(ws, def)
	if err != nil {
		return Outlet{}, err
	}
	if o, ok := r.open[at]; ok && o.hash == def.Hash && maps.Equal(o.settings, settings) {
		return o.outlet, nil
	}
	provider, ok := r.providers[def.Provider]
	if !ok {
		return Outlet{}, fmt.Errorf("channel %s: this process has no provider %q", def.Key, def.Provider)
	}
	ch, err := provider.Open(settings)
	if err != nil {
		return Outlet{}, fmt.Errorf("channel %s: %w", def.Key, err)
	}
	o := Outlet{Channel: ch, KeepContent: provider.KeepContent, HoldUnknown: def.OnUnknown == definition.OnUnknownHold}
	r.open[at] = opened{hash: def.Hash, settings: settings, outlet: o}
	return o, nil
}

// settings are the values of a channel's settings as they are now. The error is a *channel.SendError.
func (r *Registry) settings(ws subject.WorkspaceID, def *definition.Channel) (map[string]string, error) {
	values := make(map[string]string, len(def.Settings))
	for name, setting := range def.Settings {
		value, err := r.secret(ws, setting)
		if err != nil {
			return nil, &channel.SendError{
				Reason: reason.SecretMissing, Retry: true, Err: fmt.Errorf("channel %s: setting %s: %w", def.Key, name, err),
			}
		}
		values[name] = value
	}
	return values, nil
}
