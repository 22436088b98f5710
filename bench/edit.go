package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// editGlance is how often the run of an edit is asked for, and editSaid how often its progress is printed.
	editPoll, editSaid = 200 * time.Millisecond, 10 * time.Second
	// editLess is by how much fewer the records are with which the memory is compared.
	editLess = 10
)

// editDefinitions are what the workflow needs beside itself.
const editDefinitions = "---\nchannel: memory:default\nprovider: memory\n---\nworkspace: default\ntimezone: Europe/Berlin\n"

// editContenders have the program itself plan for many records, and for a tenth of them, as an edited definition brings it
// about. The progress of its run is read from its API, and its memory from the system.
func editContenders(s settings, b *binary) []contender {
	of := func(name string, records int) contender {
		return onDatabase("Carillon, an edit for "+name, []string{"T17"}, func(ctx context.Context, r *round, url string) error {
			return editServer(ctx, r, b, url, name, records)
		})
	}
	return []contender{of(editFew, max(s.planned/editLess, 1)), of(editMany, s.planned)}
}

func editServer(ctx context.Context, r *round, b *binary, url, name string, records int) (err error) {
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(aheadBy("09:00", 7)+editDefinitions), 0o600); err != nil {
		return err
	}
	p, err := b.serve(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	key, err := b.call(ctx, "keys", "create", "--db", url, "--name", "bench", "--scopes", "admin")
	if err != nil {
		return err
	}
	if err := fillDated(ctx, url, records); err != nil {
		return err
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	m, err := r.meter(p.pid)
	if err != nil {
		return err
	}
	seen := &edit{round: r, process: p, name: name, elapsed: clock.Monotonic()}
	if err := seen.poll(client.Run{}); err != nil {
		return err
	}
	if _, err := b.call(ctx, "apply", "--server", p.address, "--key", key, dir); err != nil {
		return err
	}
	api, err := client.New(p.address, key)
	if err != nil {
		return err
	}
	if err := seen.through(ctx, api, records); err != nil {
		return err
	}
	if err := seen.end(ctx, url, records); err != nil {
		return err
	}
	if err := m.rate(name, records, seen.elapsed()); err != nil {
		return err
	}
	r.record(name+" idle", seen.idle)
	r.record(name+" memory", seen.peak)
	return nil
}

// edit is what is seen of an edit while it is carried out.
type edit struct {
	*round
	process    *process
	name       string
	elapsed    func() time.Duration
	said       time.Duration
	idle, peak float64 // MB
	steps      int     // different numbers of records that the run was seen to have done
	done       int64
}

// through watches the run until it has gone over all records.
func (e *edit) through(ctx context.Context, api *client.Client, records int) error {
	e.elapsed = clock.Monotonic()
	system := &clock.System{}
	for {
		page, err := api.Runs(ctx, client.RunQuery{Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Items) == 0 {
			return errors.New("the edit has begun no run")
		}
		run := page.Items[0]
		if err := e.poll(run); err != nil {
			return err
		}
		switch {
		case run.Status == "running":
		case run.Status == "done" && run.Done == int64(records):
			fmt.Fprintf(e.progress, "%s: the run was seen %d times further than before\n", e.name, e.steps)
			return nil
		default:
			return fmt.Errorf("the run is %s with %d of %d records: %s", run.Status, run.Done, records, run.Error)
		}
		if err := system.Sleep(ctx, system.Now().Add(editPoll)); err != nil {
			return err
		}
	}
}

// end waits until what the run has marked last is planned.
func (e *edit) end(ctx context.Context, url string, records int) error {
	system := &clock.System{}
	for {
		planned, err := countPlanned(ctx, url)
		if err != nil || planned == records {
			return err
		}
		if planned > records {
			return fmt.Errorf("%d occasions planned for %d records", planned, records)
		}
		if err := system.Sleep(ctx, system.Now().Add(editPoll)); err != nil {
			return err
		}
	}
}

// poll records how far the run is, and the memory of the process.
func (e *edit) poll(run client.Run) error {
	now, err := resident(e.process.pid)
	if err != nil {
		return err
	}
	if e.idle == 0 {
		e.idle = now
	}
	e.peak = max(e.peak, now)
	if run.Done != e.done {
		e.done, e.steps = run.Done, e.steps+1
	}
	if at := e.elapsed(); run.ID != "" && (e.said == 0 || at-e.said >= editSaid || run.Status != "running") {
		e.said = at
		fmt.Fprintf(e.progress, "%s: %s, run %s, %d of %d records, %.0f MB, at most %.0f\n", e.name, at.Round(time.Second), run.Status, run.Done, run.Total, now, e.peak)
	}
	return nil
}

// resident is the memory of a process that is in use, in MB.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("memory of process %d is not readable: %q", pid, text)
	}
	pages, err := strconv.Atoi(fields[1])
	return float64(pages*os.Getpagesize()) / 1e6, err
}

func countPlanned(ctx context.Context, url string) (int, error) {
	return countOf(ctx, url, `SELECT count(*) FROM instance WHERE workflow = 'service-due' AND status = 'pending'`)
}

// countOf runs a query that counts.
func countOf(ctx context.Context, url, text string, args ...any) (n int, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return n, conn.QueryRow(ctx, text, args...).Scan(&n)
}
