package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
)

// readyWithin is when a server that does not become ready is given up.
const readyWithin = 30 * time.Second

// startContenders are the start of the program itself.
func startContenders(b *binary) []contender {
	return []contender{{"start", []string{"T15"}, func(ctx context.Context, r *round) error { return coldStart(ctx, r, b) }}}
}

// coldStart measures from the start of the process on an empty database to the first 200 of /readyz.
func coldStart(ctx context.Context, r *round, b *binary) (err error) {
	path, err := b.path(ctx)
	if err != nil {
		return err
	}
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	r.record(binarySize, float64(file.Size())/1e6)
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	elapsed := clock.Monotonic()
	p, err := b.serve(ctx, filepath.Join(dir, "empty.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	for {
		answer, err := http.Get(p.address + "/readyz")
		if err == nil {
			err = answer.Body.Close()
		}
		if err == nil && answer.StatusCode == http.StatusOK {
			r.record(startReady, elapsed().Seconds()*1000)
			return nil
		}
		if elapsed() > readyWithin {
			return fmt.Errorf("not ready within %s: %w", readyWithin, err)
		}
		time.Sleep(time.Millisecond)
	}
}
