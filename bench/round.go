package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/pgtest"
)

// contender is one side: it prepares what it needs, then measures, and names each of its figures.
type contender struct {
	name string
	rows []string // ids of the rows of the table that it has figures for
	run  func(ctx context.Context, r *round) error
}

// found is what was measured: figures by name, the n-th of every name in the same round, and why a side has none.
type found struct {
	figures figures
	why     map[string]string
}

// round is one pass over all sides.
type round struct {
	n, of      int
	found      found
	server     *pgtest.Server
	postmaster int
	progress   io.Writer
}

// measure runs every contender once a round, each round beginning with another one.
func measure(ctx context.Context, s settings, progress io.Writer) (f found, err error) {
	f = found{figures{}, map[string]string{}}
	r := &round{of: s.rounds, found: f, progress: progress}
	if s.wants("T1", "T2", "T3", "T4", "T6", "T7", "T8", "T9", "T10", "T11", "T12", "T16", "T17", "T18", "T19", "T20", "T21", "T22", "T23", "T24", "T25", "T26", "T27") {
		// As a server is in production: every commit reaches the disk. All sides share it, each in a database of its own.
		if r.server, err = pgtest.Start(ctx, pgtest.Options{Durable: true}); err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, r.server.Close()) }()
		if r.postmaster, err = postmaster(ctx, r.server.URL()); err != nil {
			return f, err
		}
	}
	b := &binary{source: s.source}
	defer func() { err = errors.Join(err, b.remove()) }()
	all := slices.Concat(onPostgres(s), ingestContenders(s, b), answersContenders(s, b), lateContenders(s), limitsContenders(s), scanContenders(s), aheadContenders(s), courseContenders(s), editContenders(s, b), broadcastContenders(s, b), urgentContenders(s, b), digestContenders(s, b), subscribersContenders(s), purgeContenders(s), onSQLite(s), bodyContenders(b), startContenders(b))
	all = slices.DeleteFunc(all, func(c contender) bool { return !s.wants(c.rows...) })
	for n := range s.rounds {
		r.n = n + 1
		for k := range all {
			if err := r.do(ctx, all[(k+n)%len(all)]); err != nil {
				return f, err
			}
		}
	}
	// Their rounds share the rows that wait, which take long to make, or what has been churned.
	for _, long := range []struct {
		id      string
		measure func() error
	}{
		{"T7", func() error { return idle(ctx, s, r, b) }},
		{"T8", func() error { return waits(ctx, s, r) }},
		{"T9", func() error { return churn(ctx, s, r) }},
		{"T21", func() error { return rounds(ctx, s, r) }},
	} {
		if s.wants(long.id) {
			if err := long.measure(); err != nil {
				return f, fmt.Errorf("%s: %w", long.id, err)
			}
		}
	}
	return f, nil
}

func (r *round) do(ctx context.Context, c contender) error {
	err := c.run(ctx, r)
	var gone *missing
	if errors.As(err, &gone) {
		r.found.why[c.name] = gone.Error()
		fmt.Fprintf(r.progress, "round %d of %d: %s is left out: %s\n", r.n, r.of, c.name, gone)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// record keeps one figure.
func (r *round) record(name string, value float64) {
	r.found.figures[name] = append(r.found.figures[name], value)
	fmt.Fprintf(r.progress, "round %d of %d: %-20s %10.1f\n", r.n, r.of, name, value)
}

// lateness keeps two percentiles.
func (r *round) lateness(name string, all []time.Duration) error {
	if len(all) == 0 {
		return errors.New("nothing was late or in time: nothing came")
	}
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	at := func(percent int) float64 { return all[min(len(all)*percent/100, len(all)-1)].Seconds() * 1000 }
	r.record(name+" p50", at(50))
	r.record(name+" p99", at(99))
	return nil
}

// calm brings the server to rest between filling and measuring.
func (r *round) calm(ctx context.Context, url string) error {
	if r.server == nil {
		return nil
	}
	return settleServer(ctx, r.server.URL(), url)
}

// onDatabase gives a contender an empty database.
func onDatabase(name string, rows []string, run func(ctx context.Context, r *round, url string) error) contender {
	return contender{name, rows, func(ctx context.Context, r *round) (err error) {
		url, err := r.server.Create(ctx, pgtest.Template{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.server.Drop(context.WithoutCancel(ctx), url)) }()
		return run(ctx, r, url)
	}}
}

// meter measures the CPU time of everybody who takes part: this process, the database's, and others.
type meter struct {
	*round
	pids  []int
	start time.Duration
}

func (r *round) meter(others ...int) (*meter, error) {
	m := &meter{round: r, pids: others}
	if r.postmaster != 0 {
		m.pids = append(m.pids, r.postmaster)
	}
	var err error
	m.start, err = m.now()
	return m, err
}

func (m *meter) now() (time.Duration, error) {
	total, err := ownCPU()
	for _, pid := range m.pids {
		t, e := family(pid)
		total, err = total+t, errors.Join(err, e)
	}
	return total, err
}

// rate keeps how many rows a second were done, and what CPU time each took.
func (m *meter) rate(name string, rows int, took time.Duration) error {
	end, err := m.now()
	if err != nil {
		return err
	}
	m.record(name, float64(rows)/took.Seconds())
	m.record(name+cpuOf, float64((end-m.start).Nanoseconds())/1000/float64(rows))
	return nil
}
