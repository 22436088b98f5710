package pool_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/pool"
	"github.com/carillonhq/carillon/internal/subject"
)

// door is what the tests keep open.
type door struct {
	settings map[string]string
	closed   int
}

// house is a pool of doors with what happens to them.
type house struct {
	*pool.Pool[*door]
	t       *testing.T
	log     bytes.Buffer
	secrets map[string]string
	doors   []*door
	opening chan struct{} // nil: doors open at once; else each waits for a value, without a lock
	fail    error         // of the next ones that are opened
}

func build(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, secrets: map[string]string{}}
	h.Pool = pool.New[*door](func(_ subject.WorkspaceID, s definition.Setting) (string, error) {
		if s.Secret == "" {
			return s.Value, nil
		}
		if value, ok := h.secrets[s.Secret]; ok {
			return value, nil
		}
		return "", errors.New("there is none")
	}, slog.New(slog.NewTextHandler(&h.log, nil)))
	return h
}

func named(name, version string) pool.Definition {
	return pool.Definition{Key: pool.Key{Workspace: 1, Name: name}, Version: version, Settings: map[string]definition.Setting{"url": {Value: "there"}}}
}

// get gets a door, and opens it if need be.
func (h *house) get(def pool.Definition) (*door, *pool.Use, error) {
	return h.Get(def, func(_ *pool.Use, settings map[string]string) (*door, func() error, error) {
		if h.opening != nil {
			<-h.opening
		}
		if h.fail != nil {
			return nil, nil, h.fail
		}
		d := &door{settings: settings}
		h.doors = append(h.doors, d)
		return d, func() error { d.closed++; return nil }, nil
	})
}

func (h *house) must(def pool.Definition) (*door, *pool.Use) {
	h.t.Helper()
	d, use, err := h.get(def)
	if err != nil {
		h.t.Fatal(err)
	}
	return d, use
}

// is compares how often each door was closed, in the order in which they were opened.
func (h *house) is(closed ...int) {
	h.t.Helper()
	if len(h.doors) != len(closed) {
		h.t.Fatalf("%d doors were opened, want %d", len(h.doors), len(closed))
	}
	for i, d := range h.doors {
		if d.closed != closed[i] {
			h.t.Errorf("door %d was closed %d times, want %d", i+1, d.closed, closed[i])
		}
	}
}

// What is open is shared, and opened again when its version, its name, its workspace or one of its secrets is another one.
func TestGet(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.secrets["TOKEN"] = "one"
	def := named("a", "1")
	def.Settings["token"] = definition.Setting{Secret: "TOKEN"}
	first, _ := h.must(def)
	if again, _ := h.must(def); again != first || first.settings["url"] != "there" || first.settings["token"] != "one" {
		t.Errorf("opened again, or with %v", first.settings)
	}
	h.is(0)
	h.secrets["TOKEN"] = "two"
	if d, _ := h.must(def); d == first || d.settings["token"] != "two" {
		t.Error("a new secret is not used")
	}
	h.is(1, 0)
	def.Version = "2"
	h.must(def)
	h.is(1, 1, 0)
	def.Name = "b"
	h.must(def)
	h.is(1, 1, 0, 0)
	def.Workspace = 2
	h.must(def)
	h.is(1, 1, 0, 0, 0)
	delete(h.secrets, "TOKEN")
	var missing *pool.SecretError
	if _, _, err := h.get(def); !errors.As(err, &missing) || missing.Setting != "token" {
		t.Errorf("without its secret: %v", err)
	}
	h.is(1, 1, 0, 0, 0)
	if all := h.All(); len(all) != 3 || all[def.Key] != h.doors[4] {
		t.Errorf("open are %v", all)
	}
}

// What is in use is closed when its last use ends, and no use of it begins any more.
func TestUse(t *testing.T) {
	t.Parallel()
	h := build(t)
	_, use := h.must(named("a", "1"))
	for n := range 2 {
		if !use.Begin() || use.Count() != n+1 {
			t.Fatal("it is not in use")
		}
	}
	h.must(named("a", "2"))
	if use.Begin() {
		t.Error("a use of the old one began")
	}
	h.is(0, 0)
	use.End()
	h.is(0, 0)
	use.End()
	h.is(1, 0)
}

// A door that cannot be opened leaves the old one as it is, and is tried again.
func TestOpeningFails(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.fail = errors.New("it is stuck")
	if _, _, err := h.get(named("a", "1")); !errors.Is(err, h.fail) || len(h.All()) != 0 {
		t.Errorf("got %v, open are %v", err, h.All())
	}
	h.fail = nil
	h.must(named("a", "1"))
	h.fail = errors.New("it is stuck")
	if _, _, err := h.get(named("a", "2")); !errors.Is(err, h.fail) {
		t.Errorf("got %v", err)
	}
	h.is(0)
	if _, ok := h.Peek(named("a", "1").Key, "1"); !ok {
		t.Error("the old one is gone")
	}
	h.fail = nil
	h.must(named("a", "2"))
	h.is(1, 0)
	if _, ok := h.Peek(named("a", "1").Key, "1"); ok {
		t.Error("the old one is still there")
	}
}

