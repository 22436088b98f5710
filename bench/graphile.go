package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The package and its lock file, which names versions and checksums and no place to get them from.
//
//go:embed graphile
var graphileFiles embed.FS

// graphileFolder is where graphile-worker is installed, once for each content of its lock file. An error says why
// there is none; then its column says so too.
var graphileFolder = sync.OnceValues(func() (string, error) {
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("no %s", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	files, err := fs.Sub(graphileFiles, "graphile")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range []string{"package-lock.json", "worker.mjs"} {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	folder := filepath.Join(cache, "carillon-bench", fmt.Sprintf("graphile-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(folder, "complete")); err == nil {
		return folder, nil
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.CopyFS(folder, files); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit-lockfile-registry-resolved")
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, lastLine(out))
	}
	return folder, os.WriteFile(filepath.Join(folder, "complete"), nil, 0o600)
})

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// graphileAnswer is what the script prints in the end.
type graphileAnswer struct {
	MS       float64   `json:"ms"`
	Lateness []float64 `json:"lateness"` // ms
}

// graphile runs the script. begin is called when it has prepared and before it measures, end with its answer.
func graphile(ctx context.Context, url string, begin func(pid int) error, end func(graphileAnswer) error, args ...string) error {
	folder, err := graphileFolder()
	if err != nil {
		return &missing{err}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"worker.mjs"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PGURL="+url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	talk := func() error {
		if !lines.Scan() {
			return errors.New("graphile-worker did not begin")
		}
		if err := begin(cmd.Process.Pid); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(in, "begin"); err != nil {
			return err
		}
		if !lines.Scan() {
			return errors.New("graphile-worker did not answer")
		}
		var answer graphileAnswer
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			return err
		}
		if err := end(answer); err != nil {
			return err
		}
		_, err := fmt.Fprintln(in, "end")
		return err
	}
	err = talk()
	if err != nil {
		cancel()
	}
	return errors.Join(err, cmd.Wait())
}

// missing is a peer that cannot be run here: its column says why, and the bench goes on.
type missing struct{ error }

func (m *missing) Unwrap() error { return m.error }

func graphileDrain(ctx context.Context, r *round, url string, rows int) error {
	var m *meter
	begin := func(pid int) (err error) {
		if err = r.calm(ctx, url); err == nil {
			m, err = r.meter(pid)
		}
		return err
	}
	end := func(a graphileAnswer) error {
		return m.rate(drainGraphile, rows, time.Duration(a.MS*float64(time.Millisecond)))
	}
	return graphile(ctx, url, begin, end, "drain", strconv.Itoa(rows))
}

func graphileLate(ctx context.Context, r *round, url string) error {
	begin := func(int) error { return r.calm(ctx, url) }
	end := func(a graphileAnswer) error {
		all := make([]time.Duration, len(a.Lateness))
		for i, ms := range a.Lateness {
			all[i] = time.Duration(ms * float64(time.Millisecond))
		}
		return r.lateness(lateGraphile, all)
	}
	return graphile(ctx, url, begin, end, "late", strconv.Itoa(lateRows), strconv.Itoa(int(lateEvery.Milliseconds())))
}
