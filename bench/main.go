// Command bench sets Carillon beside its peers and beside what the databases can do at all, on this machine.
//
// All sides run in turn, round after round, so that other load on the machine meets each of them; what is compared
// is the ratio of two figures of the same round. It is a module of its own, so that the peers are no dependencies
// of the product. "make bench" at the top runs it and writes the table of docs/reference/performance.md.
//
//	contender (ours, a peer, a limit) ──rows per second──▶ series ──ratios──▶ table
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/carillonhq/carillon/internal/pgtest"
)

// Sizes are chosen so that a measurement takes a second or two and the whole about two minutes on two cores.
const (
	defaultRounds = 5
	defaultRows   = 40000
	defaultSQLite = 20000
	workers       = 4
	batch         = 500
)

// limit bounds the whole: a bench that takes longer is stuck.
const limit = 30 * time.Minute

type settings struct {
	rounds, rows, sqliteRows int
	only                     string
	write                    string
	profile                  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", defaultRounds, "how often every side is measured")
	flags.IntVar(&s.rows, "rows", defaultRows, "rows of one measurement on PostgreSQL")
	flags.IntVar(&s.sqliteRows, "sqlite-rows", defaultSQLite, "rows of one measurement on SQLite")
	flags.StringVar(&s.only, "only", "", "postgres or sqlite: leave the other one out")
	flags.StringVar(&s.write, "write", "", "page whose table is written again")
	flags.StringVar(&s.profile, "profile", "", "folder for CPU profiles of our side")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.rounds < 1 || s.rows < 1 || s.sqliteRows < 1 || flags.NArg() > 0 {
		return errors.New("rounds and rows are whole numbers from 1; there are no other arguments")
	}
	if s.only != "" && s.only != "postgres" && s.only != "sqlite" {
		return fmt.Errorf("-only is %q, want postgres or sqlite", s.only)
	}
	if s.write != "" && s.only != "" {
		return errors.New("-write needs both databases: the table is written whole")
	}
	figures, err := measure(ctx, s, progress)
	if err != nil {
		return err
	}
	table := newTable(figures)
	fmt.Fprint(out, "\n", table)
	if s.write == "" {
		return nil
	}
	return table.writeInto(s.write)
}

// contender is one side: it prepares what it needs, then measures, and names each of its figures.
type contender struct {
	name string
	run  func(ctx context.Context, record func(name string, rows int, took time.Duration)) error
}

// measure runs every contender once a round, each round beginning with another one.
func measure(ctx context.Context, s settings, progress io.Writer) (figures, error) {
	var all []contender
	if s.only != "sqlite" {
		// As a server is in production: every commit reaches the disk. All sides share it, each in a database of its own.
		server, err := pgtest.Start(ctx, pgtest.Options{Durable: true})
		if err != nil {
			return nil, err
		}
		defer server.Close()
		all = append(all, onPostgres(server, s)...)
	}
	if s.only != "postgres" {
		all = append(all, onSQLite(s)...)
	}
	found := figures{}
	for round := range s.rounds {
		for k := range all {
			c := all[(k+round)%len(all)]
			err := c.run(ctx, func(name string, rows int, took time.Duration) {
				rate := float64(rows) / took.Seconds()
				found[name] = append(found[name], rate)
				fmt.Fprintf(progress, "round %d of %d: %-16s %8.0f/s\n", round+1, s.rounds, name, rate)
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return found, nil
}
