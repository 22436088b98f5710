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
	"github.com/carillonhq/carillon/internal/engine/plumbing/pool"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Pool opens channels on first use. It is safe for concurrent use.
type Pool struct {
	providers map[string]channel.Provider
	most      int
	open      *pool.Pool[*Channel]

	mu       sync.Mutex
	unopened map[pool.Key]unopened
}

// unopened is why a channel could not be opened, as it is defined.
type unopened struct {
	version string
	err     error
}

// Providers describes the providers for validating definitions.
func Providers(list []channel.Provider) []definition.ProviderInfo {
	all := make([]definition.ProviderInfo, len(list))
	for i, p := range list {
		all[i] = definition.ProviderInfo{Name: p.Name, Kinds: p.Kinds, Forgetful: p.Forgetful, Verifies: p.Verifies, Check: pool.Check[*channel.SettingError](p.Check)}
		for _, s := range p.Settings {
			all[i].Settings = append(all[i].Settings, definition.SettingInfo{Name: s.Name, Required: s.Required, Secret: s.Secret, Free: s.Free})
		}
	}
	return all
}

// New makes a pool of channels of these providers. secret returns the values of settings. most is how many requests are in flight at once on a
// channel without a concurrency of its own.
func New(providers []channel.Provider, secret pool.Secret, most int, log *slog.Logger) *Pool {
	byName := make(map[string]channel.Provider, len(providers))
	for _, p := range providers {
		byName[p.Name] = p
	}
	return &Pool{providers: byName, most: most, open: pool.New[*Channel](secret, log), unopened: map[pool.Key]unopened{}}
}

// Get returns the open channel of a definition. If the definition or one of its secrets has changed, Get opens the channel again with a fresh
// breaker, and closes the old one when its last request has ended. If a secret is missing, the error is a *channel.SendError.
func (r *Pool) Get(ws subject.WorkspaceID, def *definition.Channel) (*Channel, error) {
	fixed := *def
	wanted := pool.Definition{Key: keyOf(ws, def), Version: def.Hash, Settings: def.Settings}
	o, _, err := r.open.Get(wanted, func(use *pool.Use, settings map[string]string) (*Channel, func() error, error) {
		provider, ok := r.providers[fixed.Provider]
		if !ok {
			return nil, nil, fmt.Errorf("this process has no provider %q", fixed.Provider)
		}
		ch, err := provider.Open(settings)
		if err != nil {
			return nil, nil, err
		}
		o := &Channel{
			Channel: ch, KeepContent: provider.KeepContent, key: wanted.Key, def: &fixed, use: use,
			slots: make(chan struct{}, cmp.Or(fixed.Concurrency, r.most)),
		}
		return o, o.shut, nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.unopened, wanted.Key)
		return o, nil
	}
	r.unopened[wanted.Key] = unopened{def.Hash, err}
	var missing *pool.SecretError
	err = fmt.Errorf("channel %s: %w", def.Key, err)
	if errors.As(err, &missing) {
		return nil, &channel.SendError{Reason: reason.SecretMissing, Retry: true, Err: err}
	}
	return nil, err
}

func keyOf(ws subject.WorkspaceID, def *definition.Channel) pool.Key {
	return pool.Key{Workspace: ws, Name: def.Key}
}

// Resting returns how long a channel takes no messages, as far as this process knows: OK unless its breaker is open.
func (r *Pool) Resting(ws subject.WorkspaceID, def *definition.Channel, now time.Time) flow.Verdict {
	o, ok := r.open.Peek(keyOf(ws, def), def.Hash)
	if !ok {
		return flow.Verdict{OK: true}
	}
	return o.Resting(now)
}

// Keep closes the open channels of a workspace that a set does not have any more, each when its last request has ended.
func (r *Pool) Keep(ws subject.WorkspaceID, set *definition.Set) {
	r.open.Keep(ws, func(key string) bool { return set.Channel(key) != nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.unopened, func(key pool.Key, _ unopened) bool { return key.Workspace == ws && set.Channel(key.Name) == nil })
}

// Close closes every channel, each when its last request has ended. None is opened after it.
func (r *Pool) Close() { r.open.Close() }

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
	Failure     string    // its error, or why the channel could not be opened; never the message
}

// State returns what this process knows about a channel as it is defined now; empty if the process has not used it since.
func (r *Pool) State(ws subject.WorkspaceID, def *definition.Channel, now time.Time) State {
	s := State{
		Workspace: ws, Channel: def.Key, Provider: def.Provider, Breaker: flow.Closed,
		Concurrency: cmp.Or(def.Concurrency, r.most), Rate: def.Rate.String(),
	}
	if o, ok := r.open.Peek(keyOf(ws, def), def.Hash); ok {
		s = o.state(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if not, ok := r.unopened[keyOf(ws, def)]; ok && not.version == def.Hash {
		s.Failure = not.err.Error()
	}
	return s
}

// States lists the open channels in the order of workspaces and names.
func (r *Pool) States(now time.Time) []State {
	open := slices.SortedFunc(maps.Values(r.open.All()), func(a, b *Channel) int {
		return cmp.Or(cmp.Compare(a.key.Workspace, b.key.Workspace), cmp.Compare(a.key.Name, b.key.Name))
	})
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
		Workspace: o.key.Workspace, Channel: o.key.Name, Provider: o.def.Provider, Breaker: o.breaker.State(now),
		Failures: o.breaker.Failures(), InFlight: o.use.Count(), Concurrency: cap(o.slots), Rate: o.def.Rate.String(),
		AcceptedAt: o.acceptedAt, FailedAt: o.failedAt, Failure: o.failure,
	}
	if s.Breaker != flow.Closed {
		s.OpenUntil = o.breaker.Until()
	}
	return s
}
