package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// slot is the place of a worker. Workers come and go, and each process has a name. The socket stays, so that a client that
// connects while no worker runs waits for the next one.
type slot struct {
	run    *run
	number int
	url    string
	socket *os.File // listens; every life inherits it
	log    *os.File

	mu             sync.Mutex // held while the worker is killed, frozen or replaced
	lives          int
	crash          string // the failpoint of the next life; empty: that of the run
	now            *process
	killed, frozen map[string]bool // lives
}

// process is one life.
type process struct {
	life  string
	cmd   *exec.Cmd
	stdin interface{ Close() error } // its lifeline: it ends when this is closed
	ended chan struct{}
	err   error // valid once ended is closed
}

// addSlot makes a place and has its first life begin.
func (r *run) addSlot() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	s := &slot{
		run: r, number: len(r.slots) + 1, url: "http://" + l.Addr().String(), killed: map[string]bool{}, frozen: map[string]bool{},
	}
	if s.socket, err = l.(*net.TCPListener).File(); err != nil {
		return err
	}
	r.closers = append(r.closers, s.socket)
	if s.log, err = os.Create(filepath.Join(r.Dir, fmt.Sprintf("worker-%d.log", s.number))); err != nil {
		return err
	}
	r.slots, r.closers = append(r.slots, s), append(r.closers, s.log, s)
	return s.start()
}

// start begins a new life. The process is the leader of a group of its own; when this one dies it reads the end of
// its lifeline, or, being stopped, is hung up on by the kernel.
func (s *slot) start() error {
	s.lives++
	p := &process{life: fmt.Sprintf("%d.%d", s.number, s.lives), ended: make(chan struct{})}
	raw := must(json.Marshal(task{Life: p.life, DB: s.run.DB, Journal: s.journal(), Crash: cmp.Or(s.crash, s.run.Crash), Lease: s.run.lease, Timeout: s.run.timeout}))
	p.cmd = exec.Command(s.run.Binary)
	p.cmd.Env = slices.Concat(os.Environ(), s.run.Env, []string{EnvWorker + "=" + string(raw)})
	p.cmd.ExtraFiles = []*os.File{s.socket}
	p.cmd.Stderr = s.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.now = p
	return nil
}

func (s *slot) journal() string {
	return filepath.Join(s.run.Dir, fmt.Sprintf("journal-%d.jsonl", s.number))
}

// replace ends the present life as a power cut would, and begins the next one.
func (s *slot) replace() error {
	if err := s.now.alive(); err != nil {
		return err
	}
	s.killed[s.now.life] = true
	if err := s.now.kill(); err != nil {
		return err
	}
	return s.start()
}

// crashed waits until the present life has ended at its failpoint.
func (s *slot) crashed(ctx context.Context) error {
	select {
	case <-s.now.ended:
	case <-ctx.Done():
		return fmt.Errorf("never reached: %w", context.Cause(ctx))
	}
	var exit *exec.ExitError
	if !errors.As(s.now.err, &exit) || exit.ExitCode() != exitCrash {
		return fmt.Errorf("worker %s ended otherwise: %w", s.now.life, s.now.err)
	}
	s.killed[s.now.life] = true
	return nil
}

// crashLease is the lease of a worker that ends at a failpoint. It is longer than in a storm: a busy machine shall not lose another worker.
const crashLease = 5 * lease

// crashes has the worker end at its failpoint, twice, before one may live.
func (r *run) crashes(ctx context.Context, batches []batch) error {
	const crashes = 2
	s := r.slots[0]
	for i := range crashes {
		r.poster.release((i + 1) * len(batches) / crashes)
		if err := s.crashed(ctx); err != nil {
			return fmt.Errorf("failpoint %s: %w", r.Crash, err)
		}
		if i == crashes-1 {
			r.Crash = ""
		}
		if err := s.start(); err != nil {
			return err
		}
	}
	return nil
}

// stop asks the present life to end in good order.
func (s *slot) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.stop()
}

// Close kills the present life.
func (s *slot) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return nil
	}
	return s.now.kill()
}

// alive returns an error when the process has ended by itself.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("worker %s ended by itself: %w", p.life, p.err)
	default:
		return nil
	}
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("worker %s: %w", p.life, err)
	}
	return nil
}

func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.ended
	_ = p.stdin.Close() // Wait has closed it already
	return err
}

func (p *process) stop() error {
	if err := errors.Join(p.alive(), p.signal(syscall.SIGTERM)); err != nil {
		return err
	}
	timer := time.NewTimer(2 * stopTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		return errors.Join(fmt.Errorf("worker %s does not stop", p.life), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("worker %s stopped with an error: %w", p.life, p.err)
	}
	return nil
}
