package channelpool

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Pool opens channels on first use. It is safe for concurrent use.
type Pool struct {
	providers map[string]channel.Provider
	secret    func(subject.WorkspaceID, definition.Setting) (string, error)
	most      int
	log       *slog.Logger

	mu   sync.Mutex
	open map[name]*Channel
}

type name struct {
	workspace subject.WorkspaceID
	channel   string // kind:name
}

// Providers describes the providers for validating definitions.
func Providers(list []channel.Provider) []definition.ProviderInfo {
	all := make([]definition.ProviderInfo, len(list))
	for i, p := range list {
		all[i] = definition.ProviderInfo{Name: p.Name, Verifies: p.Verifies}
		for _, s := range p.Settings {
			all[i].Settings = append(all[i].Settings, definition.SettingInfo{Name: s.Name, Required: s.Required, Secret: s.Secret, Free: s.Free})
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

// New makes a pool of channels of these providers. secret returns the values of settings. most is how many requests are in flight at once on a
// channel without a concurrency of its own.
func New(providers []channel.Provider, secret func(subject.WorkspaceID, definition.Setting) (string, error), most int, log *slog.Logger) *Pool {
	byName := make(map[string]channel.Provider, len(providers))
	for _, p := range providers {
		byName[p.Name] = p
	}
	return &Pool{providers: byName, secret: secret, most: most, log: log, open: map[name]*Channel{}}
}

// Get returns the open channel of a definition. If the definition or one of its secrets has changed, Get opens the channel again with a fresh
// breaker, and closes the old one when its last request has ended.
func (r *Pool) Get(ws subject.WorkspaceID, def *definition.Channel) (*Channel, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := name{ws, def.Key}
	settings, err := r.settings(ws, def)
	if err != nil {
		return nil, err
	}
	old := r.open[at]
	if old != nil && old.def.Hash == def.Hash && maps.Equal(old.settings, settings) {
		return old, nil
	}
	provider, ok := r.providers[def.Provider]
	if !ok {
		return nil, fmt.Errorf("channel %s: this process has no provider %q", def.Key, def.Provider)
	}
	ch, err := provider.Open(settings)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", def.Key, err)
	}
	fixed := *def
	o := &Channel{
		Channel: ch, KeepContent: provider.KeepContent, key: at, def: &fixed, settings: settings,
		slots: make(chan struct{}, cmp.Or(def.Concurrency, r.most)),
	}
	r.open[at] = o
	if old != nil {
		if err := old.retire(); err != nil {
			r.log.Warn("a channel was not closed", "error", err)
		}
	}
	return o, nil
}

// settings returns the present values of a channel's settings. The error is a *channel.SendError.
func (r *Pool) settings(ws subject.WorkspaceID, def *definition.Channel) (map[string]string, error) {
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

// Resting returns how long a channel takes no messages, as far as this process knows: OK unless its breaker is open.
func (r *Pool) Resting(ws subject.WorkspaceID, def *definition.Channel, now time.Time) flow.Verdict {
	r.mu.Lock()
	o := r.open[name{ws, def.Key}]
	r.mu.Unlock()
	if o == nil || o.def.Hash != def.Hash {
		return flow.Verdict{OK: true}
	}
	return o.Resting(now)
}

// Close closes every channel, each when its last request has ended.
func (r *Pool) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, o := range r.open {
		errs = append(errs, o.retire())
	}
	clear(r.open)
	return errors.Join(errs...)
}

// State is what this process knows about a channel that it has used.
type State struct {
	Workspace   subject.WorkspaceID
	Channel     string // kind:name
	Provider    string
	Breaker     flow.State
	Failures    int       // consecutive failures that show that the provider is away
	OpenUntil   time.Time // zero: the breaker is closed
	InFlight    int       // requests
	Concurrency int       // requests at once at most
	Rate        string    // such as 50/s; empty: unlimited
	AcceptedAt  time.Time // when it last accepted a message
	FailedAt    time.Time // when a request last failed
	Failure     string    // its error; never the message
}

// State returns what this process knows about a channel as it is defined now; empty if the process has not used it since.
func (r *Pool) State(ws subject.WorkspaceID, def *definition.Channel, now time.Time) State {
	r.mu.Lock()
	o := r.open[name{ws, def.Key}]
	r.mu.Unlock()
	if o == nil || o.def.Hash != def.Hash {
		return State{
			Workspace: ws, Channel: def.Key, Provider: def.Provider, Breaker: flow.Closed,
			Concurrency: cmp.Or(def.Concurrency, r.most), Rate: def.Rate.String(),
		}
	}
	return o.state(now)
}

// States lists the open channels in the order of workspaces and names.
func (r *Pool) States(now time.Time) []State {
	r.mu.Lock()
	open := slices.SortedFunc(maps.Values(r.open), func(a, b *Channel) int {
		return cmp.Or(cmp.Compare(a.key.workspace, b.key.workspace), cmp.Compare(a.key.channel, b.key.channel))
	})
	r.mu.Unlock()
	states := make([]State, len(open))
	for i, o := range open {
		states[i] = o.state(now)
	}
	return states
}

func (o *Channel) state(now time.Time) State {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := State{
		Workspace: o.key.workspace, Channel: o.key.channel, Provider: o.def.Provider, Breaker: o.breaker.State(now),
		Failures: o.breaker.Failures(), InFlight: o.requests, Concurrency: cap(o.slots), Rate: o.def.Rate.String(),
		AcceptedAt: o.acceptedAt, FailedAt: o.failedAt, Failure: o.failure,
	}
	if s.Breaker != flow.Closed {
		s.OpenUntil = o.breaker.Until()
	}
	return s
}
