// Package pool keeps open what definitions describe, such as channels and sinks. Something is opened on first use, and again when its
// definition or one of its secrets has changed; what was replaced, or is not defined any more, is closed when its last use has ended.
//
//	Get ─▶ open with the same definition and secrets ──────────────▶ shared
//	   └─▶ another one, or none ─▶ opened, without a lock ─▶ the old one is retired
//	                                                       Keep, Close ─┘   └─▶ closed after its last use
//
// While one goroutine opens something, those that need the same wait for it, and all others go on.
package pool

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/subject"
)

// ErrClosed means that the pool is closed, or that what was asked for is not defined any more.
var ErrClosed = errors.New("it is closed")

// Secret returns the value of a setting of a workspace, wherever it is stored.
type Secret func(subject.WorkspaceID, definition.Setting) (string, error)

// SecretError means that the value of a setting cannot be had.
type SecretError struct {
	Setting string
	Err     error
}

func (e *SecretError) Error() string { return "setting " + e.Setting + ": " + e.Err.Error() }

func (e *SecretError) Unwrap() error { return e.Err }

// Key names something that definitions describe.
type Key struct {
	Workspace subject.WorkspaceID
	Name      string
}

// Definition is what a pool needs of a definition.
type Definition struct {
	Key
	Version  string // another one if anything in the definition has changed
	Settings map[string]definition.Setting
}

// Pool keeps values of one type open. It is safe for concurrent use.
type Pool[T any] struct {
	secret Secret
	log    *slog.Logger

	mu     sync.Mutex
	slots  map[Key]*slot[T]
	closed bool
}

// slot is the place of a key. It is in the pool while something of the key is open, or being opened.
type slot[T any] struct {
	is   *opened[T]  // nil: none is open
	next *opening[T] // nil: none is being opened
}

// opened is a value with what it was opened by.
type opened[T any] struct {
	value    T
	use      *Use
	version  string
	settings map[string]string
}

// opening is a value that a goroutine is opening.
type opening[T any] struct {
	opened[T]
	err  error
	done chan struct{} // closed when value or err is set
}

func (o *opened[T]) fits(version string, settings map[string]string) bool {
	return o.version == version && maps.Equal(o.settings, settings)
}

// New makes an empty pool.
func New[T any](secret Secret, log *slog.Logger) *Pool[T] {
	return &Pool[T]{secret: secret, log: log, slots: map[Key]*slot[T]{}}
}

// Open opens a value with the values of its settings. Closing is called when its last use has ended, once it is retired; nil: nothing
// needs to be closed. Use counts the uses.
type Open[T any] func(use *Use, settings map[string]string) (value T, closing func() error, err error)

// Get returns what is open for a definition. If nothing is, or something by another definition or with other secrets, it calls open, and
// retires what was open before. The error is open's, a *SecretError, or ErrClosed.
func (p *Pool[T]) Get(def Definition, open Open[T]) (T, *Use, error) {
	var none T
	settings, err := p.settings(def)
	if err != nil {
		return none, nil, err
	}
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return none, nil, ErrClosed
		}
		at := p.slots[def.Key]
		if at == nil {
			at = &slot[T]{}
			p.slots[def.Key] = at
		}
		if is := at.is; is != nil && is.fits(def.Version, settings) {
			p.mu.Unlock()
			return is.value, is.use, nil
		}
		next := at.next
		if next == nil {
			next = &opening[T]{opened: opened[T]{use: &Use{}, version: def.Version, settings: settings}, done: make(chan struct{})}
			at.next = next
			p.mu.Unlock()
			p.open(def.Key, at, next, open)
			return next.value, next.use, next.err
		}
		p.mu.Unlock()
		<-next.done
		if next.fits(def.Version, settings) {
			return next.value, next.use, next.err
		}
	}
}

// open opens a value and puts it into its slot.
func (p *Pool[T]) open(key Key, at *slot[T], next *opening[T], open Open[T]) {
	defer close(next.done)
	next.err = fmt.Errorf("%w: it was not opened", ErrClosed) // if open does not return
	defer func() {
		p.mu.Lock()
		at.next = nil
		var old *opened[T]
		switch {
		case next.err != nil:
			if at.is == nil && p.slots[key] == at {
				delete(p.slots, key)
			}
		case p.closed || p.slots[key] != at: // it was closed, or is not defined any more
			old = &opened[T]{use: next.use}
			next.err = ErrClosed
		default:
			old, at.is = at.is, &next.opened
		}
		p.mu.Unlock()
		if old != nil {
			old.use.retire()
		}
	}()
	value, closing, err := open(next.use, maps.Clone(next.settings))
	next.value, next.err = value, err
	if closing == nil {
		return
	}
	next.use.closing = func() {
		if err := closing(); err != nil {
			p.log.Warn("what definitions described was not closed", "name", key.Name, "error", err)
		}
	}
}

// settings returns the present values of a definition's settings.
func (p *Pool[T]) settings(def Definition) (map[string]string, error) {
	values := make(map[string]string, len(def.Settings))
	for name, setting := range def.Settings {
		value, err := p.secret(def.Workspace, setting)
		if err != nil {
			return nil, &SecretError{name, err}
		}
		values[name] = value
	}
	return values, nil
}

// Peek returns what is open for a key and version, whatever its secrets are now; ok is false if nothing is.
func (p *Pool[T]) Peek(key Key, version string) (v T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.slots[key]; at != nil && at.is != nil && at.is.version == version {
		return at.is.value, true
	}
	return v, false
}

// All returns everything that is open.
func (p *Pool[T]) All() map[Key]T {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[Key]T, len(p.slots))
	for key, at := range p.slots {
		if at.is != nil {
			all[key] = at.is.value
		}
	}
	return all
}

// Keep retires what a workspace has open under names that are not defined any more.
func (p *Pool[T]) Keep(ws subject.WorkspaceID, defined func(name string) bool) {
	p.remove(func(key Key) bool { return key.Workspace == ws && !defined(key.Name) })
}

// Close retires everything. Nothing is opened after it.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.remove(func(Key) bool { return true })
}

func (p *Pool[T]) remove(which func(Key) bool) {
	var gone []*Use
	p.mu.Lock()
	for key, at := range p.slots {
		if !which(key) {
			continue
		}
		delete(p.slots, key)
		if at.is != nil {
			gone = append(gone, at.is.use)
		}
	}
	p.mu.Unlock()
	for _, use := range gone {
		use.retire()
	}
}

// Use counts the uses of something open.
type Use struct {
	closing func() // nil: nothing needs to be closed

	mu      sync.Mutex
	uses    int
	retired bool
}

// Begin begins a use. It returns false if none begins any more: what is defined now is to be used instead. If it returns true, End must
// follow.
func (u *Use) Begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired {
		return false
	}
	u.uses++
	return true
}

// End ends a use.
func (u *Use) End() {
	u.mu.Lock()
	u.uses--
	last := u.retired && u.uses == 0
	u.mu.Unlock()
	u.shut(last)
}

// Count is how many uses have begun and not ended.
func (u *Use) Count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.uses
}

func (u *Use) retire() {
	u.mu.Lock()
	last := !u.retired && u.uses == 0
	u.retired = true
	u.mu.Unlock()
	u.shut(last)
}

func (u *Use) shut(last bool) {
	if last && u.closing != nil {
		u.closing()
	}
}
