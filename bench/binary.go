package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// binary is the program itself, built when it is first needed.
type binary struct {
	source string
	once   sync.Once
	dir    string
	err    error
}

// path builds the program as a release is built.
func (b *binary) path(ctx context.Context) (string, error) {
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "carillon-bench-"); b.err != nil {
			return
		}
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", b.dir, "./cmd/carillon")
		build.Dir = b.source
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build carillon: %w\n%s", err, out)
		}
	})
	return filepath.Join(b.dir, "carillon"), b.err
}

func (b *binary) remove() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

// call runs a command of the program to its end and returns what it printed.
func (b *binary) call(ctx context.Context, args ...string) (string, error) {
	path, err := b.path(ctx)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("carillon %s: %w\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// process is a program that runs beside until it is stopped.
type process struct {
	cmd    *exec.Cmd
	pid    int
	errors *bytes.Buffer // what it wrote to the standard error
	// address is the last word of the first line that it prints.
	address string
}

const stopWithin = 10 * time.Second

// launch starts a program and returns when it has printed its first line.
func launch(ctx context.Context, path string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWithin
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, errors: &said}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, errors.Join(fmt.Errorf("%s did not start", filepath.Base(path)), p.stop())
	}
	words := strings.Fields(lines.Text())
	if len(words) > 0 {
		p.address = words[len(words)-1]
	}
	return p, nil
}

// stop ends it in good order.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.AfterFunc(stopWithin, func() { _ = p.cmd.Process.Kill() }) // Wait reports it
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(p.cmd.Path), err, p.errors)
	}
	return nil
}

// serve starts the server on a database.
func (b *binary) serve(ctx context.Context, db string, flags ...string) (*process, error) {
	path, err := b.path(ctx)
	if err != nil {
		return nil, err
	}
	return launch(ctx, path, append([]string{"serve", "--db", db, "--listen", "127.0.0.1:0", "--log-level", "error"}, flags...)...)
}
