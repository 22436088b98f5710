package enginetest

import (
	"context"
	"slices"
	"sync"

	"github.com/carillonhq/carillon/internal/sink"
)

// Sinks are the sinks of a test: of the provider test, whose setting name tells them apart.
type Sinks struct {
	mu      sync.Mutex
	got     map[string][]sink.Message
	answers map[string][]error
	took    map[string][]sink.Message
	opened  map[string]int
	closed  map[string]int
	// Wait is called before a sink answers; nil: it answers at once.
	Wait func(ctx context.Context, name string)
}

// SinkProvider returns the provider test.
func (s *Sinks) SinkProvider() sink.Provider {
	return sink.Provider{Name: "test", Settings: []sink.Setting{{Name: "name", Required: true}}, Open: func(settings map[string]string) (sink.Sink, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		count(&s.opened, settings["name"])
		return testSink{s, settings["name"]}, nil
	}}
}

func count(in *map[string]int, name string) {
	if *in == nil {
		*in = map[string]int{}
	}
	(*in)[name]++
}

// Opened returns how often a sink was opened, and how often one was closed.
func (s *Sinks) Opened(name string) (opened, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened[name], s.closed[name]
}

// Took returns the messages that a sink has accepted, in their order.
func (s *Sinks) Took(name string) []sink.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.took[name])
}

// Answer makes the next tries at a sink fail with these errors, in their order; nil accepts. Later ones are accepted.
func (s *Sinks) Answer(name string, errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers = map[string][]error{}
	}
	s.answers[name] = append(s.answers[name], errs...)
}

// Got returns the messages that reached a sink, also those that it refused.
func (s *Sinks) Got(name string) []sink.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got[name])
}

type testSink struct {
	all  *Sinks
	name string
}

// Send implements sink.Sink.
func (t testSink) Send(ctx context.Context, m sink.Message) error {
	if wait := t.all.Wait; wait != nil {
		wait(ctx, t.name)
	}
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	if t.all.got == nil {
		t.all.got = map[string][]sink.Message{}
	}
	t.all.got[t.name] = append(t.all.got[t.name], m)
	if next := t.all.answers[t.name]; len(next) > 0 {
		t.all.answers[t.name] = next[1:]
		if next[0] != nil {
			return next[0]
		}
	}
	if t.all.took == nil {
		t.all.took = map[string][]sink.Message{}
	}
	t.all.took[t.name] = append(t.all.took[t.name], m)
	return nil
}

// Close implements sink.Sink.
func (t testSink) Close() error {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	count(&t.all.closed, t.name)
	return nil
}