// A panic of what is being opened is the caller's, and those who wait do not wait for ever.
func TestOpeningPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		ready := make(chan struct{})
		go func() {
			defer func() { _ = recover() }()
			_, _, _ = h.Get(named("a", "1"), func(*pool.Use, map[string]string) (*door, func() error, error) {
				<-ready
				panic("stuck")
			})
		}()
		synctest.Wait()
		var err error
		go func() { _, _, err = h.get(named("a", "1")) }()
		synctest.Wait()
		close(ready)
		synctest.Wait()
		if !errors.Is(err, pool.ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		h.must(named("a", "1"))
	})
}

// What is not defined any more is closed, in its workspace alone.
func TestKeep(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.must(named("a", "1"))
	_, used := h.must(named("b", "1"))
	h.must(named("c", "1"))
	elsewhere := named("a", "1")
	elsewhere.Workspace = 2
	h.must(elsewhere)
	used.Begin()
	h.Keep(1, func(name string) bool { return name == "c" })
	h.is(1, 0, 0, 0)
	used.End()
	h.is(1, 1, 0, 0)
	h.must(named("a", "1")) // it is defined again
	h.is(1, 1, 0, 0, 0)
}

// Nothing is opened once the pool is closed, and what could not be closed is in the log.
func TestClose(t *testing.T) {
	t.Parallel()
	h := build(t)
	_, used := h.must(named("a", "1"))
	h.must(named("b", "1"))
	if _, _, err := h.Get(named("c", "1"), func(*pool.Use, map[string]string) (*door, func() error, error) {
		return nil, func() error { return errors.New("it is jammed") }, nil
	}); err != nil {
		t.Fatal(err)
	}
	used.Begin()
	h.Close()
	h.Close()
	h.is(0, 1)
	used.End()
	h.is(1, 1)
	if _, _, err := h.get(named("a", "1")); !errors.Is(err, pool.ErrClosed) {
		t.Errorf("opened after the end: %v", err)
	}
	if text := h.log.String(); !strings.Contains(text, "name=c") || !strings.Contains(text, "it is jammed") {
		t.Errorf("the log says %q", text)
	}
}

// While something opens, nothing else waits, and it is opened once for all who need it.
func TestNothingWaitsForAnOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.must(named("other", "1"))
		h.opening = make(chan struct{})
		got := make([]*door, 3)
		for i := range got {
			go func() { got[i], _, _ = h.get(named("a", "1")) }()
		}
		synctest.Wait()
		h.must(named("other", "1"))
		if all := h.All(); len(all) != 1 || got[0] != nil {
			t.Errorf("open are %v", all)
		}
		h.opening <- struct{}{}
		synctest.Wait()
		h.is(0, 0)
		if got[0] == nil || got[1] != got[0] || got[2] != got[0] {
			t.Errorf("they got %v", got)
		}
	})
}

// What was removed, or closed, while it was being opened is closed at once. A newer definition is opened after it.
func TestChangesDuringAnOpening(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*house){
		"removed": func(h *house) { h.Keep(1, func(string) bool { return false }) },
		"closed":  func(h *house) { h.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := build(t)
				h.opening = make(chan struct{})
				var err error
				go func() { _, _, err = h.get(named("a", "1")) }()
				synctest.Wait()
				change(h)
				h.opening <- struct{}{}
				synctest.Wait()
				if !errors.Is(err, pool.ErrClosed) || len(h.All()) != 0 {
					t.Errorf("got %v, open are %v", err, h.All())
				}
				h.is(1)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.opening = make(chan struct{})
		var got [2]*door
		for i, version := range []string{"1", "2"} {
			go func() { got[i], _, _ = h.get(named("a", version)) }()
			synctest.Wait()
		}
		h.opening <- struct{}{}
		h.opening <- struct{}{}
		synctest.Wait()
		h.is(1, 0)
		if got != [2]*door(h.doors) {
			t.Errorf("they got %v", got)
		}
	})
}

// Whatever happens at once: nothing is used after it was closed, and in the end everything is closed once.
func TestRaces(t *testing.T) {
	t.Parallel()
	type gate struct {
		mu           sync.Mutex
		uses, closed int
	}
	p := pool.New[*gate](func(subject.WorkspaceID, definition.Setting) (string, error) { return "", nil }, slog.New(slog.DiscardHandler))
	var mu sync.Mutex
	var all []*gate
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 300 {
				version := string(rune('0' + (i/20+w)%3))
				g, use, err := p.Get(named("a", version), func(*pool.Use, map[string]string) (*gate, func() error, error) {
					g := &gate{}
					mu.Lock()
					all = append(all, g)
					mu.Unlock()
					return g, func() error {
						g.mu.Lock()
						defer g.mu.Unlock()
						if g.uses != 0 {
							t.Errorf("closed with %d uses", g.uses)
						}
						g.closed++
						return nil
					}, nil
				})
				if i%50 == 0 {
					p.Keep(1, func(string) bool { return false })
				}
				if err != nil || !use.Begin() {
					continue
				}
				count := func(n int) {
					g.mu.Lock()
					defer g.mu.Unlock()
					if g.uses += n; g.closed != 0 {
						t.Error("used after it was closed")
					}
				}
				count(1)
				runtime.Gosched()
				count(-1)
				use.End()
			}
		})
	}
	workers.Wait()
	p.Close()
	for i, g := range all {
		if g.closed != 1 {
			t.Errorf("%d of %d was closed %d times", i, len(all), g.closed)
		}
	}
}
